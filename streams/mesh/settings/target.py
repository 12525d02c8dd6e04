"""The target of made-up sensors: where it goes, and how fast."""

from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from streams.mesh.settings.base import Choice, Positive, Settings, refusal

FASTEST = 10.0
"""The longest way of a round in random manoeuvres, which are made of short parts."""
Point = Annotated[tuple[float, float], Field(strict=False)]
"""A place in the plane: [x, y]."""


def _some(value: object) -> object:
    if isinstance(value, list) and not value:
        raise refusal("a path of no points: must be a list of one [x, y] or more")
    return value


class PathSettings(Choice):
    """A path in the plane, about 0; sensors stand 1.5 from there by default."""

    words: ClassVar[tuple[str, ...]] = ("paper", "still", "circle", "figure-eight", "random-manoeuvre")

    paper: bool = False
    """From (0.8, 0.95) in steps that shrink as 1/t (Zhou, Li 2025, section 5): it soon stands still."""
    still: bool = False
    """At (0.8, 0.95)."""
    circle: bool = False
    """Round and round: 0.9 (cos s, sin s)."""
    figure_eight: bool = Field(default=False, alias="figure-eight")
    """(0.9 sin s, 0.6 sin 2s)."""
    random_manoeuvre: bool = Field(default=False, alias="random-manoeuvre")
    """Straight legs and turns, drawn from the seed, at most 1.25 from 0."""
    waypoints: Annotated[tuple[Point, ...] | None, Field(strict=False), BeforeValidator(_some)] = None
    """From each of these places straight to the next, and from the last to the first."""


class TargetSettings(Settings):
    """The target that made-up sensors (`localisation`) measure, the same for all nodes."""

    path: PathSettings = PathSettings(paper=True)
    """Where it goes."""
    speed: Positive | None = None
    """The way that it goes in a round, always the same. Not given for `paper` and `still`; all others need
    it. For `random-manoeuvre` at most 10."""

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
