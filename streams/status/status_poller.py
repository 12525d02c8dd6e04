"""Polls brokers for a mesh's status, and reads a collaboration's from its heartbeats."""

import time
from collections import Counter
from contextlib import closing
from threading import Lock, Thread
from typing import NamedTuple

from streams.bus.bus import BusError, Denied, OffsetOutOfRange, UnknownTopic, Unreachable
from streams.bus.diagnosis import SILENT, why_silent
from streams.bus.logs import Logs
from streams.bus.mesh_log import MeshLog, messages
from streams.collaboration.file import CollaborationFile
from streams.collaboration.wire import Wire
from streams.mesh.file import MeshFile
from streams.runtime.process import Asked
from streams.status.mesh_status import KEPT, Entry, MeshStatus, Refusals, StatusTracker
from topology.plans import Chain, Plan, PlanRecord

# Polls the mesh broker for a mesh's status: new plans and heartbeats, and the number of dead letters.

BEATS = 32
"""The number of a node's heartbeats read first: enough to know its newest process."""
LETTERS = 5.0
"""Seconds between two reads of the number of dead letters."""


class TopicPoller:
    """Returns entries not read before. Close it when done. Raises MeshFileError if no broker is given.

    With `planning` the poller also records when a scheduler was last heard. `planner` is `time.monotonic` at
    the request that returned a new heartbeat of a scheduler; None before.
    """

    def __init__(self, file: MeshFile, *, planning: bool = False) -> None:
        mesh = file.mesh
        self._logs, self._file = Logs(file.mesh_broker), file
        self._log = MeshLog.of(file, self._logs)
        self._nodes, topics = tuple(mesh.nodes), self._log.topics
        beats = {topics.progress(name): BEATS for name in mesh.nodes}
        self._first = beats | {topics.topology: KEPT * mesh.horizon}
        self._offsets: dict[str, int] = {}
        self._chain = Chain(whole=False)
        self._asked = float("-inf")
        self.planner: float | None = None
        self._planning, self._beats = planning, 0
        self._lettered = {name: topics.dead_letters(name) for name in mesh.nodes}
        self._letters = dict[str, int]()
        self._counted = float("-inf")
        self._unread = Counter[str]()  # refused heartbeats, by topic

    def close(self) -> None:
        """Disconnect from the broker."""
        self._logs.close()

    def ask(self) -> list[Entry]:
        """Return new entries, each topic in its order; times are those of `time.monotonic`.

        Raises Unreachable (after half a second if it can), UnknownTopic, Denied.
        """
        entries = self._entries()
        if time.monotonic() - self._counted >= LETTERS:
            self._count_letters()
        return entries

    @property
    def refused(self) -> dict[str, Refusals]:
        """The numbers of refusals by node: dead letters that may be counted, and heartbeats since the first
        poll.
        """
        topics = self._log.topics
        return {
            name: Refusals(self._letters.get(name, 0), self._unread[topics.progress(name)])
            for name in self._nodes
        }

    def _entries(self) -> list[Entry]:
        if self._offsets:
            self._logs.end(self._log.topics.topology)  # a quick check whether the broker answers
        try:
            for topic in self._first.keys() - self._offsets.keys():
                self._offsets[topic] = self._log.tail(topic, self._first[topic])
        except UnknownTopic:
            raise UnknownTopic(self._absent()) from None
        try:
            news = list(self._log.news(self._nodes, self._offsets))
        except OffsetOutOfRange as error:  # entries were deleted, or the topic was recreated: begin again
            del self._offsets[error.topic]
            del self._unread[error.topic]
            return []
        since, self._asked = self._asked, time.monotonic()
        if self._planning and (end := self._logs.end(self._log.topics.scheduler)) > self._beats:
            self._beats, self.planner = end, self._asked
        entries: list[Entry] = []
        for topic, record, message in news:
            self._offsets[topic] = record.offset + 1
            # the sender's clock may be wrong, but a new entry was sent after the last request
            at = max(since, self._asked - max(0.0, time.time() - record.timestamp))
            if isinstance(message, PlanRecord):
                entries += [(plan, at) for plan in self._valid(message)]
            elif message is not None:
                entries.append((message, at))
            else:
                self._unread[topic] += 1
        return entries

    def _count_letters(self) -> None:
        """Count the dead letters ever written; a topic that may not be read is left out for good."""
        for name, topic in list(self._lettered.items()):
            try:
                self._letters[name] = self._logs.span(topic)[1]
            except (Denied, UnknownTopic):
                del self._lettered[name]
            except Unreachable:
                return  # the next read reports that
        self._counted = time.monotonic()

    def _valid(self, record: PlanRecord) -> tuple[Plan, ...]:
        """Return the record's plans if it is valid."""
        last = self._chain.last
        if last is not None and record.plans[0].follows > last.round:  # the first record read was void
            self._chain = Chain(whole=False)
        return record.plans if self._chain.take(record) else ()

    def _absent(self) -> str:
        """Return how many topics are missing, and what creates them."""
        file, absent = self._file, 0
        for topic in self._first:
            try:
                self._logs.partitions([topic])
            except UnknownTopic:
                absent += 1
        topics = f"{absent} of {len(self._first)} topics of run {file.mesh.run} missing"
        return f"{file.mesh_broker.servers}: {topics}: run mirrormesh provision {file.path}"


