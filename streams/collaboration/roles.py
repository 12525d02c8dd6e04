"""The roles of a collaboration: an owner answers the learner's queries, and the learner steps on the answers.

An owner answers from its journal, or by a pass over its set. It recovers from its journal, which holds all
its answers, and continues at the first query without an answer. If its topic lacks answers of the journal,
they are sent again. If its topic holds an answer that the journal lacks, the owner fails: the journal with
that answer was lost, and a new journal would draw the answer's noise again.

The learner recovers from its journal. It sends the newest query again, with the same bytes, and reads the
owners' topics from the first response to that query on. If its topic holds a query that the journal lacks,
the learner fails, as the journal with that query was lost.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from nodes.collaboration.learner import LearnerMachine
from nodes.collaboration.messages import (
    CollaborationNotice,
    JournalQuery,
    JournalResponse,
    LearnerStarted,
    OwnerStarted,
    Query,
    QueryArrived,
    QueryEvidence,
    QueryRecord,
    ReadSet,
    RecordSet,
    Response,
    ResponseArrived,
    ResponseEvidence,
    ResponseRecord,
    SendQuery,
    SendResponse,
    SetRead,
)
from nodes.collaboration.owner import OwnerMachine, digest
from nodes.protocol import Identity, Noticed, Stepped
from streams.bus.bus import Bus, BusError, Unreachable
from streams.bus.connection import LOGGER
from streams.codec import Reason, Refused
from streams.collaboration.file import CollaborationFile
from streams.collaboration.wire import Wire, encode_query, encode_response
from streams.log_events import LogEvent
from streams.mesh.errors import MeshFileError
from streams.runtime.actions import ProcessWorld
from streams.runtime.presence import Presence
from streams.runtime.process import AGAIN, Failed, Unmendable
from streams.runtime.runner import BEAT, Arrived, BadMessage, Pending, Role
from topology.plans import Heartbeat

T = TypeVar("T")

RESTORE = "continue with the journal that it was made with, or begin a new run"


class OwnerRecords(Protocol):
    """An owner's journal."""

    @property
    def instance(self) -> str:
        """The journal's own id."""

    @property
    def records(self) -> tuple[ResponseRecord, ...]:
        """All answers, oldest first."""

    def append(self, record: ResponseRecord) -> None:
        """Append the answer. It is durable when this returns."""


class SetPasses(Protocol):
    """Reads an owner's set of records."""

    def read(self, asked: ReadSet, wanted: Callable[[], bool]) -> SetRead | None:
        """Read the whole set once. Returns None as soon as it is no longer `wanted`."""


class OwnerWatcher(Protocol):
    """Observes an owner, one call at a time: metrics, the log."""

    def answered(self, record: ResponseRecord) -> None:
        """Note that an answer is durable."""

    def read(self, seconds: float, read: SetRead) -> None:
        """Record how long a pass took, and its result (private)."""

    def noticed(self, noticed: Noticed[CollaborationNotice]) -> None:
        """Handle a notice of the machine."""

    def refused(self, refused: Refused) -> None:
        """Note that a query was refused."""


class OwnerStart(NamedTuple):
    """The state of an owner when its machine starts.

    `records`: the journal's records. `published`: the largest query that the owner's topic has an answer to.
    `unsent`: the bytes of journalled answers that the topic lacks. `offset`: the offset of the first query to
    read; `end`: the end of the queries' topic at the start.
    """

    records: tuple[ResponseRecord, ...]
    published: int
    unsent: tuple[bytes, ...]
    offset: int
    end: int


