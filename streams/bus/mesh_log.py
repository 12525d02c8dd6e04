"""Reads and decodes a mesh's topics, for a node's start and for commands that read from outside."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from nodes.machine.journal import ReleaseMessage
from streams.bus.bus import Stored, Stores
from streams.codec import Expected, Refused, decode_heartbeat, decode_plans, decode_release
from streams.codec.envelope import PLAIN, Envelope
from streams.codec.topics import MeshTopics
from streams.mesh.file import MeshFile
from topology.plans import Chain, Heartbeat, Plan, PlanRecord, SlotClock, valid_records

T = TypeVar("T")


class Entry(NamedTuple, Generic[T]):
    """A record of a topic, and its decoded message; None if the message was refused."""

    topic: str
    record: Stored
    message: T | None


def messages(entries: Iterable[Entry[T]]) -> list[T]:
    """Return the messages that were not refused, in order."""
    return [entry.message for entry in entries if entry.message is not None]


def valid(entries: Iterable[Entry[PlanRecord]], *, known: bool = False) -> list[Entry[PlanRecord]]:
    """Return the entries of valid records of plans. `known`: whether the first is known to be valid."""
    decoded_entries = [(entry, entry.message) for entry in entries if entry.message is not None]
    records = [record for _, record in decoded_entries]
    if known:
        chain = Chain(whole=False)
        chosen = [record for record in records if chain.take(record)]
    else:
        chosen = valid_records(records, whole=not decoded_entries or decoded_entries[0][0].record.offset == 0)
    valid_ids = set(map(id, chosen))
    return [entry for entry, record in decoded_entries if id(record) in valid_ids]


class MeshLog:
    """Reads the plans, heartbeats and releases of one run, each topic to its current end.

    A topic is read from the beginning of its log, or from a given offset, in order. To judge releases by
    plans, read the edges first, then the plans: a plan is in its log before the releases of its round.

    The codec refuses broken bytes, messages of another run, source or node, messages made under other
    settings, and releases outside their public bound. It also refuses messages without a right signature
    where signatures are required, and plans ahead of `clock` (None: slots by count). `refused` counts such
    records by (topic, reason), each time that one is read.

    Methods raise BusError as `stores` does, OffsetOutOfRange if a log was cut meanwhile.
    """

    def __init__(
        self,
        topics: MeshTopics,
        digest: bytes,
        stores: Stores,
        envelope: Envelope = PLAIN,
        clock: SlotClock | None = None,
    ) -> None:
        self.topics, self._digest, self._stores, self._envelope = topics, digest, stores, envelope
        self._clock = clock
        self.refused = Counter[tuple[str, str]]()

    @classmethod
    def of(cls, file: MeshFile, stores: Stores) -> "MeshLog":
        """Return the log of a file's mesh."""
        mesh = file.resolved
        return cls(mesh.topics, file.digest(), stores, mesh.envelope, mesh.clock)

    def tail(self, topic: str, count: int) -> int:
        """Return the offset of the last `count` records of a topic, or of its log's beginning."""
        first, end = self._stores.span(topic)
        return max(first, end - count)

    def plans(self, first: int | None = None) -> list[Entry[PlanRecord]]:
        """Return the records of plans from the offset `first` on, void ones included."""
        topic = self.topics.topology
        return list(self._read({topic: self._plans}, None if first is None else {topic: first}))

    def valid_plans(self) -> dict[int, Plan]:
        """Return the valid plans by round, in order."""
        return {plan.round: plan for record in messages(valid(self.plans())) for plan in record.plans}

    def names(self, node: str) -> bool:
        """Return whether a plan names the node, or counts earlier ones that did. The first call reads all."""
        return any(node in dict(plan.named) or plan.member(node) is not None for plan in self._all_plans)

    @cached_property
    def _all_plans(self) -> tuple[Plan, ...]:
        return tuple(plan for record in messages(self.plans()) for plan in record.plans)

    def heartbeats(self, node: str, last: int | None = None) -> list[Entry[Heartbeat]]:
        """Return the `last` heartbeats of a node; None: all."""
        topic = self.topics.progress(node)
        first = None if last is None else {topic: self.tail(topic, last)}
        return list(self._read({topic: self._heartbeat(node)}, first))

    def news(
        self, nodes: Iterable[str], offsets: Mapping[str, int]
    ) -> Iterator[Entry[PlanRecord | Heartbeat]]:
        """Yield all records of plans, and the heartbeats of these nodes, from the topics' `offsets` on.

        All topics are read in one pass.
        """
        decoders: dict[str, Callable[[Stored], PlanRecord | Heartbeat]] = {
            self.topics.progress(node): self._heartbeat(node) for node in nodes
        }
        return self._read(decoders | {self.topics.topology: self._plans}, offsets)

    def releases(
        self, expected: Expected, targets: Iterable[str]
    ) -> Iterator[tuple[str, bytes, ReleaseMessage]]:
        """Yield (target, bytes, release) of a source's edges to these targets, all read in one pass.

        The bytes are those of the release, without its signature.
        """
        for target, value, release, _ in self.timed_releases(expected, targets):
            yield target, value, release

    def timed_releases(
        self, expected: Expected, targets: Iterable[str]
    ) -> Iterator[tuple[str, bytes, ReleaseMessage, float]]:
        """Yield what `releases` does, and when each was sent, in seconds since 1970 by the source's clock."""
        readers: dict[str, list[str]] = {}
        for target in targets:
            readers.setdefault(self.topics.edge(expected.source, target), []).append(target)
        unwrap, source = self._envelope.of_node, expected.source
        decode = dict.fromkeys(readers, lambda one: decode_release(unwrap(one.value, source), expected))
        for topic, record, message in self._read(decode):
            if message is not None:
                value = self._envelope.unverified(record.value)
                for target in readers[topic]:
                    yield target, value, message, record.timestamp

    def _plans(self, record: Stored) -> PlanRecord:
        value = self._envelope.of_scheduler(record.value)
        return decode_plans(value, self.topics.run, self._digest, self._clock, record.appended)

    def _heartbeat(self, node: str) -> Callable[[Stored], Heartbeat]:
        unwrap, run = self._envelope.of_node, self.topics.run
        return lambda record: decode_heartbeat(unwrap(record.value, node), run, node, self._digest)

    def _read(
        self, decoders: Mapping[str, Callable[[Stored], T]], offsets: Mapping[str, int] | None = None
    ) -> Iterator[Entry[T]]:
        if offsets is None:
            offsets = {topic: self._stores.span(topic)[0] for topic in decoders}
        for topic, records in self._stores.stored(offsets).items():
            for record in records:
                try:
                    yield Entry(topic, record, decoders[topic](record))
                except Refused as refused:
                    self.refused[topic, refused.reason.value] += 1
                    yield Entry(topic, record, None)
