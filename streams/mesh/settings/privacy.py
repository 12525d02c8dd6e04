"""Settings of privacy and of slots."""

from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from nodes.accounting.calibration import LEAST_DELTA
from nodes.accounting.releases import GrowingEpsilon, uniform_epsilon
from nodes.privacy.bisr_coefficients import MOST_BANDS
from streams.mesh.settings.algorithm import LossSettings
from streams.mesh.settings.base import (
    Count,
    Exact,
    Positive,
    Seconds,
    Settings,
    Vector,
    absent,
    refusal,
    tagged,
)
from streams.mesh.settings.keys import PublicKey

# Settings of spending: the epsilon of a release or of a schedule of releases, and the budget of a stream.


class EpsilonSettings(Settings):
    """A total epsilon of the whole stream, split over rounds.

    It is the sum of the releases' epsilons (stream level).
    """

    total: Exact
    """The sum of the epsilons of all releases."""
    rounds: Count
    """The last of the rounds that have a part of the total. After it a node learns no more."""
    schedule: Literal["uniform", "growing"] = "uniform"
    """`uniform`: the same epsilon each round. `growing`: more in later rounds, for laplace on the
    gradient."""


class BudgetSettings(Settings):
    """A budget of the whole stream at a delta.

    What is spent is computed by the tightest known composition.
    """

    epsilon: Exact
    """The largest epsilon of the whole stream."""
    delta: float = Field(ge=1e-12, lt=1)
    """The delta of this guarantee."""


def _kind(value: Any) -> str:
    return "mapping" if isinstance(value, Mapping | Settings) else "number"


Epsilon = Annotated[
    Annotated[Exact, Tag("number")] | Annotated[EpsilonSettings, Tag("mapping")], Discriminator(_kind)
]
"""The epsilon of every release, or a total with a schedule."""
Budget = Annotated[
    Annotated[Exact, Tag("number")] | Annotated[BudgetSettings, Tag("mapping")], Discriminator(_kind)
]
"""A budget of pure epsilon, spent as a sum of epsilons, or a budget with a delta."""


def release_epsilon(epsilon: Fraction | EpsilonSettings, batch_size: int) -> Fraction:
    """Return the largest epsilon of any release. Raises ValueError for an impossible schedule."""
    if not isinstance(epsilon, EpsilonSettings):
        return epsilon
    growing = growing_epsilon(epsilon, batch_size)
    return growing.largest if growing else uniform_epsilon(epsilon.total, epsilon.rounds, batch_size)


def growing_epsilon(epsilon: Fraction | EpsilonSettings | None, batch_size: int) -> GrowingEpsilon | None:
    """Return the schedule of growing epsilons; None if they do not grow. Raises ValueError."""
    if not isinstance(epsilon, EpsilonSettings) or epsilon.schedule != "growing":
        return None
    return GrowingEpsilon(epsilon.total, epsilon.rounds, batch_size)


def budget_epsilon(budget: Fraction | BudgetSettings | None) -> Fraction | None:
    """Return the epsilon of the whole stream's budget; None: no limit."""
    return budget.epsilon if isinstance(budget, BudgetSettings) else budget


def check_spending(
    mechanism: str, epsilon: Fraction | EpsilonSettings | None, budget: Fraction | BudgetSettings | None
) -> None:
    """Raise a refusal if the three do not fit together.

    `mechanism` is a text like `laplace on the gradient`.
    """
    growing = isinstance(epsilon, EpsilonSettings) and epsilon.schedule == "growing"
    if isinstance(epsilon, EpsilonSettings) and mechanism.startswith("gaussian"):
        raise refusal(
            "gaussian noise does not sum up to a total: must be a number, that of one release; what limits "
            "the whole stream is budget: {epsilon: ..., delta: ...}",
            "epsilon",
        )
    if growing and mechanism != "laplace on the gradient":
        raise refusal(
            f"{mechanism} keeps one epsilon: must be uniform (growing is for laplace on the gradient)",
            *("epsilon", "schedule"),
        )
    if growing and isinstance(budget, BudgetSettings):
        raise refusal("a growing epsilon is summed up: must be a number, without delta", "budget")
    if mechanism.startswith("gaussian") and isinstance(budget, Fraction):
        raise refusal("gaussian has a delta: must be {epsilon: ..., delta: ...}", "budget")


MechanismName = Literal["laplace", "gaussian", "gaussian-bisr", "l2-sphere", "none"]
Norm = Literal["l1", "l2", "linf"]
Calibration = Literal["analytic", "classic"]
_NORMS: dict[str, Norm] = {"gaussian": "l2", "gaussian-bisr": "l2", "l2-sphere": "l2"}
_OWN: dict[str, tuple[str, ...]] = {
    "delta": ("gaussian", "gaussian-bisr"),
    "calibration": ("gaussian",),
    "bands": ("gaussian-bisr",),
}
_USUAL: dict[str, dict[object, object]] = {
    "gaussian": {"calibration": "analytic"},
    "gaussian-bisr": {"bands": 16},
}

