"""Settings of privacy and of slots."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from nodes.accounting.calibration import LEAST_DELTA
from nodes.privacy.bisr_coefficients import MOST_BANDS
from streams.mesh.settings.base import Count, Positive, Seconds, Settings, absent, refusal, tagged
from streams.mesh.settings.budget import Budget, Epsilon, check_spending

if TYPE_CHECKING:
    from streams.mesh.settings.overrides import NodeOverrides

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


def _nothing(value: object) -> bool:
    return value == 0  # left out of the digest, which stays as it was before this key


class PrivacySettings(Settings):
    """The mechanism between a node's gradients and its releases."""

    mechanism: MechanismName
    """The noise. `none` protects nothing."""
    on: Literal["gradient", "parameters"] = "gradient"
    """What noise is added to: a slot's gradient, or the node's parameters."""
    noise: Literal["exact", "simulated"] = "exact"
    """`exact`: from the operating system. `simulated`: from the seed, so that runs can be repeated; it
    protects nothing."""
    epsilon: Epsilon | None = None
    """The epsilon of one release and, at event level, of the whole stream; or a total with a schedule,
    after whose end a node does as after its budget. Not given for `none` alone."""
    delta: Delta | None = Field(None, exclude_if=absent)
    """The delta of one release. Not given for mechanisms that are not Gaussian; those need it."""
    calibration: Calibration | None = Field(None, exclude_if=absent)
    """Of `gaussian` alone: the formula of its noise. `classic` is for an epsilon of at most 1. Not given:
    `analytic`."""
    bands: Bands | None = Field(None, exclude_if=absent)
    """Of `gaussian-bisr` alone: the number of rounds over which noise is correlated. Not given: 16."""
    gradient_bound: Positive
    """theta: a record's gradient is clipped to this length. It also sets the noise."""
    norm: Norm = "l1"
    """In which norm gradients are clipped. By default the mechanism's own: `l1` for laplace, `l2` for the
    others; for noise on the gradient no other is taken."""
    budget: Budget | None = None
    """The most that the whole stream may spend: a sum of epsilons, or an epsilon at a delta. Not given: no
    limit."""
    after_budget: Literal["relay", "leave"] = "relay"
    """What a node does when its budget is spent: pass on what it hears, or leave."""

    @model_validator(mode="before")
    @classmethod
    def _of_the_mechanism(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        name = str(value.get("mechanism"))
        usual = {"norm": _NORMS.get(name, "l1")} | _USUAL.get(name, {})
        return usual | {key: own for key, own in value.items() if key not in usual or own is not None}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        name = self.mechanism
        if name != "none" and self.epsilon is None:
            raise refusal(f"missing: mechanism {name} needs a number above 0", "epsilon")
        if name == "none" and self.budget is not None:
            raise refusal("mechanism none protects nothing, so there is no budget to keep", "budget")
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

    def overridden(self, own: "NodeOverrides") -> "PrivacySettings":
        """Return these settings with a node's overrides; another mechanism drops this one's own keys."""
        changes = {key: value for key, value in own if key in type(self).model_fields and value is not None}
        whose = {"norm": ("none", self.mechanism), **_OWN}
        name = changes.get("mechanism", self.mechanism)
        kept = {key: value for key, value in self if name in whose.get(key, (name,))}
        return PrivacySettings.model_validate(kept | changes)


class CountSlots(Settings):
    """Slots of the next records, in their order."""

    by: Literal["count"]
    """Slots by count."""
    size: Count = 1
    """h, the number of records of a slot."""
    timeout: Seconds = 10.0
    """Seconds after which a slot that lacks records is closed empty; its records wait. `none`: never."""


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


class TimeSlots(Settings):
    """Slots of the records of a period, by their timestamps."""

    by: Literal["time"]
    """Slots by time."""
    period: Positive
    """Seconds that a slot lasts."""
    start: Annotated[float, BeforeValidator(_moment)]
    """When slot 1 begins: seconds since 1970, or ISO 8601 with a zone, like 2026-01-31T12:00:00Z."""
    size: Count = 1
    """h: the largest number of a period's records that are learnt from. Sums are divided by it."""
    grace: float = Field(0.2, ge=0)
    """Seconds after a period's end until its slot closes."""
    shift: float = Field(0.0, exclude_if=_nothing)
    """Seconds that are added to the time of every record of a file: public, named by every guarantee, and
    chosen from nobody's records. `up --replay` writes it. With it a late node catches up slot by slot,
    where otherwise more than H slots behind the clock are dropped."""


SlotSettings = Annotated[
    Annotated[CountSlots | TimeSlots, Field(discriminator="by")], tagged("by", "count", "time")
]
