"""Makes each object that a mesh file's shared part describes, once."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import inf

from nodes.accounting.guarantee import Guarantee, Ledger, Price, Wait
from nodes.accounting.releases import Composition, DeltaBudget
from nodes.algorithms import Algorithm
from nodes.checks import as_text, in_range
from nodes.learner import Learner, release_bound
from nodes.losses.losses import Loss
from nodes.machine.slots import Slots
from nodes.privacy.bisr import GaussianBisr
from nodes.privacy.exact import ExactSampler, SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.laplace import LaplaceGradient, LaplaceSchedule
from nodes.privacy.laplace_parameters import LaplaceParameters
from nodes.privacy.mechanism import Mechanism, Sampler
from nodes.privacy.unprotected import Unprotected
from streams.codec import Expected
from streams.codec.envelope import PLAIN, Envelope, SignedEnvelope
from streams.codec.topics import MeshTopics
from streams.mesh.algorithm import (
    algorithm,
    constraint,
    following,
    loss,
    means,
    mirror_map,
    row_features,
    schedule,
    slots,
    step_size,
)
from streams.mesh.cautions import cautions
from streams.mesh.plugins import NO_CODE, Code
from streams.mesh.settings.algorithm import LossSettings
from streams.mesh.settings.keys import public_bytes
from streams.mesh.settings.mesh import MeshSettings, mechanism_epsilon, unit_epsilon
from streams.mesh.settings.privacy import (
    BudgetSettings,
    CountSlotsSettings,
    EpsilonSettings,
    PrivacySettings,
    TimeSlotsSettings,
    budget_epsilon,
    growing_epsilon,
    release_epsilon,
)
from topology.graph import Graph
from topology.lag import LagLimits
from topology.plans import SlotClock
from topology.scheduler import SchedulerSettings
from topology.schedules import Schedule

# Makes a node's mechanism, guarantee, ledger and price from its settings.
#
# At one clip for all, one node with a small epsilon has most of the noise, and every node gets it over the
# graph. So a node whose noise would be longer than by the mesh's own `privacy` has a clip that is shorter
# in proportion, unless it names one. The clip depends on shared settings and the node's own overrides alone:
# whoever joins or leaves changes nobody's clip, and every reader of the file computes the same clips.


def noise_length(mesh: MeshSettings, privacy: PrivacySettings, mechanism: Mechanism, round: int = 1) -> float:
    """Return the root mean square L2 length of the noise of `round`, where the mechanism adds it."""
    deviation = math.sqrt(2) if privacy.mechanism == "laplace" else 1.0  # of noise of scale 1
    size = mesh.release_dimension if mesh.algorithm.alone else mesh.noise_dimension
    return math.sqrt(size) * deviation * mechanism.noise_scale(round)


def laplace_share(mesh: MeshSettings, own: PrivacySettings) -> float | None:
    """Return the noise by the mesh's `privacy` over that by `own`, both Laplace and at one clip.

    It is that of the epsilons of a release, so anybody can check it. None: they are not both Laplace.
    """
    shared, size = mesh.privacy, mesh.slots.size
    if not own.mechanism == shared.mechanism == "laplace" or own.norm != shared.norm:
        return None
    if own.epsilon is None or shared.epsilon is None:
        return None
    return float(release_epsilon(own.epsilon, size) / release_epsilon(shared.epsilon, size))


def sampler(mesh: MeshSettings, node: str) -> Sampler:
    """Return the sampler of a node's noise."""
    return ExactSampler() if mesh.privacy.noise == "exact" else SimulatedSampler(mesh.seed, node)


