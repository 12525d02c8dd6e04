import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.graph import (
    Graph,
    complete,
    erdos_renyi,
    from_edges,
    grid,
    ring,
    star,
    strongly_connected,
    union,
)

ABCD = ("a", "b", "c", "d")


def edges(graph):
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    return [(graph.nodes[source], graph.nodes[target]) for source, target in ends]


def pairs(graph):
    return sorted({tuple(sorted(edge)) for edge in edges(graph)})


def test_edges_are_sorted_by_target_then_source_and_nodes_by_bytes():
    graph = from_edges(["n10", "n2", "n1"], [("n2", "n1"), ("n10", "n1"), ("n10", "n1")])
    assert graph.nodes == ("n1", "n10", "n2")
    assert edges(graph) == [("n10", "n1"), ("n2", "n1"), ("n1", "n10"), ("n1", "n2")]


def test_a_directed_graph_keeps_one_direction():
    assert edges(from_edges(ABCD, [("d", "a")], directed=True)) == [("d", "a")]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (complete(ABCD), [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]),
        (ring(["d", "b", "a", "c"]), [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]),
        (ring(["a", "b"]), [("a", "b")]),
        (ring(["a"]), []),
        (star(["c", "a", "b"]), [("a", "c"), ("b", "c")]),
        (grid(["a", "b", "c", "d", "e", "f"], 2, 3), [*zip("abdeabc", "bcefdef", strict=True)]),
    ],
)
def test_shapes(graph, expected):
    assert pairs(graph) == sorted(expected)


def test_in_a_directed_ring_each_hears_the_one_before_it():
    graph = ring(["b", "a", "c"], directed=True)
    assert edges(graph) == [("b", "a"), ("c", "b"), ("a", "c")]
    assert graph.into == (("b",), ("c",), ("a",))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: from_edges(["a", "b"], [("a", "x")]), "edge a -> x: 'x' is not a node"),
        (lambda: from_edges(["a", "b"], [("a", "a")]), "a node has no edge to itself"),
        (lambda: from_edges(["a", "a"], []), "must be distinct"),
        (lambda: from_edges(["A"], []), "node 'A': a name is made of"),
        (lambda: from_edges(["a\n"], []), "a name is made of"),
        (lambda: from_edges([], []), "at least one"),
        (lambda: grid(ABCD, 2, 3), "grid 2 x 3: must hold the 4 nodes exactly"),
        (lambda: grid(ABCD, -2, -2), "must hold the 4 nodes"),
        (lambda: erdos_renyi(ABCD, 0, mean_degree=8), "is 2.66667: must be from 0 to 1"),
        (lambda: erdos_renyi(ABCD, 0), "give either"),
        (lambda: erdos_renyi(ABCD, 0, p=0.5, mean_degree=1), "give either"),
        (lambda: union([ring(ABCD), ring(["a", "b"])]), "as in the first graph"),
        (lambda: Graph(("b", "a"), ints(), ints()), "bytes order"),
        (lambda: Graph(("a", "b"), ints(0), ints(1)), "both directions"),
        (lambda: Graph(("a", "b"), ints(0), ints(2), directed=True), "outside 0..1"),
        (lambda: Graph(("a", "b"), ints(0), ints(0), directed=True), "self-loops"),
        (lambda: Graph(("a", "b"), ints(0, 0), ints(1, 1), directed=True), "distinct"),
        (lambda: Graph(("a", "b"), ints(0, 1), ints(1, 0), directed=True), "sorted"),
        (lambda: Graph(("a", "b"), ints(0), ints(), directed=True), "one shape"),
    ],
)
def test_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def ints(*values):
    return np.array(values, np.int64)


def test_a_graph_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        ring(ABCD).sources[0] = 1


def test_among_keeps_the_edges_between_members():
    left = ring(ABCD).among(("a", "b", "d"))
    assert left.nodes == ("a", "b", "d")
    assert pairs(left) == [("a", "b"), ("a", "d")]
    with pytest.raises(ValueError, match="member 'x'"):
        left.among(("a", "x"))


def test_both_ways_and_union():
    graph = from_edges(ABCD, [("a", "b"), ("b", "c")], directed=True)
    assert edges(graph.both_ways()) == [("b", "a"), ("a", "b"), ("c", "b"), ("b", "c")]
    assert pairs(union([graph, from_edges(ABCD, [("d", "c"), ("c", "b")])])) == [
        *zip("abc", "bcd", strict=True)
    ]


@given(size=st.integers(1, 40), seed=st.integers(0, 99), p=st.floats(0, 1))
def test_erdos_renyi_is_connected_and_a_function_of_the_seed(size, seed, p):
    names = [f"n{k}" for k in range(size)]
    graph = erdos_renyi(names, seed, p=p)
    assert strongly_connected(graph.sources, graph.targets, size)
    again = erdos_renyi(names, seed, p=p)
    assert np.array_equal(graph.sources, again.sources)
    assert np.array_equal(graph.targets, again.targets)


def test_erdos_renyi_has_the_mean_degree_asked_for():
    names = [f"n{k}" for k in range(400)]
    degrees = [erdos_renyi(names, seed, mean_degree=8).sources.size / 400 for seed in range(20)]
    # The mean of 20 graphs has a standard deviation of 0.045.
    assert abs(np.mean(degrees) - 8) < 0.2
    assert len(set(degrees)) > 1
