"""Step sizes alpha_t: public functions of the round t >= 1 alone."""

import math
from dataclasses import dataclass
from typing import Protocol

from nodes.checks import not_negative, positive


class StepSize(Protocol):
    """alpha_t for t = 1, 2, ...: positive and finite."""

    def __call__(self, round: int, /) -> float:
        """Return alpha_t of round t >= 1."""


@dataclass(frozen=True, slots=True)
class Constant:
    """alpha_t = a; ValueError unless a > 0 and finite."""

    a: float

    def __post_init__(self) -> None:
        positive("a", self.a)

    def __call__(self, round: int, /) -> float:  # noqa: ARG002 # the same in all rounds
        """Return a."""
        return self.a


@dataclass(frozen=True, slots=True)
class InverseSqrt:
    """alpha_t = a/sqrt(t); ValueError unless a > 0 and finite."""

    a: float

    def __post_init__(self) -> None:
        positive("a", self.a)

    def __call__(self, round: int, /) -> float:
        """Return a/sqrt(t)."""
        return self.a / math.sqrt(round)


@dataclass(frozen=True, slots=True)
class Inverse:
    """alpha_t = a/t; ValueError unless a > 0 and finite."""

    a: float

    def __post_init__(self) -> None:
        positive("a", self.a)

    def __call__(self, round: int, /) -> float:
        """Return a/t."""
        return self.a / round


@dataclass(frozen=True, slots=True)
class ShiftedInverse:
    """alpha_t = a/(b + t); ValueError unless a > 0 and b >= 0, both finite."""

    a: float
    b: float

    def __post_init__(self) -> None:
        positive("a", self.a)
        not_negative("b", self.b)

    def __call__(self, round: int, /) -> float:
        """Return a/(b + t)."""
        return self.a / (self.b + round)
