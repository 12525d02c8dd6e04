"""The shared part of a mesh file. It is public and the same for every party."""

import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from nodes.accounting.guarantee import Unit
from nodes.privacy.features import MOST_COLUMNS
from streams.codec.topics import Layout
from streams.mesh.settings.algorithm import AlgorithmSettings, LossSettings
from streams.mesh.settings.base import (
    Choice,
    Count,
    Matrix,
    MeshName,
    Name,
    Positive,
    Seconds,
    Settings,
    absent,
    or_none,
    refusal,
)
from streams.mesh.settings.keys import PublicKey
from streams.mesh.settings.parties import Party, PartySettings, check_parties, parties
from streams.mesh.settings.privacy import (
    Epsilon,
    EpsilonSettings,
    NodeOverrides,
    PrivacySettings,
    SlotSettings,
    TimeSlotsSettings,
    growing_epsilon,
    members,
    release_epsilon,
)
from streams.mesh.settings.rule import RuleSettings, filled
from streams.mesh.settings.schema import SchemaSettings

# The target that made-up sensors measure: its path and its speed.

FASTEST = 10.0
"""The longest way in one round of a random manoeuvre, whose straight parts are short."""
Point = Annotated[tuple[float, float], Field(strict=False)]
"""A point of the plane: [x, y]."""


def _some(value: object) -> object:
    if isinstance(value, list) and not value:
        raise refusal("a path of no points: must be a list of one [x, y] or more")
    return value


class PathSettings(Choice):
    """A path in the plane, around 0. By default sensors are placed 1.5 from 0."""

    words: ClassVar[tuple[str, ...]] = ("paper", "still", "circle", "figure-eight", "random-manoeuvre")

    paper: bool = False
    """From (0.8, 0.95) in steps that shrink as 1/t (Zhou, Li 2025, section 5): it soon stands still."""
    still: bool = False
    """At (0.8, 0.95)."""
    circle: bool = False
    """A circle: 0.9 (cos s, sin s)."""
    figure_eight: bool = Field(default=False, alias="figure-eight")
    """(0.9 sin s, 0.6 sin 2s)."""
    random_manoeuvre: bool = Field(default=False, alias="random-manoeuvre")
    """Straight legs and turns, drawn from the seed, at most 1.25 from 0."""
    waypoints: Annotated[tuple[Point, ...] | None, Field(strict=False), BeforeValidator(_some)] = None
    """Straight lines from each of these points to the next, and from the last to the first."""


class TargetSettings(Settings):
    """The target that made-up sensors (`localisation`) measure, the same for all nodes."""

    path: PathSettings = PathSettings(paper=True)
    """The path of the target."""
    speed: Positive | None = None
    """The distance that the target moves in each round. Not given for `paper` and `still`; all others need
    it. For `random-manoeuvre` it is at most 10."""

    @model_validator(mode="after")
    def _moves_or_not(self) -> Self:
        fixed = self.path.paper or self.path.still
        if fixed and self.speed is not None:
            raise refusal(f"path {self.path.name} has its own steps: must not be given", "speed")
        if not fixed and self.speed is None:
            raise refusal(f"missing: path {self.path.name} needs the way of a round", "speed")
        if self.path.random_manoeuvre and self.speed is not None and self.speed > FASTEST:
            raise refusal(f"must be at most {FASTEST:g}: random-manoeuvre stays near 0", "speed")
        return self


# Settings of the graph and its schedule.

Edge = Annotated[tuple[Name, Name], Field(strict=False)]
Edges = Annotated[tuple[Edge, ...], Field(strict=False, min_length=1)]


class RandomGraphSettings(Settings):
    """A random graph, drawn from the seed and made connected. Give one of the two keys."""

    mean_degree: Positive | None = None
    """The mean number of a node's neighbours. Not given beside `p`."""
    p: float | None = Field(None, gt=0, le=1)
    """The probability of each edge. Not given beside `mean_degree`."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.mean_degree is None) == (self.p is None):
            raise refusal("must have either mean_degree or p")
        return self


class GraphSettings(Choice):
    """Edges between nodes, or a matrix of weights. Shapes follow the order of `mesh.nodes`."""

    words: ClassVar[tuple[str, ...]] = ("ring", "complete", "star")

    ring: bool = False
    """Each node reads the node before it and the node after it."""
    complete: bool = False
    """Each node reads all others."""
    star: bool = False
    """The first node reads all others, and they read the first."""
    grid: Annotated[tuple[Count, Count], Field(strict=False)] | None = None
    """[rows, columns]: each node reads its up to four neighbours."""
    erdos_renyi: RandomGraphSettings | None = Field(None, alias="erdos-renyi")
    """A random graph."""
    edges: Edges | None = None
    """Pairs of nodes that read each other."""
    directed_edges: Edges | None = Field(None, alias="directed-edges")
    """Pairs [from, to]: the second node reads the first."""
    matrix: Matrix | None = None
    """Row i holds the weights of all nodes in node i's mix; it sums to 1."""


