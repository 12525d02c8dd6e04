"""Chooses the settings that a mesh file leaves out, from public values alone, with a reason for each choice.

`chosen` depends on `Public` alone: on the rule's block of the mesh file, and on the dimension, epsilon,
delta, loss and class weights. The digest covers all of these. `chosen` reads no clock, no record, no list of
members, and no node's part of the file. Settings that the file gives (`size`, `algorithm`, `mechanism`) are
kept, and the remaining settings are chosen to go with them.

| case | algorithm | slots | mechanism |
|---|---|---|---|
| classes, a delta, nu at most `LARGEST_NU` | moments | one | gaussian |
| classes, a delta, nu above it, or class weights, or three classes | class-sums | one | gaussian |
| classes, no delta | class-sums | one | laplace |
| the same over more than 500 slots, or without an end, and a delta | the same | as given | gaussian-bisr |
| one record a slot, no delta | dpdo-nc for classes, else as given | 1 | l2-sphere; laplace: see below |
| any other loss or algorithm | as given | as given, else 1 | as above; without a delta laplace |

For one record a slot in two dimensions and epsilon above 4 the mechanism is laplace, as its noise is then
less than l2-sphere's.

nu is the size of the noise in the moments' covariance (`nodes.discriminant`), at kappa = 1, in the mean of
all members' releases after all records. With n records in T slots, N members, d features, and the deviation s
of one coordinate's noise in the sum over the slots,

    nu = sqrt(2 d) s/(n sqrt(N)),  s = sigma Delta sqrt(T), Delta^2 = 2 (1 + kappa^2 (1 + c^2)), c = 1/3.

sigma is the deviation of the Gaussian noise for (epsilon, delta) at sensitivity 1. For noise that is
correlated over rounds s is computed from the correlation (`mean_deviation`). For a stream without an end nu
is that after 500 rounds. Where nu is large, the ridge is large too, and the second moments have no effect on
the decision. Then they only make the noise larger, so class sums are chosen.

With a privacy unit (version 2) rounds cost and records do not: a person's noise comes in each of T rounds,
whether anybody is left to learn from or not. With k rounds of a person that are b apart:

| case | k | slots | mechanism |
|---|---|---|---|
| neither k nor T is given | 1 | one | as below |
| k is given | as given | k, so T = k and b = 1 | as below |
| the slots' size or T is given | T to 8, then 5, with a delta 20 | as given, b = ceil(T/k) | as below |
| no delta | | | laplace |
| a delta, and laplace's noise, sqrt(2) D1 k/epsilon, is at most that of the next two | | | laplace |
| a delta, else, and all running sums have less than 0.95 of gaussian's noise | | | gaussian-bisr |
| a delta, else: noise of D2 sqrt(k) sigma | | | gaussian |

D1 and D2 are the distances in L1 and L2 by which one record moves a sum. For gradients, whose bound is one
number in both norms, laplace is chosen to k = 8 at (1, 1e-6). Class sums of many columns are further apart in
L1, so there gaussian is chosen from k = 1 on.

The bands of gaussian-bisr are those with the least of this mean square, from 2 to 64. For classes the
algorithm is class-sums, as how many records count is not public, which nu needs.

The thresholds and kappa were chosen on packaged data sets by `experiments/rule_choice.py`. Results on other
data sets are reported by `experiments/rule_report.py`.

For one record a slot and classes, rows have L2 norm 1, so no gradient is longer than the bound, and the clip
shortens none. The constraint set is the ball of radius R = 1, in which hinge is linear. The step size is the
one with the least bound on the regret (Zinkevich 2003). With G the root of the mean square length of a noisy
gradient, it is alpha = R sqrt(N/T)/G, or R sqrt(N/t)/G in round t of a stream without an end.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from nodes.accounting.calibration import gaussian_delta
from nodes.discriminant import mean_deviation
from nodes.privacy.bisr_coefficients import band_matrix
from nodes.privacy.features import HEIGHT, MOST_COLUMNS
from nodes.privacy.l2_sphere import sphere_radius

VERSIONS = 1, 2
"""The versions of the tables. Both choose alike without a unit; the first knows none."""
LARGEST_NU = 0.1
"""The nu above which class sums take the place of moments."""
SMALL_NU = 0.03
"""The nu up to which kappa is 1; above it is 3."""
FEW_ROUNDS = 500
"""The most rounds of a run whose noise is independent; a stream without an end is looked at after so many."""
MOST_BANDS = 64
LONG_RELEASE, BANDS_OF_LONG = 5_000, 16
"""Of releases longer than the first, noise is correlated over at most the second number of rounds."""
FEW_RECORDS = 2_000
"""The records of a node up to which one slot of class sums with a pure epsilon is known to do well."""
LARGE_EPSILON = Fraction(4)
"""The epsilon of one record above which laplace has less noise than l2-sphere in two dimensions."""
SUMS = ("class-sums", "moments")
SMALL_K, PURE_K, LARGEST_K = 8, 5, 20
"""A person's rounds where more are given: all up to the first; above it, without a delta the second, else at
most the third."""
MUCH_LESS = 0.95
"""The ratio of running sums' noise to that of independent draws below which noise is correlated."""
_LOOKED_AT = 10_000  # rounds over which the running sums of noise are compared


