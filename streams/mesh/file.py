"""Loads a mesh file: `mesh`, public and shared by all parties; `nodes.<name>`, each party's own part; and
`brokers`, for a scheduler and for nodes that do not name their own.

`nodes.<name>` may be the path of a file with that node's part; so may the `schema` of a source be a path. If
a node's file is missing, it is with its owner. Paths are relative to the file that names them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from nodes.accounting.guarantee import Guarantee, Wait
from nodes.machine.slots import TimeSlots
from streams.codec.envelope import Envelope, SignedEnvelope
from streams.codec.topics import DataTopics
from streams.mesh import checks
from streams.mesh.compatibility import width_problems
from streams.mesh.errors import MeshFileError, as_path, check_type, texts, told_once
from streams.mesh.kind import FileKind, LazyFunction, LazyKind, OwnParts, read_file
from streams.mesh.mesh import Mesh
from streams.mesh.plugins import NO_CODE, Code, OwnSource
from streams.mesh.settings.brokers import BrokerSettings, CommonBrokers
from streams.mesh.settings.keys import private_key, public_of
from streams.mesh.settings.labels import LaterLabelsSettings
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import FileSettings, NodeSettings, OwnSourceSettings, TopicSettings
from streams.mesh.settings.sparse import SparseSettings

__all__ = [
    "KINDS",
    "NODES",
    "AnyFile",
    "MeshFile",
    "MeshFileError",
    "load",
    "load_any",
]


@dataclass(frozen=True)
class MeshFile(OwnParts[NodeSettings]):
    """A mesh file without mistakes.

    `nodes` has the nodes' own parts that are here, `elsewhere` the paths of those that are not. `held_out` is
    a file of labelled records that no node learns from; a run in one process scores its last decisions on
    these. `common` has the brokers of nodes that do not name their own. `code` tells which code of the user
    may run.
    """

    part: ClassVar[str] = "nodes"
    member: ClassVar[str] = "node"

    path: Path
    mesh: MeshSettings
    nodes: Mapping[str, NodeSettings]
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    held_out: FileSettings | SparseSettings | None = None
    common: CommonBrokers | None = None
    code: Code = NO_CODE

    def __post_init__(self) -> None:
        """Let the nodes' schemas read the column of the units."""
        unit = self.mesh.unit
        if unit is None:
            return
        nodes = dict(self.nodes)
        for name, part in self.nodes.items():
            source = part.source
            if isinstance(source, FileSettings | TopicSettings):
                schema = source.record.with_units(unit.column, unit.apart)
                source = source.model_copy(update={"record": schema})
                nodes[name] = part.model_copy(update={"source": source})
        object.__setattr__(self, "nodes", nodes)

    @property
    def kind(self) -> "FileKind[MeshFile]":
        """The kind of this file: a mesh of nodes."""
        return NODES

    @property
    def owns(self) -> Mapping[str, NodeSettings]:
        """The nodes' own parts that are here."""
        return self.nodes

    @property
    def members(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(self.mesh.nodes)

    @property
    def on_topics(self) -> tuple[str, ...]:
        """The nodes that are here. The records of each are on a topic of its data broker."""
        return tuple(self.nodes)

    @property
    def is_partitioned(self) -> bool:
        """Whether a topic of records may have more than one partition. It may in a mesh of nodes."""
        return True

    def data_topics(self, name: str) -> DataTopics:
        """Return the node's topics. The topic of its records may be one that the mesh did not create."""
        source = self.existing_topic(name)
        return DataTopics(self.mesh.name, name, None if source is None else source.topic)

    def existing_topic(self, node: str) -> TopicSettings | None:
        """Return the node's source if it is a topic that the mesh did not create; None also if its part is
        elsewhere.
        """
        part = self.nodes.get(node)
        return part.source if part is not None and isinstance(part.source, TopicSettings) else None

    def later_labels(self, node: str) -> LaterLabelsSettings | None:
        """Return the node's settings of labels that come later; None also if its part is elsewhere."""
        part = self.nodes.get(node)
        source = None if part is None else part.source
        return source.labels if isinstance(source, FileSettings | TopicSettings) else None

    def refuse_file_labels(self, node: str) -> None:
        """Raise MeshFileError if a node's later labels are in a file.

        A node on a broker needs them on a topic.
        """
        labels = self.later_labels(node)
        if labels is not None and labels.path is not None:
            text = "a file of labels is read by run alone: must be a topic"
            raise self.refuse(("nodes", node, "source", "labels", "path"), text, labels.path)

    def labels_broker(self, node: str) -> BrokerSettings:
        """Return the broker with the node's later labels: that of its records, unless they name another.

        Raises MeshFileError if there is none.
        """
        labels = self.later_labels(node)
        return self.records_broker(node) if labels is None or labels.broker is None else labels.broker

    def label_topics(self, names: Iterable[str]) -> dict[str, str]:
        """Return the topics of later labels that are on the nodes' data brokers. Raises MeshFileError."""
        return {
            name: labels.origin
            for name in names
            if (labels := self.later_labels(name)) is not None and labels.topic is not None
            if self.labels_broker(name) == self.brokers(name).data
        }

    def records_broker(self, node: str) -> BrokerSettings:
        """Return the broker with the node's records: its data broker, unless its source names another.

        Raises MeshFileError if there is none.
        """
        source = self.existing_topic(node)
        return self.brokers(node).data if source is None or source.broker is None else source.broker

    @property
    def with_own_loss(self) -> list[str]:
        """The nodes that have their own loss, different from the mesh's."""
        return [name for name, node in self.mesh.nodes.items() if node.loss]

    @property
    def target_speed(self) -> float | None:
        """The speed of the target that made-up sensors measure, per round; None if the target has no speed of
        its own.
        """
        return self.mesh.target.speed

    @property
    def named_brokers(self) -> list[BrokerSettings]:
        """All brokers that this file names, each once, the mesh broker first.

        Raises MeshFileError if there is none.
        """
        pairs = [(brokers.mesh, brokers.data) for brokers in map(self.brokers, self.nodes)]
        return list(dict.fromkeys([self.mesh_broker, *chain.from_iterable(pairs)]))

    def guarantee(self, node: str) -> Guarantee:
        """Return the guarantee of a node. It depends on the brokers that this file names."""
        return self.resolved.node(node).guarantee

    @cached_property
    def resolved(self) -> Mesh:
        """The mesh that the shared part describes, with what the nodes' own parts here add to their
        guarantees.
        """
        trusting = frozenset(name for name in self.mesh.nodes if self.trusts_broker(name))
        topics = {name: source for name in self.nodes if (source := self.existing_topic(name)) is not None}
        keyed = {name: source.record.of_keys for name, source in topics.items()}
        labelled = {name: labels for name in self.nodes if (labels := self.later_labels(name)) is not None}
        waits = {name: _wait(labels) for name, labels in labelled.items()}
        return Mesh(self.mesh, trusting, self.code, keyed, waits)

    @property
    def dimension(self) -> int:
        """The number of a decision's coordinates that the loss sees. The features of records must fit it."""
        return self.mesh.loss_dimension

    def digest(self) -> bytes:
        """Return 16 bytes that are equal iff the settings that all nodes must share are equal."""
        return self.mesh.digest()

    @property
    def unallowed(self) -> list[str]:
        """The user's own losses and sources that this file names and that may not run, each once."""
        losses = [self.mesh.loss_of(name).own for name in self.mesh.nodes]
        sources = [
            node.source.name for node in self.nodes.values() if isinstance(node.source, OwnSourceSettings)
        ]
        return [name for name in dict.fromkeys([*losses, *sources]) if name and not self.code.allows(name)]

    def code_of(self, node: str) -> list[str]:
        """Return the names of the user's code that the node's process must allow.

        Raises MeshFileError if one is not allowed here.
        """
        loss, names = self.mesh.loss_of(node), list[str]()
        if loss.own is not None:
            self.code.check_loss(loss.own, None if loss == self.mesh.loss else node)
            names.append(loss.own)
        source = self.nodes[node].source
        if isinstance(source, OwnSourceSettings):
            self.code.check_source(source.name, node)
            names.append(source.name)
        return [name for name in dict.fromkeys(names) if ":" in name]

    def make_code(self, nodes: Iterable[str]) -> None:
        """Make the user's own losses and sources of these nodes. Raises one MeshFileError with all mistakes.

        A caller that needs this code calls the method before it starts or writes anything.
        """
        wrong: list[str] = []
        for name in nodes:
            try:
                _ = self.resolved.node(name).loss
            except MeshFileError as error:
                wrong += error.lines
            if name in self.nodes and isinstance(self.nodes[name].source, OwnSourceSettings):
                try:
                    self.own_source(name)
                except MeshFileError as error:
                    wrong += error.lines
        if wrong:
            raise MeshFileError(told_once(wrong))

    def own_source(self, node: str) -> tuple[OwnSource, int]:
        """Return the source in the user's own code, and its dimension. Raises MeshFileError."""
        settings = self.nodes[node].source
        if not isinstance(settings, OwnSourceSettings):
            return super().own_source(node)
        source, width = self.code.source(settings.name, node)
        path = ("nodes", node, "source", "name")
        problems = width_problems(str(self.path), path, self.mesh, width)
        if problems:
            raise MeshFileError(problem.line for problem in problems)
        return source, width

    def trusts_broker(self, node: str) -> bool:
        """Return whether the mesh broker is known to store the node's records too, and is trusted."""
        part = self.nodes.get(node)
        brokers = self.common if part is None or part.brokers is None else part.brokers
        return part is not None and brokers is not None and brokers.trust_broker


NODES = FileKind(
    key=None,
    words="a mesh of nodes",
    file=MeshFile,
    part=MeshFile.part,
    shared=MeshSettings,
    own=NodeSettings,
    shared_problems=checks.shared_problems,
    own_problems=checks.own_problems,
    topics=LazyFunction("streams.bus.topic_specs:topics_of"),
    users=LazyFunction("streams.bus.rights:shared_users_of"),
    data_users=LazyFunction("streams.bus.rights:data_users_of"),
    account=LazyFunction("streams.status.account:node_account"),
    outcome=LazyFunction("streams.local.run:nodes_outcome"),
    model=LazyFunction("streams.tools.model.writing:nodes_model"),
    histories=LazyFunction("streams.simulation.search:MeshStage"),
    exported=LazyFunction("streams.tools.export.asked:nodes_files"),
    journals={},
    messages="plans and heartbeats",
    commands={
        "run": LazyFunction("streams.cli.run:run_nodes"),
        "simulate": LazyFunction("streams.cli.simulate:simulate"),
        "plan": LazyFunction("streams.cli.plan:plan_nodes"),
        "check": LazyFunction("streams.cli.check:check_nodes"),
        "tune": LazyFunction("streams.cli.tune:tune"),
        "forecast": LazyFunction("streams.cli.forecast:forecast_nodes"),
        "model": LazyFunction("streams.cli.model:model_of_nodes"),
        "predict --mesh": LazyFunction("streams.cli.model:predict"),
        "score": LazyFunction("streams.cli.score:score"),
        "provision": LazyFunction("streams.cli.provision:provision"),
        "scheduler": LazyFunction("streams.cli.processes:scheduler"),
        "end": LazyFunction("streams.cli.operate:end"),
        "node": LazyFunction("streams.cli.processes:node"),
        "leave": LazyFunction("streams.cli.operate:leave"),
        "feed": LazyFunction("streams.cli.feed:feed_nodes"),
        "up": LazyFunction("streams.cli.up:up_nodes"),
        "pardon": LazyFunction("streams.cli.operate:pardon"),
        "budget": LazyFunction("streams.cli.budget:budget_of_nodes"),
        "watch": LazyFunction("streams.cli.watch:watch_nodes"),
        "deadletters": LazyFunction("streams.cli.operate:node_letters"),
        "audit mechanism": LazyFunction("streams.cli.audit:audit_mechanisms"),
        "audit person": LazyFunction("streams.cli.audit:person"),
        "audit releases": LazyFunction("streams.cli.audit:audit_of_releases"),
        "export kubernetes": LazyFunction("streams.cli.export:kubernetes"),
        "export systemd": LazyFunction("streams.cli.export:systemd"),
        "export compose": LazyFunction("streams.cli.export:compose"),
    },
)
"""The kind of a mesh of nodes, each with its own stream."""

AnyFile = OwnParts[Any]
"""A mesh file of any kind."""

KINDS = (
    LazyKind(None, "streams.mesh.file:NODES"),
    LazyKind("collaboration", "streams.collaboration.file:COLLABORATION"),
)
"""All kinds of mesh files. A kind in a folder of its own is imported with the first file of that kind."""


def load(
    path: str | Path,
    environment: Mapping[str, str] | None = None,
    *,
    secrets: bool = True,
    code: Iterable[str] = (),
) -> MeshFile:
    """Load the file of a mesh. Raises MeshFileError with every mistake; WrongKind for a collaboration.

    Loading runs no user's code. A user's own losses and sources are loaded when they are needed, from entry
    points and from the names (module:attribute) that `code` allows. Raises UsageError for a wrong
    argument.
    """
    path, names = as_path("path", path), texts("code", code)
    if environment is not None:
        check_type("environment", environment, Mapping, "must be a mapping of texts, or None")
    return read_file(path, KINDS, [NODES], environment, secrets=secrets, code=names)


def load_any(
    path: Path,
    environment: Mapping[str, str] | None = None,
    *,
    secrets: bool = True,
    code: Iterable[str] = (),
) -> AnyFile:
    """Load a mesh file of any kind. Raises MeshFileError with every mistake found, one line each.

    `${NAME}` under `brokers` is replaced from `environment` (by default the process's own). Files of
    passwords, certificates and keys are read, unless `secrets` is False, for a file that another host will
    use.
    """
    return read_file(path, KINDS, None, environment, secrets=secrets, code=code)


# Tells which slots by time have ended at a given moment.

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def _wait(labels: LaterLabelsSettings) -> Wait:
    """Return the wait for labels. For labels in a file, it has a sentence in place of the waiting time."""
    wait = Wait(labels.after, labels.origin)
    if labels.path is None:
        return wait
    until = "whenever they came" if labels.came is None else f"up to {wait.words} after its time"
    return wait._replace(rule=f"a record has its labels in {labels.origin}, {until}")


def has_ended(file: MeshFile, now: float) -> bool:
    """Return whether every slot of the run had ended at `now`, in seconds since 1970."""
    slots, rounds = file.resolved.slots(), file.mesh.rounds
    return isinstance(slots, TimeSlots) and rounds is not None and slots.end(rounds) <= now


def begins(file: MeshFile, now: float) -> str:
    """Return when slot 1 begins relative to `now`, as text: in 12 s, 5 min ago."""
    slots = file.resolved.slots()
    seconds_ahead = slots.end(0) - now if isinstance(slots, TimeSlots) else 0.0
    return f"in {seconds_ahead:,.0f} s" if seconds_ahead > 0 else _ago(-seconds_ahead)


def refuse_ended(file: MeshFile, now: float) -> None:
    """Raise MeshFileError if every slot of the run had ended at `now`."""
    end = ended_slots(file, file.mesh.rounds, now)
    if end is not None and has_ended(file, now):
        allowed = f"{end}: must be later; with up --replay a mesh starts now, and all times move along"
        raise file.refuse(("mesh", "slots", "start"), allowed)


def ended_slots(file: MeshFile, rounds: int | None, now: float) -> str | None:
    """Return which slots had ended at `now`, and the consequence on a broker; None if slot 1 had not."""
    slots = file.resolved.slots()
    if not isinstance(slots, TimeSlots) or slots.end(1) > now:
        return None
    first = f"slot 1 ended {_ago(now - slots.end(1))}"
    if rounds is not None and slots.end(rounds) <= now:
        last = f", and slot {rounds:,}, the last, {_ago(now - slots.end(rounds))}" if rounds > 1 else ""
        return f"{first}{last}: on a broker no record enters a slot any more"
    if slots.round_of(now) <= file.mesh.horizon:
        return first
    return f"{first}: a run that begins now on a broker begins with slot {slots.round_of(now):,}"


def _ago(seconds: float) -> str:
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= 2 * size), (1, "s"))
    return f"{seconds / size:,.0f} {unit} ago"


