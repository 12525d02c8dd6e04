"""The meshes of simulated histories: a mesh file's, with the settings and faults that a seed draws."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import islice
from math import inf

from nodes.accounting.guarantee import Guarantee
from nodes.learner import Learner
from streams.local.memory_node import NodeParts
from streams.local.mesh import MeshParts
from streams.local.run import mesh_parts
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.records.record import RawRecord
from streams.simulation.faults import Fault, drawn
from streams.simulation.noise import CountedNoise
from streams.simulation.signing import signed
from topology.keyed import generator
from topology.lag import LagLimits
from topology.slot_clock import SlotClock

HORIZONS = (4, 8)
LEARNS = (None, 5, 9)
"""Rounds after which the budget is spent, where the mesh file sets none."""
ROUNDS = (8, 24)
SIGNED, CLOCKED = 0.25, 0.2
"""The shares of histories whose messages are signed, and whose rounds follow a clock."""
EVENTS = 12
"""About the events of a node's round without faults."""
SPARE = 24
"""Rounds for which a source must have records beyond those planned, as a new journal skips some."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The times, in seconds, and sizes of one history.

    `signed`: whether its messages are. `clocked`: whether its rounds follow a clock, as with slots by time.
    `slow`: for how long a member that steps may hold the others.
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


@dataclass(frozen=True, slots=True)
class Scene:
    """One history before it begins.

    `again`: learners that repeat the newest draws of the nodes'. `promised`: what each node's owner is told.
    """

    setting: Setting
    parts: MeshParts
    again: dict[str, Learner]
    promised: dict[str, Guarantee]
    records: dict[str, tuple[RawRecord, ...]]
    faults: tuple[Fault, ...]
    by_count: bool


class Stage:
    """Makes the scene of any seed from one mesh file. Raises MeshFileError, UsageError."""

    def __init__(self, file: MeshFile) -> None:
        if len(file.mesh.nodes) < 3:
            raise UsageError(f"{file.path}: a mesh of {len(file.mesh.nodes)}: must have 3 nodes to simulate")
        self._file = file
        size = file.mesh.slots.size
        parts = mesh_parts(file, rounds=1)
        self._decoders = {name: node.decoder for name, node in parts.nodes.items()}
        most = (ROUNDS[1] + SPARE) * size
        self._records = {name: tuple(islice(node.records, most)) for name, node in parts.nodes.items()}
        shortest = min(map(len, self._records.values())) // size
        self._rounds = min(ROUNDS[1], max(1, shortest - SPARE))
        self._variant = cache(self._made)

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(self._records)

    def scene(self, seed: int, keep: tuple[int, ...] | None = None) -> Scene:
        """Return the scene of a seed; of its faults only those in the places `keep`, if given."""
        random = generator("simulation", seed)
        names = self.names
        horizon, learns = int(random.choice(HORIZONS)), LEARNS[int(random.integers(len(LEARNS)))]
        setting = Setting(
            seed,
            horizon,
            min(self._rounds, int(random.integers(ROUNDS[0], ROUNDS[1] + 1))),
            slot_time=float(random.choice([0.1, 0.25])),
            round_timeout=float(random.choice([0.3, 1.0, 2.0])),
            silence=float(random.choice([1.5, 3.0])),
            signed=bool(random.random() < SIGNED),
            clocked=bool(random.random() < CLOCKED),
            slow=float(random.choice([inf, inf, 0.3, 1.0])),
        )
        faults = drawn(random, names, EVENTS * len(names) * setting.rounds)
        if keep is not None:
            faults = tuple(fault for place, fault in enumerate(faults) if place in keep)
        file = self._variant(horizon, learns)
        mesh = file.resolved
        nodes, again = {}, {}
        for name in names:
            noise = CountedNoise(seed, name)
            learner = mesh.node(name).learner_with(noise)
            again[name] = mesh.node(name).learner_with(CountedNoise(seed, name, noise))
            nodes[name] = NodeParts(learner, mesh.slots, self._decoders[name], self._records[name])
        parts = MeshParts(
            mesh.topics,
            mesh.digest,
            horizon,
            replace(mesh.scheduler(silence=setting.silence, rounds=setting.rounds), lag=_lag(setting)),
            nodes,
            setting.round_timeout,
            agreed=file.mesh.agreed_text,
            clock=SlotClock(0.0, setting.slot_time, horizon) if setting.clocked else None,
        )
        parts = signed(parts) if setting.signed else parts
        promised = {name: mesh.node(name).guarantee for name in names}
        return Scene(setting, parts, again, promised, self._records, faults, file.mesh.slots.by == "count")

    def _made(self, horizon: int, learns: int | None) -> MeshFile:
        mesh = self._file.mesh
        change: dict[str, object] = {"horizon": horizon}
        epsilons = [mesh.privacy_of(name).epsilon for name in mesh.nodes]
        plain = [epsilon for epsilon in epsilons if isinstance(epsilon, Fraction)]
        pure = mesh.privacy.mechanism in {"laplace", "l2-sphere"} and len(plain) == len(epsilons)
        if learns is not None and mesh.privacy.budget is None and pure:
            budget = learns * mesh.slots.size * max(plain)
            change["privacy"] = mesh.privacy.model_copy(update={"budget": budget})
        return replace(self._file, mesh=mesh.model_copy(update=change))


def _lag(setting: Setting) -> LagLimits:
    """Return how long a member that beats and does not step may hold the others, as on a broker."""
    slow = 0.0 if setting.slow == inf else setting.slow
    return LagLimits(max(slow, setting.silence, setting.slot_time + setting.round_timeout), setting.slow)
