"""How records are protected, and into which slots they go."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from streams.mesh_file.settings.base import Count, Exact, Positive, Seconds, Settings, refusal, tagged

MechanismName = Literal["laplace", "none"]


class PrivacySettings(Settings):
    """The mechanism between a node's gradients and its releases.

    `epsilon` is of one release and, at event level, of the whole stream. `gradient_bound` (theta) is enforced
    by clipping each record's gradient in `norm`. `budget` is stream-level and optional.
    """

    mechanism: MechanismName
    on: Literal["gradient", "parameters"] = "gradient"
    noise: Literal["exact", "simulated"] = "exact"
    epsilon: Exact | None = None
    gradient_bound: Positive
    norm: Literal["l1", "l2", "linf"] = "l1"
    budget: Exact | None = None
    after_budget: Literal["relay", "leave"] = "relay"

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.mechanism == "laplace" and self.epsilon is None:
            raise refusal("missing: mechanism laplace needs a number above 0", "epsilon")
        if self.mechanism == "none" and self.budget is not None:
            raise refusal("mechanism none protects nothing, so there is no budget to keep", "budget")
        if self.mechanism == "laplace" and self.on == "gradient" and self.norm != "l1":
            raise refusal("laplace on the gradient clips in l1: must be l1", "norm")
        return self


class PrivacyOverrides(Settings):
    """What one node does otherwise. Public: it stands in the shared part."""

    mechanism: MechanismName | None = None
    epsilon: Exact | None = None
    gradient_bound: Positive | None = None


class CountSlots(Settings):
    """The next `size` records by offset; empty after `timeout` seconds, and the records wait."""

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
    """Slot t holds the first `size` records of its period, by timestamp; it closes `grace` seconds late."""

    by: Literal["time"]
    period: Positive
    start: Annotated[float, BeforeValidator(_moment)]
    size: Count = 1
    grace: float = Field(0.2, ge=0)


SlotSettings = Annotated[
    Annotated[CountSlots | TimeSlots, Field(discriminator="by")], tagged("by", "count", "time")
]
