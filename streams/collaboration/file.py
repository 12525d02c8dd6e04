"""A mesh file of `kind: collaboration`: a learner and owners."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from nodes.checks import OutOfRange
from nodes.collaboration.owner import AnswerGuarantee
from streams.codec.envelope import Envelope
from streams.collaboration.settings import CollaborationSettings, OwnerSettings
from streams.collaboration.wire import Collaboration
from streams.mesh.checks import attempted, file_problems, printed
from streams.mesh.errors import Problem, as_path, one_of
from streams.mesh.file import KINDS, signing_envelope
from streams.mesh.kind import FileKind, LazyFunction, OwnParts, read_file
from streams.mesh.plugins import NO_CODE, Code
from streams.mesh.settings.brokers import BrokerSettings, CommonBrokers
from streams.mesh.settings.node import FileSettings
from streams.mesh.settings.sparse import SparseSettings


@dataclass(frozen=True)
class CollaborationFile(OwnParts[OwnerSettings]):
    """The checked file of a collaboration: like `MeshFile`, with `owners` in place of `nodes`."""

    part: ClassVar[str] = "owners"
    member: ClassVar[str] = "owner"

    path: Path
    mesh: CollaborationSettings
    owners: Mapping[str, OwnerSettings]
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    held_out: FileSettings | SparseSettings | None = None
    common: CommonBrokers | None = None
    code: Code = NO_CODE

    @property
    def kind(self) -> "FileKind[CollaborationFile]":
        """The kind of this file: a collaboration."""
        return COLLABORATION

    @property
    def owns(self) -> Mapping[str, OwnerSettings]:
        """The owners' own parts that are here."""
        return self.owners

    @property
    def members(self) -> tuple[str, ...]:
        """The owners' names."""
        return tuple(self.mesh.owners)

    @cached_property
    def resolved(self) -> Collaboration:
        """The collaboration that the shared part describes."""
        return Collaboration(self.mesh)

    def mesh_broker_of(self, owner: str) -> BrokerSettings:
        """Return the shared broker, as this owner connects to it. Raises MeshFileError if there is none."""
        brokers = self.own(owner).brokers
        return self.mesh_broker if brokers is None else brokers.mesh

    @property
    def on_topics(self) -> tuple[str, ...]:
        """The owners here whose set is a topic of their own broker."""
        return tuple(name for name, part in self.owners.items() if part.source and part.source.path is None)

    @property
    def is_partitioned(self) -> bool:
        """Whether a topic of records may have more than one partition: a set has no order."""
        return True

    @property
    def named_brokers(self) -> list[BrokerSettings]:
        """All brokers that this file names, each once, the shared one first.

        Raises MeshFileError if there is none.
        """
        shared = [self.mesh_broker_of(name) for name in self.owners]
        data = [self.brokers(name).data for name in self.on_topics]
        return list(dict.fromkeys([self.mesh_broker, *shared, *data]))

    def guarantee(self, owner: str) -> AnswerGuarantee:
        """Return the guarantee of an owner."""
        return self.resolved.guarantee(owner)

    @property
    def dimension(self) -> int:
        """The dimension d of theta."""
        return self.mesh.dimension

    def digest(self) -> bytes:
        """Return 16 bytes that are equal iff the settings that all must share are equal."""
        return self.mesh.digest()


def shared_problems(file: str, whole: Collaboration) -> list[Problem]:
    """Return the mistakes in the shared part. It builds what the settings describe."""
    settings = whole.settings
    wrong = attempted(file, ("constraint",), settings.constraint, lambda: whole.step)
    for name in settings.owners:
        try:
            whole.mechanism(name)
        except OutOfRange as error:
            wrong.append(_out_of_range(file, settings, name, error))
        except ValueError as error:
            wrong.append(Problem(file, ("mesh", "owners", name), str(error)))
    return wrong


def own_problems(
    file: str,
    settings: CollaborationSettings,
    named: tuple[str, ...],
    owners: Mapping[str, OwnerSettings],
    held_out: FileSettings | SparseSettings | None,
) -> list[Problem]:
    """Return the mistakes where owners' own parts do not fit the shared part.

    `named`: all owners in the file.
    """
    wrong = [
        Problem(file, ("owners", name), f"not an owner of the mesh: {one_of(settings.owners, name)}")
        for name in named
        if name not in settings.owners
    ]
    for name, part in owners.items():
        if part.source is not None:
            wrong += file_problems(file, ("owners", name, "source"), settings, part.source)
    if held_out is not None:
        wrong += file_problems(file, ("held_out",), settings, held_out)
    return wrong