Delta = Annotated[float, Field(ge=LEAST_DELTA, lt=1)]
"""The delta of a guarantee."""
Bands = Annotated[int, Field(ge=1, le=MOST_BANDS)]
"""The number of rounds over which noise is correlated."""


class UnitSettings(Settings):
    """The unit that is protected: a person, or whatever has many records. All of its records together have
    the `epsilon`.
    """

    column: Annotated[str, Field(min_length=1)]
    """The column that names a record's unit. A record whose value there is missing, empty or no single value
    is never learnt from."""
    records: Count
    """k, the most rounds of a node that a unit takes part in, with one record in each."""
    apart: Count | None = Field(None, exclude_if=absent)
    """b: a unit's rounds are this far from each other. Not given: `rounds` of the mesh over `records`,
    rounded up. It is needed where `rounds` is `none`: then a unit takes part in at most `records` of any
    `records` times `apart` rounds in a row."""
    sharing: Count = 1
    """The most nodes that hold records of one unit: their epsilons together are `epsilon`. A unit at more
    nodes than these is protected less."""
    spread: Literal["seats"] = "seats"
    """Which records count. `seats`: the earliest of the unit in each of its rounds, which a hash of its name
    gives."""


def _nothing(value: object) -> bool:
    return value == 0  # left out of the digest, which stays as it was before this key existed


