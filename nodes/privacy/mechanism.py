"""What a mechanism is: the one step from private gradients to a public release."""

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


class Band(NamedTuple):
    """How noise is correlated over rounds: by the matrix C^-1. `step`: of the grid that estimates are on."""

    matrix: BandMatrix
    step: float


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

    @property
    def band(self) -> Band | None:
        """How the noise is correlated over rounds; None: each round's is independent."""

    @property
    def audited(self) -> "Audited | None":
        """What an audit draws from, the mechanism of the round with the least noise; None: no claim."""

    def composition(self, budget: DeltaBudget | None) -> Composition | None:
        """Return how releases add up at stream level, for an account with a delta or (None) without.

        None where nothing is protected. Raises ValueError for a delta that the account cannot have.
        """

    def noise_scale(self, round: int) -> float:
        """Return the scale of one coordinate's noise drawn in `round`, in units of what is noised."""

    def privatise(
        self, round: int, gradients: Private[Rows], update: Update, secret: Secret | None = None
    ) -> Privatised:
        """Return the release that the step of `round` makes of gradients (..., n, d), n <= batch size.

        Sparse rows (n, d) give what the same rows give when dense. `secret`: what the step before gave.

        Total: any floats give a release. To be called once a round: each call is a draw, and draws add up.
        """


class Audited(Mechanism, Protocol):
    """What an audit needs to know of a mechanism that claims something."""

    @property
    def epsilon(self) -> Fraction:
        """Of one release, exactly as claimed."""

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
        """Where the noise comes from."""

    @property
    def mu(self) -> float | None:
        """What Gaussian noise claims: the sensitivity over its scale, rounded up; None: other noise."""

    @property
    def draw_cost(self) -> int:
        """What one release takes, in noisy integers."""

    def with_sampler(self, sampler: Sampler) -> "Audited":
        """Return the same mechanism with another sampler."""
