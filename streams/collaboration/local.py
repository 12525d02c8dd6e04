"""Runs a collaboration in one process: the roles of its processes, on a bus in memory, through the codec."""

import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from nodes.accounting.spends import Spend
from nodes.collaboration.learner import LearnerMachine
from nodes.collaboration.messages import CollaborationNotice, QueryRecord, RecordSet, ResponseRecord, SetRead
from nodes.collaboration.owner import OwnerMachine
from nodes.protocol import Noticed
from streams.bus.memory import MemoryBroker, MemoryBus
from streams.codec import Refused
from streams.codec.envelope import PLAIN
from streams.codec.topics import MeshTopics
from streams.collaboration.file import CollaborationFile
from streams.collaboration.journals import OwnerSpend, open_learner_journal
from streams.collaboration.passes import Passes, fixed_sets
from streams.collaboration.roles import (
    LearnerRecords,
    LearnerRole,
    OwnerRecords,
    OwnerRole,
    learner_start,
    owner_start,
)
from streams.collaboration.wire import Wire
from streams.ledger import Reuse, known_spends
from streams.mesh.errors import UsageError, writable_folder
from streams.runtime.actions import Ended, ProcessWorld, at_once, in_memory
from streams.runtime.process import Failed
from streams.runtime.runner import Host, Role, Runner, is_orderly
from streams.state.folder import StateFolder


@dataclass(frozen=True, slots=True)
class OwnerMemory:
    """An owner's journal in memory."""

    instance: str
    kept: list[ResponseRecord] = field(default_factory=list)

    @property
    def records(self) -> tuple[ResponseRecord, ...]:
        """All answers, oldest first."""
        return tuple(self.kept)

    def append(self, record: ResponseRecord) -> None:
        """Append the answer."""
        self.kept.append(record)


@dataclass(frozen=True, slots=True)
class LearnerMemory:
    """The learner's journal in memory."""

    instance: str
    kept: list[QueryRecord] = field(default_factory=list)

    def records(self, limit: int | None = None) -> tuple[QueryRecord, ...]:
        """Return the last `limit` records (None: all), oldest first."""
        return tuple(self.kept if limit is None else self.kept[-limit:])

    def append(self, record: QueryRecord) -> None:
        """Append the record."""
        self.kept.append(record)


@dataclass(frozen=True, slots=True)
class CollaborationJournals:
    """The journals of the learner and of each owner."""

    learner: LearnerRecords
    owners: Mapping[str, OwnerRecords]

    @classmethod
    def in_memory(cls, file: CollaborationFile) -> "CollaborationJournals":
        """Return new journals in memory."""
        owners = {name: OwnerMemory(secrets.token_hex(16)) for name in sorted(file.mesh.owners)}
        return cls(LearnerMemory(secrets.token_hex(16)), owners)


class StateJournals:
    """The journals of one run in a state folder, open until `closing` is left.

    Journals of other runs are put aside. Raises UsageError, JournalError if a journal does not fit, or an
    owner's journal is a copy, as no log has the answers that the original may have given.
    """

    def __init__(
        self, file: CollaborationFile, state: Path, closing: ExitStack, *, other_data: bool = False
    ) -> None:
        self._file, self._state = file, state
        writable_folder(state)
        learner = closing.enter_context(open_learner_journal(file, state, secrets.token_hex(16)))
        self._spends = {
            name: OwnerSpend(file, name, state, other_data=other_data) for name in sorted(file.mesh.owners)
        }
        self._begun: dict[str, Spend] = {}
        self._owners = {
            name: closing.enter_context(spend.journal(secrets.token_hex(16)))
            for name, spend in self._spends.items()
        }
        for name, journal in self._owners.items():
            if journal.copied:
                raise UsageError(
                    f"{StateFolder(state).journal(name)}: is a copy, and nothing tells how far the original "
                    f"went: continue with that, or begin a new run"
                )
        self._closing, self.opened = closing, CollaborationJournals(learner, self._owners)

    def begin(self) -> None:
        """Record that the run continues."""
        for name, spend in self._spends.items():
            spend.begin(self._owners[name])
            self._begun[name] = spend.own
            self._closing.callback(spend.end, self._owners[name])

    def reuses(self) -> dict[str, Reuse]:
        """Return what is known of each owner's set, for its guarantee."""
        return known_spends(self._file, self._begun, self._state, own=self._begun)


def collaboration_topics(topics: MeshTopics, learner: str, owners: Mapping[str, object]) -> list[str]:
    """Return all topics of a collaboration."""
    names = [learner, *owners]
    return [
        topics.query,
        *map(topics.response, owners),
        *map(topics.progress, names),
        *map(topics.dead_letters, names),
    ]


