"""The records of one process's slots: none twice, none lost, whatever process reads them."""

import numpy as np

from nodes.machine.events import OpenSlot
from nodes.machine.slots import CountSlots, TimeSlots
from nodes.privacy.reveal import opened
from streams.mesh.settings.schema import SchemaSettings
from streams.records.decoder import CsvFields, SchemaDecoder
from streams.records.record import RawRecord
from streams.records.slot_feed import DataLog, SlotFeed
from streams.simulation.node import DataTopic


class Digits:
    """Record 7 is the number 7."""

    dimension = 1

    def decode(self, value):
        return np.array([float(value)]), 0.0


def feed(log, slots=lambda: CountSlots(2)):
    return SlotFeed(log, slots, Digits())


def records(count=20):
    return DataLog(RawRecord(str(k).encode(), float(k)) for k in range(count))


def read(feed, round, position):
    closed = feed.close(OpenSlot(round, position))
    return opened(closed.observations).features.ravel().tolist(), closed.position


def test_a_new_log_goes_on_at_the_journals_position():
    assert read(feed(records()), 7, ((0, 12),)) == ([12.0, 13.0], ((0, 14),))


def test_a_slot_that_nothing_was_learnt_from_is_read_again():
    slots = feed(records())
    _, position = read(slots, 1, ())
    read(slots, 2, position)
    assert read(slots, 9, position) == ([2.0, 3.0], ((0, 4),))  # it asked to join, and is back


def test_slots_by_time_are_read_again_too():
    slots = feed(records(), lambda: TimeSlots(9, 0.0, 2.0, 0.0))
    _, position = read(slots, 1, ())
    assert position == ((0, 2),)
    read(slots, 2, position)
    values, _ = read(slots, 3, position)
    assert values == [4.0, 5.0]  # of slot 2 nothing is left to learn


def test_who_reads_from_the_end_reads_nothing_that_was_read():
    log = records()
    read(feed(log), 1, ())
    assert read(feed(log), 2, None) == ([2.0, 3.0], ((0, 4),))


def test_the_last_slot_by_count_has_the_records_that_are_left():
    slots, position, sizes = feed(records(7), lambda: CountSlots(3)), (), []
    for round in range(1, 4):
        values, position = read(slots, round, position)
        sizes.append(values)
    assert sizes == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0]]
    assert slots.close(OpenSlot(4, position)) is None


def test_a_short_slot_that_nothing_was_learnt_from_is_read_again():
    slots = feed(records(4), lambda: CountSlots(3))
    _, position = read(slots, 1, ())
    assert read(slots, 2, position) == read(slots, 3, position) == ([3.0], ((0, 4),))


def test_no_record_decides_where_another_lies_in_a_short_slot():
    """A record that cannot be read keeps its place there too."""

    def places(changed):
        lines = [RawRecord(b"1,2,3,4") for _ in range(5)]
        if changed is not None:
            lines[changed] = RawRecord(b"?")
        slots, position, closed = SlotFeed(DataLog(iter(lines)), lambda: CountSlots(3), TRACKED), (), []
        for round in (1, 2):
            slot = slots.close(OpenSlot(round, position))
            position = slot.position
            closed.append((opened(slot.places), opened(slot.observations).present.size))
        return closed, position

    assert all(places(changed) == places(None) for changed in range(5))


def test_a_topic_has_no_end_so_no_slot_of_it_is_short():
    topic = DataTopic(tuple(RawRecord(b"%d" % k) for k in range(4)))
    slots = feed(topic, lambda: CountSlots(3))
    _, position = read(slots, 1, ())
    assert slots.close(OpenSlot(2, position)) is None


def test_slots_by_time_close_empty_after_the_last_record():
    slots = feed(records(5), lambda: TimeSlots(9, 0.0, 2.0, 0.0))
    position = ()
    for round, values in enumerate(([0.0, 1.0], [2.0, 3.0], [4.0], [], []), start=1):
        seen, position = read(slots, round, position)
        assert seen == values


def test_a_slot_by_time_is_over_when_the_next_record_lies_beyond_it_whatever_the_grace():
    log = DataLog(RawRecord(b"%d" % k, at) for k, at in enumerate((None, 0.5, 1.5, 1e9, 2e9, 1e308)))
    slots, position = feed(log, lambda: TimeSlots(9, 0.0, 1.0, 7.0)), ()
    for round, values in enumerate(([1.0], [2.0], [], []), start=1):
        seen, position = read(slots, round, position)
        assert (seen, log.end) == (values, 2 + min(round, 2))  # one record beyond the slot is read
    assert read(slots, 1_000_000_001, position) == ([3.0], ((0, 4),))


TRACKED = SchemaDecoder(
    SchemaSettings.model_validate(
        {"features": {"x": "number"}, "label": {"column": "y"}, "truth": ["u", "v"]}
    ),
    CsvFields(("x", "y", "u", "v")),
)


def test_the_truth_of_a_slot_is_that_of_the_last_record_that_says_it():
    lines = [b"1,2,3,4", b"1,2,5,6", b"?,2,7,8", b"1,2,9,"], [b"1,2,?,4", b""], [b"1,2,0,0", b"1,2,1,1"]
    log = DataLog(RawRecord(line, float(slot)) for slot, part in enumerate(lines) for line in part)
    slots = SlotFeed(log, lambda: TimeSlots(9, 0.0, 1.0, 0.0), TRACKED)
    said = [opened(slots.close(OpenSlot(round, ())).truth) for round in (1, 2)]
    assert [None if found is None else found.tolist() for found in said] == [[7, 8], None]


def test_an_empty_slot_has_no_truth():
    log = DataLog(RawRecord(b"1,2,3,4", at) for at in (2.5, 3.5))
    slots = SlotFeed(log, lambda: TimeSlots(9, 0.0, 1.0, 0.0), TRACKED)
    closed = slots.close(OpenSlot(2, ()))
    assert (opened(closed.observations).present.size, opened(closed.truth)) == (0, None)


def test_a_decoder_that_names_no_truth_gives_none():
    assert opened(feed(records()).close(OpenSlot(1, ())).truth) is None