def owner_start(journal: OwnerRecords, name: str, wire: Wire, bus: Bus) -> OwnerStart:
    """Return where the owner continues.

    Raises BusError, and Failed if its topic holds an answer that the journal does not.
    """
    records, topics, expected = journal.records, wire.topics, wire.responses[name]
    simulated = wire.whole.mechanism(name).simulated
    answers = {
        record.query: encode_response(
            Response(expected.run, name, journal.instance, record.query, simulated, record.response),
            expected.digest,
        )
        for record in records
    }
    topic, published = topics.response(name), set[int]()
    for _, value, response in messages(bus, topic, partial(wire.response, name)):
        published.add(response.query)
        if answers.get(response.query) != wire.envelope.unverified(value):
            raise Failed(
                f"{topic} holds an answer to query {response.query} that the journal does not: {RESTORE}"
            )
    sealed = wire.envelope.sealed
    unsent = tuple(sealed(answer) for number, answer in answers.items() if number not in published)
    end = bus.end(topics.query)
    offset = _first_new(bus, wire, {record.query: record.asked for record in records}, end)
    return OwnerStart(records, max(published, default=0), unsent, offset, end)


def _first_new(bus: Bus, wire: Wire, asked: Mapping[int, bytes], end: int) -> int:
    """Return the offset of the first query that is not in `asked`, has another theta there, or is final.

    `asked`: the digests of theta by number. `end`: the topic's end before this function reads it. Without
    such a query `end` is returned, as new queries may come while the topic is read.
    """
    last, topic = max(asked, default=0), wire.topics.query
    for offset, _, query in messages(bus, topic, wire.query):
        theta = asked.get(query.number)
        if query.final or query.number > last or theta not in {None, digest(query.parameters)}:
            return offset
    return end


def messages(bus: Bus, topic: str, decode: Callable[[bytes], T]) -> Iterator[tuple[int, bytes, T]]:
    """Yield (offset, bytes, message) of a topic, without refused messages."""
    for record in bus.stored({topic: bus.span(topic)[0]})[topic]:
        with suppress(Refused):
            yield record.offset, record.value, decode(record.value)


def presence(who: Identity, kind: str, wire: Wire, number: Callable[[], int]) -> Presence:
    """Return the presence of a learner's or owner's process; `number` returns its last query."""
    return Presence(
        who,
        kind,
        wire.topics.progress(who.name),
        wire.whole.digest,
        lambda: Heartbeat(who.run, who.name, who.instance, who.boot, number()),
        wire.envelope,
    )


def last_answered(records: Sequence[ResponseRecord]) -> int:
    """Return the number of the last query that a journal answers (0: none)."""
    return max((record.query for record in records), default=0)


class OwnerRole:
    """Makes the role of one owner's process. `done`: the last query that is answered."""

    def __init__(
        self,
        file: CollaborationFile,
        name: str,
        wire: Wire,
        journal: OwnerRecords,
        boot: str = "",
    ) -> None:
        self._wire, self._journal, self._name = wire, journal, name
        self.done = last_answered(journal.records)
        identity = Identity(name, file.mesh.run, journal.instance, boot)
        self.machine = OwnerMachine(identity, file.mesh.learner, wire.whole.mechanism(name))
        self.presence = presence(identity, "owner", wire, lambda: self.done)

    def role(
        self,
        start: OwnerStart,
        records: RecordSet,
        passes: SetPasses,
        world: ProcessWorld,
        watcher: OwnerWatcher,
        *,
        beat: float | None = BEAT,
    ) -> Role:
        """Return the role that continues at `start`, after `presence` has said hello.

        `records`: the owner's set at its current state. `beat`: as in `Role`.
        """
        topics, answers = self._wire.topics, self._wire.topics.response(self._name)
        reading = _Reading(passes, world, watcher, behind=start.end > start.offset)

        def kept(effect: JournalResponse, _: float) -> None:
            self.done = effect.record.query
            watcher.answered(effect.record)

        return Role(
            machine=self.machine,
            first=OwnerStarted(records, start.records, start.published),
            presence=self.presence,
            beat=beat,
            offsets={topics.query: start.offset},
            decode={topics.query: lambda read: [QueryArrived(self._wire.query(read.value))]},
            send={SendResponse: lambda effect: [(answers, self._encoded(effect.response))]},
            keep={JournalResponse: lambda effect: self._journal.append(effect.record)},
            later={ReadSet: reading.begin},
            report={Noticed: watcher.noticed},
            evidence={QueryEvidence: self._letters},
            unsent=[(answers, value) for value in start.unsent],
            letters=topics.dead_letters(self._name),
            ends={topics.query: start.end},
            caught_up=reading.catch_up,
            kept=kept,
            refused=lambda _, refused: watcher.refused(refused),
        )

    def _encoded(self, response: Response) -> bytes:
        return self._wire.envelope.sealed(encode_response(response, self._wire.whole.digest))

    def _letters(self, evidence: QueryEvidence) -> list[BadMessage]:
        query, first = evidence.query, evidence.first
        earlier = "" if first is None else f"query {query.number} was asked at {first.hex()}"
        reason = Reason.MALFORMED if first is None else Reason.SECOND_VALUE
        value = encode_query(query, self._wire.whole.digest)
        return [BadMessage(self._wire.topics.query, value, Refused(reason, earlier))]