_KEYS = {
    "theta": ("gradient_bound",),
    "the clip's bound": ("gradient_bound",),
    "queries": ("queries",),
    "sharing": ("sharing",),
    "dimension": ("dimension",),
}
"""The mesh file's keys of the settings that mechanisms name. Other settings are the owner's own."""


def _out_of_range(file: str, settings: CollaborationSettings, owner: str, error: OutOfRange) -> Problem:
    """Return the mistake at its key, and the owner that it concerns."""
    key = "records" if error.name == "batch_size" else error.name
    path = _KEYS.get(key, ("owners", owner, key))
    value = getattr(settings.owners[owner], key) if len(path) > 1 else getattr(settings, path[0])
    allowed = error.allowed if error.value == value else str(error)  # a derived value is out of range
    of = "" if len(path) > 1 else f" (for owner {owner})"
    return Problem(file, ("mesh", *path), f"{allowed}{of}", printed(value))


def load_collaboration(path: str | Path) -> CollaborationFile:
    """Load the file of a collaboration. Raises as `load`; WrongKind for a mesh of nodes."""
    return read_file(as_path("path", path), KINDS, [COLLABORATION], None, secrets=True, code=())


def party_envelope(file: CollaborationFile, name: str) -> Envelope:
    """Return the envelope of the learner's or an owner's process. Raises as `signing_envelope` does."""
    mesh = file.mesh
    if name == mesh.learner:
        keys = {name: mesh.learner_key or ""}
        return signing_envelope(file, file.mesh_broker, keys, f"the learner {name}")
    keys = {name: mesh.owners[name].key or ""}
    return signing_envelope(file, file.mesh_broker_of(name), keys, f"the owner {name}")


LEARNER_JOURNAL, OWNER_JOURNAL = 0x6D6D6B6C, 0x6D6D6B6F
"""The application ids of their journals: "mmkl", "mmko"."""

COLLABORATION = FileKind(
    key="collaboration",
    words="a collaboration",
    file=CollaborationFile,
    part=CollaborationFile.part,
    shared=CollaborationSettings,
    own=OwnerSettings,
    shared_problems=shared_problems,
    own_problems=own_problems,
    topics=LazyFunction("streams.collaboration.rights:topics_of"),
    users=LazyFunction("streams.collaboration.rights:shared_users_of"),
    data_users=LazyFunction("streams.collaboration.rights:data_users_of"),
    account=LazyFunction("streams.status.account:owner_account"),
    outcome=LazyFunction("streams.collaboration.outcome:collaboration_outcome"),
    model=LazyFunction("streams.tools.model.writing:collaboration_model"),
    histories=LazyFunction("streams.simulation.collaboration:CollaborationStage"),
    exported=LazyFunction("streams.tools.export.asked:collaboration_files"),
    journals={
        LEARNER_JOURNAL: LazyFunction("streams.collaboration.journals:learner_lives"),
        OWNER_JOURNAL: LazyFunction("streams.collaboration.journals:owner_lives"),
    },
    messages="queries and responses",
    commands={
        "run": LazyFunction("streams.cli.collaboration:run"),
        "simulate": LazyFunction("streams.cli.simulate:simulate"),
        "plan": LazyFunction("streams.cli.collaboration:plan"),
        "check": LazyFunction("streams.cli.collaboration:check"),
        "forecast": LazyFunction("streams.cli.forecast:forecast_collaboration"),
        "model": LazyFunction("streams.cli.collaboration:model"),
        "provision": LazyFunction("streams.cli.provision:provision"),
        "owner": LazyFunction("streams.cli.processes:owner"),
        "learner": LazyFunction("streams.cli.processes:learner"),
        "feed": LazyFunction("streams.cli.collaboration:feed"),
        "up": LazyFunction("streams.cli.collaboration:up"),
        "budget": LazyFunction("streams.cli.collaboration:budget"),
        "watch": LazyFunction("streams.cli.collaboration:watch"),
        "deadletters": LazyFunction("streams.cli.operate:party_letters"),
        "audit mechanism": LazyFunction("streams.cli.audit:audit_answers"),
        "audit releases": LazyFunction("streams.cli.audit:audit_of_responses"),
        "export kubernetes": LazyFunction("streams.cli.export:kubernetes"),
        "export systemd": LazyFunction("streams.cli.export:systemd"),
        "export compose": LazyFunction("streams.cli.export:compose"),
    },
)
"""The kind of a collaboration: a learner asks, and owners answer."""