def mechanism(mesh: MeshSettings, privacy: PrivacySettings, sampler: Sampler) -> Mechanism:
    """Return the mechanism of a node with these privacy settings."""
    theta, size, dimension = privacy.gradient_bound, mesh.slots.size, mesh.noise_dimension
    features = row_features(mesh)
    if features is not None:
        theta, dimension = features.grid.radius * features.grid.step, features.length
    if privacy.epsilon is None or privacy.mechanism == "none":
        return Unprotected(theta, privacy.norm, size, dimension, features)
    unit = mesh.unit
    growing = growing_epsilon(privacy.epsilon, size)
    if growing is not None:
        return LaplaceSchedule(theta, growing, dimension, sampler)
    epsilon, delta = mechanism_epsilon(mesh, privacy, privacy.epsilon), privacy.delta or 0.0
    in_range(epsilon)
    k, b = (1, 1) if unit is None else (unit.records, unit.apart)
    common = theta, epsilon, delta if unit is None else unit.own_delta(delta), size, dimension, sampler
    if privacy.mechanism == "gaussian":
        calibration = privacy.calibration or "analytic"
        return GaussianGradient(*common, calibration, features=features, releases=k)
    if privacy.mechanism == "gaussian-bisr":
        return GaussianBisr(*common, privacy.bands or 1, features=features, releases=k, apart=b)
    if privacy.mechanism == "l2-sphere":
        return L2Sphere(theta, epsilon, size, dimension, sampler)
    if privacy.on == "gradient":
        return LaplaceGradient(theta, epsilon, size, dimension, sampler, features=features)
    phi, omega, alpha = mirror_map(mesh), constraint(mesh), step_size(mesh)
    return LaplaceParameters(theta, privacy.norm, epsilon, phi, omega, alpha, sampler)


def guarantee(
    mesh: MeshSettings, privacy: PrivacySettings, mechanism: Mechanism, *, trusted_broker: bool
) -> Guarantee:
    """Return the guarantee that the mechanism gives to the owner of a record, or to a unit."""
    return Guarantee(
        mechanism.name,
        unit_epsilon(mesh, privacy),
        mechanism.delta if mesh.unit is None else privacy.delta or 0.0,
        mesh.slots.by,
        mesh.slots.size,
        mechanism.simulated,
        trusted_broker,
        correlated=mechanism.band is not None,
        shift=mesh.shift,
        unit=mesh.unit,
    )


def ledger(mesh: MeshSettings, privacy: PrivacySettings, mechanism: Mechanism) -> Ledger:
    """Return a node's ledger for its `mechanism`. A tight composition takes about a second to compute."""
    size = mesh.slots.size
    if privacy.mechanism == "none" or privacy.epsilon is None:
        return Ledger(None, size, budget_epsilon(privacy.budget))
    growing, rounds = growing_epsilon(privacy.epsilon, size), None if mesh.unit is None else mesh.unit.rounds
    epsilon = mechanism_epsilon(mesh, privacy, privacy.epsilon) if growing is None else growing.largest
    if isinstance(privacy.epsilon, EpsilonSettings):
        rounds = min(privacy.epsilon.rounds, rounds or privacy.epsilon.rounds)
    of_unit = None if mesh.unit is None else unit_epsilon(mesh, privacy)
    return Ledger(
        epsilon, size, budget_epsilon(privacy.budget), composition(privacy, mechanism), rounds, of_unit
    )


def composition(privacy: PrivacySettings, mechanism: Mechanism) -> Composition:
    """Return how the releases of a node with a mechanism compose at stream level."""
    budget = privacy.budget
    account = DeltaBudget(budget.epsilon, budget.delta) if isinstance(budget, BudgetSettings) else None
    composition = mechanism.composition(account)
    if composition is None:
        raise ValueError("epsilon is missing: the spent epsilon is unknown")
    return composition


def price(mesh: MeshSettings, own: PrivacySettings, promised: Guarantee) -> Price:
    """Return the price of one node's releases; `own`: its privacy settings."""
    settings = {
        "mechanism": own.mechanism,
        "epsilon": _epsilon(own.epsilon),
        "delta": own.delta,
        "algorithm": mesh.algorithm.name if mesh.algorithm.alone else None,
        "gradient_bound": own.gradient_bound if mesh.algorithm.steps else None,
        "norm": own.norm,
        "bands": own.bands,
        "size": mesh.slots.size,
    }
    unit = mesh.unit
    if unit is not None:
        bound = f"{unit.records} {'of any' if unit.rounds is None else 'in all'}, {unit.apart} apart"
        settings |= {"unit": unit.column, "unit.records": bound, "sharing": unit.sharing}
    delta = own.budget.delta if isinstance(own.budget, BudgetSettings) else promised.delta
    return Price(
        promised.epsilon if promised.protects else None,
        promised.delta,
        delta if promised.protects else 0.0,
        tuple((key, str(value)) for key, value in settings.items() if value is not None),
    )


def _epsilon(epsilon: Fraction | EpsilonSettings | None) -> str | None:
    if isinstance(epsilon, EpsilonSettings):
        return json.dumps(epsilon.model_dump(mode="json"), sort_keys=True)
    return None if epsilon is None else as_text(epsilon)


