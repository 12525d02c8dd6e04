"""Audits a mechanism: compares what its code does with what it claims.

The statistical audit draws on two slots that differ in one record, as far as the clip allows, and looks at
the first coordinate. With features the two records are those that `RowFeatures.furthest` names, as far apart
as features go, and the statistic is the logarithm of the likelihoods' ratio. The lattice test finds what a
statistic cannot see, values that one slot reaches and its neighbour does not: it plays the sampler's answers
for one slot back to another, and the releases must be the same bits. If they are, a release is made of
integers and coins that the sampler answered for both, of directions that do not depend on data, and of public
values. So the test detects noise that is drawn in floats (Mironov 2012).

The releases of `gaussian-bisr` must be audited together, as later ones reveal something about earlier ones.
The statistic of several rounds is <C y, C(G - G')>, y the releases, on slots whose first differs as far as
the clip allows: no statistic separates the two better. As C y is C G and independent draws, it is normal with
mu = ||C(G - G')||/sigma. The lattice test is the same.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple, cast

import numpy as np

from nodes.accounting.calibration import gaussian_epsilon
from nodes.privacy.bisr import GaussianBisr
from nodes.privacy.features import ABSENT, RowFeatures
from nodes.privacy.mechanism import Audited, Band, Sampler, Secret
from nodes.privacy.private import Private
from nodes.privacy.query import QueryMechanism
from nodes.privacy.sampled import GridMechanism
from nodes.values import BoolArray, FloatArray, IntArray, Release

# Lower bounds on a mechanism's epsilon and mu, from samples alone.
#
# An audit never proves that a mechanism is private. It shows, at a stated confidence, that the mechanism is
# not more private than a bound. A bound above the claim refutes the claim.
#
# A statistic is drawn on two neighbouring inputs. The first half of each sample chooses an event {statistic
# on one side of a threshold}. The second half bounds its two probabilities, each at half of the allowed
# error, so the choice needs no correction, and the bound holds however it is made. The event chosen is the
# one that gives the best bound on the first half at a far smaller error: the best of hundreds at the same
# error is often a rare event that happened by luck, and the second half proves little from it.
#
# A probability's bounds are those p for which n KL(k/n || p) = ln(1/error) (Chernoff 1952; Hoeffding 1963,
# theorem 1): right for every n, a little wider than Clopper and Pearson's. With p below the probability on
# one input and q above that on the other, epsilon >= ln((p - delta)/q). For Gaussian noise mu >= Phi^-1(p)
# - Phi^-1(q) (Dong, Roth, Su 2022), as events of probability delta are too rare to be seen.

_THRESHOLDS = 99
_STRICTER = 20_000
"""Divisor of the error when an event is chosen."""


def proportion_bounds(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Return (low, high): each bounds the probability, except with a chance of `error`."""
    rate, limit = successes / trials, math.log(1 / error) / trials

    def furthest(outside: float) -> float:
        inside = rate
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if _divergence(rate, middle) <= limit else (inside, middle)
        return outside

    return furthest(0.0), furthest(1.0)


def epsilon_lower_bound(
    first: FloatArray, second: FloatArray, confidence: float = 0.95, delta: float = 0.0
) -> float:
    """Return a lower bound on epsilon, at least 0, from a statistic's values (n,) on two neighbouring inputs.

    If the mechanism has (epsilon, delta), P(bound > epsilon) <= 1 - `confidence`.
    """
    return _lower_bound(
        first, second, confidence, lambda p, q: math.log((p - delta) / q) if p > delta else -math.inf
    )


def mu_lower_bound(first: FloatArray, second: FloatArray, confidence: float = 0.95) -> float:
    """Return a lower bound on a Gaussian mechanism's mu, sensitivity over scale; as `epsilon_lower_bound`."""
    quantile = NormalDist().inv_cdf
    return _lower_bound(
        first, second, confidence, lambda p, q: quantile(p) - quantile(q) if p > 0 else -math.inf
    )


