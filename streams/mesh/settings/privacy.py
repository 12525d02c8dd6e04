"""Settings of privacy and of slots."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from nodes.accounting.calibration import LEAST_DELTA
from nodes.privacy.bisr_coefficients import MOST_BANDS
from streams.mesh.settings.base import Count, Positive, Seconds, Settings, refusal, tagged
from streams.mesh.settings.budget import Budget, Epsilon, check_spending

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


def _absent(value: object) -> bool:
    return value is None  # left out of the digest, which stays as it was before this key


class PrivacySettings(Settings):
    """The mechanism between a node's gradients and its releases.

    `epsilon` is that of one release and, at event level, of the whole stream. `gradient_bound` (theta) is
    enforced by clipping each record's gradient in `norm`, by default the mechanism's own. `delta` is for the
    Gaussian mechanisms, `calibration` for `gaussian`, `bands` for `gaussian-bisr`. `budget` is stream-level
    and optional; so is the total of a schedule of `epsilon`, whose end a node treats like a spent budget.
    """

    mechanism: MechanismName
    on: Literal["gradient", "parameters"] = "gradient"
    noise: Literal["exact", "simulated"] = "exact"
    epsilon: Epsilon | None = None
    delta: Delta | None = Field(None, exclude_if=_absent)
    calibration: Calibration | None = Field(None, exclude_if=_absent)
    bands: Bands | None = Field(None, exclude_if=_absent)
    gradient_bound: Positive
    norm: Norm = "l1"
    budget: Budget | None = None
    after_budget: Literal["relay", "leave"] = "relay"

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

    def overridden(self, own: "PrivacyOverrides") -> "PrivacySettings":
        """Return these settings with a node's overrides; another mechanism drops this one's own keys."""
        changes = {key: value for key, value in own if value is not None}
        whose = {"norm": ("none", self.mechanism), **_OWN}
        name = changes.get("mechanism", self.mechanism)
        kept = {key: value for key, value in self if name in whose.get(key, (name,))}
        return PrivacySettings.model_validate(kept | changes)


class PrivacyOverrides(Settings):
    """One node's changes to the shared privacy settings. They are public, in the shared part."""

    mechanism: MechanismName | None = None
    epsilon: Epsilon | None = None
    delta: Delta | None = None
    bands: Bands | None = None
    gradient_bound: Positive | None = None
    norm: Norm | None = None


class CountSlots(Settings):
    """Slots of the next `size` records by offset. After `timeout` seconds a slot is empty; records wait."""

    by: Literal["count"]
    size: Count = 1
    timeout: Seconds = 10.0


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
    """Slots by timestamp: each holds the first `size` records of its period, and closes after `grace`."""

    by: Literal["time"]
    period: Positive
    start: Annotated[float, BeforeValidator(_moment)]
    size: Count = 1
    grace: float = Field(0.2, ge=0)


SlotSettings = Annotated[
    Annotated[CountSlots | TimeSlots, Field(discriminator="by")], tagged("by", "count", "time")
]
