"""The first value that stands on an edge counts: after every restart, and whatever came in which order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.events import Decided, Journal, Notice
from nodes.machine.history import MOST_ACCUSED, MOST_READ_AGAIN, InEdge
from nodes.machine.journal import ReleaseMessage
from nodes.protocol import Noticed
from nodes.values import Release
from tests.support.nodes.machines import INSTANCES, feed, machine, of, plans, release, slot, started

LIE = (9.0, 9.0)
MOST = 30
"""More than all keys that the property draws, so that none is crowded out."""

messages = st.tuples(st.integers(1, 8), st.sampled_from("bx"), st.integers(0, 2))
"""A round, an instance, a value."""


def received(edge, offset, message, oldest, planned=frozenset()):
    round, instance, value = message
    read = ReleaseMessage("run-1", "b", instance, round, False, False, Release(np.array([float(value)])))
    edge.receive(read, offset, oldest, MOST, lambda: planned)


def first_values(log, oldest):
    """The first value by round and instance, by the whole log alone."""
    first = {}
    for round, instance, value in log:
        first.setdefault((round, instance), value)
    return {key: value for key, value in first.items() if key[0] >= oldest}


@given(st.lists(messages, max_size=40), st.integers(0, 40), st.integers(1, 8))
def test_a_restart_takes_the_first_values_of_the_whole_log(log, crashed_at, oldest):
    edge = InEdge("b", isolates=False)
    for offset, message in enumerate(log[:crashed_at]):
        received(edge, offset, message, 1)
    position = edge.drop_before(oldest)
    again = InEdge("b", position, isolates=False)
    for offset, message in enumerate(log[position:], position):
        received(again, offset, message, oldest)
    for (round, instance), value in first_values(log, oldest).items():
        assert again.first(round, instance).tolist() == [value], (position, round, instance)


def test_a_value_for_a_round_before_does_not_make_a_restart_forget_the_one_for_the_next():
    node = machine()
    started(node, *plans(1, 3))
    for_two = release("b", 2, (3.0, 0.0), offset=0)  # its source had no edge to this node in round 1
    effects = feed(node, for_two, release("b", 1, LIE, offset=1), release("c", 1, (0.0, 6.0)), slot(1))
    record = of(effects, Journal)[-1].record
    assert dict(record.edge_positions)["b"] == 0
    again = machine()
    started(again, *plans(2, 4), records=(record,))
    log = [for_two, release("b", 1, LIE, offset=1), release("b", 2, LIE, offset=2)]
    effects = feed(again, *log, release("c", 2, (0.0, 6.0)), slot(2))
    assert Noticed(Notice.EVIDENCE, "b", 2) in effects
    (decided,) = of(effects, Decided)  # without b, whose weight goes to the own release
    np.testing.assert_allclose(decided.decision, decided.own * 2 / 3 + np.array([0.0, 6.0]) / 3)


def test_what_was_overtaken_long_ago_is_not_read_again_for_ever():
    edge = InEdge("b")
    received(edge, 0, (10**6, "b", 1), 1)
    for round in range(1, 9):
        received(edge, MOST_READ_AGAIN + round, (round, "b", 1), 1)
    assert edge.drop_before(1) == MOST_READ_AGAIN + 1
    received(edge, 5, (10**6 + 1, "b", 1), 1)
    assert edge.drop_before(1) == 5


def test_accused_instances_that_a_source_invents_do_not_make_it_trusted_again():
    edge, planned = InEdge("b"), frozenset({"b"})
    for k in range(2 * MOST_ACCUSED):
        for value in (0, 1):
            received(edge, k, (k + 1, f"{k:032x}" if k else "b", value), k + 1, planned)
        edge.drop_before(k + 1)
    assert len(edge.accused) == MOST_ACCUSED
    assert edge.distrusts("b")


def test_a_mesh_file_without_a_source_makes_nobody_forget_what_it_has_done():
    liar, pardoned = ("b", INSTANCES["b"]), ("b", "0" * 32, 7)
    node = machine()
    effects = started(node, *plans(1, 4))
    effects += feed(node, release("b", 1, (3.0, 0.0)), release("b", 1, LIE), release("c", 1, LIE), slot(1))
    record = of(effects, Journal)[-1].record._replace(pardoned=(pardoned,))
    assert record.distrusted == (liar,)
    without = machine(sources=("c",))
    effects = started(without, *plans(2, 4), records=(record,))
    record = of(effects + feed(without, release("c", 2, LIE), slot(2)), Journal)[-1].record
    assert (record.distrusted, record.pardoned) == ((liar,), (pardoned,))
    back = machine()
    effects = started(back, *plans(3, 4), records=(record,))
    (decided,) = of(effects + feed(back, release("b", 3, LIE), release("c", 3, (0.0, 6.0))), Decided)
    np.testing.assert_allclose(decided.decision, decided.own * 2 / 3 + np.array([0.0, 6.0]) / 3)
