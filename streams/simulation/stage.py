"""Makes the scene of a history: the mesh, its keys, its seeded noise, and the faults."""

import hashlib
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import islice
from math import inf
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodes.learner import Learner
from nodes.privacy.exact import SimulatedSampler
from nodes.values import BoolArray, FloatArray, IntArray
from streams.codec.envelope import SignedEnvelope
from streams.local.mesh import MeshParts, NodeParts
from streams.local.run import mesh_parts
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.mesh.mesh import Mesh
from streams.mesh.settings.files import read_yaml
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import NodeOverrides
from streams.mesh.settings.rule import written_out
from streams.records.decoder import SchemaDecoder
from streams.records.record import RawRecord
from streams.simulation.disk import has_disks
from streams.simulation.faults import FaultKind, InjectedFault, drawn_faults
from streams.simulation.labels import DrawnLabels, dated, drawn_labels
from topology.keyed import generator
from topology.lag import LagLimits
from topology.plans import SlotClock

# The noise of a simulated history. It differs in each draw, and is the same when the history is run again.


@dataclass(eq=False, slots=True)
class CountedNoise:
    """Seeded noise that differs in each draw, so that a check sees if a release is drawn twice.

    With `again` it repeats the newest draws of that source. `draws` counts the draws by kind and round.
    `drawn` lists the draws as (kind, round, scale) since it was last emptied.
    """

    seed: int
    node: str
    again: "CountedNoise | None" = None
    simulated: bool = field(default=True, init=False)
    draws: Counter[tuple[str, int]] = field(default_factory=Counter, init=False)
    drawn: list[tuple[str, int, float]] = field(default_factory=list, init=False)

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values` plus the noise of the next draw in `round`."""
        return self._next("laplace", round, scale).laplace(round, values, scale)

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values` plus the noise of the next draw in `round`."""
        return self._next("gaussian", round, scale).gaussian(round, values, scale)

    def sphere(self, round: int, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """Return the directions and numbers of the next draw in `round`."""
        return self._next("sphere", round).sphere(round, shape)

    def randomised(self, round: int, bits: BoolArray, epsilon: Fraction) -> BoolArray:
        """Return `bits`, each kept or flipped by the coins of the next draw in `round`."""
        return self._next("coin", round, float(epsilon)).randomised(round, bits, epsilon)

    def _next(self, kind: str, round: int, scale: float = 0.0) -> SimulatedSampler:
        key = kind, round
        if self.again is None:
            self.draws[key] += 1
            self.drawn.append((kind, round, scale))
        number = (self.again or self).draws[key]
        return SimulatedSampler(self.seed, f"{self.node} {number}")


# The signatures of simulated meshes. The keys are the same in every history, so they protect nothing.

PLANNER = "planner"
"""The name of all schedulers. A node may have it too, as each kind of message has its own signers."""


@cache
def key_of(whose: str) -> Ed25519PrivateKey:
    """Return the private key of a node, a scheduler or a stranger."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(whose.encode()).digest())


def signed(parts: MeshParts) -> MeshParts:
    """Return the parts of a mesh in which each node and each scheduler signs."""
    topics = parts.topics
    nodes = {name: _public(f"node {name}") for name in parts.nodes}
    envelope = SignedEnvelope(topics.mesh, topics.run, parts.digest, nodes, {PLANNER: _public(PLANNER)})
    return replace(
        parts,
        envelopes={name: envelope.signing(name, key_of(f"node {name}").sign) for name in nodes},
        planner=envelope.signing(PLANNER, key_of(PLANNER).sign),
    )


def _public(whose: str) -> bytes:
    return key_of(whose).public_key().public_bytes_raw()


# The meshes of simulated histories: a mesh file's, with settings and faults that a seed draws.

HORIZONS = (4, 8)
LEARNS = (None, 5, 9)
"""The number of rounds after which the budget is spent, for a mesh file without a budget. None: no budget."""
OWN = (None, None, Fraction(1, 2), Fraction(3, 2))
"""One node's own epsilon divided by the mesh's, for a mesh file without such epsilons. None: no own
epsilon."""
ROUNDS = (8, 24)
SIGNED, CLOCKED = 0.25, 0.2
"""The shares of histories whose messages are signed, and of those whose rounds follow a clock."""
APPENDS = (0.0, 0.0, 0.02, 0.3)
"""The longest times of an append, in seconds."""
HOSTED = 0.25
"""The share of histories in which two nodes share a process."""
ON_DISKS = 0.1
"""The share of histories whose journals are files on simulated disks."""
EVENTS = 12
"""The approximate number of events of a node's round, without faults."""
SPARE = 24
"""The number of rounds for which a source has records beyond those planned, as a new journal skips some."""


