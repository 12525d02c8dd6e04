"""Runs one owner of a collaboration on a broker: its machine, its passes over the set, its answers."""

import time
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Protocol

from nodes.collaboration.events import Notice, ReadSet, SetRead
from nodes.collaboration.messages import RecordSet, ResponseRecord
from nodes.collaboration.owner import OwnerMachine
from nodes.protocol import Halt, Noticed
from streams.bus.bus import BusError, Unreachable
from streams.bus.connection import LOGGER
from streams.bus.kafka import KafkaBus
from streams.bus.reader import KafkaReader
from streams.codec import Refused
from streams.live.live_party import LiveParty
from streams.live.owner_shell import OwnerPorts, OwnerShell
from streams.live.party_start import OwnerStart
from streams.mesh.errors import MeshFileError
from streams.mesh.wire import Wire
from streams.runtime.floods import DeadLetters
from streams.runtime.presence import Presence
from streams.runtime.process import AGAIN, Failed, ProcessExit
from streams.state.owner_journal import OwnerJournal


class Passes(Protocol):
    """Reads an owner's set of records."""

    def fixed(self) -> RecordSet:
        """Return the set as it stands."""

    def read(self, asked: ReadSet, wanted: Callable[[], bool]) -> SetRead | None:
        """Read the whole set once; None as soon as it is not `wanted` any more."""


class OwnerWatcher(Protocol):
    """Observes an owner, one call at a time: metrics, the log."""

    def answered(self, record: ResponseRecord) -> None:
        """Note that an answer is durable."""

    def read(self, seconds: float, read: SetRead) -> None:
        """Take how long a pass took, and what it found (private)."""

    def noticed(self, noticed: Noticed[Notice]) -> None:
        """Take a notice of the machine."""

    def refused(self, refused: Refused) -> None:
        """Note that a query was refused."""


class LiveOwner:
    """One owner's machine on one bus. A pass over the set has a thread of its own."""

    def __init__(
        self,
        machine: OwnerMachine,
        start: OwnerStart,
        journal: OwnerJournal,
        passes: Passes,
        presence: Presence,
        wire: Wire,
        bus: KafkaBus,
        watcher: OwnerWatcher,
    ) -> None:
        self._name, topics = presence.who.name, wire.topics
        name = self._name
        self._start, self._journal, self._passes, self._watcher = start, journal, passes, watcher
        self._topics, self._bus, self._answers = topics, bus, topics.response(name)
        self._done = max((one.query for one in start.records), default=0)
        self.party = LiveParty(presence, topics.progress(name), bus, lambda: self._done, f"owner {name}")
        self._letters = DeadLetters.to(bus, topics.dead_letters(name))
        self._wanted: ReadSet | None = None
        self._behind = True  # queries from before the start are not all read yet
        ports = OwnerPorts(
            self._append, self._send, self._read_set, watcher.noticed, self._refuse, self._halt
        )
        self._shell = OwnerShell(machine, start, wire.queries, ports)

    @property
    def done(self) -> int:
        """The last query that is answered. From any thread."""
        return self._done

    def run(self, records: RecordSet, progress: int) -> None:
        """Answer until stopped; `progress`: where to read the own heartbeats from.

        Raises ProcessExit when all is answered, Failed, JournalError, BusError.
        """
        offsets = {self._topics.query: self._start.offset, self._topics.progress(self._name): progress}
        try:
            self.party.run(
                offsets,
                {self._topics.query: self._shell.query_read},
                partial(self._begin, records),
            )
        finally:
            self._wanted = None

    def _begin(self, records: RecordSet, reader: KafkaReader) -> None:
        self._shell.start(records)
        ends = {self._topics.query: self._start.end}
        reader.when_read(ends, lambda: self.party.loop.put(self._caught_up))

    def _caught_up(self) -> None:
        """Begin the pass for the newest query: nothing is spent on those that the learner has left behind."""
        self._behind = False
        if self._wanted is not None:
            self._read_set(self._wanted)

    def _append(self, record: ResponseRecord) -> None:
        self._journal.append(record)
        self._done = record.query
        self._watcher.answered(record)

    def _send(self, value: bytes) -> None:
        self._bus.send(self._answers, value)

    def _refuse(self, value: bytes, refused: Refused) -> None:
        self._watcher.refused(refused)
        self._letters.write(self._topics.query, value, refused)

    def _halt(self, halt: Halt) -> None:
        raise (Failed if halt.failed else ProcessExit)(halt.reason)

    def _read_set(self, asked: ReadSet) -> None:
        self._wanted = asked
        if self._behind:
            return
        Thread(target=self._pass, args=(asked,), name="pass", daemon=True).start()

    def _pass(self, asked: ReadSet) -> None:
        """Read the set, in a thread of its own. No exception shows a record."""
        began = time.monotonic()
        try:
            read = self._read_once(asked)
        except (MeshFileError, BusError) as error:
            self.party.loop.fail(Failed(str(error)))
        except Exception as error:  # noqa: BLE001 # it would end this thread alone; its text may show a record
            self.party.loop.fail(Failed(f"the set of records cannot be read: {type(error).__name__}"))
        else:
            if read is not None:
                self.party.loop.put(partial(self._take, asked, read, time.monotonic() - began))

    def _read_once(self, asked: ReadSet) -> SetRead | None:
        """Return what a pass gives; while the set's broker is away, try again."""
        while self._wanted is asked:
            try:
                return self._passes.read(asked, lambda: self._wanted is asked)
            except Unreachable as away:
                LOGGER.warning("waiting for the broker: %s", str(away))  # a kind is a text
                time.sleep(AGAIN)
        return None

    def _take(self, asked: ReadSet, read: SetRead, seconds: float) -> None:
        if self._wanted is asked:
            self._watcher.read(seconds, read)
            self._shell.set_read(read)
