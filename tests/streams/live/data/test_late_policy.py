"""Late policies of a node that has fallen behind: which records its slots pass over."""

from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.events import OpenSlot
from nodes.machine.slots import CountSlots, LatePolicy
from tests.support.nodes.collectors import Side, arrival


def late_side(kind="drop-oldest", most=4, size=2):
    return Side(lambda: CountSlots(size), late=LatePolicy(kind, most, size))


def test_a_slot_waits_for_the_logs_end_and_passes_over_what_is_late():
    side = late_side()
    side.fill(0, 20)
    side.collector.open(OpenSlot(1, ()))
    assert side.collector.unplaced
    assert side.slots == []
    side.place(20)
    assert side.slots == [(1, [16, 17], ((0, 18),))]
    assert side.counts.skipped == 16


def test_a_slot_begins_beyond_what_was_read_and_says_so_once():
    side = late_side()
    side.collector.open(OpenSlot(1, ()))
    side.place(1000)
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
    for round, end in [(1, 20), (2, 20), (3, 22)]:
        side.collector.place({0: end})  # the next look, as the slot before is open
        side.collector.open(OpenSlot(round, ()))
        side.place(end)
    assert side.counts.skipped == 18


def test_a_late_slot_that_times_out_unplaced_keeps_its_position():
    side = Side(timeout=5.0, late=LatePolicy("drop-oldest", 4, 2))
    side.collector.open(OpenSlot(7, ((0, 30),)))
    side.now += 5.0
    side.collector.expire()
    assert side.slots == [(7, [], ((0, 30),))]


def test_a_late_slot_that_times_out_keeps_what_it_has_passed_over():
    side = Side(timeout=5.0, late=LatePolicy("drop-oldest", 4, 2))
    side.collector.open(OpenSlot(7, ((0, 30),)))
    side.place(40)
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
                side.collector.add([arrival(offset, value=content(offset))])
            end += count
            side.collector.place({0: end})
            side.collector.open(OpenSlot(round, position))
            side.place(end)
            if side.slots and side.slots[-1][0] == round:
                position = side.slots[-1][2]
            positions.append(position)
        assert positions == sorted(positions)
        found.append(positions)
    assert found[0] == found[1]


def test_a_slot_that_times_out_before_all_is_counted_keeps_its_position_and_what_was_counted():
    side = Side(timeout=5.0, late=LatePolicy("drop-oldest", 4, 2))
    side.collector.open(OpenSlot(7, ()))
    side.collector.place({0: 40})
    side.collector.count(0, range(30), 30)
    side.now += 5.0
    side.collector.expire()
    assert side.slots == [(7, [], ())]
    side.collector.open(OpenSlot(8, ()))
    assert side.collector.uncounted == (0, 30, 40)
    side.place(40)
    side.fill(36, 38)
    assert side.slots[1:] == [(8, [36, 37], ((0, 38),))]


def test_the_end_of_a_busy_topic_is_not_chased():
    side = late_side()
    side.collector.open(OpenSlot(1, ()))
    for end in (100, 200, 300):
        side.collector.place({0: end})
        assert side.collector.uncounted == (0, 0, 100)


def test_few_records_are_read_ahead_while_those_that_wait_are_counted():
    side = late_side()
    side.collector.open(OpenSlot(1, ()))
    side.collector.place({0: 10_000})
    assert side.fill(0, 300) == [False] * 255 + [True] * 45
    side.place(10_000)
    assert side.rooms == 1


def test_a_slot_at_the_topics_end_has_nothing_late():
    side = late_side()
    side.collector.open(OpenSlot(1, ()))
    side.place(20)
    side.collector.open(OpenSlot(2, None))
    side.place(30)
    side.fill(30, 32)
    assert side.slots == [(2, [30, 31], ((0, 32),))]


HOLES = st.lists(st.booleans(), max_size=60)
"""Whether each offset has a record: markers of transactions have none, nor has what a compaction removed."""


@given(
    st.sampled_from(["drop-oldest", "sample"]),
    st.integers(1, 3),
    st.integers(0, 6),
    st.lists(HOLES, min_size=1, max_size=12),
)
def test_holes_in_the_offsets_change_nothing_in_which_records_are_learnt(kind, size, more, arriving):
    """The n-th record is the number n, wherever it stands: slots and counts are those without holes."""
    seen = []
    for holes in (True, False):
        side = late_side(kind, size + more, size)
        end, records, position = 0, [], ()
        for round, arrived in enumerate(arriving, 1):
            for there in arrived:
                if there:
                    side.collector.add([arrival(end, value=b"%d" % len(records))])
                    records.append(end)
                end += holes or there
            side.collector.place({0: end})
            side.collector.open(OpenSlot(round, position))
            side.place(end, records)
            if side.slots and side.slots[-1][0] == round:
                position = side.slots[-1][2]
        seen.append(([(round, values) for round, values, _ in side.slots], side.counts.skipped))
    assert seen[0] == seen[1]


@given(st.integers(1, 3), st.integers(0, 6), HOLES)
def test_the_newest_records_are_left_and_the_others_counted(size, more, arrived):
    side = late_side("drop-oldest", size + more, size)
    records = [offset for offset, there in enumerate(arrived) if there]
    for offset in records:
        side.collector.add([arrival(offset)])
    side.collector.open(OpenSlot(1, ()))
    side.place(len(arrived), records)
    newest = records[-(size + more) :]
    assert [values for _, values, _ in side.slots] == ([newest[:size]] if len(records) >= size else [])
    assert side.counts.skipped == len(records) - len(newest)