@dataclass(frozen=True, slots=True)
class NodeContext:
    """A node's settings for its mesh.

    `round_timeout` and `silence` are in seconds; None: without limit. `digest` is the digest of `agreed`, the
    text of the settings that all nodes share. `generation` is the mesh file's. `isolates`: whether the
    writers of releases are known, so that evidence counts against its source. `envelope` signs and verifies
    messages. `is_told`: whether the node reads which nodes have evidence against it. `clock` is the clock of
    slots by time. `lag_limit`: seconds for which slower neighbours may delay the node; None: without limit.
    """

    topics: MeshTopics
    digest: bytes
    horizon: int
    round_timeout: float | None
    silence: float | None
    own: Expected
    expected: dict[str, Expected]
    targets: tuple[str, ...]
    agreed: str
    generation: int = 0
    isolates: bool = True
    envelope: Envelope = PLAIN
    is_told: bool = True
    clock: SlotClock | None = None
    lag_limit: float | None = None


@dataclass(frozen=True, eq=False)
class Mesh:
    """A mesh. It makes each object that the settings describe on first use, and keeps the object.

    Nodes with the same privacy settings share a ledger. They also share a mechanism, unless noise is
    simulated, as simulated noise depends on the node's name. `trusting`: nodes that trust the mesh broker
    with their records, as it is their data broker too. `keyed`: the columns that a node makes of messages'
    keys. `waits`: the waits of nodes whose labels come later.

    The attributes of a mesh and of its nodes raise ValueError if the settings do not fit together. Those that
    need a loss run the user's `code` if the loss is the user's own, and may raise MeshFileError.
    """

    settings: MeshSettings
    trusting: frozenset[str] = frozenset()
    code: Code = NO_CODE
    keyed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    waits: Mapping[str, Wait] = field(default_factory=dict)
    _nodes: "dict[str, MeshNode]" = field(default_factory=dict, init=False, repr=False)
    mechanisms: dict[tuple[PrivacySettings, str], Mechanism] = field(default_factory=dict, init=False)
    ledgers: dict[PrivacySettings, Ledger] = field(default_factory=dict, init=False, repr=False)
    _lengths: dict[PrivacySettings, float] = field(default_factory=dict, init=False, repr=False)

    def node(self, name: str) -> "MeshNode":
        """Return the objects of one node."""
        return self._nodes.setdefault(name, MeshNode(self, name))

    def noise_share(self, own: PrivacySettings) -> float:
        """Return the length of noise by the mesh's `privacy` over that by a node's `own`, both at one clip.

        It is 1 if either has no noise: then there is nothing to be as long as. Raises ValueError for noise
        that cannot be made.
        """
        settings = self.settings
        if "none" in {own.mechanism, settings.privacy.mechanism}:
            return 1.0
        share = laplace_share(settings, own)
        if share is not None:
            return share
        return self.lasting_length(settings.privacy) / self.lasting_length(own)

    def lasting_length(self, privacy: PrivacySettings) -> float:
        """Return the length of a round's noise by these privacy settings; 0 without noise.

        Noise that is correlated over rounds cancels in part: it counts by what is left in a long sum.
        """
        if privacy.mechanism == "none":
            return 0.0
        if privacy not in self._lengths:
            noisy = mechanism(self.settings, privacy, ExactSampler())
            band = None if noisy.band is None else noisy.band.matrix
            remaining = 1.0 if band is None else 1 / (band.row_norm * band.gain)
            self._lengths[privacy] = remaining * noise_length(self.settings, privacy, noisy)
        return self._lengths[privacy]

    def price(self, name: str) -> Price:
        """Return the price of one node's releases."""
        return self.node(name).price

    @property
    def cautions(self) -> list[str]:
        """A line for each setting that is valid but probably unintended."""
        return list(cautions(self))

    @cached_property
    def topics(self) -> MeshTopics:
        """The names of the mesh's topics."""
        return MeshTopics(self.settings.name, self.settings.run, self.settings.layout)

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that are equal iff the settings that all nodes must share are equal."""
        return self.settings.digest()

    @cached_property
    def envelope(self) -> Envelope:
        """The envelope of a reader, with the public keys whose signatures it accepts. It cannot sign."""
        settings = self.settings
        if settings.signatures == "none":
            return PLAIN
        nodes = {name: public_bytes(node.key) for name, node in settings.nodes.items() if node.key}
        schedulers = {name: public_bytes(key) for name, key in settings.schedulers.items()}
        return SignedEnvelope(settings.name, settings.run, self.digest, nodes, schedulers)

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule: which edges are on in which round."""
        return schedule(self.settings)

    @cached_property
    def graph(self) -> Graph:
        """All edges that may ever be on."""
        return self.schedule.graph

    @cached_property
    def algorithm(self) -> Algorithm:
        """The mirror step with its step size, Sparse DOLA, or the mean of class sums or moments.

        Raises NotOffered if there is no exact step.
        """
        if self.settings.public_places:
            return self.following(tuple(self.settings.nodes))
        features = row_features(self.settings)
        if features is None:
            return algorithm(self.settings)
        node = self.node(min(self.settings.nodes))
        ends = [end for end in (node.ledger.last_learning_round, self.settings.rounds) if end is not None]
        return means(self.settings, features, node.mechanism, min(ends, default=None))

    def following(self, names: tuple[str, ...]) -> Algorithm:
        """Return the algorithm of nodes with public places, side by side in bytes order."""
        return following(self.settings, {name: self.node(name).mechanism.epsilon for name in names})

    @cached_property
    def loss(self) -> Loss:
        """The loss of one record, weighted by its label, for nodes without a loss of their own."""
        return loss(self.settings, None, self.code)

    @cached_property
    def losses(self) -> tuple[LossSettings, ...]:
        """The distinct losses of the nodes. The mesh's loss is first if any node has it."""
        node_losses = [self.settings.loss_of(name) for name in self.settings.nodes]
        return tuple(sorted(dict.fromkeys(node_losses), key=lambda one: one != self.settings.loss))

    @cached_property
    def clock(self) -> SlotClock | None:
        """The clock of slots by time. None for slots by count, and for a replay, which needs every slot."""
        by, settings = self.settings.slots, self.settings
        if not isinstance(by, TimeSlotsSettings) or settings.shift:
            return None
        return SlotClock(by.start, by.period, settings.horizon)

    def slots(self, delay: float = 0.0) -> Slots[bytes]:
        """Return empty slots for one node.

        With slots by time a record waits `delay` seconds before it is used.
        """
        return slots(self.settings, delay)

    @cached_property
    def lag(self) -> LagLimits | None:
        """The time for which a node on a broker may delay the others, in seconds; None: no limit."""
        return lag_limits(self.settings)

    def last_round(self, rounds: int | None) -> int | None:
        """Return the last of so many rounds in which any node may learn: budgets are public. None: no end."""
        ends = [rounds, self._budgets_last]
        return min((end for end in ends if end is not None), default=None)

    @cached_property
    def _budgets_last(self) -> int | None:
        ends = [self.node(name).ledger.last_learning_round for name in self.settings.nodes]
        if None in ends:
            return None
        return max(end for end in ends if end is not None)

    def scheduler(self, *, silence: float | None, rounds: int | None) -> SchedulerSettings:
        """Return the settings of every scheduler. `silence` is in seconds; None: without limit."""
        mesh = self.settings
        waits = silence, mesh.min_members, self.last_round(rounds)
        return SchedulerSettings(mesh.run, self.schedule, mesh.horizon, *waits, mesh.generation)