class _Reading:
    """The pass over the set for the newest query. A pass ends early if another query replaces its query.

    `behind`: queries from before the start are not all read yet. No privacy is spent on queries that the
    learner has left behind, so the first pass waits for the newest query.
    """

    def __init__(
        self, passes: SetPasses, world: ProcessWorld, watcher: OwnerWatcher, *, behind: bool
    ) -> None:
        self._passes, self._world, self._watcher, self._behind = passes, world, watcher, behind
        self._newest: tuple[ReadSet, Pending] | None = None

    def begin(self, asked: ReadSet, pending: Pending) -> None:
        """Begin a pass in place of the one before."""
        self._newest = asked, pending
        if not self._behind:
            self._world.elsewhere(partial(self._read, asked, pending))

    def catch_up(self) -> None:
        """Begin the pass for the newest query, as all queries are read."""
        if self._behind:
            self._behind = False
            if self._newest is not None:
                self.begin(*self._newest)

    def _read(self, asked: ReadSet, pending: Pending) -> None:
        """Read the set. No exception shows a record."""
        start_time = self._world.clock()
        try:
            pass_result = self._read_once(asked, pending)
        except (MeshFileError, BusError) as error:
            pending.fail(Failed(str(error)))
        except Exception as error:  # noqa: BLE001 # it would end this thread alone; its text may show a record
            pending.fail(Failed(f"the set of records cannot be read: {type(error).__name__}"))
        else:
            if pass_result is not None:
                pending.answer(
                    partial(self._answer, asked, pending, pass_result, self._world.clock() - start_time)
                )

    def _read_once(self, asked: ReadSet, pending: Pending) -> SetRead | None:
        """Return the result of a pass; while the set's broker is away, try again."""

        def wanted() -> bool:
            return self._is_newest(asked, pending)

        while wanted():
            try:
                return self._passes.read(asked, wanted)
            except Unreachable as away:
                text = str(away)  # a kind is a text
                LOGGER.warning("waiting for the broker: %s", text, extra=LogEvent.BROKER_AWAY.of())
                time.sleep(AGAIN)
        return None

    def _answer(self, asked: ReadSet, pending: Pending, read: SetRead, seconds: float) -> SetRead | None:
        if not self._is_newest(asked, pending):
            return None
        self._watcher.read(seconds, read)
        return read

    def _is_newest(self, asked: ReadSet, pending: Pending) -> bool:
        return self._newest is not None and self._newest[0] is asked and not pending.over


class LearnerRecords(Protocol):
    """The learner's journal."""

    @property
    def instance(self) -> str:
        """The journal's own id."""

    def records(self, limit: int | None = None) -> tuple[QueryRecord, ...]:
        """Return the last `limit` records (None: all), oldest first."""

    def append(self, record: QueryRecord) -> None:
        """Append the record, durable when this returns."""


class LearnerWatcher(Protocol):
    """Observes a learner, one call at a time: metrics, the log."""

    def stepped(self, record: QueryRecord) -> None:
        """Note that a query is over, and the next one's record durable."""

    def noticed(self, noticed: Noticed[CollaborationNotice]) -> None:
        """Handle a notice of the machine."""

    def refused(self, owner: str, refused: Refused) -> None:
        """Note that an owner's response was refused."""


