"""What a mechanism is: the one step from private gradients to a public release."""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple, Protocol

from nodes.privacy.private import Private
from nodes.sparse import Rows
from nodes.values import BoolArray, FloatArray, IntArray, Release

Update = Callable[[FloatArray], FloatArray]
"""The algorithm's step of this round: gradient (..., d) -> next value (..., d).

A public map: all else that it depends on is public (consensus, decision, settings, round).
"""


class Secret(NamedTuple):
    """What a mechanism must remember from step to step, and nobody may know.

    It is journalled with the release that it went into, and given back in the next step. `basis`, public,
    says in which settings `draws` (k, ..., d), the newest first, were made.
    """

    basis: str
    draws: Private[IntArray]


class Sampler(Protocol):
    """Where noise comes from: an argument, as every randomness is."""

    @property
    def simulated(self) -> bool:
        """Whether the noise is seeded, and so protects nothing."""

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values` plus independent discrete Laplace noise, P(k) ~ exp(-|k|/scale), same shape.

        A caller keeps |values| + 64 scale below 2^62, and asks once a round.
        """

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values` plus independent discrete Gaussian noise, P(k) ~ exp(-k^2/(2 scale^2)), same shape.

        As for `laplace`: |values| + 64 scale below 2^62, once a round.
        """

    def sphere(self, round: int, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """Return directions (..., d), uniform on the unit sphere, and numbers (...), uniform on [0, 1).

        Functions of no data, independent and alike over all axes but the last, and otherwise not exact:
        nothing may be proved from how uniform they are.
        """

    def randomised(self, round: int, bits: BoolArray, epsilon: Fraction) -> BoolArray:
        """Return `bits`, each kept with probability e^epsilon/(1 + e^epsilon), else turned; never kept more.

        As for `laplace`: once a round.
        """


class Privatised(NamedTuple):
    """A release, with what the owner alone may know of its making.

    `clipped` counts the observations that the clip changed, `broken` those that were no numbers. `secret` is
    what the next step needs; None: nothing.
    """

    release: Release
    clipped: Private[int]
    broken: Private[int]
    secret: Secret | None = None


class Mechanism(Protocol):
    """Turns the gradients of a slot into a release."""

    @property
    def name(self) -> str:
        """The mechanism's name, for people."""

    @property
    def epsilon(self) -> Fraction | None:
        """Of one release, exactly as claimed; None: nothing is protected."""

    @property
    def delta(self) -> float:
        """0 for a pure guarantee."""

    @property
    def simulated(self) -> bool:
        """Whether the noise is seeded, and so protects nothing."""

    @property
    def release_slack(self) -> float:
        """How far, in L2, noise may carry a release out of the set that the algorithm keeps it in."""

    def noise_scale(self, round: int) -> float:
        """Return the scale of one coordinate's noise drawn in `round`, in units of what is noised."""

    def privatise(
        self,
        round: int,
        gradients: Private[Rows],
        update: Update,
    ) -> Privatised:
        """Return the release that the step of `round` makes of gradients (..., n, d), n <= batch size.

        Sparse rows (n, d) give what the same rows give when dense.

        Total: any floats give a release. To be called once a round: each call is a draw, and draws add up.
        """
