"""What one label says, of which record and when, moves no record, and is the label of no other key's records.

Nor does what one record holds, where labels come later: by count and by time, in virtual time.
"""

import asyncio
import json
import math
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from nodes.machine.events import OpenSlot
from nodes.machine.slots import Arrival, CountSlots, TimeSlots
from nodes.privacy.reveal import opened
from streams.codec.topics import DataTopics
from streams.live.data.stream import DataStream
from streams.mesh.settings.node import TopicSettings
from streams.records.decoder import SchemaDecoder
from streams.records.messages import Messages
from streams.records.record import WholeMessage
from streams.simulation.labels import LabelEntry, LabelLog, LabelsInTurn

AFTER, BEFORE, SIZE, PERIOD, STEP, END = 10, 2, 2, 6.0, 2, 60
SETTINGS = TopicSettings.model_validate(
    {
        "kind": "topic",
        "topic": "t",
        "schema": {"features": {"x": "number"}, "label": {"column": "y"}},
        "labels": {
            "topic": "labels",
            "join": "id",
            "after": f"{AFTER}s",
            "before": f"{BEFORE}s",
            "value": {"column": "y"},
            "otherwise": "0",
        },
    }
)
KEYS = st.sampled_from("abc")


class Sent(NamedTuple):
    """A record: its number, key (None: it has none) and kind, and how far from its arrival it is dated."""

    number: int
    key: str | None
    kind: str
    skew: float


class Closing(NamedTuple):
    """What came of a slot: its records, as (number, present, label), and what does not go by labels."""

    records: list
    moment: float
    position: tuple


def by_time():
    return TimeSlots(SIZE, start=0.0, period=PERIOD, grace=0.0, delay=AFTER)


def by_count():
    return CountSlots(SIZE)


def arrivals_of(records):
    """The records in order of a partition; one comes every `STEP` seconds."""
    arrivals = []
    for offset, record in enumerate(records):
        fields = {"x": record.number} | ({} if record.key is None else {"id": record.key})
        value = {"broken": b"{", "tombstone": b""}.get(record.kind, json.dumps(fields).encode())
        message = WholeMessage.of(value, None, [])
        arrivals.append(Arrival(0, offset, max(0.0, STEP * offset + record.skew), message))
    return arrivals


class Life:
    """A process of a node, from a slot and its position on; `log` is what it reads its labels from."""

    def __init__(self, log, slots, letters, round=1, position=()):
        decoder = SchemaDecoder(SETTINGS.record, Messages(SETTINGS))
        self._labels = LabelsInTurn(SETTINGS.labels, decoder, log)
        topics = DataTopics("m", "a")
        self.stream = DataStream(topics, "r", slots, decoder, None, existing=SETTINGS, labels=self._labels)
        self.stream.send_letter = lambda letter: letters.append({**letter, "life": ""}) or True
        self._closed, self._read = asyncio.Queue(), dict(position).get(0, 0)
        end = max(1, self._read)
        self.stream.begin(position, self._closed.put_nowait, lambda: None).begin({0: (0, end)})
        self._collecting = asyncio.create_task(self.stream.collect_due(lambda: None))
        self.open(round, position)

    def open(self, round, position):
        self.stream.open_slot(OpenSlot(round, position))

    async def read(self, arrivals, now):
        """Read all that is in the log at the moment, and what is due of it."""
        if self._read < len(arrivals):
            await self.stream.take(arrivals[self._read :])
            self._read = len(arrivals)
        due = (k for k, arrival in enumerate(arrivals) if arrival.timestamp >= now - AFTER)
        self.stream.reach({0: next(due, len(arrivals))}, {0: len(arrivals)}, now)
        self.stream.settle(now)

    async def closed(self):
        """Return the slot that has closed; None: none has."""
        for _ in range(5):
            await asyncio.sleep(0)
        self._labels.read()
        return None if self._closed.empty() else self._closed.get_nowait()

    def kill(self):
        self._collecting.cancel()