def _lower_bound(
    first: FloatArray, second: FloatArray, confidence: float, bound: Callable[[float, float], float]
) -> float:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence!r}: must be above 0 and below 1")
    if min(first.size, second.size) < 2:
        raise ValueError("an audit needs at least two draws on each input")
    error = (1 - confidence) / 2

    def of_event(ones: BoolArray, others: BoolArray, error: float) -> float:
        low, _ = proportion_bounds(int(ones.sum()), ones.size, error)
        _, high = proportion_bounds(int(others.sum()), others.size, error)
        return bound(low, high) if high < 1.0 else -math.inf

    def promise(event: tuple[int, int, float]) -> float:
        ones, zeros = _happened(choosing, *event)
        return of_event(ones, zeros, error / _STRICTER) if ones.mean() > zeros.mean() else -math.inf

    choosing, judging = (first[::2], second[::2]), (first[1::2], second[1::2])
    pooled = np.concatenate(choosing)
    thresholds = np.unique(np.quantile(pooled, np.linspace(0.005, 0.995, _THRESHOLDS), method="nearest"))
    events = [(swap, sign, level) for swap in (0, 1) for sign in (1, -1) for level in thresholds.tolist()]
    best = max(events, key=promise)
    return max(0.0, of_event(*_happened(judging, *best), error))


def _happened(
    samples: tuple[FloatArray, FloatArray], swap: int, sign: int, level: float
) -> tuple[BoolArray, BoolArray]:
    """Return where the event happened on the input on which it is assumed likelier, and on the
    other input.
    """
    sample, neighbour = samples[swap], samples[1 - swap]
    return sign * sample >= sign * level, sign * neighbour >= sign * level


def _divergence(seen: float, p: float) -> float:
    """Return KL(seen || p) of two coins; infinite if p excludes the observed share."""
    total = 0.0
    for a, b in ((seen, p), (1 - seen, 1 - p)):
        if a > 0:
            total += a * math.log(a / b) if b > 0 else math.inf
    return total


Statistic = Callable[[FloatArray], FloatArray]
"""Returns a number (n,) of releases (n, D)."""
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
    """Return the statistic (draws,) of releases of two slots, each with one record.

    The two records' gradients are as far apart as the mechanism allows. Raises ValueError for simulated
    noise.
    """
    _need_exact(mechanism)
    row = np.zeros((1, mechanism.dimension))
    row[0, 0] = mechanism.theta
    statistic: Statistic = _first_coordinate
    rows = row, -row
    if isinstance(mechanism, GridMechanism) and mechanism.features is not None:
        furthest = mechanism.features.furthest
        rows, statistic = (furthest[:1], furthest[1:]), _likelihoods(mechanism, furthest)
    first, second = (_statistics(mechanism, record, draws, round, statistic, drawn) for record in rows)
    return first, second


def _need_exact(mechanism: Audited) -> None:
    if mechanism.simulated:
        raise ValueError("the noise is simulated: there is nothing to audit")


def _first_coordinate(releases: FloatArray) -> FloatArray:
    return releases[:, 0]


def _likelihoods(mechanism: GridMechanism, pair: FloatArray) -> Statistic:
    """Return the likelihoods' ratio of two slots of one row each, (2, width), as a function of releases."""
    unit = mechanism.grid.step / mechanism.batch_size * -_STEEP
    first, second = (mechanism.bounded_sum(row[None])[0] * unit for row in pair)

    def ratio(releases: FloatArray) -> FloatArray:
        if mechanism.mu is not None:
            along: FloatArray = (releases @ (first - second)) / unit
            return along
        further: FloatArray = (np.abs(releases - second) - np.abs(releases - first)).sum(-1)
        return further

    return ratio


def audit_rounds(mechanism: Audited) -> int:
    """Return the number of rounds that are audited together: 1, or for correlated noise most of C's first
    column, at most 16.
    """
    return 1 if mechanism.band is None else min(_MOST_ROUNDS, len(mechanism.band.matrix.column))


