"""Where a stream begins, given what its journal and the logs say."""

import pytest

from nodes.machine.slots import Arrival, CountSlots, TimeSlots
from nodes.privacy.reveal import opened
from streams.bus.bus import OffsetOutOfRange
from streams.live.data.collector import SlotCollector
from streams.live.data.start import Start


def begun(given, spans, slots=lambda: TimeSlots(1, 0.0, 1.0, 0.0)):
    collector = SlotCollector(slots, None, None, lambda slot: None, lambda: None)
    start = Start("data.east", given, collector)
    start.begin(spans)
    return start.next, opened(collector.counts).lost


@pytest.mark.parametrize(
    ("given", "spans", "expected"),
    [
        (((0, 12),), {0: (3, 20)}, ({0: 12}, 0)),
        (((0, 20),), {0: (3, 20)}, ({0: 20}, 0)),
        ((), {0: (3, 20)}, ({0: 3}, 0)),
        (None, {0: (3, 20), 1: (0, 7)}, ({0: 20, 1: 7}, 0)),
        (((1, 5),), {0: (3, 20), 1: (0, 7)}, ({0: 3, 1: 5}, 0)),
        (((0, 1), (1, 5)), {0: (3, 20), 1: (9, 9)}, ({0: 3, 1: 9}, 6)),
    ],
    ids=["inside", "at the end", "the beginning", "the end", "a new partition", "below"],
)
def test_it_begins_at_the_position_as_far_as_the_logs_have_it(given, spans, expected):
    assert begun(given, spans) == expected


def test_a_position_beyond_the_end_is_another_topics():
    with pytest.raises(OffsetOutOfRange, match="the position of partition 0 is beyond the log's end"):
        begun(((0, 21),), {0: (3, 20)})


def test_a_life_after_a_power_cut_passes_over_records_to_come_up_to_its_floor():
    collector = SlotCollector(lambda: CountSlots(1), None, None, lambda slot: None, lambda: None)
    start = Start("data.east", ((0, 21), (1, 4)), collector, floor=((0, 21), (1, 4)))
    start.begin({0: (3, 20), 1: (0, 9)})
    assert start.next == {0: 21, 1: 4}
    collector.add([Arrival(0, offset, 0.0, b"") for offset in range(20, 23)])
    assert opened(collector.counts).records == 2
    moved = Start("data.east", ((0, 22),), collector, floor=((0, 21),))
    with pytest.raises(OffsetOutOfRange):
        moved.begin({0: (3, 20)})


def test_what_goes_from_the_log_later_is_counted_too():
    collector = SlotCollector(lambda: CountSlots(1), None, None, lambda slot: None, lambda: None)
    start = Start("data.east", (), collector)
    start.begin({0: (0, 9)})
    start.lose(4)
    assert opened(collector.counts).lost == 4
    assert start.next == {0: 0}
