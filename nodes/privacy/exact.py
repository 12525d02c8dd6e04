"""The exact sampler: discrete noise and coins from the operating system's entropy.

It is the only code under `nodes/` that is not a function of its arguments. Entropy is read at the draw and
used once. Nothing is drawn ahead, so no memory holds the noise of a later release. The array with the entropy
is overwritten after its use. Copies of it that Python and numpy have made are freed, and not overwritten.

Guarantees
----------
`laplace`: P(k) is proportional to exp(-|k|/S) exactly, for the float S (proof below). So a sum of sensitivity
D in L1 is released with epsilon = D/S.

`gaussian`: P(k) is proportional to exp(-k^2/(2 S^2)) exactly.

`randomised`: let N be discrete Laplace of scale S, the least float that is at least 1/epsilon. The result is
the bit N >= 0 or the bit N >= 1. P(N >= 0) = 1/(1 + e^(-1/S)) and P(N >= 1) = e^(-1/S) P(N >= 0). So their
ratio is e^(1/S), which is at most e^epsilon.

`sphere`: each direction has its own generator with 128 fresh bits. So directions are exactly independent and
identically distributed. They are uniform only as far as numpy's generator and floats are.

Assumed: the operating system's bits are fair and independent, and floats are those of IEEE 754. Sums saturate
at 2^62, which is a function of the sum; values are below 2^61 in magnitude.
"""

import math
import os  # noqa: TID251 # the entropy of the exact sampler
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Literal, TypeVar

import numpy as np

from nodes.checks import RANGE, rounded_up
from nodes.privacy.l2_sphere import directions
from nodes.values import BoolArray, FloatArray, IntArray, WordArray
from topology.keyed import generator

# Numbers on [0, 1) with endless bits, compared with e^-x in integers alone.
#
# The comparison `below` is exact. Some bits of a number are known, so the number is in a cell. Further bits
# are drawn until the cell is on one side of e^-x, which two integers enclose.

Words = Callable[[int], WordArray]
"""Returns this many words of 64 fair and independent bits. Each word is for one use."""

_WORD = 64
_GUARD = 16


class EndlessNumber:
    """A uniform number on [0, 1). Its first `bits` bits are `number`; the rest is drawn when needed."""

    __slots__ = ("_words", "bits", "number")

    def __init__(self, number: int, bits: int, words: Words) -> None:
        self.number, self.bits, self._words = number, bits, words

    def extend(self) -> None:
        """Draw 64 further bits."""
        self.number = self.number << _WORD | one_word(self._words)
        self.bits += _WORD

    def below(self, x: Fraction) -> bool:
        """Return whether the number is below e^-x, x >= 0."""
        while True:
            lower, upper = exp_minus(x, self.bits + _GUARD)
            if (self.number + 1) << _GUARD <= lower:
                return True
            if self.number << _GUARD >= upper:
                return False
            self.extend()


def one_word(words: Words) -> int:
    """Return one word, and overwrite the array that it came in."""
    buffer = words(1)
    word = int(buffer[0])
    buffer.fill(0)
    return word


def exp_minus(x: Fraction, bits: int) -> tuple[int, int]:
    """Return two integers, one at most and one at least e^-x 2^bits, x >= 0.

    e^-x = (e^-r)^(2^k), r = x/2^k at most 1/2. e^-r is a series, every term rounded outwards.
    """
    squarings = max(0, int(2 * x).bit_length())
    work = bits + 2 * squarings + _GUARD
    r = (x.numerator << work) // (x.denominator << squarings)  # r 2^work is in [r, r + 1]
    lower, upper = _series(r + 1, work)[0], _series(r, work)[1]
    for _ in range(squarings):
        lower, upper = lower * lower >> work, -(-upper * upper >> work)
    return lower >> (work - bits), -(-upper >> (work - bits))