def lattice_holds(mechanism: Audited, pairs: int = 100, seed: int = 0) -> bool:
    """Return whether slots of any gradients give the same bits if the sampler gives the same answers.

    Draws from the mechanism's own sampler, once per pair. The gradients come from `seed`.
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
    count = int(random.integers(0, min(mechanism.batch_size, 8) + 1))
    features = mechanism.features if isinstance(mechanism, GridMechanism) else None
    if features is not None:
        return _rows(features, count, random)
    shape = (count, mechanism.dimension)
    rows = random.standard_normal(shape) * mechanism.theta * 10 ** random.uniform(-3, 3, (shape[0], 1))
    rows[random.random(shape[0]) < 0.1] = math.nan
    return rows


def _rows(features: RowFeatures, count: int, random: np.random.Generator) -> FloatArray:
    """Return rows of all sizes and classes, some broken, some absent."""
    rows = np.abs(random.standard_normal((count, features.width))) * 10 ** random.uniform(-3, 3, (count, 1))
    rows[:, -1] = random.choice([ABSENT, 0.0, 1.0], count)
    rows[random.random(count) < 0.1, 0] = math.nan
    return rows


def _statistics(
    mechanism: Audited,
    row: FloatArray,
    draws: int,
    round: int,
    statistic: Statistic,
    drawn: Callable[[int], None] | None,
) -> FloatArray:
    rows = max(1, _CHUNK // max(row.size, mechanism.draw_cost))
    parts = []
    for start in range(0, draws, rows):
        slots = np.broadcast_to(row, (min(rows, draws - start), *row.shape))
        parts.append(_statistic(mechanism, slots, round, statistic))
        if drawn is not None:
            drawn(len(slots))
    return np.concatenate(parts)


def _statistic(mechanism: Audited, slots: FloatArray, round: int, of_releases: Statistic) -> FloatArray:
    """Return `of_releases` of the releases of `slots` (n, 1, d), or <C y, C(G - G')> over rounds."""
    releases: list[FloatArray] = []
    secret: Secret | None = None
    for t in range(audit_rounds(mechanism)):
        gradients = slots if t == 0 else slots[:, :0]
        private = mechanism.privatise(round + t, Private(gradients), _steep, secret)
        releases.append(of_releases(private.release))
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
    """Gives a second slot the sampler's answers for the first. Notes values that are not integers."""

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
    """Return whether any two pairs of slots can lead to the same pairs of releases."""
    random = np.random.Generator(np.random.Philox(seed))
    return all(_bands_alike(mechanism, band, random, 2 * pair + 1) for pair in range(pairs))


def _bands_alike(mechanism: Audited, band: Band, random: np.random.Generator, round: int) -> bool:
    count = min(mechanism.batch_size, 2)
    features = mechanism.features if isinstance(mechanism, GridMechanism) else None

    def two_slots() -> FloatArray:
        if features is not None:
            return _rows(features, 2 * count, random).reshape(2, count, features.width)
        return mechanism.theta * random.uniform(-1, 1, (2, count, mechanism.dimension))

    slots, other_slots = two_slots(), two_slots()
    tape = _Tape(mechanism.sampler)
    pair = _pair(mechanism, tape, slots, round)
    other_pair = _pair(mechanism, _Tape(None, tape.answers), other_slots, round)
    difference = np.rint((pair[1] - other_pair[1]) / band.step).astype(np.int64)
    last = tape.answers[1] + (difference << band.finer)
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


# Audits the spending of an owner's T answers to a learner's queries, by draws of one answer.
#
# Each answer is drawn anew, so T answers at one theta are T independent draws of one mechanism. If the
# mechanism is pure, the epsilon of all answers is T times that of one. With Gaussian noise all answers are
# one Gaussian mechanism of sqrt(T) times the mu (Dong, Roth, Su 2022, corollary 2). So a lower bound for one
# answer gives one for all.


def audit_answers(
    made: QueryMechanism,
    draws: int = 40_000,
    confidence: float = 0.95,
    drawn: Callable[[int], None] | None = None,
) -> Audit:
    """Return a lower bound on the epsilon of all T answers of an owner, at delta_l/kappa.

    It claims epsilon_l/kappa. Costs 2 `draws` answers about one record; `drawn` gets the number of new ones
    from time to time. Raises ValueError for simulated noise, which protects nothing.
    """
    first, second = samples(made.audited, draws, drawn=drawn)
    if made.name == "laplace":
        bound = made.queries * epsilon_lower_bound(first, second, confidence)
    else:
        mu = math.sqrt(made.queries) * mu_lower_bound(first, second, confidence)
        bound = gaussian_epsilon(mu, made.own_delta) if mu > 0 else 0.0
    return Audit(bound, float(made.own_epsilon), confidence, draws)


# Audits a person: all rounds that a person's records are in, looked at together.
#
# The records are as far from those of the neighbour as the clip allows, one in a round. The statistic is the
# sum of the logarithms of the rounds' ratios, or of the first coordinates' signs of l2-sphere. For
# correlated noise it is <C y, C g>, where g is 1 in the rounds of the person. Any function of the exact
# releases gives a bound that holds. Few runs cannot certify a large epsilon: n runs on each side certify at
# most `most_certified`. Nor can they see that a person is in one round too many.

PERSON_RUNS = 1_000


def most_certified(runs: int, confidence: float) -> float:
    """Return the largest lower bound on a pure epsilon that so many runs on each side can give."""
    error = (1 - confidence) / 2
    low, high = proportion_bounds(runs, runs, error)[0], proportion_bounds(0, runs, error)[1]
    return math.log(low / high)


def claimed_of_person(mechanism: Audited, records: int, apart: int) -> float:
    """Return the epsilon that follows for records in so many rounds, at the mechanism's delta."""
    if mechanism.mu is None:
        return records * float(mechanism.epsilon)
    if mechanism.band is None:
        return gaussian_epsilon(math.sqrt(records) * mechanism.mu, mechanism.delta)
    norm, of_unit = mechanism.band.matrix.unit_norm, cast("GaussianBisr", mechanism)
    ratio = norm(records, apart) / norm(of_unit.releases, of_unit.apart)
    return gaussian_epsilon(max(1.0, ratio) * mechanism.mu, mechanism.delta)


def person_rounds(mechanism: Audited, records: int, apart: int) -> int:
    """Return the rounds that a run of the audit plays: those of the records alone where noise is independent,
    else also the rounds between them and a few after them.
    """
    return records if mechanism.band is None else (records - 1) * apart + audit_rounds(mechanism)


def audit_person(
    mechanism: Audited,
    records: int,
    apart: int = 1,
    runs: int = PERSON_RUNS,
    confidence: float = 0.95,
    drawn: Callable[[int], None] | None = None,
) -> Audit:
    """Return a lower bound on the epsilon of a person with `records`, one in a round, `apart` rounds apart.

    Costs 4 `runs` times `person_rounds` releases: `runs` with the person's records and as many with the
    neighbour's for the bound, and so many more to choose the event. `drawn` gets the number of new runs from
    time to time. Raises ValueError for simulated noise.
    """
    _need_exact(mechanism)
    pair, statistic = _person(mechanism)
    first, second = (
        _person_statistics(mechanism, row, range(0, records * apart, apart), 2 * runs, statistic, drawn)
        for row in pair
    )
    claimed = claimed_of_person(mechanism, records, apart)
    if mechanism.mu is None:
        return Audit(epsilon_lower_bound(first, second, confidence), claimed, confidence, runs)
    mu = mu_lower_bound(first, second, confidence)
    bound = gaussian_epsilon(mu, mechanism.delta) if mu > 0 else 0.0
    return Audit(bound, claimed, confidence, runs)


def _person(mechanism: Audited) -> tuple[FloatArray, Statistic]:
    """Return two records (2, 1, width) as far apart as the clip allows, and a statistic of releases."""
    if isinstance(mechanism, GridMechanism) and mechanism.features is not None:
        return mechanism.features.furthest[:, None], _likelihoods(mechanism, mechanism.features.furthest)
    pair = np.zeros((2, 1, mechanism.dimension))
    pair[:, 0, 0] = mechanism.theta, -mechanism.theta
    if isinstance(mechanism, GridMechanism):
        return pair, _likelihoods(mechanism, pair[:, 0])
    if mechanism.name == "l2-sphere":
        return pair, lambda releases: np.sign(releases[:, 0])
    silent = mechanism.with_sampler(cast("Sampler", _Silent()))  # only its `laplace` is called
    limit = abs(float(silent.privatise(1, Private(pair[0]), _steep).release[0]))
    return pair, lambda releases: np.clip(releases[:, 0], -limit, limit)


class _Silent:
    """A sampler that adds nothing."""

    simulated = False

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:  # noqa: ARG002
        return values


def _person_statistics(
    mechanism: Audited,
    row: FloatArray,
    rounds: range,
    runs: int,
    statistic: Statistic,
    drawn: Callable[[int], None] | None,
) -> FloatArray:
    """Return the statistic (runs,) with the record `row` (1, width) in these rounds."""
    played = person_rounds(mechanism, len(rounds), rounds.step)
    weights = np.ones(played)
    if mechanism.band is not None:
        column = np.append(mechanism.band.matrix.column, np.zeros(played))[:played]
        inside = np.isin(np.arange(played), rounds).astype(float)
        weights = np.convolve(np.convolve(column, inside)[:played][::-1], column)[:played][::-1]
    size, parts = max(1, _CHUNK // max(row.size, mechanism.draw_cost)), []
    for start in range(0, runs, size):
        count = min(size, runs - start)
        slots = np.broadcast_to(row, (count, *row.shape))
        total, secret = np.zeros(count), cast("Secret | None", None)
        for t, weight in enumerate(weights.tolist()):
            has_record = mechanism.band is None or t in rounds
            gradients = slots if has_record else slots[:, :0]
            private = mechanism.privatise(1 + t, Private(gradients), _steep, secret)
            total += weight * statistic(private.release)
            secret = private.secret
        parts.append(total)
        if drawn is not None:
            drawn(count)
    return np.concatenate(parts)
