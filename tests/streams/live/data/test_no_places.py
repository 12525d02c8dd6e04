"""What one message of a topic holds decides where no other one lies: with slots by time, and by count."""

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.events import OpenSlot
from nodes.machine.slots import Arrival, CountSlots, TimeSlots
from streams.codec.topics import DataTopics
from streams.live.data.stream import DataStream
from streams.mesh.settings.node import TopicSettings
from streams.records.decoder import SchemaDecoder
from streams.records.messages import Messages
from streams.records.record import WholeMessage
from tests.support.brokers.data_streams import numbers

SLOTS, PERIOD, SIZE = 4, 10.0, 2


def topic(*, own_times, where="where", **settings):
    schema = {"features": {"x": "number"}, "label": {"column": "y"}}
    places = {"where": "at", "where_headers": {"column": "at", "from": {"header": "at"}}}
    schema |= {"timestamp": places[where]} if own_times else {}
    tree = {"kind": "topic", "topic": "t", "schema": schema, where: {"op": "c"}}
    return TopicSettings.model_validate(tree | settings)


def message(number, kind, at):
    """A message whose record is the number; of what kind, and what time: in its value and its headers."""
    op, time = "u" if kind == "update" else "c", "?" if kind == "timeless" else at
    fields = {"x": number, "y": 0, "op": op, "at": time}
    values = {"tombstone": b"", "broken": b"{"}
    headers = [("op", op.encode()), ("at", str(time).encode())]
    return WholeMessage.of(values.get(kind, json.dumps(fields).encode()), None, headers)


def slots_of(messages, settings, slots):
    """The records of each slot, by their number."""
    decoder = SchemaDecoder(settings.record, Messages(settings))

    async def live():
        stream = DataStream(DataTopics("m", "a"), "r", slots, decoder, None, existing=settings)
        closed = asyncio.Queue()
        stream.begin((), closed.put_nowait, lambda: None).begin({0: (0, 10**6)})
        arrivals = [
            Arrival(0, k, at, message(number, kind, at)) for k, (number, kind, at) in enumerate(messages)
        ]
        await stream.take(arrivals)
        stream.settle(1e9)
        held, position = [], ()
        for round in range(1, SLOTS + 1):
            stream.open_slot(OpenSlot(round, position))
            if closed.empty():
                return held
            slot = closed.get_nowait()
            position = slot.position
            held.append(numbers(slot))
        return held

    return asyncio.run(live())


KINDS = st.sampled_from(["record", "record", "tombstone", "broken", "update", "timeless"])
TIMES = st.integers(-1, SLOTS * int(PERIOD)).map(float)
STREAMS = st.lists(st.tuples(KINDS, TIMES), max_size=14).map(
    lambda parts: [(k + 1, kind, at) for k, (kind, at) in enumerate(parts)]
)


def by_time():
    return TimeSlots(SIZE, start=0.0, period=PERIOD, grace=0.0)


WHERE = st.sampled_from(["where", "where_headers"])


@given(STREAMS, st.integers(0, 14), KINDS, TIMES, st.booleans(), WHERE)
def test_by_time_a_message_more_changes_no_slot_but_its_own(messages, place, kind, at, own_times, where):
    settings = topic(own_times=own_times, where=where)
    longer = [*messages[:place], (99, kind, at), *messages[place:]]
    own = int(at // PERIOD)
    for round, pair in enumerate(
        zip(*(slots_of(m, settings, by_time) for m in (messages, longer)), strict=True)
    ):
        assert round == own or pair[0] == pair[1]


@given(STREAMS, st.integers(0, 13), KINDS, WHERE)
def test_by_count_what_a_message_holds_changes_no_place(messages, place, kind, where):
    settings, size = topic(own_times=False, where=where), 3
    changed = [
        (number, kind if k == place else before, at) for k, (number, before, at) in enumerate(messages)
    ]
    first, second = (slots_of(m, settings, lambda: CountSlots(size)) for m in (messages, changed))
    assert len(first) == len(second) == min(SLOTS, len(messages) // size)
    for round, pair in enumerate(zip(first, second, strict=True)):
        assert [held for k, held in enumerate(pair[0]) if round * size + k != place] == [
            held for k, held in enumerate(pair[1]) if round * size + k != place
        ]


@given(STREAMS, WHERE)
def test_by_time_only_records_take_the_room_of_a_slot(messages, where):
    """Tombstones, and what is left out, come before the first of a slot are chosen."""
    records = [(number, kind, at) for number, kind, at in messages if kind in {"record", "broken"}]
    settings = topic(own_times=False, where=where)
    kinds = {"record", "broken", "update", "tombstone"}
    messages = [part for part in messages if part[1] in kinds]
    assert slots_of(messages, settings, by_time) == slots_of(records, settings, by_time)


def test_a_slot_by_time_holds_the_first_records_of_its_own_time():
    messages = [
        (1, "record", 3.0),
        (2, "update", 1.0),
        (3, "record", 2.0),
        (4, "record", 4.0),
        (5, "record", 12.0),
    ]
    assert slots_of(messages, topic(own_times=True), by_time)[:2] == [[3.0, 1.0], [5.0]]
