"""Runs a collaboration in one process: the real machines and journals, owners and learner in turn."""

import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nodes.collaboration.events import (
    JournalQuery,
    JournalResponse,
    LearnerEvent,
    LearnerStarted,
    Notice,
    OwnerEvent,
    OwnerStarted,
    QueryArrived,
    ReadSet,
    ResponseArrived,
    SendQuery,
    SendResponse,
)
from nodes.collaboration.learner import LearnerMachine
from nodes.collaboration.messages import Query, QueryRecord, RecordSet, Response, ResponseRecord
from nodes.collaboration.owner import OwnerMachine
from nodes.protocol import Halt, Identity, Noticed
from streams.mesh.errors import UsageError
from streams.mesh.file import CollaborationFile
from streams.records.passes import Passes, fixed_sets


class OwnerRecords(Protocol):
    """An owner's journal."""

    @property
    def instance(self) -> str:
        """The journal's own id."""

    @property
    def records(self) -> tuple[ResponseRecord, ...]:
        """All answers, oldest first."""

    def append(self, record: ResponseRecord) -> None:
        """Keep the answer, durable when this returns."""


class LearnerRecords(Protocol):
    """The learner's journal."""

    @property
    def instance(self) -> str:
        """The journal's own id."""

    def records(self, limit: int | None = None) -> tuple[QueryRecord, ...]:
        """Return the last `limit` records (None: all), oldest first."""

    def append(self, record: QueryRecord) -> None:
        """Keep the record, durable when this returns."""


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
        """Keep the answer."""
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
        """Keep the record."""
        self.kept.append(record)


@dataclass(frozen=True, slots=True)
class StarJournals:
    """The journals of the learner and of each owner."""

    learner: LearnerRecords
    owners: Mapping[str, OwnerRecords]

    @classmethod
    def in_memory(cls, file: CollaborationFile) -> "StarJournals":
        """Return new journals in memory."""
        owners = {name: OwnerMemory(secrets.token_hex(16)) for name in sorted(file.mesh.owners)}
        return cls(LearnerMemory(secrets.token_hex(16)), owners)


class LocalCollaboration:
    """One run of a collaboration in this process: each `advance` is one query.

    Nobody is left out here: the learner waits for every owner. `sets` are what `fixed_sets` has found, which
    otherwise looks at every set before anything is asked: raises MeshFileError with each owner's mistakes,
    and UsageError if a journal does not fit. A query raises UsageError if an owner refuses it, or if theta
    diverges.
    """

    def __init__(
        self,
        file: CollaborationFile,
        journals: StarJournals | None = None,
        sets: Mapping[str, tuple[Passes, RecordSet]] | None = None,
    ) -> None:
        self.file = file
        self.notices: Counter[Notice] = Counter()
        self._asked: list[Query] = []
        self._journals = StarJournals.in_memory(file) if journals is None else journals
        held = fixed_sets(file, sorted(file.mesh.owners)) if sets is None else sets
        self.owners = {
            name: _Owner(file, name, self._journals.owners[name], *held[name], self._noticed)
            for name in sorted(file.mesh.owners)
        }
        mesh, journal = file.mesh, self._journals.learner
        identity = Identity(mesh.learner, mesh.run, journal.instance)
        self._learner = LearnerMachine(identity, file.resolved.step, file.resolved.records)
        before = journal.records(1)
        self._check_owners(before[-1].number - 1 if before else 0)
        self._tell_learner(LearnerStarted(before))

    @property
    def record(self) -> QueryRecord:
        """The learner's newest record: theta and the model so far."""
        return self._learner.record

    @property
    def answered(self) -> int:
        """The queries that are over."""
        return self.record.number - 1

    @property
    def done(self) -> bool:
        """Whether all queries are over."""
        return self._learner.halted

    def advance(self) -> bool:
        """Ask one query of all owners. Return False when the run is over. Raises UsageError for a refusal."""
        if self.done or not self._asked:
            return False
        query = self._asked.pop(0)
        # who has answered it before goes first: if it refuses now, no other owner is charged
        for name in sorted(self.owners, key=lambda name: self.owners[name].machine.seen < query.number):
            responses = self.owners[name].take(QueryArrived(query))
            if not responses:
                raise UsageError(
                    f"owner {name}: does not answer query {query.number}, as its journal knows another: the "
                    f"journals must be the newest ones, or the run a new one"
                )
            for response in responses:
                self._tell_learner(ResponseArrived(response))
        return True

    def run(self) -> QueryRecord:
        """Run to the end; return the last record."""
        while self.advance():
            pass
        return self.record

    def _check_owners(self, over: int) -> None:
        """Raise UsageError for an owner that has not answered up to query `over`, the last that is over."""
        for name, owner in self.owners.items():
            if owner.machine.seen < over:
                raise UsageError(
                    f"owner {name}: its journal ends at query {owner.machine.seen}, the learner's at {over}: "
                    f"it must be the newest one, or the run a new one"
                )

    def _tell_learner(self, event: LearnerEvent) -> None:
        for effect in self._learner.handle(event):
            match effect:
                case JournalQuery(record):
                    self._journals.learner.append(record)
                case SendQuery(query) if query.final:
                    for owner in self.owners.values():
                        owner.take(QueryArrived(query))
                case SendQuery(query):
                    self._asked.append(query)
                case Noticed():
                    self._noticed(effect)
                case Halt(reason, failed) if failed:
                    raise UsageError(reason)

    def _noticed(self, notice: Noticed[Notice]) -> None:
        self.notices[notice.notice] += 1


class _Owner:
    """One owner: machine, journal and passes."""

    def __init__(
        self,
        file: CollaborationFile,
        name: str,
        journal: OwnerRecords,
        own: Passes,
        held: RecordSet,
        noticed: Callable[[Noticed[Notice]], None],
    ) -> None:
        self._passes, self._journal, self._noticed = own, journal, noticed
        identity = Identity(name, file.mesh.run, journal.instance)
        self.machine = OwnerMachine(identity, file.mesh.learner, file.resolved.mechanism(name))
        self.take(OwnerStarted(held, journal.records))

    def take(self, event: OwnerEvent) -> list[Response]:
        """Take an event and carry out its effects; return the responses, each durable before."""
        sent: list[Response] = []
        waiting: list[OwnerEvent] = [event]
        while waiting:
            for effect in self.machine.handle(waiting.pop(0)):
                match effect:
                    case ReadSet():
                        read = self._passes.read(effect)
                        waiting += [] if read is None else [read]
                    case JournalResponse(record):
                        self._journal.append(record)
                    case SendResponse(response):
                        sent.append(response)
                    case Noticed():
                        self._noticed(effect)
                    case Halt(reason, failed) if failed:
                        raise UsageError(reason)
        return sent


def run_collaboration(file: CollaborationFile) -> QueryRecord:
    """Run a collaboration in this process, to its end; return its last record. Raises MeshFileError.

    Nothing is kept on the disk, so the total spending of several runs over the same records is not counted.
    """
    return LocalCollaboration(file).run()