class PrivacySettings(Settings):
    """The mechanism between a node's gradients and its releases."""

    mechanism: MechanismName
    """The noise. `none` protects nothing."""
    on: Literal["gradient", "parameters"] = "gradient"
    """The value that gets the noise: a slot's gradient, or the node's parameters."""
    noise: Literal["exact", "simulated"] = "exact"
    """`exact`: from the operating system. `simulated`: from the seed, so that runs can be repeated; it
    protects nothing."""
    epsilon: Epsilon | None = None
    """The epsilon of one release and, at event level, of the whole stream; or a total with a schedule. When
    the schedule ends, a node acts as when its budget is spent. Not given for `none` alone."""
    delta: Delta | None = Field(None, exclude_if=absent)
    """The delta of one release. The Gaussian mechanisms need it. Not given for other mechanisms."""
    calibration: Calibration | None = Field(None, exclude_if=absent)
    """For `gaussian` alone: the formula of its noise. `classic` is for an epsilon of at most 1. Not given:
    `analytic`."""
    bands: Bands | None = Field(None, exclude_if=absent)
    """For `gaussian-bisr` alone: the number of rounds over which noise is correlated. Not given: 16."""
    unit: UnitSettings | None = Field(None, exclude_if=absent)
    """What is protected instead of a record: all records of a person. `epsilon` and `delta` are then the
    person's. Not given: a person with k records is protected at k `epsilon`."""
    gradient_bound: Positive = 1.0
    """theta, the largest norm of a record's gradient, to which longer ones are clipped. It also sets the
    noise. Needed, but not given for class-sums and moments."""
    norm: Norm = "l1"
    """The norm in which gradients are clipped. Not given: the mechanism's own, which is `l1` for laplace and
    `l2` for the others. With noise on the gradient no other norm is allowed."""
    budget: Budget | None = None
    """The most that the whole stream may spend: a sum of epsilons, or an epsilon at a delta. Not given: no
    limit."""
    after_budget: Literal["relay", "leave"] = "relay"
    """What a node does after its budget is spent. `relay`: it still mixes and sends, and learns no more.
    `leave`: it leaves."""

    @model_validator(mode="before")
    @classmethod
    def _of_the_mechanism(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        name = str(value.get("mechanism"))
        usual = {"norm": _NORMS.get(name, "l1")} | _USUAL.get(name, {})
        return usual | {key: item for key, item in value.items() if key not in usual or item is not None}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        name = self.mechanism
        if name != "none" and self.epsilon is None:
            raise refusal(f"missing: mechanism {name} needs a number above 0", "epsilon")
        if name == "none" and self.budget is not None:
            raise refusal("mechanism none protects nothing, so there is no budget to keep", "budget")
        if name == "none" and self.unit is not None:
            raise refusal("mechanism none protects nothing, so it protects no unit", "unit")
        if name in _NORMS and self.on != "gradient":
            raise refusal(f"{name} randomises gradients: must be gradient", "on")
        norm = _NORMS.get(name, "l1")
        if name != "none" and self.on == "gradient" and self.norm != norm:
            raise refusal(f"{name} on the gradient clips in {norm}: must be {norm}", "norm")
        if name in _OWN["delta"] and self.delta is None:
            raise refusal(f"missing: mechanism {name} needs a number above 0 and below 1", "delta")
        for key, names in _OWN.items():
            if name not in names and getattr(self, key) is not None:
                raise refusal(f"is for mechanism {' or '.join(names)}, not for {name}", key)
        check_spending(f"{name} on the {self.on}", self.epsilon, self.budget)
        return self

    @property
    def protected(self) -> str:
        """What `epsilon` protects: `record`, or the name of the units' column."""
        return "record" if self.unit is None else self.unit.column

    def overridden(self, own: "NodeOverrides") -> "PrivacySettings":
        """Return these settings with a node's overrides.

        With another mechanism the keys of this one are left out.
        """
        changes = {key: value for key, value in own if key in type(self).model_fields and value is not None}
        mechanisms = {"norm": ("none", self.mechanism), **_OWN}
        name = changes.get("mechanism", self.mechanism)
        inherited = {key: value for key, value in self if name in mechanisms.get(key, (name,))}
        if "gradient_bound" not in self.model_fields_set:
            del inherited["gradient_bound"]
        return PrivacySettings.model_validate(inherited | changes)


class CountSlotsSettings(Settings):
    """Slots of the next records, in their order."""

    by: Literal["count"]
    """Slots by count."""
    size: Count = 1
    """h, the number of records of a slot."""
    timeout: Seconds = 10.0
    """Seconds after which a slot without enough records is closed empty; its records wait for the next slot.
    `none`: never. The time of a request to a schema registry, or of its outage, does not count."""


def _moment(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise refusal("must be seconds since 1970 or a time with its zone, like 2026-01-31T12:00:00Z")
    return moment.timestamp()


class TimeSlotsSettings(Settings):
    """Slots of the records of a period, by their timestamps."""

    by: Literal["time"]
    """Slots by time."""
    period: Positive
    """Seconds that a slot lasts."""
    start: Annotated[float, BeforeValidator(_moment)]
    """The time at which slot 1 begins: seconds since 1970, or ISO 8601 with a zone, like
    2026-01-31T12:00:00Z."""
    size: Count = 1
    """h, the largest number of a period's records that are learnt from. Sums are divided by it."""
    grace: float = Field(0.2, ge=0)
    """Seconds from a period's end until its slot closes."""
    shift: float = Field(0.0, exclude_if=_nothing)
    """Seconds that are added to the time of every record of a file. The number is public, every guarantee
    names it, and it does not depend on records. `up --replay` writes it. With it a late node catches up slot
    by slot. Without it, slots that are more than H behind the clock are dropped."""


SlotSettings = Annotated[
    Annotated[CountSlotsSettings | TimeSlotsSettings, Field(discriminator="by")],
    tagged("by", "count", "time"),
]


# The settings in which one node differs from the mesh. They are public.


class NodeOverrides(Settings):
    """The settings of one node that differ from the mesh's, and its public key. All of them are public."""

    mechanism: MechanismName | None = None
    """The node's own mechanism. Not given: that of `privacy`."""
    epsilon: Epsilon | None = None
    """The node's own epsilon. Not given: that of `privacy`."""
    delta: Delta | None = None
    """The node's own delta. Not given: that of `privacy`."""
    bands: Bands | None = None
    """The node's own bands. Not given: that of `privacy`."""
    gradient_bound: Positive | None = None
    """The node's own clip. Not given: that of `privacy`, and shorter where the node's noise would be longer
    than by `privacy`: times the ratio of the two lengths, with laplace that of the epsilons."""
    norm: Norm | None = None
    """The node's own norm. Not given: that of `privacy`."""
    loss: LossSettings | None = None
    """The node's own loss of the same decision, as for another kind of sensor. Not given: that of the
    mesh."""
    place: Vector | None = None
    """The position of the node's sensor. `curvature: public` needs it of each node; not given otherwise, as
    positions are then features of records."""
    key: PublicKey | None = None
    """The public key of what the node signs, as `mirrormesh key` shows it. Not given: the node signs
    nothing."""

    @property
    def overrides(self) -> set[str]:
        """The names of the settings in which the node differs."""
        return {name for name in self.model_fields_set if getattr(self, name) is not None} - {"key", "place"}


def members(value: object) -> object:
    """Read a list of names as a mapping from nodes to no overrides."""
    if isinstance(value, list):
        repeated = [name for k, name in enumerate(value) if name in value[:k]]
        if repeated:
            raise refusal(f"{repeated[0]} is named twice: every node once")
        if not all(isinstance(name, str) for name in value):
            raise refusal("must be a list of names, or a mapping from names to what a node does otherwise")
        return {name: {} for name in value}
    if isinstance(value, dict):
        return {name: {} if node is None else node for name, node in value.items()}
    raise refusal("must be a list of names, or a mapping from names to what a node does otherwise")