@dataclass(frozen=True, slots=True)
class SimulationSetting:
    """The times in seconds, and the sizes, of one history.

    `signed`: whether messages are signed. `clocked`: whether rounds follow a clock, as with slots by time.
    `slow`: for how long a member that steps may delay the others, and a node its neighbours. `append_time`:
    the longest append in another thread (0: appends are done in the turn). `hosted`: whether the first two
    nodes share a process, in which appends are never done in the turn. `on_disks`: whether journals are the
    product's files, on simulated disks.
    """

    seed: int
    horizon: int
    rounds: int
    slot_time: float
    round_timeout: float
    silence: float
    signed: bool
    clocked: bool
    slow: float
    append_time: float
    hosted: bool
    on_disks: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """What one history begins with.

    `parts` are those of the newest mesh file. `files` has each file's tree and parts by generation. There are
    two files if a newer one comes while the mesh runs. `noise` is that of the nodes' draws. `again` has the
    learners that repeat the newest draws. `labels` has those of nodes whose labels come later, on a topic.
    """

    setting: SimulationSetting
    parts: MeshParts
    files: dict[int, tuple[dict[str, Any], MeshParts]]
    noise: dict[str, CountedNoise]
    again: dict[str, Learner]
    records: dict[str, tuple[RawRecord, ...]]
    faults: tuple[InjectedFault, ...]
    labels: dict[str, DrawnLabels]


