"""Class sums and moments of rows: what one record adds to a release is a vector of exact integers, or zero.

A row (x, y) has d features, ||x||_2 at most 1, and a class. x is rounded to a public grid, its negative
coordinates become 0 (unless `signed`), and the result is clipped in integers. Everything else is computed
from this integer row k. The sums over rows are exact, as the Gram matrix of integers is one product of floats
below 2^53.

| features | phi(k, class) | length D |
|---|---|---|
| `ClassSums` | (k, c) in the block of the row's class, 0 in the others | C (d + 1) |
| `Moments` | (128 k_i^2, 181 k_i k_j for i < j; m (k, c) in its class's block of two) | d(d+1)/2 + 2(d+1) |

c is the integer next to 1/3 in steps of the grid. So the last coordinate of a block counts the rows of its
class, in units of c. 181/128 is below sqrt(2). m is the integer next to 128 kappa in units of the row's grid.

Guarantees
----------
Let R be the grid's radius. Then ||k|| <= R in the clip's norm for any input, NaN included. A row without a
class, or with a number that is not finite, adds 0. `radius` is K, the most that one record adds. `distance`
is the most that the sum moves if one record is replaced. Both are integers, in the features' own steps and
norm.

*K.* For class sums K is R + c in L1 and sqrt(R^2 + c^2) in L2. For moments let A = 128^2 and B = 181^2 <= 2A.
Then sum A k_i^4 + sum_{i<j} B k_i^2 k_j^2 <= A (sum k_i^2)^2 <= A R^4, so K^2 = A R^4 + m^2 (R^2 + c^2).

*Distance.* In L1 the distance is 2K. Rows of two classes reach it, as their features share no coordinate. In
L2, if no coordinate of k is negative, no coordinate of phi is. So <phi, phi'> >= 0 and ||phi - phi'||^2 <=
||phi||^2 + ||phi'||^2 <= 2 K^2. The distance is sqrt(2) K and not 2K.

*Signed rows in L2.* Let r = k, s = k' and t = <r, s>, |t| <= R^2.

Two rows of two classes share no coordinate of the class sums. The inner product of their quadratic parts is
B t^2/2 + (A - B/2) sum r_i^2 s_i^2 >= B t^2/2 >= 0. So the square of the distance is 2 K^2 again.

For two rows of one class c cancels. For class sums ||r - s||^2 <= 4 R^2. For moments the squared distance is
at most A ||r||^4 + A ||s||^4 - B t^2 + m^2 (||r||^2 + ||s||^2 - 2t). This bound grows with both norms, so it
is at most 2 A R^4 + 2 m^2 R^2 - B t^2 - 2 m^2 t. The latter is largest at t = -m^2/B, where its last two
terms add m^4/B. If m^2 > B R^2, it is largest at t = -R^2, where they add 2 m^2 R^2 - B R^4. With kappa =
m/(128 R), rho = B/(2A) and R as unit this distance is sqrt(2 (1 + kappa^2) + kappa^4/(2 rho)). Beyond
kappa^2 = 2 rho it is 2 kappa, up to 1 - rho = 0.0002 below the root.

A record that is added or removed moves the sum by at most K. Sums of h records must be below h K, which
mechanisms check.

| case | what happens |
|---|---|
| NaN or infinity in a row, a norm that overflows | the row adds 0, counted as broken |
| a class that is none (0 of two classes, 2.5, NaN) | the row adds 0, counted as broken unless it is absent |
| a norm above 1 (L1: above the bound) | the row is scaled to it, counted as clipped |
| a negative number, not `signed` | 0 |
| d outside 1..10,000 (moments: 1..200), kappa outside [1/100, 100], classes outside 2..1,000 | ValueError |
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from nodes.checks import OutOfRange, at_least_one
from nodes.privacy.clipping import Grid, clip, l2_grid, to_grid, to_l2_grid
from nodes.values import FloatArray, IntArray

HEIGHT = 1 / 3
"""c, the public height of the coordinate that counts a class."""
ABSENT = -1.0
"""The class of a record that is not there."""
WHOLE, PART = 128, 181
"""The weights of squares and of products in the moments: 181/128 is just below sqrt(2)."""
MOST_COLUMNS: Mapping[str, int] = {"class-sums": 10_000, "moments": 200}
"""The most features d by algorithm: a release of moments has d(d + 1)/2 + 2(d + 1) numbers."""
MOST_CLASSES = 1_000

_ROW_BITS = 16  # rows are integers of up to 2^15, products of up to 2^30
_CHUNK = 1 << 20  # rows whose products, up to 2^31, sum to less than 2^53: floats are exact in any order


class RowFeatures(Protocol):
    """Sums the features of rows (..., n, d + 1), each of d numbers and the number of its class."""

    @property
    def norm(self) -> Literal["l1", "l2"]:
        """The norm of `radius` and `distance`."""

    @property
    def width(self) -> int:
        """The length d + 1 of a row."""

    @property
    def length(self) -> int:
        """D, the length of a sum."""

    @property
    def grid(self) -> Grid:
        """The step of the features, and K in such steps."""

    @property
    def distance(self) -> int:
        """The most, in steps, that a sum moves if one record is replaced."""

    @property
    def furthest(self) -> FloatArray:
        """Two rows (2, d + 1) that are as far apart as rows without negative numbers are, if d is above 1."""

    def summed(self, rows: FloatArray) -> tuple[IntArray, int, int]:
        """Return (sum (..., D) of the rows' features, number clipped, number broken)."""


@dataclass(frozen=True, slots=True)
class ClassSums:
    """Sums and counts of the rows of each class.

    `entries`: the most numbers of a row that are not 0, for L1. sqrt(entries) bounds the L1 norm of a row of
    L2 norm 1.
    `signed`: rows may hold negative numbers. Raises ValueError for settings out of range.
    """

    columns: int
    classes: int
    norm: Literal["l1", "l2"]
    entries: int = 1
    signed: bool = False
    grid: Grid = field(init=False)
    distance: int = field(init=False)
    _rows: Grid = field(init=False)
    _count: int = field(init=False)

    def __post_init__(self) -> None:
        _check_columns("class-sums", self.columns)
        if not 2 <= self.classes <= MOST_CLASSES:
            raise OutOfRange("classes", self.classes, f"must be from 2 to {MOST_CLASSES:,}")
        at_least_one("entries", self.entries)
        rows = Grid.of(self.bound, self.columns) if self.norm == "l1" else l2_grid(1.0, self.columns)
        count = round(HEIGHT / rows.step)
        if self.norm == "l1":
            radius = rows.radius + count
            distance = 2 * radius
        else:
            square = rows.radius**2 + count**2
            radius = root_up(square)
            distance = root_up(max(2 * square, 4 * rows.radius**2) if self.signed else 2 * square)
        for name, value in (("_rows", rows), ("_count", count), ("distance", distance)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "grid", Grid(rows.step, radius))

    @property
    def bound(self) -> float:
        """The bound of a row's norm."""
        return math.sqrt(min(self.entries, self.columns)) if self.norm == "l1" else 1.0

    @property
    def width(self) -> int:
        """The length d + 1 of a row."""
        return self.columns + 1

    @property
    def length(self) -> int:
        """C (d + 1)."""
        return self.classes * (self.columns + 1)

    @property
    def furthest(self) -> FloatArray:
        """Two rows of two classes, each of the largest norm."""
        return _furthest(self.columns, self.bound)

    def summed(self, rows: FloatArray) -> tuple[IntArray, int, int]:
        """Return (sum (..., C (d + 1)), number clipped, number broken)."""
        to_points = to_grid if self.norm == "l1" else to_l2_grid
        bounded, members, clipped, broken = _held(
            rows, self.bound, self.norm, self.classes, signed=self.signed
        )
        return self._blocks(members, to_points(bounded, self._rows)), clipped, broken

    def _blocks(self, members: FloatArray, points: IntArray) -> IntArray:
        sums = _products(members, points.astype(np.float64))
        counts = self._count * _counts(members)
        joined = np.concatenate([sums, counts], -1)
        return joined.reshape(*joined.shape[:-2], self.length)


@dataclass(frozen=True, slots=True)
class Moments:
    """Second moments of all rows, with the sums and counts of two classes' rows, weighted by `kappa`.

    `signed`: rows may hold negative numbers. Raises ValueError for settings out of range.
    """

    columns: int
    kappa: float
    signed: bool = False
    norm: Literal["l2"] = field(default="l2", init=False)
    grid: Grid = field(init=False)
    distance: int = field(init=False)
    _rows: Grid = field(init=False)
    _weight: int = field(init=False)
    _count: int = field(init=False)

    def __post_init__(self) -> None:
        _check_columns("moments", self.columns)
        if not 0.01 <= self.kappa <= 100:
            raise OutOfRange("kappa", self.kappa, "must be from 0.01 to 100")
        rows = l2_grid(1.0, self.columns, _ROW_BITS)
        weight, count = round(self.kappa * WHOLE / rows.step), round(HEIGHT / rows.step)
        square = WHOLE**2 * rows.radius**4 + weight**2 * (rows.radius**2 + count**2)
        squared_distance = (
            max(2 * square, self._within_a_class(rows.radius, weight)) if self.signed else 2 * square
        )
        for name, value in (("_rows", rows), ("_weight", weight), ("_count", count)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "grid", Grid(rows.step * rows.step / WHOLE, root_up(square)))
        object.__setattr__(self, "distance", root_up(squared_distance))

    @property
    def width(self) -> int:
        """The length d + 1 of a row."""
        return self.columns + 1

    @property
    def length(self) -> int:
        """The length d (d + 1)/2 + 2 (d + 1) of a sum."""
        return (self.columns + 4) * (self.columns + 1) // 2

    @property
    def furthest(self) -> FloatArray:
        """Two rows of two classes, each of norm 1, that share no coordinate."""
        return _furthest(self.columns, 1.0)

    def summed(self, rows: FloatArray) -> tuple[IntArray, int, int]:
        """Return (sum (..., D), number clipped, number broken)."""
        bounded, members, clipped, broken = _held(rows, 1.0, "l2", 2, signed=self.signed)
        points = to_l2_grid(bounded, self._rows)
        used = np.add.reduce(members, -2)[..., None] * points
        gram = _products(np.swapaxes(used, -1, -2), used)
        upper = np.triu_indices(self.columns)
        quadratic = gram[..., upper[0], upper[1]] * np.where(upper[0] == upper[1], WHOLE, PART)
        linear = np.concatenate([_products(members, used), self._count * _counts(members)], -1)
        linear = self._weight * linear[..., ::-1, :]  # the class 1 first
        joined = linear.reshape(*linear.shape[:-2], 2 * self.width)
        return np.concatenate([quadratic, joined], -1), clipped, broken

    @staticmethod
    def _within_a_class(radius: int, weight: int) -> int:
        """Return the bound on ||phi - phi'||^2 for two signed rows of one class."""
        products, square = PART**2, radius * radius
        bound = 2 * WHOLE**2 * square**2 + 2 * weight**2 * square
        if weight**2 <= products * square:
            return bound - (-(weight**4) // products)
        return bound + 2 * weight**2 * square - products * square**2


def _check_columns(algorithm: str, columns: int) -> None:
    """Raise OutOfRange unless the algorithm takes rows of so many numbers."""
    if not 1 <= columns <= MOST_COLUMNS[algorithm]:
        raise OutOfRange("dimension", columns, f"must be from 1 to {MOST_COLUMNS[algorithm]:,}")


def _furthest(columns: int, size: float) -> FloatArray:
    rows = np.zeros((2, columns + 1))
    rows[0, 0], rows[1, columns - 1], rows[1, columns] = size, size, 1.0
    return rows


def root_up(square: int) -> int:
    """Return the least integer of at least the root of `square`, 0 or more."""
    root = math.isqrt(square)
    return root + (root * root < square)


@np.errstate(all="ignore")  # rows may overflow, and a warning would show it
def _held(
    rows: FloatArray, bound: float, norm: Literal["l1", "l2"], classes: int, *, signed: bool
) -> tuple[FloatArray, FloatArray, int, int]:
    """Return (rows (..., n, d) in the bound, membership of classes (..., C, n), clipped, broken)."""
    numbers, labels = np.ascontiguousarray(rows[..., :-1]), rows[..., -1]
    bounded, clipped, _ = clip(numbers, bound, norm)
    finite = np.isfinite(np.add.reduce(np.abs(numbers) if norm == "l1" else numbers * numbers, -1))
    if not signed and norm == "l2":
        bounded = np.fmax(bounded, 0.0)
    kinds = np.arange(float(classes))[:, None]
    members = (labels[..., None, :] == kinds) & finite[..., None, :]
    broken = labels.size - int(np.count_nonzero(members)) - int(np.count_nonzero(labels == ABSENT))
    return bounded, members.astype(np.float64), clipped, broken


def _counts(members: FloatArray) -> IntArray:
    """Return the number of each class's rows, shape (..., C, 1)."""
    counts: IntArray = np.add.reduce(members, -1, keepdims=True).astype(np.int64)
    return counts


def _products(left: FloatArray, right: FloatArray) -> IntArray:
    """Return left (..., a, n) times right (..., n, b) of integers in floats, products up to 2^31, exactly."""
    total = np.zeros((*left.shape[:-1], right.shape[-1]), np.int64)
    for start in range(0, right.shape[-2], _CHUNK):
        part = slice(start, start + _CHUNK)
        total += (left[..., part] @ right[..., part, :]).astype(np.int64)
    return total