# Makes the envelope of a process: it signs under the process's name, with the private key that the settings
# of its broker name.


def node_envelope(file: MeshFile, node: str) -> Envelope:
    """Return the envelope of a node's process.

    Raises MeshFileError if its key is missing or not the node's.
    """
    public_key = file.mesh.nodes[node].key
    return signing_envelope(file, file.brokers(node).mesh, {node: public_key or ""}, f"the node {node}")


def scheduler_envelope(file: MeshFile) -> Envelope:
    """Return the envelope of a scheduler's process. Raises MeshFileError as `node_envelope` does."""
    return signing_envelope(file, file.mesh_broker, file.mesh.schedulers, "a scheduler of mesh.schedulers")


def knows_writers(file: MeshFile, node: str) -> bool:
    """Return whether the writers on the node's mesh broker are known, by signatures or by their users."""
    return file.mesh.signatures == "required" or file.brokers(node).mesh.knows_writers


def signing_envelope(file: AnyFile, broker: BrokerSettings, keys: dict[str, str], whose: str) -> Envelope:
    """Return the envelope of a process that signs with its broker's key. `keys`: the public keys, by name.

    Raises MeshFileError if the key is missing or is none of `keys`. `whose` describes the allowed keys in
    words.
    """
    envelope: Envelope = file.resolved.envelope
    if not isinstance(envelope, SignedEnvelope):
        return envelope
    place = ("brokers", "mesh", "signing_key")
    if broker.signing_key is None:
        raise file.refuse(place, f"missing: must be the private key of {whose}, as signatures are required")
    key = private_key(broker.signing_key)
    signer = next((name for name, public_key in keys.items() if public_key == public_of(key)), None)
    if signer is None:
        raise file.refuse(place, f"must be the private key of {whose}", broker.signing_key)
    return envelope.signing(signer, key.sign)
