"""Starts and recovers a collaboration's processes on any bus: compares their journals with the bus's logs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from nodes.collaboration.messages import QueryRecord, Response, ResponseRecord
from nodes.collaboration.owner import digest
from streams.bus.bus import Bus, Unreachable
from streams.codec import Expected, Refused, decode_query, decode_response, encode_response
from streams.codec.topics import MeshTopics
from streams.runtime.presence import Presence
from streams.runtime.process import FLUSH, Ask, Failed

T = TypeVar("T")


class OwnerStart(NamedTuple):
    """The state of an owner when its machine starts.

    `records`: its journal's. `published`: the largest query that its topic holds an answer to. `unsent`: the
    bytes of journalled answers that the topic lacks. `offset`: that of the first query to read; `end`: where
    its topic ended.
    """

    records: tuple[ResponseRecord, ...]
    published: int
    unsent: tuple[bytes, ...]
    offset: int
    end: int


def say_hello(presence: Presence, topic: str, done: int, bus: Bus, ask: Ask) -> int:
    """Say hello, so that an older process of that name ends; return the offset to read the topic from."""
    first = ask(lambda: bus.end(topic))
    bus.send(topic, presence.beat(done, hello=True))

    def acknowledged() -> None:
        if not bus.flush(FLUSH):
            raise Unreachable("hello is not acknowledged yet")

    ask(acknowledged)
    return first


def owner_start(
    records: Sequence[ResponseRecord],
    instance: str,
    topics: MeshTopics,
    own: Expected,
    queries: Expected,
    bus: Bus,
    *,
    simulated: bool,
) -> OwnerStart:
    """Return where the owner continues. `own`: its responses; `queries`: the learner's.

    Raises BusError, and Failed if the topic holds an answer that the journal does not.
    """
    known = {
        one.query: encode_response(
            Response(own.run, own.source, instance, one.query, simulated, one.response), own.digest
        )
        for one in records
    }
    topic, said = topics.response(own.source), set[int]()
    for _, value, response in _messages(bus, topic, lambda value: decode_response(value, own)):
        said.add(response.query)
        if known.get(response.query) != value:
            raise Failed(
                f"{topic} holds an answer to query {response.query} that the journal does not: {_RESTORE}"
            )
    unsent = tuple(value for number, value in known.items() if number not in said)
    asked = {one.query: one.asked for one in records}
    end = bus.end(topics.query)
    offset = _first_new(bus, topics.query, queries, asked)
    return OwnerStart(tuple(records), max(said, default=0), unsent, offset, end)


def learner_start(
    records: Sequence[QueryRecord],
    instance: str,
    topics: MeshTopics,
    own: Expected,
    owners: Mapping[str, Expected],
    bus: Bus,
) -> dict[str, int]:
    """Return the offsets to read the owners' responses from. `own`: the learner's queries.

    Raises BusError, and Failed if queries were asked that the journal does not know.
    """
    known = {one.number: one.parameters.tobytes() for one in records}
    for _, _, query in _messages(bus, topics.query, lambda value: decode_query(value, own)):
        if query.instance != instance or known.get(query.number) != query.parameters.tobytes():
            raise Failed(
                f"{topics.query} holds query {query.number}, which this journal did not ask: {_RESTORE}"
            )
    number = max(known, default=1)
    return {topics.response(owner): _first_response(bus, topics, owner, owners, number) for owner in owners}


_RESTORE = "go on with the journal that it was made with, or begin a new run"


def _first_response(
    bus: Bus, topics: MeshTopics, owner: str, owners: Mapping[str, Expected], number: int
) -> int:
    """Return the offset of the first response to that query, or a later one."""
    topic = topics.response(owner)
    for offset, _, response in _messages(bus, topic, lambda value: decode_response(value, owners[owner])):
        if response.query >= number:
            return offset
    return bus.end(topic)


def _first_new(bus: Bus, topic: str, expected: Expected, asked: Mapping[int, bytes]) -> int:
    """Return the offset of the first query beyond those `asked`, or one of them at another theta, or final.

    `asked`: the digests of theta by number.
    """
    last = max(asked, default=0)
    for offset, _, query in _messages(bus, topic, lambda value: decode_query(value, expected)):
        known = asked.get(query.number)
        if query.final or query.number > last or known not in {None, digest(query.parameters)}:
            return offset
    return bus.end(topic)


def _messages(bus: Bus, topic: str, decode: Callable[[bytes], T]) -> Iterator[tuple[int, bytes, T]]:
    """Yield (offset, bytes, message) of a topic; what is refused is left out."""
    for record in bus.stored({topic: bus.span(topic)[0]})[topic]:
        try:
            yield record.offset, record.value, decode(record.value)
        except Refused:
            continue
