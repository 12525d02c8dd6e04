"""Late policies of a node that has fallen behind: which records its slots pass over."""

from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.events import OpenSlot
from nodes.machine.late import LatePolicy
from nodes.machine.slots import CountSlots
from tests.support.collectors import Side, arrival


def late_side(kind="drop-oldest", most=4, size=2):
    return Side(lambda: CountSlots(size), late=LatePolicy(kind, most, size))


def test_a_slot_waits_for_the_logs_end_and_passes_over_what_is_late():
    side = late_side()
    side.fill(0, 20)
    side.collector.open(OpenSlot(1, ()))
    assert side.collector.unplaced
    assert side.slots == []
    side.collector.place({0: 20})
    assert side.slots == [(1, [16, 17], ((0, 18),))]
    assert side.counts.skipped == 16


def test_a_slot_begins_beyond_what_was_read_and_says_so_once():
    side = late_side()
    side.collector.place({0: 1000})
    side.collector.open(OpenSlot(1, ()))
    assert side.collector.moved()
    assert not side.collector.moved()
    assert side.collector.next == {0: 996}
    side.fill(0, 10)
    assert side.slots == []
    side.fill(996, 998)
    assert side.slots == [(1, [996, 997], ((0, 998),))]


def test_nothing_is_passed_over_while_few_wait():
    side = late_side(most=4)
    side.collector.place({0: 4})
    side.fill(0, 8)
    for round in (1, 2):
        side.collector.open(OpenSlot(round, ((0, 2 * round - 2),)))
    assert side.slots == [(1, [0, 1], ((0, 2),)), (2, [2, 3], ((0, 4),))]
    assert side.counts.skipped == 0
    assert not side.collector.moved()


def test_a_slot_that_is_opened_again_counts_what_it_skips_once():
    side = late_side()
    side.collector.place({0: 20})
    for round in (1, 2):
        side.collector.open(OpenSlot(round, ()))
    side.collector.place({0: 22})
    side.collector.open(OpenSlot(3, ()))
    assert side.counts.skipped == 18


def test_a_late_slot_that_times_out_unplaced_keeps_its_position():
    side = Side(timeout=5.0, late=LatePolicy("drop-oldest", 4, 2))
    side.collector.open(OpenSlot(7, ((0, 30),)))
    side.now += 5.0
    side.collector.expire()
    assert side.slots == [(7, [], ((0, 30),))]


def test_a_late_slot_that_times_out_keeps_what_it_has_passed_over():
    side = Side(timeout=5.0, late=LatePolicy("drop-oldest", 4, 2))
    side.collector.place({0: 40})
    side.collector.open(OpenSlot(7, ((0, 30),)))
    side.now += 5.0
    side.collector.expire()
    assert side.slots == [(7, [], ((0, 36),))]


@given(
    st.sampled_from(["drop-oldest", "sample"]),
    st.integers(1, 3),
    st.integers(0, 6),
    st.lists(st.integers(0, 8), min_size=1, max_size=30),
)
def test_which_records_enter_a_slot_does_not_depend_on_what_they_hold(kind, size, more, arriving):
    found = []
    for content in (lambda k: b"%d" % k, lambda _: b"not a number"):
        side = late_side(kind, size + more, size)
        end, position, positions = 0, (), []
        for round, count in enumerate(arriving, 1):
            for offset in range(end, end + count):
                side.collector.add(arrival(offset, value=content(offset)))
            end += count
            side.collector.place({0: end})
            side.collector.open(OpenSlot(round, position))
            if side.slots and side.slots[-1][0] == round:
                position = side.slots[-1][2]
            positions.append(position)
        assert positions == sorted(positions)
        found.append(positions)
    assert found[0] == found[1]
