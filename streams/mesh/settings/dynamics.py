"""Settings of a motion model, and what else an algorithm must have beside one."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from streams.mesh.settings.base import Matrix, Positive, Settings, Vector, absent, refusal

ORDERS = {"constant-velocity": 2, "constant-acceleration": 3}
"""Derivatives in a model's state, the position included."""
MOST = 64
"""The largest number of coordinates of a position, and a third of those of a state."""


def _rows(value: object) -> object:
    if isinstance(value, list) and all(isinstance(row, list) for row in value):
        lengths = {len(row) for row in value}
        if not 1 <= len(value) <= 3 * MOST:
            raise refusal(f"has {len(value)} rows: must have from 1 to {3 * MOST}")
        if lengths != {len(value)}:
            shown = " or ".join(str(length) for length in sorted(lengths))
            raise refusal(f"{len(value)} rows of {shown} numbers: must be square")
    return value


class DynamicsSettings(Settings):
    """F, how a state moves in a round, in public: a model with its dimensions and period, or a matrix."""

    model: Literal["constant-velocity", "constant-acceleration"] | None = Field(None, exclude_if=absent)
    """`constant-velocity`: the state is the position, then the velocity. `constant-acceleration`: then the
    acceleration too. Not given beside `matrix`."""
    dimensions: int | None = Field(None, ge=1, le=MOST, exclude_if=absent)
    """For a model, which needs it: the number of the position's coordinates. Not given beside `matrix`."""
    period: Positive | None = Field(None, exclude_if=absent)
    """For a model, which needs it: the time of a round, in the unit that velocities are per. With slots by
    time it is the slots'. Not given beside `matrix`."""
    matrix: Annotated[Matrix | None, BeforeValidator(_rows), Field(exclude_if=absent)] = None
    """The rows of F, square. Not given beside `model`."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.model is None) == (self.matrix is None):
            raise refusal("must have either model or matrix")
        for key in ("dimensions", "period"):
            given = getattr(self, key) is not None
            if self.model is not None and not given:
                raise refusal(f"missing: {self.model} needs it, above 0", key)
            if self.model is None and given:
                raise refusal("is for a model, not for a matrix", key)
        return self

    @property
    def orders(self) -> int | None:
        """The number of derivatives in the state; None: nothing is known of a matrix's."""
        return None if self.model is None else ORDERS[self.model]

    @property
    def dimension(self) -> int:
        """The dimension d of a state."""
        if self.matrix is not None:
            return len(self.matrix)
        return (self.orders or 1) * (self.dimensions or 1)

    @property
    def usual(self) -> tuple[int, ...]:
        """The coordinates that a loss sees unless told: a model's position, all of a matrix's state."""
        return tuple(range(self.dimension if self.dimensions is None else self.dimensions))


class ReachSettings(Settings):
    """A box around 0 for the state of a motion model: each coordinate is at most that far from 0."""

    position: Positive
    """Of a position's coordinates."""
    speed: Positive
    """Of a velocity's."""
    acceleration: Positive | None = Field(None, exclude_if=absent)
    """Of an acceleration's, for `constant-acceleration`, which needs it. Not given for others."""

    @property
    def bounds(self) -> tuple[float, ...]:
        """The bounds, one for each derivative."""
        found = (self.position, self.speed)
        return found if self.acceleration is None else (*found, self.acceleration)


Coordinates = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False, min_length=1, max_length=3 * MOST)
]
"""Distinct places in a state, from 0."""
Gains = Annotated[Vector, Field(strict=False)]
"""k1, k2 and, with an acceleration, k3."""


def check_observes(dynamics: DynamicsSettings, observes: tuple[int, ...] | None) -> None:
    """Raise a refusal unless the loss may see these coordinates of the state."""
    last = dynamics.dimension - 1
    if observes is None:
        return
    if max(observes) > last:
        raise refusal(f"must be coordinates from 0 to {last}", "observes")
    if len(set(observes)) < len(observes):
        raise refusal("names a coordinate twice: every one once", "observes")


def check_gains(dynamics: DynamicsSettings, gains: tuple[float, ...] | None, *, euclidean: bool) -> None:
    """Raise a refusal unless the gains, or a mirror map in their place, fit the model."""
    if dynamics.orders is None:
        if gains is not None:
            raise refusal("is for a model: beside a matrix it must be a mirror_map", "gains")
        return
    names = ", ".join(f"k{k + 1}" for k in range(dynamics.orders))
    needed = f"[{names}], {dynamics.orders} numbers above 0"
    if gains is None:
        if euclidean:
            raise refusal(f"missing: nothing else moves a velocity: must be {needed}", "gains")
        return
    if not euclidean:
        raise refusal("gains are the mirror map: must not be given beside them", "mirror_map")
    if len(gains) != dynamics.orders or not all(gain > 0 for gain in gains):
        raise refusal(f"must be {needed}", "gains")


def check_set(dynamics: DynamicsSettings, reach: ReachSettings | None, box: Mapping[str, int] | None) -> None:
    """Refuse a set in which a velocity has no bound of its own; `box`: how many numbers its corners have."""
    if reach is not None:
        if dynamics.orders is None:
            raise refusal("reach is for a model: must be a box", "constraint", "reach")
        if len(reach.bounds) != dynamics.orders:
            keys = ("position", "speed", "acceleration")[: dynamics.orders]
            raise refusal(f"must have {', '.join(keys)} for {dynamics.model}", "constraint", "reach")
        return
    own = "velocities need bounds of their own"
    if box is None:
        raise refusal(f"{own}: must be {{reach: ...}} or {{box: ...}}", "constraint")
    for key, numbers in box.items():
        if dynamics.orders is not None and numbers == 1:
            raise refusal(f"{own}: must be {dynamics.dimension} numbers", "constraint", "box", key)