def _series(r: int, work: int) -> tuple[int, int]:
    """Return two integers that enclose e^-(r/2^work) 2^work, 0 <= r <= 2^work.

    The terms of the series alternate in sign and fall.
    """
    lower = upper = small = large = 1 << work
    count = 0
    while large > 1:
        count += 1
        small, large = small * r // (count << work), -(-large * r // (count << work))
        if count % 2:
            lower, upper = lower - large, upper - small
        else:
            lower, upper = lower + small, upper + large
    return max(0, lower - 1), upper + 1  # the rest of the series is at most its next term, below 1


# Discrete Laplace and Gaussian noise, exact and fast: floats decide most draws, integers the rest.
#
# The laws are those of Canonne, Kamath, Steinke 2020: P(k) is proportional to e^(-|k|/S), or to e^(-k^2/(2
# S^2)), exactly, for the float S. The source of words of 64 fair bits is an argument. Each word is used once,
# and its array is then overwritten. Magnitudes saturate at `MOST`. A Laplace draw reaches it once in e^96 at
# the largest scale, a Gaussian draw less than once in e^4600.
#
# Proof
# -----
# *Geometric.* Let U be uniform on (0, 1) and Y = floor(-S ln U). Y >= k iff U <= e^(-k/S), so P(Y >= k) is
# e^(-k/S). The upper 63 bits w of a word put U into the cell [w, w + 1] 2^-63. The middle of the cell is u =
# v 2^-64, v = 2w + 1. Let L = -ln u. On the cell -ln differs from L by at most 1/(2w) <= 2/v if w >= 1. L is
# computed in floats as L^, where +, -, x, / are right up to a factor of 1 + eps, eps = 2^-53, as IEEE 754
# requires. L^ differs from L by these errors:
#
# | part | error |
# |---|---|
# | v as a float | eps of v, so 1.01 eps of L |
# | v = m 2^e, m from sqrt(1/2) to sqrt(2), and m - 1 | none |
# | s = (m - 1)/(m + 1), below 0.172 | 2.01 eps of s |
# | ln m = 2 s P(q), q = s^2 < 0.0295, P = 1 + q/3 + ... + q^11/23 | 4.5 eps of ln m, below 1.6 eps |
# | what is left of the series, below 2 s^25/25/(1 - q) | below 2^-66 |
# | (64 - e) ln 2, at most L + 0.347 | 2 eps of it |
# | the difference of both | eps of L |
#
# Together the errors are below 4 eps (1 + L) = 2^-51 (1 + L). y = S L^, y - E and y + E are rounded, each by
# eps y, which is together below 2^-52 S (1 + L). Let E = S ((1 + L^) 2^-50 + 4/v). E is above the sum of all
# these errors by 2^-52 S (1 + L) + 2 S/v, which is more than its own rounding, 5 eps E. So -S ln U is from y
# - E to y + E, whatever the other bits of U are. If both ends have the same floor, it is Y. Otherwise further
# bits of U are drawn, and U is compared with e^(-k/S) in integers (`EndlessNumber`). For w = 0 there is no
# lower end, so this comparison always decides. S < 2^32 keeps y below 2^38.
#
# *From S = 2^32 on.* Y = 2^j A + B, with S/2^j from 2^31 to 2^32. A is geometric of scale S/2^j, a float. B
# is independent of A, and P(b) is proportional to e^(-b/S) for b below 2^j: b is drawn uniformly, and kept
# with probability e^(-b/S).
#
# *Laplace.* A geometric draw gets a fair sign, and (negative, 0) is drawn again. So P(k) is proportional to
# e^(-|k|/S).
#
# *Gaussian* (their Algorithm 3). Y is Laplace of scale t, and is kept with probability e^-x, x = (|Y| -
# S^2/t)^2/(2 S^2). For every t > 0 e^(-|Y|/t - x) is e^(-Y^2/(2 S^2)) times a constant.
#
# *Keeping with probability e^-x.* A draw is kept if the number on [0, 1) of a word is below e^-x. In floats z
# = |Y|/S - S/t and x = z^2/2. Where x <= 64, |z| < 12 and |Y|/S < 13. So z is wrong by at most 60 eps, x by
# 900 eps, and e^-x by 2^-43. e^-x is computed as 2^-n e^-r with r below 0.35. r is wrong by at most 132 eps,
# the series up to r^13 by 2^-57, and their sum by 30 eps, together by 2^-45. The number is wrong by 2^-53. So
# where the number differs from e^-x by more than 2^-40, floats decide rightly; nearer, integers decide. An x
# above 64 counts as 64: floats are only used where the number is above 2^-40.

