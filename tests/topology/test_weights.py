import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.graph import adjacency, complete, from_edges, grid, reach, ring, star
from topology.weights import (
    Weights,
    circulation,
    cycle_weights,
    directed_cycles,
    fixed,
    metropolis,
    permutations,
)

ABC = ("a", "b", "c")


def assert_doubly_stochastic(weights):
    matrix = weights.dense()
    assert (matrix >= -1e-12).all()
    assert np.allclose(matrix.sum(0), 1, atol=1e-12)
    assert np.allclose(matrix.sum(1), 1, atol=1e-12)


@st.composite
def graphs(draw, *, directed):
    names = [f"n{k}" for k in range(draw(st.integers(1, 9)))]
    ends = st.tuples(st.sampled_from(names), st.sampled_from(names)).filter(lambda edge: edge[0] != edge[1])
    edges = draw(st.lists(ends, max_size=30)) if len(names) > 1 else []
    return from_edges(names, edges, directed=directed)


def test_metropolis_by_hand():
    # a star: the hub has degree 2, the leaves degree 1
    matrix = metropolis(star(ABC)).dense()
    assert np.allclose(matrix, np.array([[1, 1, 1], [1, 2, 0], [1, 0, 2]]) / 3, atol=1e-15)


@given(graphs(directed=False))
def test_metropolis_is_symmetric_with_a_positive_diagonal(graph):
    weights = metropolis(graph)
    assert_doubly_stochastic(weights)
    matrix = weights.dense()
    assert (matrix == matrix.T).all()
    assert (matrix.diagonal() > 0).all()
    assert weights.sources.size == graph.sources.size


def test_metropolis_refuses_a_directed_graph():
    with pytest.raises(ValueError, match="undirected"):
        metropolis(ring(ABC, directed=True))


def test_permutations_of_a_directed_ring_are_half_and_half():
    # A_1 of Zhou and Li, section 5
    matrix = permutations(ring(["a", "b", "c", "d"], directed=True)).dense()
    assert (matrix == (np.eye(4) + np.roll(np.eye(4), -1, 1)) / 2).all()


def test_permutations_of_two_cycles_with_a_shared_edge():
    graph = from_edges(["a", "b", "c", "d"], [*zip("abcbd", "bcada", strict=True)], directed=True)
    # a -> b is passed twice: k = 2
    expected = np.array([[1, 0, 1, 1], [2, 1, 0, 0], [0, 1, 2, 0], [0, 1, 0, 2]]) / 3
    assert np.allclose(permutations(graph).dense(), expected, atol=1e-15)


@settings(max_examples=200)
@given(graphs(directed=True))
def test_permutations_or_the_edge_that_is_on_no_cycle(graph):
    ends = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    along = adjacency(ends, len(graph.nodes))
    lonely = [(graph.nodes[a], graph.nodes[b]) for a, b in ends if a not in reach(along, b)]
    if lonely:
        with pytest.raises(ValueError, match="is on no directed cycle") as error:
            permutations(graph)
        assert any(f"edge {a} -> {b} is" in str(error.value) for a, b in lonely)
        return
    passes = circulation(graph)
    assert (passes == passes.round()).all()
    assert (passes >= 1).all()
    weights = permutations(graph)
    assert_doubly_stochastic(weights)
    assert (weights.dense().diagonal() > 0).all()
    assert np.array_equal(weights.sources, graph.sources)


@settings(max_examples=200)
@given(graphs(directed=True), st.data())
def test_any_of_the_directed_cycles_give_doubly_stochastic_weights(graph, data):
    try:
        whole = permutations(graph)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)):
            directed_cycles(graph)
        return
    cycles = directed_cycles(graph)
    assert all(len(set(cycle.tolist())) == len(cycle) > 1 for cycle in cycles)
    assert np.allclose(cycle_weights(graph.nodes, cycles).dense(), whole.dense(), atol=1e-12)
    on = data.draw(st.lists(st.sampled_from(cycles), unique_by=id) if cycles else st.just([]))
    weights = cycle_weights(graph.nodes, on)
    assert_doubly_stochastic(weights)
    assert (weights.dense().diagonal() > 0).all()


def test_a_balanced_graph_passes_each_edge_once():
    for graph in (ring(ABC), complete(ABC), grid([f"n{k}" for k in range(6)], 2, 3)):
        assert (circulation(graph) == 1).all()


def test_fixed_takes_the_matrix_as_given_in_the_order_of_the_nodes():
    matrix = [[0, 1, 0], [0.5, 0, 0.5], [0.5, 0, 0.5]]
    weights = fixed(["c", "a", "b"], matrix)
    assert weights.nodes == ABC
    # row c takes all of a
    assert (weights.dense() == [[0, 0.5, 0.5], [0, 0.5, 0.5], [1, 0, 0]]).all()
    assert (weights.values > 0).all()


def test_fixed_with_a_zero_diagonal():
    # A_2 of Zhou and Li, section 5
    matrix = (np.ones((6, 6)) - np.eye(6)) / 5
    assert np.allclose(fixed("abcdef", matrix).dense(), matrix, atol=1e-15)


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        ([[1, 0], [0, 1]], r"matrix of shape \(2, 2\): must be \(3, 3\)"),
        ([1, 2, 3], "matrix of shape"),
        ([[0.5, 0.4, 0], [0.5, 0.5, 0], [0, 0, 1]], "row a sums to 0.9: must be 1"),
        ([[0.5, 0.5, 0], [0.6, 0.4, 0], [0, 0, 1]], "column a sums to 1.1: must be 1"),
        ([[1.5, -0.5, 0], [-0.5, 1.5, 0], [0, 0, 1]], "row a, column b: -0.5: must be 0 or above"),
        ([[1, 0, 0], [0, np.nan, 0], [0, 0, 1]], "row b, column b: nan"),
        ([[1, 0, 0], [0, np.inf, 0], [0, 0, 1]], "row b sums to inf"),
    ],
)
def test_fixed_refuses_and_names_the_place(matrix, text):
    with pytest.raises(ValueError, match=text):
        fixed(ABC, matrix)


@pytest.mark.parametrize(
    ("sources", "targets", "values", "text"),
    [
        ([1, 0], [0, 1], [0.5], "values of shape"),
        ([1, 0], [0, 1], [0.0, 0.5], "not above 0"),
        ([1, 0], [0, 1], [np.nan, 0.5], "not above 0"),
        ([1, 0], [0, 1], [1.5, 1.5], "row a: weights off the diagonal sum to 1.5: at most 1"),
        ([1, 0], [0, 1], [0.5, 0.25], "column a sums to 0.75: must be 1"),
        ([0, 1], [1, 0], [0.5, 0.5], "sorted"),
    ],
)
def test_weights_are_checked_on_entry(sources, targets, values, text):
    with pytest.raises(ValueError, match=text):
        Weights(("a", "b"), np.array(sources), np.array(targets), np.array(values))


def test_weights_cannot_be_changed():
    weights = metropolis(ring(ABC))
    with pytest.raises(ValueError, match="read-only"):
        weights.values[0] = 1.0