class PublicUnit(NamedTuple):
    """A unit's k and b, and the run's T, as the file gives them; None: the rule chooses."""

    records: int | None
    apart: int | None
    rounds: int | None


@dataclass(frozen=True, slots=True)
class Public:
    """The public values that the rule reads.

    Attributes
    ----------
    records, members, entries
        The rule's block: the records of each node (None: without an end), the number of nodes, and the most
        features of a row that are not 0 (None: all).
    columns, dimension
        The number of features without an intercept, and of coordinates that a loss sees.
    classes
        The number of classes that the loss distinguishes; 0 for a loss without classes.
    weighted
        Whether there are class weights.
    epsilon, delta
        The privacy parameters of one release; None: the file gives none.
    size, algorithm, mechanism
        As the file gives them; None: the rule chooses.
    unit
        The privacy unit; None: each record is protected by itself. `epsilon` and `delta` are then the unit's.
    """

    records: int | None
    members: int
    columns: int
    dimension: int
    classes: int
    epsilon: Fraction | None
    delta: float | None
    entries: int | None = None
    weighted: bool = False
    size: int | None = None
    algorithm: str | None = None
    mechanism: str | None = None
    unit: PublicUnit | None = None


class RuleChoice(NamedTuple):
    """A setting's value in the form that a mesh file has, and the reason for it."""

    value: Any
    why: str


def chosen(public: Public) -> dict[str, RuleChoice]:
    """Return the rule's choices by their keys in the mesh file (with dots), in the order of derivation.

    There is a choice also for a setting that the file gives. Later choices then follow from the file's value.
    """
    return dict(_choices(public))


class PlannedSlots(NamedTuple):
    """The records of a slot, the number of slots (None: without an end), and the mechanism."""

    size: int
    rounds: int | None
    mechanism: str