@dataclass(frozen=True, eq=False)
class MeshNode:
    """A node. It makes each object that the settings describe on first use, and keeps the object."""

    mesh: Mesh
    name: str

    @cached_property
    def privacy(self) -> PrivacySettings:
        """The node's privacy settings: its overrides, and the clip that they lead to."""
        mesh = self.mesh.settings
        overridden, clip = mesh.privacy_of(self.name), mesh.nodes[self.name].gradient_bound
        if clip is not None or overridden == mesh.privacy or not mesh.algorithm.steps:
            return overridden
        share = min(1.0, self.mesh.noise_share(overridden))
        return overridden.model_copy(update={"gradient_bound": overridden.gradient_bound * share})

    @property
    def clip_share(self) -> float:
        """The node's clip over the shared one, if its noise makes it shorter; 1 otherwise."""
        return self.privacy.gradient_bound / self.mesh.settings.privacy_of(self.name).gradient_bound

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism that makes the node's releases private, with noise as the settings say."""
        mechanisms, noise = self.mesh.mechanisms, sampler(self.mesh.settings, self.name)
        key = self.privacy, self.name if noise.simulated else ""
        if key not in mechanisms:
            mechanisms[key] = mechanism(self.mesh.settings, self.privacy, noise)
        return mechanisms[key]

    @cached_property
    def ledger(self) -> Ledger:
        """The node's ledger. A tight composition takes about a second to compute."""
        ledgers = self.mesh.ledgers
        if self.privacy not in ledgers:
            ledgers[self.privacy] = ledger(self.mesh.settings, self.privacy, self.mechanism)
        return ledgers[self.privacy]

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee to the owner of a record of this node."""
        trusted = self.name in self.mesh.trusting
        settings = self.mesh.settings
        base_guarantee = guarantee(settings, self.privacy, self.mechanism, trusted_broker=trusted)
        keyed, wait = self.mesh.keyed.get(self.name, ()), self.mesh.waits.get(self.name)
        return replace(base_guarantee, keyed=keyed, wait=wait)

    @cached_property
    def price(self) -> Price:
        """The price of the node's releases."""
        return price(self.mesh.settings, self.privacy, self.guarantee)

    @cached_property
    def loss(self) -> Loss:
        """The node's loss of one record, weighted by the record's label."""
        mesh_settings = self.mesh.settings
        settings = mesh_settings.loss_of(self.name)
        alike = (
            not mesh_settings.weighs_within_clip
            or self.privacy.gradient_bound == mesh_settings.privacy.gradient_bound
        ) and not mesh_settings.public_places
        if settings.own is None and settings == mesh_settings.loss and alike:
            return self.mesh.loss
        return loss(mesh_settings, self.name, self.mesh.code, self.privacy)

    @property
    def algorithm(self) -> Algorithm:
        """The mesh's algorithm, or the node's own, where its place is part of it."""
        is_own = self.mesh.settings.public_places
        return self.mesh.following((self.name,)) if is_own else self.mesh.algorithm

    @cached_property
    def learner(self) -> Learner:
        """The node's learner: its algorithm, loss, mechanism and ledger."""
        mesh = self.mesh.settings
        return Learner(
            self.algorithm,
            self.loss,
            self.mechanism,
            self.ledger,
            mesh.slots.size,
            mesh.privacy.after_budget,
        )

    def learner_with(self, sampler: Sampler) -> Learner:
        """Return the node's learner with other noise. One mesh can so serve several nodes or runs at once."""
        return replace(self.learner, mechanism=mechanism(self.mesh.settings, self.privacy, sampler))

    def noise_length(self, round: int) -> float:
        """Return the root mean square L2 length of the noise of `round`, where the mechanism adds it."""
        return noise_length(self.mesh.settings, self.privacy, self.mechanism, round)

    @cached_property
    def expected(self) -> Expected:
        """What a reader of this node's edges accepts as its releases."""
        mesh = self.mesh.settings
        bound = release_bound(self.mesh.algorithm, self.mechanism)
        return Expected(mesh.run, self.name, self.mesh.digest, mesh.release_dimension, bound)

    @cached_property
    def context(self) -> NodeContext:
        """The node's settings for its mesh."""
        mesh, (sources, targets) = self.mesh, self.mesh.graph.neighbours(self.name)
        waits = mesh.settings.round_timeout, mesh.settings.silence
        expected = {source: mesh.node(source).expected for source in sources}
        return NodeContext(
            mesh.topics,
            mesh.digest,
            mesh.settings.horizon,
            *waits,
            self.expected,
            expected,
            targets,
            mesh.settings.agreed_text,
            mesh.settings.generation,
            envelope=mesh.envelope,
            clock=mesh.clock,
            lag_limit=mesh.settings.lag_limit if mesh.lag else None,
        )


# The time for which a node may delay the others, by the mesh file, or the reason that it has no limit.


def lag_limits(mesh: MeshSettings) -> LagLimits | None:
    """Return the limits that hold on a broker; None if a node may delay the others without limit."""
    slots, slow = mesh.slots, mesh.lag_limit
    records = slots.timeout if isinstance(slots, CountSlotsSettings) else slots.period + slots.grace
    if mesh.silence is None or records is None or mesh.round_timeout is None:
        return None
    return LagLimits(
        max(slow or 0.0, mesh.silence, records + mesh.round_timeout), inf if slow is None else slow
    )


def why_for_ever(mesh: MeshSettings) -> str:
    """Return the first setting by which a node may delay the others without limit, as a mesh file has it."""
    for key in ("silence", "round_timeout"):
        if getattr(mesh, key) is None:
            return f"{key} is none"
    return "slots.timeout is none"