def closings(records, labels, slots, kills=()):
    """The slots until all is due, with what their owner alone sees of places, and all letters.

    `kills`: by moment, whether the process dies then before its newest slot is in the journal.
    """
    arrivals, log, kills = arrivals_of(records), LabelLog(labels), dict(kills)

    async def live():
        held, letters = [], []
        life = Life(log, slots, letters)
        for now in range(END):
            log.now = now
            if now in kills:
                life.kill()
                if kills[now]:
                    held = held[:-1]
                life = Life(log, slots, letters, len(held) + 1, held[-1].position if held else ())
            await life.read(arrivals[: now // STEP + 1], now)
            while (slot := await life.closed()) is not None:
                observations = opened(slot.observations)
                parts = (observations.features[:, 0], observations.present, observations.labels)
                pairs = list(zip(*(part.tolist() for part in parts), strict=True))
                held.append(Closing(pairs, now, slot.position))
                life.open(slot.round + 1, slot.position)
        life.kill()
        return held, opened(life.stream.counts), letters

    return asyncio.run(live())


def expected(records, labels, slots, moments):
    """By number, the label that counts of each record, by the rule that the documentation states."""
    counted, largest = {}, -math.inf
    for arrival, record in zip(arrivals_of(records), records, strict=True):
        largest = max(largest, arrival.timestamp) if slots is by_count else arrival.timestamp
        fit = [
            (entry.time, entry.partition, entry.came, number, entry.value)
            for number, entry in enumerate(labels)
            if entry.key == record.key and largest - BEFORE <= entry.time <= largest + AFTER
            if entry.came <= moments.get(record.number, -1) and entry.value not in UNREADABLE
        ]
        value = max(fit, key=lambda part: part[:4])[4] if fit else None
        counted[record.number] = json.loads(value)["y"] if value else 0.0
    return counted


def unlabelled(part):
    """All that no label may decide."""
    held, counts, letters = part
    places = [closing._replace(records=[record[:2] for record in closing.records]) for closing in held]
    # of a reason's later letters the clock decides: at most one a second
    return places, counts, {letter["reason"] for letter in letters}


def labels_in(part):
    return {record[0]: record[2] for closing in part[0] for record in closing.records if record[1]}


UNREADABLE = (b"{", b'{"y": "?"}', b"{}")
VALUES = st.sampled_from([b'{"y": 1}', b'{"y": 2}', b'{"y": 3}', None, *UNREADABLE])
MOMENTS = st.integers(0, 45).map(float)
LABEL = st.tuples(MOMENTS, st.integers(0, 1), MOMENTS, KEYS, VALUES, st.booleans()).map(
    lambda parts: LabelEntry(*parts[:2], parts[0] if parts[5] else parts[2], *parts[3:5])
)
"""Half of them have the time at which they came."""
LABELS = st.lists(LABEL, max_size=20)
KINDS = st.sampled_from(["record", "record", "record", "broken", "tombstone"])
RECORD = st.tuples(KEYS | st.none(), KINDS, st.sampled_from([0.0, 0.0, -5.0, 4.0]))
RECORDS = st.lists(RECORD, min_size=4, max_size=12).map(
    lambda parts: [Sent(number, *part) for number, part in enumerate(parts, 1)]
)
BOTH = pytest.mark.parametrize("slots", [by_count, by_time])


@BOTH
@given(records=RECORDS, labels=LABELS)
def test_the_label_that_counts_is_that_of_the_rule(slots, records, labels):
    part = closings(records, labels, slots)
    moments = {record[0]: closing.moment for closing in part[0] for record in closing.records}
    counted, keys = expected(records, labels, slots, moments), {one.number: one.key for one in records}
    for number, label in labels_in(part).items():
        assert keys[number] is None or label == counted[number]
    if slots is by_count:
        assert len(part[0]) == len(records) // SIZE


@BOTH
@given(
    records=RECORDS,
    labels=LABELS,
    place=st.integers(0, 20),
    change=st.sampled_from(["insert", "remove", "change", "spoil", "date"]),
    label=LABEL,
)
@examples(max_examples=200)
def test_a_label_moves_no_record_and_is_that_of_its_key_alone(slots, records, labels, place, change, label):
    place %= len(labels) + 1
    old = labels[place] if change != "insert" and place < len(labels) else None
    new = {
        "insert": label,
        "remove": None,
        "change": label,
        "spoil": old and old._replace(value=b"{"),
        "date": old and old._replace(time=label.time),
    }[change]
    other = [*labels[:place], *([] if new is None else [new]), *labels[place + (old is not None) :]]
    first, second = (closings(records, entries, slots) for entries in (labels, other))
    assert unlabelled(first) == unlabelled(second)
    touched = {entry.key for entry in (old, new) if entry is not None}
    keys, others = {one.number: one.key for one in records}, labels_in(second)
    for number, counted in labels_in(first).items():
        assert keys[number] in touched or counted == others[number]


@BOTH
@given(records=RECORDS, labels=LABELS, place=st.integers(0, 11), key=KEYS | st.none(), kind=KINDS)
def test_what_a_record_holds_changes_no_other_one_nor_its_label(slots, records, labels, place, key, kind):
    """By time a tombstone is no record, and takes no room: there each is a record, readable or not."""
    place %= len(records)
    if slots is by_time:
        records = [one._replace(kind=one.kind.replace("tombstone", "broken")) for one in records]
        kind = kind.replace("tombstone", "broken")
    changed = [*records[:place], records[place]._replace(key=key, kind=kind), *records[place + 1 :]]
    (first, *_), (second, *_) = (closings(version, labels, slots) for version in (records, changed))
    assert [closing[1:] for closing in first] == [closing[1:] for closing in second]
    differing = [
        pair
        for before, after in zip(first, second, strict=True)
        for pair in zip(before.records, after.records, strict=True)
        if pair[0] != pair[1]
    ]
    assert len(differing) <= 1
    for _, readable, _ in differing[0] if differing else ():
        assert not readable or records[place].number in {one[0] for one in differing[0]}


@given(records=RECORDS, labels=LABELS, place=st.integers(0, 12), record=RECORD)
def test_by_time_one_record_more_changes_its_own_slot_alone(records, labels, place, record):
    """It comes with the last one's arrival, dated as one of the others is: no other one is moved by that."""
    at = STEP * (place % len(records))
    extra = Sent(99, record[0], record[1], at - STEP * len(records))
    first, second = (closings(version, labels, by_time)[0] for version in (records, [*records, extra]))
    own = int((at + AFTER) // PERIOD)
    for round, (before, after) in enumerate(zip(first, second, strict=True)):
        assert round == own or before.records == after.records


@BOTH
@given(
    records=RECORDS,
    labels=LABELS,
    kills=st.dictionaries(st.integers(0, END - 10), st.booleans(), max_size=4),
)
def test_kills_at_any_moment_lose_and_double_no_record_nor_its_label(slots, records, labels, kills):
    """By count a process that begins anew may know less of records that are dated back, so none is here."""
    if slots is by_count:
        records = [one._replace(skew=0.0) for one in records]
    (undisturbed, *_), part = closings(records, labels, slots), closings(records, labels, slots, kills)
    placed = [[[one[:2] for one in closing.records] for closing in run] for run in (undisturbed, part[0])]
    assert placed[0][: len(placed[1])] == placed[1]
    assert not any(placed[0][len(placed[1]) :])
    moments = {one[0]: closing.moment for closing in part[0] for one in closing.records}
    counted, keys = expected(records, labels, slots, moments), {one.number: one.key for one in records}
    for number, label in labels_in(part).items():
        assert keys[number] is None or label == counted[number]