def _choices(public: Public) -> Iterator[tuple[str, RuleChoice]]:
    """Yield the choices. Settings for which the rule has no choice are left out."""
    if public.unit is not None:
        yield from _with_unit(public, public.unit)
        return
    size = _size(public)
    yield "slots.size", size
    records = public.size or size.value
    rounds = None if public.records is None else -(-public.records // records)
    mechanism = _mechanism(public, records, rounds)
    yield "privacy.mechanism", mechanism
    slots = PlannedSlots(records, rounds, public.mechanism or mechanism.value)
    yield from _sums(public, slots) if _is_sum(public) else _gradients(public, slots)


def _is_sum(public: Public) -> bool:
    """Return whether the algorithm is class sums or moments, as given or by the rule."""
    if public.algorithm is not None or public.classes == 0:
        return public.algorithm in SUMS
    is_single = public.size == 1 and public.records != 1
    return public.mechanism != "l2-sphere" and not (is_single and public.delta is None)


def _size(public: Public) -> RuleChoice:
    """Return the records of a slot."""
    if public.records is None:
        return RuleChoice(1, "a stream without an end")
    if not _is_sum(replace(public, size=None)):
        return RuleChoice(1, "gradients: one record a step")
    reason = "all records of a node in one slot: one release has the least noise"
    if public.delta is None and public.records > FEW_RECORDS:
        reason += f"; whether more slots are better above {FEW_RECORDS:,} records is not known"
    return RuleChoice(public.records, reason)


def _mechanism(public: Public, size: int, rounds: int | None) -> RuleChoice:
    """Return the mechanism for `rounds` slots of `size` records."""
    if public.delta is not None and (rounds is None or rounds > FEW_ROUNDS):
        stream = "a stream without an end" if rounds is None else f"more than {FEW_ROUNDS} rounds"
        return RuleChoice("gaussian-bisr", f"a delta, and {stream}: a sum over rounds has less noise")
    if public.delta is not None:
        return RuleChoice("gaussian", f"a delta, and at most {FEW_ROUNDS} rounds: it keeps no secret")
    if _is_sum(public):
        return RuleChoice("laplace", "no delta")
    if size > 1:
        return RuleChoice("laplace", "no delta, and more than one record a slot")
    if public.dimension == 2 and public.epsilon is not None and public.epsilon > LARGE_EPSILON:
        return RuleChoice("laplace", f"one record a slot in two dimensions, epsilon above {LARGE_EPSILON}")
    return RuleChoice("l2-sphere", "one record a slot, and no delta")


def bands_of(rounds: int | None, length: int) -> int:
    """Return over how many rounds noise is correlated, for releases of `length` numbers."""
    largest = MOST_BANDS if length <= LONG_RELEASE else BANDS_OF_LONG
    return min(largest, rounds or largest)


def noise_size(
    public: Public, slots: PlannedSlots, epsilon: Fraction, delta: float, *, bands: int = 1
) -> float:
    """Return nu at kappa = 1; inf for an epsilon or delta out of range."""
    rounds = FEW_ROUNDS if slots.rounds is None else slots.rounds
    multiplier = noise_multiplier(float(epsilon), delta)
    reach = math.sqrt(2 * (2 + HEIGHT**2))
    factors, sensitivity = None, 1.0
    if slots.mechanism == "gaussian-bisr":
        matrix = band_matrix(bands)
        factors, sensitivity = np.append(1.0, -matrix.weights * 2.0**-30), matrix.norm
    deviation = mean_deviation(multiplier * reach * sensitivity, rounds, factors)
    return math.sqrt(2 * public.columns / public.members) * deviation / slots.size


def noise_multiplier(epsilon: float, delta: float) -> float:
    """Return sigma: the least Gaussian noise for (epsilon, delta) at sensitivity 1; inf out of range."""
    if not (0.0 < epsilon < math.inf and 0.0 < delta < 1.0):
        return math.inf
    low, high = 2.0**-40, 2.0**40  # of mu = 1/sigma, on a scale of ratios
    while high > low * (1 + 1e-12):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gaussian_delta(epsilon, middle) <= delta else (low, middle)
    return 1 / low


def _sums(public: Public, slots: PlannedSlots) -> Iterator[tuple[str, RuleChoice]]:
    """Yield class sums or moments, the algorithm's parameters, and the bands of its noise."""
    correlated = slots.mechanism == "gaussian-bisr"
    length = (public.columns + 4) * (public.columns + 1) // 2
    bands = bands_of(slots.rounds, length)
    nu = _nu(public, slots, bands)
    name, reason = _name(public, slots, nu)
    yield "algorithm.name", RuleChoice(name, reason)
    name = public.algorithm or name
    if name == "moments":
        small = nu <= SMALL_NU
        relation = "at most" if small else "above"
        yield "algorithm.kappa", RuleChoice(1.0 if small else 3.0, f"nu = {nu:.2g}, {relation} {SMALL_NU:g}")
    elif slots.mechanism == "laplace" and public.entries is not None:
        yield (
            "algorithm.entries",
            RuleChoice(public.entries, "rule.columns: the most numbers of a row that are not 0"),
        )
    if name == "class-sums":
        length = max(2, public.classes) * (public.columns + 1)
        bands = bands_of(slots.rounds, length)
    if correlated:
        yield "privacy.bands", RuleChoice(bands, _why_bands(slots.rounds, length))


def _nu(public: Public, slots: PlannedSlots, bands: int) -> float:
    """Return nu; 0 without noise, inf without a delta."""
    if slots.mechanism == "none":
        return 0.0
    if public.epsilon is None or public.delta is None:
        return math.inf
    return noise_size(public, slots, public.epsilon, public.delta, bands=bands)


def _name(public: Public, slots: PlannedSlots, nu: float) -> tuple[str, str]:
    """Return the name of the algorithm, class-sums or moments, and the reason for it."""
    if public.columns > MOST_COLUMNS["moments"]:
        return (
            "class-sums",
            f"d = {public.columns:,}, and moments take up to {MOST_COLUMNS['moments']} features",
        )
    if public.weighted:
        return "class-sums", "class weights: each class has its own mean, however many records it has"
    if public.classes > 2:
        return "class-sums", f"{public.classes} classes, and moments tell two apart"
    if slots.mechanism == "laplace":
        return "class-sums", "no delta, which moments need"
    inputs = f"N = {public.members:,}, d = {public.columns:,}"
    after = f" after {FEW_ROUNDS} rounds" if slots.rounds is None else ""
    if nu <= LARGEST_NU:
        return "moments", f"nu = {nu:.2g}{after}, at most {LARGEST_NU:g} ({inputs})"
    return (
        "class-sums",
        f"nu = {nu:.2g}{after}, above {LARGEST_NU:g}: second moments would be noise ({inputs})",
    )


def _why_bands(rounds: int | None, length: int) -> str:
    largest = MOST_BANDS if length <= LONG_RELEASE else BANDS_OF_LONG
    if rounds is not None and rounds < largest:
        return "one for each round"
    return f"at most {largest}, as a release has {length:,} numbers"


def _gradients(public: Public, slots: PlannedSlots) -> Iterator[tuple[str, RuleChoice]]:
    """Yield the bands of gradients' noise and, for losses of classes, the clip, algorithm, set and step."""
    if slots.mechanism == "gaussian-bisr":
        bands = bands_of(slots.rounds, public.dimension)
        yield "privacy.bands", RuleChoice(bands, _why_bands(slots.rounds, public.dimension))
    if public.classes == 0:
        return
    norm = "L1" if slots.mechanism == "laplace" else "L2"
    bound = _longest_gradient(public, norm)
    yield "privacy.gradient_bound", RuleChoice(bound, f"no gradient of a row of norm 1 is longer in {norm}")
    yield "algorithm.name", RuleChoice("dpdo-nc", "one record a slot: a gradient step for each")
    yield "algorithm.constraint", RuleChoice({"l2-ball": 1.0}, "in which a row's score is at most about 1")
    length = _noisy_length(public, slots, bound)
    if not math.isfinite(length):
        return
    scale = math.sqrt(public.members / (slots.rounds or 1)) / length
    rule = "inverse-sqrt" if slots.rounds is None else "constant"
    reason = "the least bound on the regret"
    yield "algorithm.step_size", RuleChoice({"rule": rule, "a": _rounded(scale)}, reason)


def _longest_gradient(public: Public, norm: str) -> float:
    """Return the largest norm of a gradient at a row of L2 norm 1 with an intercept."""
    entries = min(public.entries or public.columns, public.columns)
    row = math.sqrt(entries) + HEIGHT if norm == "L1" else math.hypot(1.0, HEIGHT)
    classes = 1.0 if public.classes <= 2 else (2.0 if norm == "L1" else math.sqrt(2.0))
    return _rounded(row * classes, up=True)


def _noisy_length(public: Public, slots: PlannedSlots, bound: float) -> float:
    """Return the root of the mean square length of a noisy mean of a slot's gradients."""
    d, epsilon = public.dimension, math.inf if public.epsilon is None else float(public.epsilon)
    if slots.mechanism == "none":
        noise = 0.0
    elif slots.mechanism == "l2-sphere":
        return bound * sphere_radius(public.epsilon or Fraction(1), d) / math.sqrt(slots.size)
    elif slots.mechanism == "laplace":
        noise = math.sqrt(2 * d) * 2 * bound / epsilon
    else:
        noise = math.sqrt(d) * 2 * bound * noise_multiplier(epsilon, public.delta or 0.0)
    return math.hypot(bound, noise / slots.size)


def _rounded(value: float, *, up: bool = False) -> float:
    """Return a value above 0 rounded to three digits, so that all platforms agree; `up`: rounded up."""
    digits = 2 - math.floor(math.log10(value))
    return round(math.ceil(value * 10**digits) / 10**digits, digits) if up else round(value, digits)


def _with_unit(public: Public, unit: PublicUnit) -> Iterator[tuple[str, RuleChoice]]:
    """Yield the choices that go with a privacy unit: k, b, slots and mechanism together."""
    planned = unit.rounds or unit.records or 1
    size = 1 if public.records is None else -(-public.records // planned)
    slots = "one slot" if planned == 1 else f"{planned:,} slots"
    reason = (
        "a stream without an end" if public.records is None else f"{slots} of a node's records: rounds cost"
    )
    yield "slots.size", RuleChoice(size, reason)
    rounds = unit.rounds
    if public.records is not None:
        in_slots = -(-public.records // (public.size or size))
        yield "rounds", RuleChoice(in_slots, "the slots that a node's records fill")
        rounds = rounds or in_slots
    k, gap = unit.records or 1, unit.apart or 1
    if rounds is not None:
        number = _rounds_of_person(rounds, has_delta=public.delta is not None)
        yield (
            "privacy.unit.records",
            RuleChoice(number, f"T = {rounds:,}: each more round of a person costs noise"),
        )
        k = unit.records or number
        gap = unit.apart or -(-rounds // k)
        if (k - 1) * gap < rounds:
            yield "privacy.unit.apart", RuleChoice(-(-rounds // k), f"T = {rounds:,} over k = {k:,}")
    mechanism, bands = _mechanism_of_unit(public, k, gap, rounds or FEW_ROUNDS)
    yield "privacy.mechanism", mechanism
    if (public.mechanism or mechanism.value) == "gaussian-bisr":
        yield "privacy.bands", RuleChoice(bands, "the least noise in the running sums")
    if not _is_sum(public if public.algorithm else replace(public, size=None, mechanism=None)):
        return
    reason = "a unit: how many records count is not public, and moments need it"
    yield "algorithm.name", RuleChoice("class-sums", reason)
    if public.algorithm == "moments":
        yield "algorithm.kappa", RuleChoice(3.0, "a unit: nu is not known")
    elif (public.mechanism or mechanism.value) == "laplace" and public.entries is not None:
        yield "algorithm.entries", RuleChoice(public.entries, "rule.columns: the most numbers of a row")


def _rounds_of_person(rounds: int, *, has_delta: bool) -> int:
    """Return k for a run of so many rounds; (k - 1) ceil(rounds/k) is below `rounds`."""
    if rounds <= SMALL_K:
        return rounds
    gap = -(-rounds // (LARGEST_K if has_delta else PURE_K))
    return -(-rounds // gap)


def _mechanism_of_unit(public: Public, k: int, apart: int, rounds: int) -> tuple[RuleChoice, int]:
    """Return the mechanism for k rounds of a person, and the bands of correlated noise."""
    length = max(2, public.classes) * (public.columns + 1) if _is_sum(public) else public.dimension
    bands, ratio = correlated_ratio(k, apart, min(rounds, _LOOKED_AT), bands_of(None, length))
    if public.delta is None:
        return RuleChoice("laplace", "no delta is given, or none is needed"), bands
    epsilon = math.inf if public.epsilon is None else float(public.epsilon)
    in_l1, in_l2 = _distances(public)
    pure = math.sqrt(2) * in_l1 * k / epsilon
    gaussian = in_l2 * math.sqrt(k) * noise_multiplier(epsilon, public.delta)
    least = gaussian * (ratio if ratio < MUCH_LESS else 1.0)
    if pure <= least:
        reason = f"k = {k:,}: noise of {pure:.3g}, and {least:.3g} with a delta, which it does not need"
        return RuleChoice("laplace", reason), bands
    if ratio < MUCH_LESS:
        reason = (
            f"k = {k:,}, b = {apart:,}, T = {rounds:,}: running sums have {ratio:.2g} of gaussian's noise"
        )
        return RuleChoice("gaussian-bisr", reason), bands
    reason = f"k = {k:,}: noise of {gaussian:.3g}, and {pure:.3g} with laplace"
    return RuleChoice("gaussian", f"{reason}; correlated noise has {ratio:.3g} of it"), bands


def _distances(public: Public) -> tuple[float, float]:
    """Return how far a record moves a slot's sum in L1 and in L2, in one unit.

    For class sums these are 2 K and sqrt(2) K (`nodes.privacy.features`). A gradient's bound is the same in
    both norms, as the file gives it.
    """
    if not _is_sum(public):
        return 2.0, 2.0
    entries = min(public.entries or public.columns, public.columns)
    return 2 * (math.sqrt(entries) + HEIGHT), math.sqrt(2) * math.hypot(1.0, HEIGHT)


def correlated_ratio(releases: int, apart: int, rounds: int, largest: int = MOST_BANDS) -> tuple[int, float]:
    """Return the bands with the least noise for a unit, and that noise over that of independent draws.

    The noise is the root of the mean square error of all running sums of `rounds` releases.
    """
    candidates = [bands for bands in (2, 4, 8, 16, 32, MOST_BANDS) if bands <= largest]
    by_bands = {bands: running_noise(bands, releases, apart, rounds) for bands in candidates}
    bands = min(by_bands, key=by_bands.__getitem__)
    return bands, by_bands[bands] / running_noise(1, releases, apart, rounds)


def running_noise(bands: int, releases: int, apart: int, rounds: int) -> float:
    """Return the root of the mean square error of all running sums of `rounds` releases, for a unit."""
    matrix = band_matrix(bands)
    sums = np.cumsum(np.append(1.0, -matrix.weights * 2.0**-30))[:rounds]
    sums = np.append(sums, np.full(rounds - len(sums), sums[-1]))
    return matrix.unit_norm(releases, apart) * math.sqrt(float(np.cumsum(sums**2).mean()))
