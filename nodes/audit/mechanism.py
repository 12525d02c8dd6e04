"""Audits a mechanism: compares what its code does with what it claims.

The statistical audit draws on two slots that differ in one record, as far as the clip allows, and looks at
the first coordinate. The lattice test finds what a statistic cannot see, values that one slot reaches and its
neighbour does not: it plays the sampler's answers for one slot back to another, and the releases must be the
same bits. If they are, a release is made of integers and coins that the sampler answered for both, of
directions that do not depend on data, and of public values. So noise in floats is found (Mironov 2012).

The releases of `gaussian-bisr` must be audited together, as later ones reveal something about earlier ones.
The statistic of several rounds is <C y, C(G - G')>, y the releases, on slots whose first differs as far as
the clip allows: no statistic separates the two better. As C y is C G and independent draws, it is normal with
mu = ||C(G - G')||/sigma. The lattice test is that of `nodes.audit.mechanism`.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np

from nodes.accounting.calibration import gaussian_epsilon
from nodes.audit.bounds import epsilon_lower_bound, mu_lower_bound
from nodes.privacy.bisr import FINER
from nodes.privacy.mechanism import Audited, Band, Sampler, Secret
from nodes.privacy.private import Private
from nodes.values import BoolArray, FloatArray, IntArray, Release

_CHUNK = 1 << 16
_STEEP = 2.0**20
_MOST_ROUNDS = 16


class Audit(NamedTuple):
    """The result of `draws` draws on each of two neighbouring slots.

    At `confidence` the true epsilon (at the mechanism's delta) is at least `lower_bound`. `claimed` is the
    mechanism's epsilon, or for classic calibration the epsilon that its noise gives.
    """

    lower_bound: float
    claimed: float
    confidence: float
    draws: int

    @property
    def refuted(self) -> bool:
        """Whether the bound is above the claim."""
        return self.lower_bound > self.claimed


def audit(
    mechanism: Audited,
    draws: int = 40_000,
    confidence: float = 0.95,
    round: int = 1,
    drawn: Callable[[int], None] | None = None,
) -> Audit:
    """Return a lower bound on the mechanism's epsilon from draws of `round`; its sampler must be exact.

    Costs 2 `draws` runs of `audit_rounds` releases; `drawn` gets the number of new ones from time to time.
    Raises ValueError for simulated noise, which protects nothing.
    """
    first, second = samples(mechanism, draws, round, drawn)
    if mechanism.mu is None:
        bound = epsilon_lower_bound(first, second, confidence)
        return Audit(bound, float(mechanism.epsilon), confidence, draws)
    mu = mu_lower_bound(first, second, confidence)
    bound = gaussian_epsilon(mu, mechanism.delta) if mu > 0 else 0.0
    return Audit(bound, gaussian_epsilon(mechanism.mu, mechanism.delta), confidence, draws)


def samples(
    mechanism: Audited, draws: int, round: int = 1, drawn: Callable[[int], None] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the statistic (draws,) on each of two slots of one record that are as far apart as it allows.

    Raises ValueError for simulated noise.
    """
    if mechanism.simulated:
        raise ValueError("the noise is simulated: there is nothing to audit")
    row = np.zeros((1, mechanism.dimension))
    row[0, 0] = mechanism.theta
    first, second = (_statistics(mechanism, sign * row, draws, round, drawn) for sign in (1.0, -1.0))
    return first, second


def audit_rounds(mechanism: Audited) -> int:
    """Return the number of rounds audited together: most of C's first column, at most 16, or 1."""
    return 1 if mechanism.band is None else min(_MOST_ROUNDS, len(mechanism.band.matrix.column))


def lattice_holds(mechanism: Audited, pairs: int = 100, seed: int = 0) -> bool:
    """Return whether slots of any gradients give the same bits when the sampler answers the same.

    Draws from the mechanism's own sampler, once per pair; the gradients come from `seed`.
    """
    if mechanism.band is not None:
        return band_lattice_holds(mechanism, mechanism.band, pairs, seed)
    random = np.random.Generator(np.random.Philox(seed))
    return all(_alike(mechanism, random, round) for round in range(1, pairs + 1))


def _alike(mechanism: Audited, random: np.random.Generator, round: int) -> bool:
    recorder = _Recorder(mechanism.sampler)
    taped = mechanism.with_sampler(recorder)
    slots = _slot(mechanism, random), _slot(mechanism, random)
    release, neighbour = (taped.privatise(round, Private(slot), _steep).release for slot in slots)
    return recorder.whole and release.tobytes() == neighbour.tobytes()


def _slot(mechanism: Audited, random: np.random.Generator) -> FloatArray:
    shape = (int(random.integers(0, min(mechanism.batch_size, 8) + 1)), mechanism.dimension)
    rows = random.standard_normal(shape) * mechanism.theta * 10 ** random.uniform(-3, 3, (shape[0], 1))
    rows[random.random(shape[0]) < 0.1] = math.nan
    return rows


def _statistics(
    mechanism: Audited, row: FloatArray, draws: int, round: int, drawn: Callable[[int], None] | None
) -> FloatArray:
    rows = max(1, _CHUNK // max(row.size, mechanism.draw_cost))
    parts = []
    for start in range(0, draws, rows):
        slots = np.broadcast_to(row, (min(rows, draws - start), *row.shape))
        parts.append(_statistic(mechanism, slots, round))
        if drawn is not None:
            drawn(len(slots))
    return np.concatenate(parts)


def _statistic(mechanism: Audited, slots: FloatArray, round: int) -> FloatArray:
    """Return the first coordinate of the releases of `slots` (n, 1, d), or <C y, C(G - G')> over rounds."""
    releases: list[FloatArray] = []
    secret: Secret | None = None
    for t in range(audit_rounds(mechanism)):
        gradients = slots if t == 0 else np.zeros_like(slots)
        private = mechanism.privatise(round + t, Private(gradients), _steep, secret)
        releases.append(private.release[:, 0])
        secret = private.secret
    if mechanism.band is None:
        return releases[0]
    column = mechanism.band.matrix.column[: len(releases)]
    y = np.stack(releases)
    statistic: FloatArray = column @ np.stack([column[: t + 1][::-1] @ y[: t + 1] for t in range(len(y))])
    return statistic


def _steep(gradient: FloatArray) -> FloatArray:
    """Return an update that is exact in floats and, on parameters, moves as far as the clip allows."""
    return gradient * -_STEEP


class _Recorder:
    """Answers a second slot as the sampler answered the first; notes values that are not integers."""

    simulated = False

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler
        self.whole = True
        self._answers: dict[str, Any] = {}

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:
        return self._integers("laplace", lambda: self.sampler.laplace(round, values, scale))

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:
        return self._integers("gaussian", lambda: self.sampler.gaussian(round, values, scale))

    def sphere(self, round: int, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        answer: tuple[FloatArray, FloatArray] = self._answer(
            "sphere", lambda: self.sampler.sphere(round, shape)
        )
        return answer

    def randomised(self, round: int, bits: BoolArray, epsilon: Fraction) -> BoolArray:
        coins: BoolArray = self._answer("coin", lambda: self.sampler.randomised(round, bits, epsilon))
        self.whole &= coins.dtype == np.bool_
        return coins

    def _integers(self, kind: str, draw: Any) -> IntArray:
        noisy: IntArray = self._answer(kind, draw)
        self.whole &= noisy.dtype == np.int64
        return noisy

    def _answer(self, kind: str, draw: Any) -> Any:
        if kind not in self._answers:
            self._answers[kind] = draw()
        return self._answers[kind]


# The lattice test of correlated noise, over pairs of successive releases.
#
# The sampler's answers for one pair of slots are played back for another pair, the second answer moved by
# whole steps of the gradients' grid: one of these answers must give the same bits. Without the rounding of
# the band there is none if the first draws differ in parity.


def band_lattice_holds(mechanism: Audited, band: Band, pairs: int, seed: int) -> bool:
    """Return whether each pair of releases of one pair of slots is also one of any other pair of slots."""
    random = np.random.Generator(np.random.Philox(seed))
    return all(_bands_alike(mechanism, band, random, 2 * pair + 1) for pair in range(pairs))


def _bands_alike(mechanism: Audited, band: Band, random: np.random.Generator, round: int) -> bool:
    shape = (min(mechanism.batch_size, 2), mechanism.dimension)
    slots, other_slots = (mechanism.theta * random.uniform(-1, 1, (2, *shape)) for _ in range(2))
    tape = _Tape(mechanism.sampler)
    pair = _pair(mechanism, tape, slots, round)
    other_pair = _pair(mechanism, _Tape(None, tape.answers), other_slots, round)
    difference = np.rint((pair[1] - other_pair[1]) / band.step).astype(np.int64)
    last = tape.answers[1] + (difference << FINER)
    answered_pair = _pair(mechanism, _Tape(None, [tape.answers[0], last]), other_slots, round)
    return tape.whole and all(
        first.tobytes() == two.tobytes() for first, two in zip(pair, answered_pair, strict=True)
    )


def _pair(mechanism: Audited, tape: "_Tape", slots: FloatArray, round: int) -> tuple[Release, Release]:
    taped = mechanism.with_sampler(cast("Sampler", tape))  # only its `gaussian` is called
    privatised = taped.privatise(round, Private(slots[0]), _as_it_is)
    after = taped.privatise(round + 1, Private(slots[1]), _as_it_is, privatised.secret)
    return privatised.release, after.release


def _as_it_is(gradient: FloatArray) -> FloatArray:
    return gradient


class _Tape:
    """Records a sampler's answers; without a sampler, plays back the given answers."""

    simulated = False

    def __init__(self, sampler: Sampler | None, answers: list[IntArray] | None = None) -> None:
        self.answers = list(answers or ())
        self.whole = True
        self._sampler = sampler
        self._played = 0

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:
        if self._sampler is not None:
            noisy = self._sampler.gaussian(round, values, scale)
            self.whole &= noisy.dtype == np.int64
            self.answers.append(noisy.astype(np.int64))
        self._played += 1
        return self.answers[self._played - 1]
