"""The interface of a mechanism: the one step from private gradients to a public release."""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple, Protocol

from nodes.accounting.releases import Composition, DeltaBudget
from nodes.privacy.bisr_coefficients import BandMatrix
from nodes.privacy.private import Private
from nodes.sparse import Rows
from nodes.values import BoolArray, FloatArray, IntArray, Release

Update = Callable[[FloatArray], FloatArray]
"""The algorithm's step of this round: gradient (..., d) -> next value (..., d).

The map is public: everything else that it depends on is public (consensus, decision, settings, round).
"""


class Secret(NamedTuple):
    """The state that a mechanism keeps from step to step, which must stay secret.

    It is journalled with the release that it went into, and passed to the next step. `draws` (k, ..., d) has
    the newest first; `basis`, public, names the settings that they were made with.
    """

    basis: str
    draws: Private[IntArray]


class Sampler(Protocol):
    """The source of noise: an argument, as all randomness is."""

    @property
    def simulated(self) -> bool:
        """Whether the noise is seeded, and so protects nothing."""

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values` plus independent discrete Laplace noise, P(k) ~ exp(-|k|/scale), same shape.

        The caller keeps |values| + 64 scale below 2^62, and calls this once a round.
        """

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values` plus independent discrete Gaussian noise, P(k) ~ exp(-k^2/(2 scale^2)), same shape.

        As for `laplace`, |values| + 64 scale stays below 2^62; once a round.
        """

    def sphere(self, round: int, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """Return directions (..., d), uniform on the unit sphere, and numbers (...), uniform on [0, 1).

        They depend on no data, and are independent and identically distributed over all axes but the last.
        They are not exact otherwise: no proof may rest on their uniformity.
        """

    def randomised(self, round: int, bits: BoolArray, epsilon: Fraction) -> BoolArray:
        """Return `bits`, each kept with probability e^epsilon/(1 + e^epsilon), never more, otherwise flipped.

        As for `laplace`, once a round.
        """


class Privatised(NamedTuple):
    """A release, with values that only the data's owner may know.

    `clipped` counts the observations that the clip changed, `broken` those that were not finite. `secret` is
    the state that the next step needs, if any.
    """

    release: Release
    clipped: Private[int]
    broken: Private[int]
    secret: Secret | None = None


class Band(NamedTuple):
    """Correlation of noise over rounds by the matrix C^-1.

    `step`: that of the grid of estimates. `finer`: the bits by which a draw's step is finer.
    """

    matrix: BandMatrix
    step: float
    finer: int


class Mechanism(Protocol):
    """Turns the gradients of a slot into a release."""

    @property
    def name(self) -> str:
        """The name shown to people."""

    @property
    def epsilon(self) -> Fraction | None:
        """The epsilon of one release, exactly as claimed; None: nothing is protected."""

    @property
    def delta(self) -> float:
        """The delta of one release; 0 for a pure guarantee."""

    @property
    def simulated(self) -> bool:
        """Whether the noise is seeded, and so protects nothing."""

    @property
    def release_slack(self) -> float:
        """The L2 distance from the algorithm's set that a release with its noise may have."""

    @property
    def band(self) -> Band | None:
        """The correlation of noise over rounds; None: each round's noise is independent."""

    @property
    def audited(self) -> "Audited | None":
        """The mechanism that an audit draws from, that of the round with the least noise; None: no claim."""

    def composition(self, budget: DeltaBudget | None) -> Composition | None:
        """Return how releases compose at stream level. `budget` has the account's delta; None: no delta.

        None if nothing is protected. Raises ValueError for a delta that the account cannot have.
        """

    def noise_scale(self, round: int) -> float:
        """Return the scale of a coordinate's noise in `round`, in units of the value that it is added to."""

    def privatise(
        self, round: int, gradients: Private[Rows], update: Update, secret: Secret | None = None
    ) -> Privatised:
        """Return the release of the step of `round` from gradients (..., n, d), n <= batch size.

        Sparse rows (n, d) give the same result as dense ones. `secret` is that of the step before.

        Total: any floats give a release. Call it once a round: each call is a draw, and draws compose.
        """


class Audited(Mechanism, Protocol):
    """The interface that an audit needs from a mechanism with a claim."""

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of one release, exactly as claimed."""

    @property
    def theta(self) -> float:
        """The bound of a gradient's clip."""

    @property
    def batch_size(self) -> int:
        """The most gradients that one release takes."""

    @property
    def dimension(self) -> int:
        """The length d of a gradient."""

    @property
    def sampler(self) -> Sampler:
        """The source of the noise."""

    @property
    def mu(self) -> float | None:
        """The claim of Gaussian noise: the sensitivity over its scale, rounded up; None: other noise."""

    @property
    def draw_cost(self) -> int:
        """The noisy integers that one release takes."""

    def with_sampler(self, sampler: Sampler) -> "Audited":
        """Return the same mechanism with another sampler."""