class LocalCollaboration:
    """One run of a collaboration in this process. Each `advance` is one query.

    No owner is left out here: the learner waits for every owner. `sets` is a result of `fixed_sets`. Without
    it `fixed_sets` is called. It reads every set before the first query, and raises MeshFileError with each
    owner's mistakes. Raises UsageError if a journal does not fit. A query raises UsageError if an owner
    refuses it, or if theta diverges.
    """

    def __init__(
        self,
        file: CollaborationFile,
        journals: CollaborationJournals | None = None,
        sets: Mapping[str, tuple[Passes, RecordSet]] | None = None,
    ) -> None:
        self.file = file
        self.notices: Counter[CollaborationNotice] = Counter()
        self._journals = CollaborationJournals.in_memory(file) if journals is None else journals
        self._wire = Wire(file.resolved, PLAIN)  # nobody else writes here
        mesh = file.mesh
        self._broker = MemoryBroker(
            collaboration_topics(self._wire.topics, mesh.learner, mesh.owners), largest=2**40
        )
        fixed = fixed_sets(file, sorted(mesh.owners)) if sets is None else sets
        self.owners = {name: self._owner(name, *fixed[name]) for name in sorted(mesh.owners)}
        self._failure: Ended | None = None
        learner = LearnerRole(file, self._wire, self._journals.learner, secrets.token_hex(16))
        self._learner: LearnerMachine = learner.machine
        before = self._journals.learner.records(1)
        self._check_owners(before[-1].number - 1 if before else 0)
        bus = MemoryBus(self._broker)
        learner.presence.hello(bus, at_once)
        offsets = learner_start(self._journals.learner, self._wire, bus)
        role = learner.role(offsets, _LearnerWatcher(self), timeout=None, beat=None)
        self._begin(role, in_memory(self._broker, bus), self._learner_ended)

    @property
    def record(self) -> QueryRecord:
        """The learner's newest record: theta and the model so far."""
        return self._learner.record

    @property
    def answered(self) -> int:
        """The number of queries that are over."""
        return self.record.number - 1

    @property
    def done(self) -> bool:
        """Whether all queries are over."""
        return self._learner.halted

    def advance(self) -> bool:
        """Ask one query of all owners. Return False when the run is over.

        Raises UsageError if a query is refused.
        """
        before, was_done = self.record.number, self.done
        while self.record.number == before and not self.done and self._broker.deliver():
            pass
        if self.done:
            self._broker.run()  # so that all owners read that the run is over
        elif self.record.number == before:
            raise UsageError(f"query {before} is not answered: the journals must be the newest ones")
        if self._failure is not None:
            raise UsageError(str(self._failure))
        return not was_done

    def run(self) -> QueryRecord:
        """Run to the end; return the last record."""
        while self.advance():
            pass
        return self.record

    def _owner(self, name: str, passes: Passes, records: RecordSet) -> "LocalOwner":
        journal, bus = self._journals.owners[name], MemoryBus(self._broker)
        owner = OwnerRole(self.file, name, self._wire, journal, secrets.token_hex(16))
        owner.presence.hello(bus, at_once)
        # the learner asks again for missing answers, and the log is new, so all answers would be unsent
        start = owner_start(journal, name, self._wire, bus)._replace(unsent=())
        world = in_memory(self._broker, bus)
        role = owner.role(start, records, passes, world, _OwnerWatcher(self, name), beat=None)
        self._begin(role, world, _owner_ended)
        return LocalOwner(owner.machine)

    def _begin(self, role: Role, world: ProcessWorld, ended: Callable[[Ended], None]) -> None:
        Host([Runner(role, world, ended)], world.bus).begin()

    def _learner_ended(self, error: Ended) -> None:
        if not is_orderly(error):
            self._failure = error

    def _check_owners(self, over: int) -> None:
        """Raise UsageError for an owner that lacks an answer up to query `over`, the last completed query."""
        for name, owner in self.owners.items():
            if owner.machine.seen < over:
                raise UsageError(
                    f"owner {name}: its journal ends at query {owner.machine.seen}, the learner's at {over}: "
                    f"it must be the newest one, or the run a new one"
                )


@dataclass(frozen=True, slots=True)
class LocalOwner:
    """An owner of a run in this process."""

    machine: OwnerMachine


def _owner_ended(error: Ended) -> None:
    """End the run with an owner that has failed, before another owner is charged."""
    if isinstance(error, Failed):
        raise UsageError(str(error))
    if not is_orderly(error):
        raise error


_REFUSALS = {
    CollaborationNotice.CHANGED,
    CollaborationNotice.SKIPPED,
    CollaborationNotice.BEYOND,
    CollaborationNotice.PASSED,
    CollaborationNotice.FOREIGN,
}
"""The notices with which an owner refuses a query."""


@dataclass(frozen=True, slots=True)
class _OwnerWatcher:
    """Counts an owner's notices; a query that it refuses ends the run."""

    run: LocalCollaboration
    name: str

    def answered(self, record: ResponseRecord) -> None:
        """Do nothing."""

    def read(self, seconds: float, read: SetRead) -> None:
        """Do nothing."""

    def noticed(self, noticed: Noticed[CollaborationNotice]) -> None:
        """Count the notice. Raises Failed for a refusal."""
        self.run.notices[noticed.notice] += 1
        if noticed.notice in _REFUSALS:
            raise Failed(
                f"owner {self.name}: does not answer query {noticed.number}, as its journal knows another: "
                f"the journals must be the newest ones, or the run a new one"
            )

    def refused(self, refused: Refused) -> None:
        """Raise Failed, as no owner would answer."""
        raise Failed(f"owner {self.name}: cannot read a query: {refused}")


@dataclass(frozen=True, slots=True)
class _LearnerWatcher:
    """Counts the learner's notices; a response that it refuses ends the run."""

    run: LocalCollaboration

    def stepped(self, record: QueryRecord) -> None:
        """Do nothing."""

    def noticed(self, noticed: Noticed[CollaborationNotice]) -> None:
        """Count the notice."""
        self.run.notices[noticed.notice] += 1

    def refused(self, owner: str, refused: Refused) -> None:
        """Raise Failed, as the learner would wait for ever."""
        raise Failed(f"owner {owner}: its response is refused: {refused}")


def run_collaboration(file: CollaborationFile) -> QueryRecord:
    """Run a collaboration in this process, to its end; return its last record. Raises MeshFileError.

    Nothing is written to the disk, so the total spending of several runs on the same records is not counted.
    """
    return LocalCollaboration(file).run()
