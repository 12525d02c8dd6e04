"""Runs the learner of a collaboration on a broker: its machine, its deadlines, its queries."""

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from nodes.collaboration.events import Notice
from nodes.collaboration.learner import LearnerMachine
from nodes.collaboration.messages import QueryRecord
from nodes.protocol import Halt, Noticed, StartDeadline, Stepped
from streams.bus.kafka import KafkaBus
from streams.bus.reader import KafkaReader
from streams.codec import Refused
from streams.live.learner_shell import LearnerPorts, LearnerShell
from streams.live.live_party import LiveParty
from streams.mesh.wire import Wire
from streams.runtime.deadlines import Deadlines
from streams.runtime.floods import DeadLetters
from streams.runtime.presence import Presence
from streams.runtime.process import ProcessExit, Unmendable
from streams.state.learner_journal import LearnerJournal


class LearnerWatcher(Protocol):
    """Observes a learner, one call at a time: metrics, the log."""

    def stepped(self, record: QueryRecord) -> None:
        """Note that a query is over, and the next one's record durable."""

    def noticed(self, noticed: Noticed[Notice]) -> None:
        """Take a notice of the machine."""

    def refused(self, owner: str, refused: Refused) -> None:
        """Note that an owner's response was refused."""


class LiveLearner:
    """The learner's machine on one bus. `timeout`: seconds until an owner is left out; None: never."""

    def __init__(
        self,
        machine: LearnerMachine,
        journal: LearnerJournal,
        presence: Presence,
        wire: Wire,
        bus: KafkaBus,
        timeout: float | None,
        watcher: LearnerWatcher,
    ) -> None:
        name, topics, owners = presence.who.name, wire.topics, wire.responses
        self._journal, self._topics, self._bus, self._watcher = journal, topics, bus, watcher
        records = journal.records()
        self._asked = max((one.number for one in records), default=0)
        self.party = LiveParty(presence, topics.progress(name), bus, lambda: self._asked, f"learner {name}")
        self._letters = DeadLetters.to(bus, topics.dead_letters(name))
        self._owners, self._timeout = tuple(owners), timeout
        ports = LearnerPorts(
            self._append,
            self._send,
            self._start_deadline,
            self._stepped,
            watcher.noticed,
            self._refuse,
            self._halt,
        )
        self._shell = LearnerShell(machine, records, owners, wire.whole.digest, ports)
        answers = tuple(map(topics.response, owners))
        self._deadlines = Deadlines(
            self.party.loop, self.party.clock, bus, answers, timeout, self._shell.deadline_passed
        )

    @property
    def asked(self) -> int:
        """The last query that was asked. From any thread."""
        return self._asked

    def run(self, offsets: Mapping[str, int]) -> None:
        """Ask until stopped; `offsets`: of the responses and the own heartbeats.

        Raises ProcessExit when all is asked, Unmendable where theta diverges, Failed, JournalError, BusError.
        """
        handlers = {
            self._topics.response(owner): partial(self._shell.response_read, owner) for owner in self._owners
        }
        self.party.run(offsets, handlers, self._begin)

    def _begin(self, reader: KafkaReader) -> None:
        self._deadlines.watch(reader)
        self._shell.start()

    def _append(self, record: QueryRecord) -> None:
        self._journal.append(record)
        self._asked = record.number

    def _send(self, value: bytes) -> None:
        self._deadlines.sent()
        self._bus.send(self._topics.query, value, self._deadlines.acknowledged)

    def _start_deadline(self, started: StartDeadline) -> None:
        if self._timeout is not None:
            self._deadlines.start(started)

    def _stepped(self, stepped: Stepped[QueryRecord]) -> None:
        self._watcher.stepped(stepped.record)

    def _refuse(self, owner: str, value: bytes, refused: Refused) -> None:
        self._watcher.refused(owner, refused)
        self._letters.write(self._topics.response(owner), value, refused)

    def _halt(self, halt: Halt) -> None:
        raise (Unmendable if halt.failed else ProcessExit)(halt.reason)
