from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.graph import complete, from_edges, ring, star
from topology.schedules import CycleSchedule, FixedSchedule, Schedule, SwitchingSchedule, closing_rounds
from topology.weights import fixed, metropolis

NODES = tuple("abcdef")
SWAP = fixed("abcd", np.eye(4)[[1, 0, 3, 2]])
TWO_CYCLES = [*zip("abc", "bca", strict=True), *zip("cdef", "defc", strict=True)]
"""Two directed cycles that meet in c."""
KINDS: dict[str, Schedule] = {
    "undirected": FixedSchedule(ring(NODES)),
    "directed": FixedSchedule(ring(NODES, directed=True)),
    "matrix": FixedSchedule(fixed(NODES, (np.ones((6, 6)) - np.eye(6)) / 5)),
    "cycle": CycleSchedule([ring(NODES), ring(NODES[::2] + NODES[1::2], directed=True), star(NODES)]),
    "switching": SwitchingSchedule(complete(NODES), 0.5, seed=7),
    "switching cycles": SwitchingSchedule(from_edges(NODES, TWO_CYCLES, directed=True), 0.5, seed=7),
}


def keys(graph, names):
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    return {(names[source], names[target]) for source, target in ends}


@given(
    kind=st.sampled_from(sorted(KINDS)),
    round=st.integers(1, 10**12),
    members=st.sets(st.sampled_from(NODES), min_size=1),
)
def test_every_schedule_is_doubly_stochastic_over_provisioned_edges(kind, round, members):
    schedule, names = KINDS[kind], tuple(sorted(members))
    weights = schedule.weights(round, names)
    assert weights.nodes == names
    assert np.allclose(weights.dense().sum(0), 1, atol=1e-12)
    assert keys(weights, names) <= keys(schedule.graph, NODES)
    again = schedule.weights(round, names)
    assert np.array_equal(weights.dense(), again.dense())


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_both_directions_of_every_edge_are_provisioned(kind):
    graph = KINDS[kind].graph
    assert not graph.directed
    assert keys(graph, NODES) == {(b, a) for a, b in keys(graph, NODES)}


def test_a_fixed_matrix_without_one_node_is_metropolis_of_the_others():
    without = KINDS["matrix"].weights(1, tuple("abcde"))
    assert np.allclose(without.dense(), np.full((5, 5), 0.2), atol=1e-15)


def test_a_directed_ring_without_one_node_speaks_both_ways():
    without = KINDS["directed"].weights(1, tuple("abcde"))
    line = from_edges(tuple("abcde"), list(pairwise("abcde")))
    assert (without.dense() == metropolis(line).dense()).all()


def test_a_cycle_starts_with_its_first_and_repeats():
    cycle = CycleSchedule([SWAP, ring("abcd"), ring("abcd", directed=True)])
    parts = [FixedSchedule(part).weights(1, tuple("abcd")).dense() for part in cycle.contents]
    for round in range(1, 8):
        assert (cycle.weights(round, tuple("abcd")).dense() == parts[(round - 1) % 3]).all()


def test_in_a_cycle_only_undirected_graphs_keep_to_their_own_pairs():
    cycle = CycleSchedule([SWAP, ring("abcd")])
    assert cycle.graph.sources.size == 8  # the ring a-b-c-d holds a-b and c-d
    # for a swap without d: over all that is provisioned among a, b, c
    assert keys(cycle.weights(1, tuple("abc")), "abc") == {*zip("abbc", "bacb", strict=True)}
    cycle = CycleSchedule([star("abcd"), SWAP])
    assert keys(cycle.weights(1, tuple("acd")), "acd") == {*zip("acad", "cada", strict=True)}
    assert keys(cycle.weights(2, tuple("acd")), "acd") == {*zip("acadcd", "cadadc", strict=True)}


def test_switching_is_metropolis_of_the_pairs_that_are_on():
    weights = KINDS["switching"].weights(5, NODES)
    on = from_edges(NODES, [pair for pair in keys(weights, NODES) if pair[0] < pair[1]])
    assert (weights.dense() == metropolis(on).dense()).all()


def test_switching_does_not_depend_on_who_is_there():
    some = tuple("bdef")
    for round in range(1, 50):
        everyone = keys(KINDS["switching"].weights(round, NODES), NODES)
        expected = {edge for edge in everyone if set(edge) <= set(some)}
        assert keys(KINDS["switching"].weights(round, some), some) == expected


def test_switching_has_each_pair_on_independently_with_its_probability():
    schedule = SwitchingSchedule(ring("abcd"), 0.3, seed=1)
    on = np.zeros((4000, 4))
    for round in range(1, 4001):
        found = keys(schedule.weights(round, tuple("abcd")), "abcd")
        on[round - 1] = [pair in found for pair in zip("abca", "bcdd", strict=True)]
    # Standard deviations: 0.0073 of a frequency, 0.0033 of a covariance.
    assert (np.abs(on.mean(0) - 0.3) < 0.03).all()
    assert (np.abs(np.cov(on.T) - np.diag([0.21] * 4)) < 0.015).all()
    centred = on[:, 0] - 0.3
    assert abs((centred[1:] * centred[:-1]).mean()) < 0.015