PERIOD = 0.5
"""Seconds between two requests to the broker."""


class StatusPoller(Thread):
    """Polls the broker, so that drawing and keys never wait for it."""

    def __init__(self, file: MeshFile, topics: TopicPoller) -> None:
        super().__init__(name="watch")
        self._file, self._topics, self._tracker = file, topics, StatusTracker(file.resolved)
        self._lock, self._ended = Lock(), Asked()
        self._began = time.monotonic()
        self._answered: float | None = None
        self._why = ""
        self._away, self._failed = False, False
        self._error: BusError | None = None

    def run(self) -> None:
        """Ask until the end, or until an error that waiting cannot fix."""
        try:
            while not self._ended.is_set():
                self._ask()
                self._ended.wait(PERIOD)
        except BusError as error:
            self._error = error
        finally:
            self._failed = True

    def end(self) -> None:
        """Stop asking; takes up to three seconds if the broker is away."""
        self._ended.set()
        self.join()

    @property
    def asked(self) -> bool:
        """Whether there was an answer, or a time-out."""
        return self._answered is not None or self._away

    def status(self) -> MeshStatus:
        """Return the state of the mesh as far as known. Raises the BusError that ended the polling."""
        if self._error is not None:
            raise self._error
        if self._failed:
            raise BusError("watching has failed")
        with self._lock:
            return self._tracker.status(time.monotonic())

    @property
    def gone(self) -> float | None:
        """The seconds since the broker's last answer, or since the first question; None while it answers."""
        return time.monotonic() - (self._answered or self._began) if self._away else None

    @property
    def planner(self) -> float | None:
        """When a scheduler was last heard, if that is recorded; None before."""
        return self._topics.planner

    @property
    def trouble(self) -> str:
        """Return a message if the broker is away; empty while it answers."""
        if not self._away:
            return ""
        silent = "" if self._answered is None else f" for {time.monotonic() - self._answered:,.0f} s"
        return (
            f"no answer from the broker {self._file.mesh_broker.servers}{silent}{self._why}: waiting for it"
        )

    def _ask(self) -> None:
        try:
            news = self._topics.ask()
        except Unreachable:
            if not self._away:
                reason = why_silent(self._file.mesh_broker)
                self._why = "" if reason == SILENT else f" ({reason})"
            self._away = True
            return
        with self._lock:
            self._tracker.take(news)
            self._tracker.refused(self._topics.refused)
        self._answered, self._away = time.monotonic(), False


# The progress of a collaboration, from the heartbeats of its learner and owners, which anybody may read.


class PartyStatus(NamedTuple):
    """One party. `query`: the last that it has asked or answered; `age`: seconds since its last heartbeat.

    `age` None: it was never heard in this run.
    """

    name: str
    query: int = 0
    age: float | None = None


def look(file: CollaborationFile) -> list[PartyStatus]:
    """Return the learner, then the owners. Raises BusError, MeshFileError if no broker is named."""
    with closing(Logs(file.mesh_broker)) as logs:
        log = MeshLog(Wire(file.resolved).topics, file.digest(), logs, envelope=file.resolved.envelope)
        return [_party(log, name) for name in (file.mesh.learner, *file.mesh.owners)]


def _party(log: MeshLog, name: str) -> PartyStatus:
    entries = log.heartbeats(name, last=2)
    if not messages(entries):
        return PartyStatus(name)
    last = next(entry for entry in reversed(entries) if entry.message is not None)
    query = max(beat.stepped for beat in messages(entries))
    return PartyStatus(name, query, max(0.0, time.time() - last.record.timestamp))