SMALLEST, LARGEST = 1e-5, 2.0**56
MOST = (1 << 62) + (1 << 61)
"""Magnitudes saturate here: a draw is larger once in e^96 at the largest scale."""

_Floats = TypeVar("_Floats", float, FloatArray)
_FEW = 4
_COARSE = 32
_ROOT, _LN_2 = 0.7071067811865476, 0.6931471805599453
_LOGARITHM = tuple(1 / k for k in range(23, 0, -2))
_EXPONENTIAL = tuple((-1.0) ** k / math.factorial(k) for k in range(13, -1, -1))
_LOG_BAND, _KEPT_BAND = 2.0**-50, 2.0**-40


def laplace(count: int, scale: float, words: Words) -> IntArray:
    """Return `count` draws, P(k) proportional to exp(-|k|/scale); magnitudes saturate at `MOST`."""
    if count <= _FEW:
        return np.array([_laplace(scale, words) for _ in range(count)], dtype=np.int64)
    return _filled(count, lambda size: _laplaces(size, scale, words))


def gaussian(count: int, scale: float, words: Words) -> IntArray:
    """Return `count` draws, P(k) proportional to exp(-k^2/(2 scale^2)); magnitudes saturate at `MOST`."""
    if count <= _FEW:
        return np.array([_gaussian(scale, words) for _ in range(count)], dtype=np.int64)
    return _filled(count, lambda size: _gaussians(size + size // 3 + _FEW, scale, words))


# ---------------------------------------------------------------------------------------- one by one


def _laplace(scale: float, words: Words) -> int:
    fine = max(0, math.frexp(scale)[1] - _COARSE)
    while True:
        word = one_word(words)
        magnitude = _geometric(word, math.ldexp(scale, -fine), words)
        if fine:
            magnitude = min(magnitude << fine, MOST - (1 << fine)) + _remainder(fine, scale, words)
        if magnitude or not word & 1:
            return -magnitude if word & 1 else magnitude


def _gaussian(scale: float, words: Words) -> int:
    wide = _wide(scale)
    while True:
        draw = _laplace(wide, words)
        z = abs(draw) / scale - scale / wide
        if _kept(one_word(words), z * z / 2, lambda: _apart(draw, scale, wide), words):  # noqa: B023
            return draw


def _remainder(bits: int, scale: float, words: Words) -> int:
    """Return a number b below 2^bits, P(b) proportional to e^(-b/scale)."""
    while True:
        remainder = one_word(words) >> (64 - bits)
        if _kept(one_word(words), remainder / scale, lambda: remainder / Fraction(scale), words):  # noqa: B023
            return remainder


def _geometric(word: int, scale: float, words: Words) -> int:
    """Return floor(-scale ln U), U in the cell of the word's upper 63 bits; at most `MOST`."""
    mantissa, exponent = math.frexp(float(word | 1))
    if mantissa < _ROOT:
        mantissa, exponent = 2 * mantissa, exponent - 1
    lower, upper = _enclosed(float(word | 1), mantissa, exponent, scale)
    low, high = max(0, math.floor(lower)), math.floor(upper)
    if low == high and word > 1:
        return low
    return _settled(EndlessNumber(word >> 1, 63, words), Fraction(scale), low, high)


def _settled(number: EndlessNumber, scale: Fraction, low: int, high: int) -> int:
    """Return floor(-scale ln U), known to lie from `low` to `high` or, where all bits are 0, beyond."""
    if number.number == 0:
        while number.number == 0:
            number.extend()
        high = math.ceil(scale * number.bits)
    while low < high:
        middle = (low + high + 1) // 2
        if number.below(middle / scale):
            low = middle
        else:
            high = middle - 1
    return min(low, MOST)


def _kept(word: int, x: float, exact: Callable[[], Fraction], words: Words) -> bool:
    """Return True with probability e^-x, x = `exact()`."""
    x = min(x, 64.0)
    halvings = round(x / _LN_2)
    difference = word * 2.0**-64 - math.ldexp(_polynomial(_EXPONENTIAL, x - halvings * _LN_2), -halvings)
    if abs(difference) > _KEPT_BAND:
        return difference < 0
    return EndlessNumber(word, 64, words).below(exact())


# -------------------------------------------------------------------------------------- many at once


def _filled(count: int, some: Callable[[int], IntArray]) -> IntArray:
    """Return the first `count` of the independent draws that `some` makes, which may be fewer than asked."""
    draws = some(count)
    while draws.size < count:
        draws = np.concatenate([draws, some(count - draws.size)])
    return draws[:count]


def _laplaces(size: int, scale: float, words: Words) -> IntArray:
    """Return up to `size` draws as `_laplace` makes them, without (negative, 0)."""
    draws = words(size)
    fine = max(0, math.frexp(scale)[1] - _COARSE)
    magnitude = _geometrics(draws, math.ldexp(scale, -fine), words)
    if fine:
        np.minimum(magnitude, (MOST >> fine) - 1, out=magnitude)
        magnitude = (magnitude << fine) + _filled(size, lambda some: _remainders(some, fine, scale, words))
    draws &= np.uint64(1)
    positive = 1 - draws.view(np.int64)
    draws.fill(0)
    noise: IntArray = (magnitude * (2 * positive - 1))[(magnitude | positive) != 0]
    return noise


def _gaussians(size: int, scale: float, words: Words) -> IntArray:
    """Return up to `size` draws as `_gaussian` makes them."""
    wide = _wide(scale)
    draws = laplace(size, wide, words)
    z = np.abs(draws) / scale - scale / wide
    return draws[_all_kept(z * z / 2, lambda k: _apart(int(draws[k]), scale, wide), words)]


def _remainders(size: int, bits: int, scale: float, words: Words) -> IntArray:
    """Return up to `size` numbers as `_remainder` makes them."""
    draws = words(size)
    remainders = (draws >> np.uint64(64 - bits)).view(np.int64)
    draws.fill(0)
    return remainders[_all_kept(remainders / scale, lambda k: int(remainders[k]) / Fraction(scale), words)]


def _geometrics(drawn: WordArray, scale: float, words: Words) -> IntArray:
    """Return `_geometric` of each word."""
    middle = (drawn | np.uint64(1)).astype(np.float64)
    mantissa, exponent = np.frexp(middle)
    small = mantissa < _ROOT
    mantissa += mantissa * small
    lower, upper = _enclosed(middle, mantissa, (exponent - small).astype(np.float64), scale)
    low = np.floor(lower)
    magnitudes = low.astype(np.int64)
    for k in np.flatnonzero((low != np.floor(upper)) | (middle == 1)):
        magnitudes[k] = _geometric(int(drawn[k]), scale, words)
    return magnitudes


def _all_kept(x: FloatArray, exact: Callable[[int], Fraction], words: Words) -> BoolArray:
    """Return `_kept` of each x; `exact(k)` is the k-th."""
    draws, x = words(x.size), np.minimum(x, 64.0)
    halvings = np.rint(x / _LN_2)
    likely = np.ldexp(_polynomial(_EXPONENTIAL, x - halvings * _LN_2), -halvings.astype(np.int64))
    difference = draws * 2.0**-64 - likely
    accepted: BoolArray = difference < 0
    for k in np.flatnonzero(np.abs(difference) <= _KEPT_BAND):
        accepted[k] = EndlessNumber(int(draws[k]), 64, words).below(exact(int(k)))
    draws.fill(0)
    return accepted


# ----------------------------------------------------------------- what both share: floats and formulas


def _wide(scale: float) -> float:
    return float(math.floor(scale) + 1)


def _apart(drawn: int, scale: float, wide: float) -> Fraction:
    square = Fraction(scale) ** 2
    return (abs(drawn) - square / Fraction(wide)) ** 2 / (2 * square)


def _enclosed(middle: _Floats, mantissa: _Floats, exponent: _Floats, scale: float) -> tuple[_Floats, _Floats]:
    """Return bounds of -scale ln U; middle = mantissa 2^exponent, mantissa from sqrt(1/2) to sqrt(2)."""
    s = (mantissa - 1) / (mantissa + 1)
    log = (64 - exponent) * _LN_2 - 2 * s * _polynomial(_LOGARITHM, s * s)
    y, band = scale * log, scale * ((1 + log) * _LOG_BAND + 4 / middle)
    return y - band, y + band


def _polynomial(coefficients: tuple[float, ...], x: _Floats) -> _Floats:
    """Return the polynomial of x, its highest coefficient first (Horner)."""
    value = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value


class SamplerError(RuntimeError):
    """A draw failed. The text never shows the values."""


def entropy(count: int) -> WordArray:
    """Return that many words of 64 bits from the operating system, to be overwritten after their use."""
    return np.frombuffer(bytearray(os.urandom(8 * count)), dtype=np.uint64)


@dataclass(slots=True, eq=False)
class ExactSampler:
    """Randomness that nobody can predict or repeat. `words`: where its bits come from."""

    words: Words = field(default=entropy, repr=False)
    simulated: bool = field(default=False, init=False)

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:  # noqa: ARG002 # no seed
        """Return `values` plus noise of that scale, same shape.

        Raises ValueError unless the scale is from 1e-5 to 2^56, SamplerError if a value is 2^61 or more.
        """
        return self._noisy(laplace, values, scale)

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:  # noqa: ARG002 # no seed
        """Return `values` plus noise of that scale, same shape. Raises as `laplace`."""
        return self._noisy(gaussian, values, scale)

    def sphere(self, round: int, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """Return directions (..., d) and numbers (...) on [0, 1), each pair from fresh entropy."""
        normals, numbers = np.empty((prod(shape[:-1]), shape[-1])), np.empty(prod(shape[:-1]))
        for k in range(numbers.size):
            fresh = np.random.Generator(np.random.PCG64())
            normals[k], numbers[k] = fresh.standard_normal(shape[-1]), fresh.random()
        return directions(normals).reshape(shape), numbers.reshape(shape[:-1])

    def randomised(self, round: int, bits: BoolArray, epsilon: Fraction) -> BoolArray:
        """Return `bits`, each kept with probability 1/(1 + e^(-1/S)), 1/S at most epsilon. As `laplace`."""
        noisy = self.laplace(round, np.where(bits, 0, -1), rounded_up(1 / epsilon))
        coins: BoolArray = noisy >= 0
        return coins

    def _noisy(
        self, draw: Callable[[int, float, Words], IntArray], values: IntArray, scale: float
    ) -> IntArray:
        if not SMALLEST <= scale <= LARGEST:
            raise ValueError(f"scale is {scale!r}: must be from {SMALLEST:g} to {LARGEST:g}")
        if values.size and not (values.min() > -RANGE // 2 and values.max() < RANGE // 2):
            raise SamplerError("a private value is too large for the exact sampler")
        noise = draw(values.size, scale, self.words).reshape(values.shape)
        sums: IntArray = np.clip(values + noise, -RANGE, RANGE)
        return sums


# Simulated noise: seeded and repeatable, and so no protection at all. For experiments, tests and demos.
#
# Guarantees
# ----------
# None, as whoever knows the seed can subtract the noise. The noise has the right size, and depends on (seed,
# node, round, shape) alone. So a node draws the same noise after a restart, with another order of events, or
# as a row of an array over nodes.

_BLOCK = 64
_MOST = 1 << 16

_Shape = tuple[int, ...]
_Draw = Callable[[np.random.Generator, _Shape], FloatArray]
_Kept = tuple[int, _Shape, FloatArray]


@dataclass(slots=True, eq=False)
class SimulatedSampler:
    """Numpy's noise, rounded to integers, drawn in blocks of 64 rounds (of one, if rounds are large).

    `node`: the name of the node, or the names of several; values then have a first axis over the nodes.
    """

    seed: int
    node: str | tuple[str, ...]
    simulated: bool = field(default=True, init=False)
    _kept: dict[str, _Kept] = field(default_factory=dict, init=False, repr=False)

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values`, shape (d,), plus the node's noise of `round`; ValueError for other shapes."""
        draws = self._of_round("noise", _seeded_laplace, round, values.shape, 1)
        noisy: IntArray = values + np.rint(draws * scale).astype(np.int64)
        return noisy

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values`, shape (d,), plus the node's noise of `round`; ValueError for other shapes."""
        draws = self._of_round("gaussian", _normal, round, values.shape, 1)
        noisy: IntArray = values + np.rint(draws * scale).astype(np.int64)
        return noisy

    def of_rounds(self, law: Literal["laplace", "gaussian"], rounds: range, shape: _Shape) -> FloatArray:
        """Return the noise of these rounds, of scale 1 and not rounded, (T, *shape); ValueError as above."""
        kind, draw = ("noise", _seeded_laplace) if law == "laplace" else ("gaussian", _normal)
        parts, round = list[FloatArray](), rounds.start
        while round < rounds.stop:
            self._of_round(kind, draw, round, shape, 1)
            block = self._kept[kind][2]
            row = round % len(block)
            parts.append(block[row : row + rounds.stop - round])
            round += len(parts[-1])
        return np.concatenate(parts)

    def sphere(self, round: int, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """Return the node's directions (h, d) and numbers (h,) of `round`; ValueError for other shapes."""
        numbers = self._of_round("sign", _uniform, round, shape[:-1], 1)
        return self._of_round("sphere", _directions, round, shape, 2), numbers

    def randomised(self, round: int, bits: BoolArray, epsilon: Fraction) -> BoolArray:
        """Return `bits`, shape (h,), each kept or flipped by the node's coins of `round`."""
        turned = 1 / (1 + math.exp(min(float(epsilon), 700.0)))
        randomised: BoolArray = bits ^ (self._of_round("coin", _uniform, round, bits.shape, 1) < turned)
        return randomised

    def _of_round(self, kind: str, draw: _Draw, round: int, shape: _Shape, axes: int) -> FloatArray:
        block = _BLOCK if math.prod(shape[-axes:]) <= _MOST else 1
        number, row = divmod(round, block)
        block_of_rounds = self._kept.get(kind)
        if block_of_rounds is None or block_of_rounds[0] != number or block_of_rounds[1] != shape:
            block_of_rounds = self._kept[kind] = (
                number,
                shape,
                self._block(kind, draw, number, (block, *shape), axes),
            )
        draws: FloatArray = block_of_rounds[2][row]
        return draws

    def _block(self, kind: str, draw: _Draw, number: int, shape: _Shape, axes: int) -> FloatArray:
        nodes = (self.node,) if isinstance(self.node, str) else self.node
        over = () if isinstance(self.node, str) else (len(nodes),)
        if len(shape) - 1 != len(over) + axes or shape[1:-axes] != over:
            owner = "that of one node" if isinstance(self.node, str) else f"that of {len(nodes)} nodes"
            raise ValueError(
                f"values are of shape {shape[1:]}: simulated noise is {owner}, ({'h, d'[-axes:]},)"
            )
        rounds = np.empty((shape[0], len(nodes), *shape[-axes:]))
        for row, name in enumerate(nodes):
            rounds[:, row] = draw(generator(kind, self.seed, name, number), (shape[0], *shape[-axes:]))
        return rounds.reshape(shape)


def _seeded_laplace(random: np.random.Generator, shape: _Shape) -> FloatArray:
    return random.laplace(size=shape)


def _normal(random: np.random.Generator, shape: _Shape) -> FloatArray:
    return random.standard_normal(shape)


def _uniform(random: np.random.Generator, shape: _Shape) -> FloatArray:
    return random.random(shape)


def _directions(random: np.random.Generator, shape: _Shape) -> FloatArray:
    return directions(random.standard_normal(shape))