def test_switching_with_probability_one_is_the_graph():
    schedule = SwitchingSchedule(ring(NODES), 1.0, seed=0)
    assert (schedule.weights(3, NODES).dense() == metropolis(ring(NODES)).dense()).all()


def test_whole_cycles_of_a_directed_graph_are_switched_independently():
    schedule = KINDS["switching cycles"]
    on = np.zeros((2000, 2))
    for round in range(1, 2001):
        edges = keys(schedule.weights(round, NODES), NODES)
        on[round - 1] = [edges >= set(cycle) for cycle in (TWO_CYCLES[:3], TWO_CYCLES[3:])]
        assert edges == {edge for k, edge in enumerate(TWO_CYCLES) if on[round - 1, min(k // 3, 1)]}
    # Standard deviations: 0.011 of a frequency, 0.0056 of a covariance.
    assert (np.abs(on.mean(0) - 0.5) < 0.05).all()
    assert (np.abs(np.cov(on.T) - np.diag([0.25] * 2)) < 0.03).all()


def test_a_cycle_that_is_on_alone_has_equal_weights():
    schedule = SwitchingSchedule(from_edges(NODES, TWO_CYCLES, directed=True), 1.0, seed=0)
    assert set(schedule.weights(1, NODES).values) == {1 / 3}  # both cycles pass c
    for round in range(1, 30):
        values = KINDS["switching cycles"].weights(round, NODES).values
        assert set(values) <= ({1 / 2} if values.size < 7 else {1 / 3})


def test_switching_cycles_without_a_node_switch_the_pairs_of_the_others():
    schedule, some = KINDS["switching cycles"], tuple("abdef")
    seen = [keys(schedule.weights(round, some), some) for round in range(1, 30)]
    assert set().union(*seen) == {*zip("abdeef", "baedfe", strict=True)}
    assert all(edges == {(b, a) for a, b in edges} for edges in seen)


def test_switching_differs_by_seed():
    other = SwitchingSchedule(complete(NODES), 0.5, seed=8)
    assert any(
        keys(other.weights(round, NODES), NODES) != keys(KINDS["switching"].weights(round, NODES), NODES)
        for round in range(1, 5)
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: CycleSchedule([]), "at least one"),
        (lambda: CycleSchedule([ring("abc"), ring("abcd")]), "as in the first graph"),
        (lambda: FixedSchedule(from_edges("ab", [("a", "b")], directed=True)), "edge a -> b is on no"),
        (lambda: CycleSchedule([from_edges("ab", [("a", "b")], directed=True)]), "edge a -> b is on no"),
        (
            lambda: SwitchingSchedule(from_edges("ab", [("a", "b")], directed=True), 0.5, 0),
            "edge a -> b is on",
        ),
        (lambda: SwitchingSchedule(ring("abc"), 0.0, 0), "probability 0.0"),
        (lambda: SwitchingSchedule(ring("abc"), 1.5, 0), "probability 1.5"),
        (lambda: SwitchingSchedule(ring("abc"), float("nan"), 0), "probability nan"),
    ],
)
def test_refused_at_load(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_an_unknown_member_is_refused():
    for schedule in KINDS.values():
        with pytest.raises(ValueError, match="member 'x'"):
            schedule.weights(1, ("a", "x"))


def apart(schedule, first, count):
    """The largest distance of a row of that many rounds' product from 1/N, in plain loops."""
    nodes = schedule.graph.nodes
    size = len(nodes)
    product = [[float(i == j) for j in range(size)] for i in range(size)]
    for number in range(first, first + count):
        a = schedule.weights(number, nodes).dense()
        product = [
            [sum(a[i][k] * product[k][j] for k in range(size)) for j in range(size)] for i in range(size)
        ]
    return max(sum((entry - 1 / size) ** 2 for entry in row) ** 0.5 for row in product)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_short_run_closes_once_every_row_is_near_the_mean_and_a_long_one_in_one_round(kind):
    schedule = KINDS[kind]
    needed = next(count for count in range(1, 65) if count == 64 or apart(schedule, 2, count) < 0.05)
    assert closing_rounds(schedule, 1) == needed
    assert closing_rounds(schedule, 64) == 1
    assert closing_rounds(schedule, None) == 1


def test_a_run_of_as_many_rounds_as_its_graph_needs_is_not_short():
    schedule = FixedSchedule(ring(NODES))
    needed = closing_rounds(schedule, 1)
    assert [closing_rounds(schedule, rounds) for rounds in (needed - 1, needed)] == [needed, 1]


def test_a_graph_closes_in_64_rounds_at_most_and_one_that_never_agrees_in_one():
    names = tuple(f"n{k:03}" for k in range(600))
    assert closing_rounds(FixedSchedule(ring(names[:64])), 1) == 64
    assert closing_rounds(FixedSchedule(ring(names)), 1) == 64  # no product is made
    assert closing_rounds(FixedSchedule(from_edges(NODES, [])), 1) == 1
    assert closing_rounds(FixedSchedule(complete(NODES)), 1) == 1