class Stage:
    """Makes the scene of any seed from one mesh file. Raises MeshFileError, UsageError."""

    def __init__(self, file: MeshFile) -> None:
        if len(file.mesh.nodes) < 3:
            raise UsageError(f"{file.path}: a mesh of {len(file.mesh.nodes)}: must have 3 nodes to simulate")
        self._file, self._tree = file, read_yaml(file.path)
        if file.mesh.rule is not None:
            self._tree = self._tree | {"mesh": written_out(file.mesh, self._tree["mesh"])}
        size = file.mesh.slots.size
        parts = mesh_parts(file, rounds=1, labels_apart=True)
        self._decoders = {name: node.decoder for name, node in parts.nodes.items()}
        record_limit = (ROUNDS[1] + SPARE) * size
        self._records = {
            name: tuple(islice(node.records, record_limit)) for name, node in parts.nodes.items()
        }
        shortest = min(map(len, self._records.values())) // size
        self._rounds = min(ROUNDS[1], max(1, shortest - SPARE))
        self._variant = cache(self._made)

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(self._records)

    def scene(self, seed: int, keep: tuple[int, ...] | None = None) -> Scene:
        """Return the scene of a seed. Of its faults it has only those at the indices `keep`, if given."""
        random = generator("simulation", seed)
        names = self.names
        threads = generator("threads", seed)
        horizon, learns = int(random.choice(HORIZONS)), LEARNS[int(random.integers(len(LEARNS)))]
        setting = SimulationSetting(
            seed,
            horizon,
            min(self._rounds, int(random.integers(ROUNDS[0], ROUNDS[1] + 1))),
            slot_time=float(random.choice([0.1, 0.25])),
            round_timeout=float(random.choice([0.3, 1.0, 2.0])),
            silence=float(random.choice([1.5, 3.0])),
            signed=bool(random.random() < SIGNED),
            clocked=bool(random.random() < CLOCKED),
            slow=float(random.choice([inf, inf, 0.3, 1.0])),
            append_time=float(threads.choice(APPENDS)),
            hosted=bool(threads.random() < HOSTED),
            on_disks=bool(generator("disks", seed).random() < ON_DISKS) and has_disks(),
        )
        faults = drawn_faults(random, names, EVENTS * len(names) * setting.rounds)
        if keep is not None:
            faults = tuple(fault for place, fault in enumerate(faults) if place in keep)
        own_epsilon = OWN[int(generator("own epsilon", seed).integers(len(OWN)))]
        variants = [self._variant(horizon, learns, own_epsilon, earlier=False)]
        if any(fault.kind is FaultKind.NEW_FILE for fault in faults):
            variants.insert(0, self._variant(horizon, learns, own_epsilon, earlier=True))
        mesh = variants[-1].mesh
        noise = {name: CountedNoise(seed, name) for name in names}
        files_again = {
            name: mesh.node(name).learner_with(CountedNoise(seed, name, drawn_last))
            for name, drawn_last in noise.items()
        }
        records, labels = self._labelled(mesh, setting)
        nodes = {
            name: NodeParts(
                mesh.node(name).learner_with(noise[name]),
                (labels[name].slots if name in labels else None) or mesh.slots,
                self._decoders[name],
                records[name],
            )
            for name in names
        }
        files = {
            variant.mesh.settings.generation: (variant.tree, _parts(variant.mesh, nodes, setting))
            for variant in variants
        }
        parts = files[mesh.settings.generation][1]
        return Scene(setting, parts, files, noise, files_again, records, faults, labels)

    def _labelled(
        self, mesh: Mesh, setting: SimulationSetting
    ) -> tuple[dict[str, tuple[RawRecord, ...]], dict[str, DrawnLabels]]:
        """Return the nodes' records, and a seed's labels of those whose labels come later, on a topic."""
        records, labels = dict(self._records), dict[str, DrawnLabels]()
        random = generator("labels", setting.seed)
        for name in self.names:
            settings, decoder = self._file.later_labels(name), self._decoders[name]
            if settings is None or settings.topic is None or not isinstance(decoder, SchemaDecoder):
                continue
            if self._file.mesh.slots.by == "count":
                records[name] = dated(records[name], setting.slot_time / self._file.mesh.slots.size)
            labels[name] = drawn_labels(settings, decoder, records[name], mesh.slots, random)
        return records, labels

    def _made(self, horizon: int, learns: int | None, own: Fraction | None, *, earlier: bool) -> "_Variant":
        """Return the mesh file with the settings that a seed draws.

        `earlier`: the file before its last node came.
        """
        tree = deepcopy(self._tree)
        mesh, tree_mesh, names = self._file.mesh, tree["mesh"], list(self._file.mesh.nodes)
        change: dict[str, object] = {"horizon": horizon, "generation": mesh.generation + (not earlier)}
        tree_mesh["horizon"] = horizon
        nodes = dict(mesh.nodes)
        tree_mesh["nodes"] = (
            dict(tree_mesh["nodes"])
            if isinstance(tree_mesh["nodes"], dict)
            else dict.fromkeys(tree_mesh["nodes"])
        )
        epsilons = [mesh.privacy_of(name).epsilon for name in names]
        plain = [epsilon for epsilon in epsilons if isinstance(epsilon, Fraction)]
        pure = mesh.privacy.mechanism in {"laplace", "l2-sphere"} and len(plain) == len(epsilons)
        if pure and own is not None and not any(node.overrides for node in nodes.values()):
            epsilon = own * plain[0]
            plain.append(epsilon)
            nodes[names[1]] = NodeOverrides(
                epsilon=epsilon, place=nodes[names[1]].place, key=nodes[names[1]].key
            )
            tree_mesh["nodes"][names[1]] = {"epsilon": str(epsilon)}
        if learns is not None and mesh.privacy.budget is None and pure:
            budget = learns * mesh.slots.size * max(plain)
            change["privacy"] = mesh.privacy.model_copy(update={"budget": budget})
            tree_mesh["privacy"]["budget"] = str(budget)
        if earlier and _may_grow(mesh):
            del nodes[names[-1]], tree_mesh["nodes"][names[-1]]
        return _Variant(tree, Mesh(mesh.model_copy(update=change | {"nodes": nodes}), code=self._file.code))


@dataclass(frozen=True, slots=True)
class _Variant:
    tree: dict[str, Any]
    mesh: Mesh


def _may_grow(mesh: MeshSettings) -> bool:
    """Return whether the mesh can exist without its last node: its graph must not depend on
    number or names.
    """
    graph = mesh.topology.graph
    return len(mesh.nodes) > 3 and graph is not None and (graph.ring or graph.complete)


def _parts(mesh: Mesh, nodes: dict[str, NodeParts], setting: SimulationSetting) -> MeshParts:
    names, horizon = mesh.settings.nodes, setting.horizon
    parts = MeshParts(
        mesh.topics,
        mesh.digest,
        horizon,
        replace(mesh.scheduler(silence=setting.silence, rounds=setting.rounds), lag=_lag(setting)),
        {name: nodes[name] for name in names},
        setting.round_timeout,
        agreed=mesh.settings.agreed_text,
        clock=SlotClock(0.0, setting.slot_time, horizon) if setting.clocked else None,
        lag_limit=None if setting.slow == inf else setting.slow,
    )
    return signed(parts) if setting.signed else parts


def _lag(setting: SimulationSetting) -> LagLimits:
    """Return how long a member that sends heartbeats and does not step may delay the others, as
    on a broker.
    """
    slow = 0.0 if setting.slow == inf else setting.slow
    return LagLimits(max(slow, setting.silence, setting.slot_time + setting.round_timeout), setting.slow)