class TopologySettings(Settings):
    """The graph of nodes: one `graph` for every round, or a `cycle` of graphs in turn."""

    graph: GraphSettings | None = None
    """The graph of every round. Not given beside `cycle`."""
    cycle: Annotated[tuple[GraphSettings, ...], Field(strict=False, min_length=1)] | None = None
    """Graphs in turn, one a round. Not given beside `graph`."""
    switching: float | None = Field(None, gt=0, le=1)
    """The probability that a pair of the graph is on, drawn anew in each round. Of `directed-edges` whole
    directed cycles are on or off, so that weights stay doubly stochastic. Not given: all are always on."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.graph is None) == (self.cycle is None):
            raise refusal("must have either graph or cycle")
        if self.switching is not None and self.graph is None:
            raise refusal("goes with graph, not with cycle", "switching")
        if self.switching is not None and self.graph is not None and self.graph.name == "matrix":
            raise refusal("needs a graph of edges, not a matrix", "switching")
        return self


FEW_BANDS, MOST_OF_MANY = 5_000, 16
"""If a release has more numbers than the first, noise may be correlated over at most the second number of
rounds."""
NO_DIMENSION = "missing: must be given, or features"
AGREED = {"dimension", "algorithm", "loss", "slots", "horizon"}
"""The settings in the digest. `privacy` is in it too; other settings are only if they are given."""


class WeightsWithinClip(Settings):
    """Weights that no clip cuts away."""

    within: Literal["clip"]
    """Gradients are clipped to `gradient_bound` first, and then multiplied by their weight's share of the
    largest one."""
    weights: Annotated[tuple[Positive, ...], Field(strict=False, min_length=1)]
    """The weights: [negative, positive], or a number for each class."""


class MeshSettings(Settings):
    """The settings that all parties share. They are public."""

    name: MeshName
    """The mesh's name, a part of all its topics' names. It must not be one of the words data,
    data-deadletter, predictions, decisions and spends, with which other topics' names begin."""
    run: Name
    """The name of one execution. A new run needs a new name. What is spent adds up over runs."""
    nodes: Annotated[
        dict[Name, NodeOverrides], Field(min_length=1, max_length=4096), BeforeValidator(members)
    ]
    """The nodes: a list of names, or a mapping from names to the
    settings that differ for a node, and its public key."""
    dimension: int = Field(0, ge=1, le=1 << 24)
    """d, the length of a decision. It is the number of features (for softmax, times the number of classes).
    With `dynamics` it is the length of the state, of which the loss sees a part. Not given: the number that
    `features` makes; then `features` must be given."""
    features: SchemaSettings | None = Field(None, exclude_if=absent)
    """The schema that all nodes share: a mapping, or the path of a YAML file that holds it. It is public,
    with its bounds and lists. A node's own schema must make the same features. A source without a schema uses
    this one. Not given: each source has a schema of its own, which must make `dimension` features."""
    rule: RuleSettings | None = Field(None, exclude_if=absent)
    """Public values from which settings follow that are left out here. Not given: nothing may be left out
    that has no default."""
    algorithm: AlgorithmSettings
    """The algorithm that makes a decision from gradients and neighbours' releases. A `rule` may choose it."""
    loss: LossSettings
    """The loss that decisions minimise."""
    class_weights: Annotated[tuple[Positive, ...], Field(strict=False)] | WeightsWithinClip | None = None
    """The weight of a record by its label: [negative, positive], or a number for each class. For hinge,
    logistic and softmax. The clip follows, and cuts a heavy record's gradient to `gradient_bound`. A mapping
    with `within: clip` weighs after a clip of its own, so that no weight is cut away. Not given: all have the
    same weight."""
    slots: SlotSettings
    """The records that a round learns from. A `rule` may choose them."""
    privacy: PrivacySettings
    """The mechanism between a node's gradients and its releases."""
    topology: TopologySettings
    """The graph of nodes: each node reads its neighbours' releases."""
    layout: Layout = "edges"
    """The topics of releases. `edges`: one for each edge. `outbox`: one for each node, which all its
    neighbours read. Then a node sends once a round and there are fewer topics, but rights cannot differ by
    edge."""
    horizon: int = Field(32, ge=4, le=4096)
    """H, in rounds. It is the lead of the plans, the window for late releases and the length of a rejoin."""
    round_timeout: Seconds = 5.0
    """Seconds that a node waits for a neighbour's release. `none`: no limit."""
    silence: Annotated[Annotated[float, Field(ge=0.5)] | None, BeforeValidator(or_none)] = 10.0
    """Seconds without a heartbeat after which a scheduler plans without a node. Ten heartbeats are sent in
    this time, or one a second if that is more. `none`: no limit."""
    lag_limit: Seconds = None
    """How long a slow node may delay the others, in seconds (at least 8 rounds). After that its neighbours
    continue without it, and the scheduler leaves it out for as long as it delayed them. `none`: no limit. A
    node that sends heartbeats and does not step may delay them for the longest of this limit, `silence`, and
    the time-outs for its records and releases. It may do so without a limit where one of these is `none`, and
    in one process."""
    rounds: Annotated[Count | None, BeforeValidator(or_none)] = None
    """The last round of learning, which closing rounds follow. `none`: until stopped."""
    min_members: Count | None = None
    """The fewest nodes with which a round is planned. Not given: the first plan needs all nodes, later ones
    need one node."""
    target: TargetSettings = TargetSettings()
    """The target that made-up sensors measure."""
    seed: int = Field(0, ge=0)
    """The seed of schedules, the order of data and simulated noise. Exact noise has no seed."""
    generation: int = Field(0, ge=0, lt=1 << 32)
    """The number of this version of the file among those of the run. Plans have this number. Raise it with
    each change of nodes or edges."""
    parties: dict[Name, PartySettings] = Field(default_factory=dict)
    """The parties, with the nodes that each runs and its user of the mesh broker. A node that no party names
    is a party of its own name."""

    signatures: Literal["none", "required"] = "none"
    """`required`: every release, heartbeat and plan must be signed (Ed25519). Each node then has a `key`
    here, each scheduler a key in `schedulers`, and each process a `signing_key` for its broker."""
    schedulers: dict[Name, PublicKey] = Field(default_factory=dict)
    """The public keys of the schedulers, by names of your choice. Needed with `signatures: required`
    alone."""

    @model_validator(mode="before")
    @classmethod
    def _by_rule(cls, value: Any) -> Any:
        ruled = isinstance(value, Mapping) and value.get("rule") is not None
        return filled(value) if ruled else value

    @model_validator(mode="after")
    def _dimension_of_features(self) -> Self:
        if self.features is None:
            if "dimension" not in self.model_fields_set:
                raise refusal(NO_DIMENSION, "dimension")
            return self
        dynamics = self.algorithm.dynamics
        width = self.loss.decisions_per_feature * self.features.width
        if dynamics is not None:
            width = dynamics.dimension
        if "dimension" not in self.model_fields_set:
            self.__dict__["dimension"] = width  # the settings are frozen; this is as if the file gave it
            self.model_fields_set.add("dimension")
        if self.dimension != width and self.loss.own is None:
            raise refusal(f"must be {width}, by mesh.features, or not be given", "dimension")
        return self

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.min_members is not None and self.min_members > len(self.nodes):
            raise refusal(f"must be at most {len(self.nodes)}, the number of nodes", "min_members")
        check_parties(self.name, self.nodes, self.parties)
        self._check_keys()
        self._check_unit()
        if self.privacy.on == "parameters" and self.slots.size != 1:
            raise refusal("noise on the parameters needs one record a slot: must be 1", "slots", "size")
        self._check_motion()
        self._check_rows()
        check_places(self)
        differing = [name for name, node in self.nodes.items() if node.loss is not None]
        if self.class_weights is not None and differing:
            raise refusal(f"goes with one loss for all, and node {differing[0]} has its own", "class_weights")
        if self.class_weights is not None and self.loss.labels is None:
            raise refusal(f"goes with loss hinge, logistic or softmax, not with {self.loss}", "class_weights")
        if self.class_weights is not None and len(self.label_weights) != len(self.loss.labels or ()):
            needed = (
                "[negative, positive]" if self.loss.signed else f"{self.loss.softmax} numbers, one a class"
            )
            raise refusal(f"must be {needed}", "class_weights")
        return self

    def _check_unit(self) -> None:
        settings, rounds = self.privacy.unit, self.rounds
        if settings is None:
            return
        path = "privacy", "unit"
        if self.features is not None and settings.column == self.features.label.column:
            raise refusal("the label is what is protected: must be another column", *path, "column")
        if rounds is None and settings.apart is None:
            raise refusal("missing: must be given, or mesh.rounds", *path, "apart")
        if rounds is None or settings.apart is None:
            return
        least = -(-rounds // settings.records)
        if settings.apart < least:
            text = f"a unit would take part in more than {settings.records:,} of {rounds:,} rounds"
            raise refusal(f"{text}: must be at least {least:,}", *path, "apart")
        if (settings.records - 1) * settings.apart >= rounds:
            fewest = -(-rounds // settings.apart)
            text = f"times apart, {settings.apart:,}, is beyond the {rounds:,} rounds"
            raise refusal(f"{text}: must be at most {fewest:,}", *path, "records")

    def without_unit(self) -> Self:
        """Return these settings with records protected by themselves, each with the whole epsilon."""
        return self.model_copy(update={"privacy": self.privacy.model_copy(update={"unit": None})})

    @property
    def unit(self) -> Unit | None:
        """The bound on the records of a unit; None: each record is protected by itself."""
        settings, rounds = self.privacy.unit, self.rounds
        if settings is None:
            return None
        gap = settings.apart or -(-(rounds or settings.records) // settings.records)
        records = settings.records if rounds is None else -(-rounds // gap)
        return Unit(settings.column, records, gap, settings.sharing, rounds)

    def _check_motion(self) -> None:
        dynamics = self.algorithm.dynamics
        if dynamics is None:
            return
        if dynamics.dimension != self.dimension:
            raise refusal(
                f"must be {dynamics.dimension}, the dimension of the motion model's state", "dimension"
            )
        if self.privacy.on == "parameters":
            raise refusal("with dynamics noise is on gradients: must be gradient", "privacy", "on")
        if isinstance(self.slots, TimeSlotsSettings) and dynamics.period not in {None, self.slots.period}:
            text = f"must be {self.slots.period:g}, the period of the slots"
            raise refusal(text, "algorithm", "dynamics", "period")

    def _check_rows(self) -> None:
        """Refuse settings that go with gradients alone, for an algorithm that releases sums of functions of
        records.
        """
        name, privacy = self.algorithm.name, self.privacy
        if not self.algorithm.alone:
            if self.algorithm.steps and "gradient_bound" not in privacy.model_fields_set:
                raise refusal("missing: must be given", "privacy", "gradient_bound")
            return
        if "gradient_bound" in privacy.model_fields_set:
            raise refusal(f"{name} clips no gradient: must not be given", "privacy", "gradient_bound")
        mechanisms: tuple[str, ...] = ("gaussian", "gaussian-bisr", "none")
        mechanisms = mechanisms if name == "moments" else ("laplace", *mechanisms)
        if privacy.mechanism not in mechanisms or privacy.on != "gradient":
            words = f"{', '.join(mechanisms[:-1])} or {mechanisms[-1]}"
            raise refusal(f"{name} is a sum: must be {words}, on the gradient", "privacy", "mechanism")
        if isinstance(privacy.epsilon, EpsilonSettings) and privacy.epsilon.schedule == "growing":
            raise refusal(
                f"{name} weighs all rounds alike: must be uniform", *("privacy", "epsilon", "schedule")
            )
        differing = [node for node, settings in self.nodes.items() if settings.overrides]
        if differing:
            raise refusal(f"{name} is one mean of all nodes: all must be alike", "nodes", differing[0])
        if self.class_weights is not None and name != "class-sums":
            raise refusal(f"{name} has each class by itself: must not be given", "class_weights")
        if self.features is not None and self.features.intercept and not self.has_cut:
            text = f"{name} has rows of their own norm: must be outside, or not be given"
            raise refusal(text, "features", "intercept")
        self._check_classes()
        length = self.release_dimension
        if (
            privacy.mechanism == "gaussian-bisr"
            and length > FEW_BANDS
            and (privacy.bands or 0) > MOST_OF_MANY
        ):
            text = f"must be at most {MOST_OF_MANY}, as a release has {length:,} numbers"
            raise refusal(text, "privacy", "bands")

    def _check_classes(self) -> None:
        name, loss = self.algorithm.name, self.loss
        has_classes = name == "class-sums" and (loss.softmax or 0) > 2
        if not loss.signed and not has_classes:
            or_softmax = ", or softmax of three classes or more" if name == "class-sums" else ""
            raise refusal(f"{name} tells classes apart: must be hinge or logistic{or_softmax}", "loss")
        if self.columns > MOST_COLUMNS[name]:
            text = f"{name} takes up to {MOST_COLUMNS[name]:,} features, not {self.columns:,}"
            raise refusal(text, "dimension")
        if self.columns < 1:
            raise refusal(f"{name} needs a feature beside the intercept", "dimension")

    @property
    def has_cut(self) -> bool:
        """Whether records end with an intercept outside the norm. Its weight is then a decision's cut."""
        return self.features is not None and self.features.intercept == "outside"

    @property
    def columns(self) -> int:
        """The number of features, without an intercept that is outside the norm."""
        return self.dimension // self.loss.decisions_per_feature - self.has_cut

    @property
    def release_dimension(self) -> int:
        """D, the length of a release: of a decision, or of the sums of class-sums and moments."""
        columns = self.columns
        match self.algorithm.name:
            case "class-sums":
                return (self.loss.softmax or 2) * (columns + 1)
            case "moments":
                return (columns + 4) * (columns + 1) // 2
            case _ if self.algorithm.curvature is not None:
                return sum(length * (length + 3) // 2 for length in (self.dimension, self.loss_dimension))
            case _:
                return self.dimension

    @property
    def noise_dimension(self) -> int:
        """The length of the gradients that a mechanism randomises."""
        return 1 if self.public_places else self.loss_dimension

    @property
    def public_places(self) -> bool:
        """Whether sensors' positions are settings, and records have no features."""
        return self.algorithm.curvature is not None

    @property
    def loss_dimension(self) -> int:
        """The number of coordinates that the loss sees."""
        observed = self.algorithm.seen
        return self.dimension if observed is None else len(observed)

    def _check_keys(self) -> None:
        if self.signatures == "none":
            return
        for name, node in self.nodes.items():
            if node.key is None:
                text = f"missing: signatures are required, and {name} has none (mirrormesh key makes one)"
                raise refusal(text, "nodes", name, "key")
        if not self.schedulers:
            raise refusal("must name the key of a scheduler, as signatures are required", "schedulers")

    @property
    def all_parties(self) -> tuple[Party, ...]:
        """All parties, each with the users of its nodes."""
        return parties(self.nodes, self.parties)

    @property
    def users(self) -> dict[str, str]:
        """Each node's user on brokers with users."""
        return {node: user for party in self.all_parties for node, user in party.users.items()}

    def privacy_of(self, node: str) -> PrivacySettings:
        """Return the privacy settings of one node, with its overrides."""
        return self.privacy.overridden(self.nodes[node])

    @property
    def by_time(self) -> bool:
        """Whether slots go by time, so that records need a timestamp."""
        return self.slots.by == "time"

    def loss_of(self, node: str) -> LossSettings:
        """Return the loss of one node. For a name that is no node's, return the mesh's loss."""
        settings = self.nodes.get(node)
        return self.loss if settings is None or settings.loss is None else settings.loss

    @property
    def label_weights(self) -> tuple[float, ...]:
        """The weight of each label; none if all weigh the same."""
        weights = self.class_weights
        return (weights.weights if isinstance(weights, WeightsWithinClip) else weights) or ()

    @property
    def weighs_within_clip(self) -> bool:
        """Whether gradients are clipped before they are weighted, by shares of the largest weight."""
        return isinstance(self.class_weights, WeightsWithinClip)

    @property
    def shift(self) -> float:
        """The seconds that are added to the time of every record of a file; 0 with slots by count."""
        return self.slots.shift if isinstance(self.slots, TimeSlotsSettings) else 0.0

    @property
    def agreed(self) -> dict[str, Any]:
        """The settings that all nodes must share.

        Membership, a node's own settings and the schedule are not in it.
        """
        optional = set() if self.class_weights is None else {"class_weights"}
        optional |= set() if self.layout == "edges" else {"layout"}
        optional |= set() if self.signatures == "none" else {"signatures"}
        optional |= set() if self.rule is None else {"rule"}
        agreed = self.model_dump(mode="json", include=AGREED | {"privacy"} | optional)
        if self.features is not None:
            # The features are a list, because canonical JSON sorts a mapping's keys. Defaults are left out,
            # so that digests do not depend on which of them a file writes.
            features = self.features.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            agreed["features"] = features | {"features": [*map(list, features["features"].items())]}
        return agreed

    @property
    def agreed_text(self) -> str:
        """`agreed` as canonical JSON."""
        return json.dumps(self.agreed, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def digest(self) -> bytes:
        """Return 16 bytes of the SHA-256 of `agreed_text`."""
        return hashlib.sha256(self.agreed_text.encode()).digest()[:16]


# Settings of sensors whose positions are public (`curvature: public`).


def check_places(mesh: MeshSettings) -> None:
    """Raise a refusal unless nodes have places exactly where curvature is public, and the rest fits that."""
    if not mesh.public_places:
        name = next((name for name, node in mesh.nodes.items() if node.place is not None), None)
        if name is not None:
            text = "goes with algorithm.curvature: public: must not be given without it"
            raise refusal(text, "nodes", name, "place")
        return
    _check_signs(mesh.privacy)
    word = "curvature: public"
    if mesh.loss.range_ is None or mesh.loss.range_.huber is not None:
        raise refusal(f"{word} is for distances: must be range, without huber", "loss")
    if mesh.slots.size != 1:
        raise refusal(f"{word} takes one record a slot: must be 1", "slots", "size")
    if mesh.features is not None and mesh.features.width:
        text = f"{word} has positions in mesh.nodes, and no record may show one: must be {{}}"
        raise refusal(text, "features", "features")
    for name, node in mesh.nodes.items():
        _check_place(name, node, mesh.loss_dimension + (mesh.algorithm.height is not None))


def _check_signs(privacy: PrivacySettings) -> None:
    word = "curvature: public"
    if privacy.mechanism not in {"l2-sphere", "none"}:
        raise refusal(f"{word} releases one sign: must be l2-sphere or none", "privacy", "mechanism")
    if "gradient_bound" in privacy.model_fields_set:
        raise refusal(f"{word} clips no gradient: must not be given", "privacy", "gradient_bound")
    if privacy.unit is not None:
        raise refusal(f"{word} protects records alone: must not be given", "privacy", "unit")


def _check_place(name: str, node: NodeOverrides, wide: int) -> None:
    foreign_keys = sorted(node.overrides - {"epsilon"})
    if foreign_keys:
        text = "curvature: public has nodes differ in epsilon alone: must not be given"
        raise refusal(text, "nodes", name, foreign_keys[0])
    if node.place is None:
        raise refusal(f"missing: curvature: public needs {wide} numbers", "nodes", name, "place")
    if len(node.place) != wide:
        raise refusal(f"must be {wide} numbers", "nodes", name, "place")


# With a privacy unit the settings name the epsilon of all its rounds at `sharing` nodes. For Gaussian noise
# `releases` of the mechanism are k; for pure noise the epsilons of k releases add up.


def mechanism_epsilon(mesh: MeshSettings, privacy: PrivacySettings, epsilon: Epsilon) -> Fraction:
    """Return the epsilon of one release, or, for Gaussian noise, of all that a unit takes part in."""
    unit, of_release = mesh.unit, release_epsilon(epsilon, mesh.slots.size)
    if unit is None or isinstance(epsilon, EpsilonSettings):
        return of_release
    return epsilon / (unit.sharing * (1 if privacy.mechanism.startswith("gaussian") else unit.records))


def unit_epsilon(mesh: MeshSettings, privacy: PrivacySettings) -> Fraction | None:
    """Return the epsilon of what is protected, a unit or a record; None: nothing is."""
    unit, epsilon, size = mesh.unit, privacy.epsilon, mesh.slots.size
    if epsilon is None or privacy.mechanism == "none":
        return None
    if unit is None:
        return release_epsilon(epsilon, size)
    growing = growing_epsilon(epsilon, size)
    if growing is not None:
        return unit.sharing * unit.dearest(growing)
    if isinstance(epsilon, EpsilonSettings):
        return unit.sharing * unit.records * release_epsilon(epsilon, size)
    return epsilon
