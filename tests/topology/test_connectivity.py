import numpy as np
import pytest

from topology.graph import complete, from_edges, ring, strongly_connected
from topology.schedules import CycleSchedule, FixedSchedule, SwitchingSchedule, mixing_rate, window
from topology.weights import fixed


def swap(nodes, first, second):
    matrix = np.eye(len(nodes))
    places = [nodes.index(first), nodes.index(second)]
    matrix[np.ix_(places, places)] = 0.5
    return fixed(nodes, matrix)


def test_a_connected_graph_needs_one_round():
    assert window(FixedSchedule(ring("abcd")), limit=5, starts=3) == 1
    assert window(FixedSchedule(ring("abcd", directed=True)), limit=5, starts=3) == 1
    assert window(FixedSchedule(ring("a")), limit=5, starts=3) == 1


def test_two_parts_never_connect():
    assert window(FixedSchedule(from_edges("abcd", [("a", "b"), ("c", "d")])), limit=5, starts=3) is None


def test_pairs_in_turn_need_a_window():
    in_turn = [swap("abcd", *pair) for pair in ("ab", "bc", "cd")]
    assert window(CycleSchedule(in_turn), limit=10, starts=6) == 3
    assert window(CycleSchedule(in_turn), limit=3, starts=6) == 3
    assert window(CycleSchedule(in_turn), limit=2, starts=6) is None


def test_the_worst_start_decides():
    # a-b twice in a row: the window that begins with them is one longer
    in_turn = CycleSchedule([swap("abc", *pair) for pair in ("bc", "ab", "ab")])
    assert window(in_turn, limit=10, starts=1) == 2
    assert window(in_turn, limit=10, starts=2) == 3


def test_the_window_is_the_smallest_for_every_start():
    schedule = SwitchingSchedule(ring("abcdef"), 0.4, seed=3)
    starts, nodes = 30, schedule.graph.nodes

    def connects(start, width):
        rounds = [schedule.weights(round, nodes) for round in range(start, start + width)]
        sources, targets = (
            np.concatenate([getattr(w, side) for w in rounds]) for side in ("sources", "targets")
        )
        return strongly_connected(sources, targets, 6)

    found = window(schedule, limit=50, starts=starts)
    assert found is not None
    assert found > 1
    assert all(connects(start, found) for start in range(1, starts + 1))
    assert not all(connects(start, found - 1) for start in range(1, starts + 1))


def test_one_way_is_not_strongly_connected():
    line = from_edges("abc", [("a", "b"), ("b", "c")], directed=True)
    assert not strongly_connected(line.sources, line.targets, 3)
    assert not strongly_connected(line.targets, line.sources, 3)


def test_mixing_rates_by_hand():
    assert mixing_rate(FixedSchedule(complete("abcd")), 1) == pytest.approx(0, abs=1e-12)
    assert mixing_rate(FixedSchedule(from_edges("ab", [])), 7) == pytest.approx(1)
    assert mixing_rate(FixedSchedule(ring("a")), 1) == 0
    # the ring of six: (1 + 2 cos(2 pi / 6)) / 3 = 2/3 a round
    assert mixing_rate(FixedSchedule(ring("abcdef")), 1) == pytest.approx(2 / 3)
    assert mixing_rate(FixedSchedule(ring("abcdef")), 5) == pytest.approx((2 / 3) ** 5)


def test_the_product_is_taken_in_the_order_of_the_rounds():
    parts = [swap("abc", "a", "b"), swap("abc", "b", "c"), fixed("abc", np.eye(3)[[1, 2, 0]])]
    first, second, third = (part.dense() for part in parts)
    assert not np.allclose(third @ second @ first, first @ second @ third)
    expected = np.linalg.norm(third @ second @ first - 1 / 3, 2)
    assert mixing_rate(CycleSchedule(parts), 3) == pytest.approx(expected)


def test_the_slowest_window_decides():
    # a-b, then twice c-d: the windows of two rounds that begin in rounds 1, 2, 3 are ab-cd, cd-cd, cd-ab
    pairs = [swap("abc", *pair) for pair in ("ab", "bc", "bc")]
    schedule = CycleSchedule(pairs)
    ab, bc, _ = (part.dense() for part in pairs)
    both = np.linalg.norm(bc @ ab - 1 / 3, 2)
    assert both < 0.9
    assert mixing_rate(schedule, 2, starts=1) == pytest.approx(both)
    assert mixing_rate(schedule, 2, starts=2) == pytest.approx(1)
    assert mixing_rate(schedule, 2, starts=30) == pytest.approx(1)


def test_a_drawn_schedule_is_looked_at_from_every_start():
    schedule = SwitchingSchedule(ring("abcdef"), 0.5, seed=1)

    def left(start):
        product = np.eye(6)
        for round in range(start, start + 4):
            product = schedule.weights(round, schedule.graph.nodes).dense() @ product
        return np.linalg.norm(product - 1 / 6, 2)

    rates = [left(start) for start in range(1, 41)]
    assert max(rates) > rates[0]
    assert mixing_rate(schedule, 4, starts=40) == pytest.approx(max(rates))
    assert mixing_rate(schedule, 4) == pytest.approx(rates[0])


def test_there_is_none_for_many_nodes():
    assert mixing_rate(FixedSchedule(ring([f"n{k}" for k in range(513)])), 1) is None