def learner_start(journal: LearnerRecords, wire: Wire, bus: Bus) -> dict[str, int]:
    """Return the offsets to read the owners' responses from.

    Raises BusError, and Failed if queries were asked that the journal does not know.
    """
    topics, records = wire.topics, journal.records()
    thetas = {record.number: record.parameters.tobytes() for record in records}
    for _, _, query in messages(bus, topics.query, wire.query):
        if query.instance != journal.instance or thetas.get(query.number) != query.parameters.tobytes():
            raise Failed(
                f"{topics.query} holds query {query.number}, which this journal did not ask: {RESTORE}"
            )
    number = max(thetas, default=1)
    return {topics.response(owner): _first_response(bus, wire, owner, number) for owner in wire.responses}


def _first_response(bus: Bus, wire: Wire, owner: str, number: int) -> int:
    """Return the offset of the first response to that query, or a later one."""
    topic = wire.topics.response(owner)
    end = bus.end(topic)  # before it is read: a response may come behind what is read
    for offset, _, response in messages(bus, topic, partial(wire.response, owner)):
        if response.query >= number:
            return offset
    return end


class LearnerRole:
    """Makes the role of one process of the learner. `asked`: the last query that was asked."""

    def __init__(self, file: CollaborationFile, wire: Wire, journal: LearnerRecords, boot: str = "") -> None:
        self._wire, self._journal = wire, journal
        self._before = journal.records()
        self.asked = self._before[-1].number if self._before else 0
        mesh, collaboration = file.mesh, file.resolved
        identity = Identity(mesh.learner, mesh.run, journal.instance, boot)
        self.machine = LearnerMachine(identity, collaboration.step, collaboration.influence)
        self.presence = presence(identity, "learner", wire, lambda: self.asked)

    def role(
        self,
        offsets: Mapping[str, int],
        watcher: LearnerWatcher,
        *,
        timeout: float | None,
        beat: float | None = BEAT,
    ) -> Role:
        """Return the role that reads responses from `offsets` on, after `presence` has said hello.

        `timeout`: seconds until an owner is left out of a query; None: never.
        """
        topics, owners = (
            self._wire.topics,
            {self._wire.topics.response(name): name for name in self._wire.responses},
        )

        def kept(effect: JournalQuery, _: float) -> None:
            self.asked = effect.record.number

        return Role(
            machine=self.machine,
            first=LearnerStarted(self._before),
            presence=self.presence,
            beat=beat,
            offsets=offsets,
            decode={topic: partial(self._arrived, owner) for topic, owner in owners.items()},
            send={SendQuery: lambda effect: [(topics.query, self._encoded(effect.query))]},
            keep={JournalQuery: lambda effect: self._journal.append(effect.record)},
            report={Stepped: lambda effect: watcher.stepped(effect.record), Noticed: watcher.noticed},
            evidence={ResponseEvidence: self._letters},
            peers=tuple(owners),
            timeout=timeout,
            letters=topics.dead_letters(self.presence.who.name),
            kept=kept,
            refused=lambda topic, refused: watcher.refused(owners[topic], refused),
            failure=Unmendable,
        )

    def _encoded(self, query: Query) -> bytes:
        return self._wire.envelope.sealed(encode_query(query, self._wire.whole.digest))

    def _arrived(self, owner: str, read: Arrived) -> list[ResponseArrived]:
        return [ResponseArrived(self._wire.response(owner, read.value))]

    def _letters(self, evidence: ResponseEvidence) -> list[BadMessage]:
        response = evidence.response
        topic = self._wire.topics.response(response.owner)
        values = (evidence.first, response.response)
        return [
            BadMessage(
                topic,
                encode_response(response._replace(response=value), self._wire.whole.digest),
                Refused(Reason.SECOND_VALUE),
            )
            for value in values
        ]
