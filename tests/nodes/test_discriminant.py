"""Decisions from class sums and moments, against an oracle in plain loops; odd slots too."""

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from nodes.discriminant import NearestMean, RidgeDiscriminant, mean_deviation
from nodes.privacy.bisr import GaussianBisr
from nodes.privacy.features import ABSENT, ClassSums, Moments
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.private import Private
from tests.support.oracles.gaussian_noise import Silent

NO_NOISE = np.array(0.0)
KAPPA = 2.0


def rows_of(seed: int, records: int = 60, columns: int = 3) -> list[list[float]]:
    """Return rows [x..., label], the class 1 with more in the first column."""
    random = np.random.default_rng(seed)
    labels = (random.random(records) < 0.3).astype(float)
    numbers = random.random((records, columns)) + 0.5 * labels[:, None] * np.eye(columns)[0]
    numbers /= np.linalg.norm(numbers, axis=1, keepdims=True) * 1.001
    return np.concatenate([numbers, labels[:, None]], 1).tolist()


def mean_of(features, rows, size: int):
    """Return the released mean without noise."""
    mechanism = GaussianGradient(1.0, Fraction(1), 1e-6, size, features.length, Silent(), features=features)
    return mechanism.privatise(1, Private(np.array(rows)), lambda estimate: estimate).release


# ------------------------------------------------------------------------- the oracle, in plain loops


def dot(one, two) -> float:
    return sum(a * b for a, b in zip(one, two, strict=True))


def mean(rows):
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def solved(matrix, right):
    """Return the solution of a linear system, by elimination."""
    size = len(right)
    table = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for k in range(size):
        pivot = max(range(k, size), key=lambda i: abs(table[i][k]))
        table[k], table[pivot] = table[pivot], table[k]
        for i in range(k + 1, size):
            factor = table[i][k] / table[k][k]
            table[i] = [a - factor * b for a, b in zip(table[i], table[k], strict=True)]
    answer = [0.0] * size
    for k in reversed(range(size)):
        answer[k] = (table[k][size] - dot(table[k][k + 1 : size], answer[k + 1 :])) / table[k][k]
    return answer


def ridge_discriminant(rows, ridge: float):
    """Return (w, cut) of rows [x..., label]."""
    records = [row[:-1] for row in rows]
    ones, zeros = ([row[:-1] for row in rows if row[-1] == kind] for kind in (1.0, 0.0))
    centre, columns = mean(records), len(records[0])
    covariance = [
        [sum(x[i] * x[j] for x in records) / len(records) - centre[i] * centre[j] for j in range(columns)]
        for i in range(columns)
    ]
    difference = [a - b for a, b in zip(mean(ones), mean(zeros), strict=True)]
    with_ridge = [[covariance[i][j] + ridge * (i == j) for j in range(columns)] for i in range(columns)]
    w = solved(with_ridge, difference)
    spread = math.sqrt(sum(w[i] * dot(covariance[i], w) for i in range(columns)))
    quantile = NormalDist().inv_cdf(1 - len(ones) / len(rows))
    return w, dot(w, centre) + quantile * spread


# ------------------------------------------------------------------------------------------------ moments


def test_moments_without_noise_are_the_ridge_discriminant_of_the_rows() -> None:
    rows = rows_of(1)
    decide = RidgeDiscriminant(3, KAPPA, intercept=True)
    decision = decide(mean_of(Moments(3, KAPPA), rows, len(rows)), NO_NOISE)
    w, cut = ridge_discriminant(rows, 1e-4)
    assert decision[:-1].tolist() == pytest.approx(w, rel=1e-2)  # the grid is 2^-15
    assert -decision[-1] / 3 == pytest.approx(cut, rel=1e-2)
    without = RidgeDiscriminant(3, KAPPA)(mean_of(Moments(3, KAPPA), rows, len(rows)), NO_NOISE)
    assert without.tolist() == decision[:-1].tolist()


def test_the_ridge_is_the_size_of_the_noise() -> None:
    rows = rows_of(2)
    released = mean_of(Moments(3, KAPPA), rows, len(rows))
    decision = RidgeDiscriminant(3, KAPPA)(released, np.array(0.05))
    w, _ = ridge_discriminant(rows, math.sqrt(2 * 3) * 0.05)
    assert decision.tolist() == pytest.approx(w, rel=2e-3)
    half = RidgeDiscriminant(3, KAPPA)(mean_of(Moments(3, KAPPA), rows, 2 * len(rows)), np.array(0.025))
    assert half.tolist() == pytest.approx(w, rel=2e-3)  # of a slot that is half full, by its count


def test_the_noise_of_the_second_moments_is_as_large_as_the_ridge() -> None:
    columns, deviation = 60, 0.01
    random = np.random.default_rng(0)
    decide = RidgeDiscriminant(columns, 1.0)
    noise = deviation * random.normal(size=decide.length)
    second = decide._second(noise[: columns * (columns + 1) // 2])
    size = float(np.abs(np.linalg.eigvalsh(second)).max())
    ridge = float(decide.ridge(np.array(1.0), np.array(deviation)))
    assert 0.8 < size / ridge < 1.2


def test_a_covariance_of_noise_alone_gets_a_ridge_above_its_lowest_eigenvalue() -> None:
    decide = RidgeDiscriminant(8, 1.0)
    random = np.random.default_rng(3)
    released = 5.0 * random.normal(size=decide.length)
    released[-1] = released[-10] = 0.5
    assert np.isfinite(decide(released, np.array(1e-9))).all()


def test_rows_of_nodes_are_decided_each_by_itself() -> None:
    released = np.stack([mean_of(Moments(3, KAPPA), rows_of(seed), 60) for seed in range(4)])
    decide = RidgeDiscriminant(3, KAPPA, intercept=True)
    together = decide(released, np.full(4, 0.01))
    assert [row.tobytes() for row in together] == [decide(one, np.array(0.01)).tobytes() for one in released]


# --------------------------------------------------------------------------------------------- class sums


def test_two_class_sums_are_the_difference_of_means_cut_in_the_middle() -> None:
    rows = rows_of(4)
    features = ClassSums(3, 2, "l2")
    decision = NearestMean(3, 2, intercept=True)(mean_of(features, rows, 100), NO_NOISE)
    ones, zeros = (mean([row[:-1] for row in rows if row[-1] == kind]) for kind in (1.0, 0.0))
    w = [a - b for a, b in zip(ones, zeros, strict=True)]
    middle = [(a + b) / 2 for a, b in zip(ones, zeros, strict=True)]
    assert decision[:-1].tolist() == pytest.approx(w, rel=1e-6)
    assert -decision[-1] / 3 == pytest.approx(dot(w, middle), rel=1e-6)


def test_several_class_sums_score_the_nearest_mean_highest() -> None:
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.6, 0.6, 2.0]] * 3
    features, decide = ClassSums(2, 3, "l2"), NearestMean(2, 3, intercept=True)
    decision = decide(mean_of(features, rows, 9), NO_NOISE).reshape(3, 3)
    for x in ([0.9, 0.1], [0.2, 0.8], [0.5, 0.5]):
        scores = [dot([*x, 1 / 3], row.tolist()) for row in decision]
        distances = [math.dist(x, row[:-1]) for row in rows[:3]]
        assert scores.index(max(scores)) == distances.index(min(distances))
    assert decide.size == 9


# ------------------------------------------------------------------------------------------------- edges

EACH = [
    (Moments(2, KAPPA), RidgeDiscriminant(2, KAPPA, intercept=True)),
    (ClassSums(2, 2, "l2"), NearestMean(2, 2, intercept=True)),
]


@pytest.mark.parametrize(("features", "decide"), EACH, ids=["moments", "class sums"])
@pytest.mark.parametrize(
    "rows",
    [
        [],
        [[math.nan, 0.0, 1.0], [1e308, 1e308, 0.0]],
        [[0.5, 0.5, ABSENT]],
    ],
    ids=["none", "broken", "absent"],
)
def test_without_a_record_the_decision_is_zero(features, decide, rows) -> None:
    decision = decide(mean_of(features, np.array(rows).reshape(-1, 3), 4), np.array(0.1))
    assert not decision.any()


@pytest.mark.parametrize(("features", "decide"), EACH, ids=["moments", "class sums"])
@pytest.mark.parametrize(
    "rows",
    [
        [[0.5, 0.5, 1.0], [0.2, 0.1, 1.0]],
        [[0.5, 0.5, 0.0], [0.2, 0.1, 0.0]],
        [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.5, 0.1, 0.0], [0.5, 0.7, 1.0]],
        [[1e300, 0.0, 0.0], [0.5, 0.7, 1.0]],
    ],
    ids=["one class", "the other", "zeros", "a constant column", "huge"],
)
def test_odd_slots_have_finite_decisions(features, decide, rows) -> None:
    for deviation in (0.0, 0.1):
        decision = decide(mean_of(features, rows, 2), np.array(deviation))
        assert np.isfinite(decision).all()


@pytest.mark.parametrize(("features", "decide"), EACH, ids=["moments", "class sums"])
@pytest.mark.parametrize(("ones", "zeros"), [(-0.1, 0.9), (0.9, -0.1), (-0.2, 0.1), (0.0, 0.0), (-1.0, -1.0)])
def test_a_noisy_count_at_or_below_zero(features, decide, ones, zeros) -> None:
    released = mean_of(features, rows_of(5, columns=2), 60)
    (first, second) = (-4, -1) if isinstance(features, Moments) else (-1, -4)
    released[first], released[second] = KAPPA * ones / 3, KAPPA * zeros / 3
    decision = decide(released, np.array(0.1))
    assert np.isfinite(decision).all()
    assert decision.any() == (ones + zeros > 0)


def rare(columns: int = 3, most: int = 400):
    """Rows of which one in a hundred is of the second class, at another place."""
    rows = rows_of(8, most, columns)
    return [
        [*(min(1.0, x + 0.4 * (k % 100 == 0)) / 2 for x in row[:-1]), float(k % 100 == 0)]
        for k, row in enumerate(rows)
    ]


def test_a_class_of_one_in_a_hundred_has_its_own_mean() -> None:
    """A least share of 2 % would pull its mean to 0, and the decision with it."""
    rows = rare()
    decision = RidgeDiscriminant(3, KAPPA)(mean_of(Moments(3, KAPPA), rows, len(rows)), NO_NOISE)
    w, _ = ridge_discriminant(rows, 1e-4)
    assert decision.tolist() == pytest.approx(w, rel=5e-2)  # the grid is 2^-15, of a hundredth of the rows
    nearest = NearestMean(3, 2)(mean_of(ClassSums(3, 2, "l2"), rows, len(rows)), NO_NOISE)
    ones, zeros = ([row[:-1] for row in rows if row[-1] == kind] for kind in (1.0, 0.0))
    expected = [a - b for a, b in zip(mean(ones), mean(zeros), strict=True)]
    assert nearest.tolist() == pytest.approx(expected, rel=5e-2, abs=2e-3)


@pytest.mark.parametrize("deviation", [1e-5, 1e-4, 1e-3, 1e-2])
def test_a_class_of_noise_alone_has_no_long_mean(deviation: float) -> None:
    """Its count counts as two deviations of its noise, so its mean is as long as half of one of its sums."""
    released = np.array([0.5, 0.5, 0.5, 1 / 3, deviation, deviation, deviation, 0.0])
    decision = NearestMean(3, 2)(released, np.array(deviation))
    share = min(0.02, 2 * deviation * 3)
    expected = deviation / share * (1 + share) - 0.5 * (1 + share)
    assert decision.tolist() == pytest.approx([expected] * 3)


@pytest.mark.parametrize("columns", [1, 200])
def test_one_column_and_two_hundred(columns: int) -> None:
    rows = rows_of(6, 30, columns)
    decision = RidgeDiscriminant(columns, 1.0, intercept=True)(
        mean_of(Moments(columns, 1.0), rows, 30), np.array(0.01)
    )
    assert decision.shape == (columns + 1,)
    assert np.isfinite(decision).all()
    w, _ = ridge_discriminant(rows, math.sqrt(2 * columns) * 0.01)
    assert decision[:-1].tolist() == pytest.approx(w, rel=0.02, abs=0.02 * max(map(abs, w)) + 1e-9)


# ---------------------------------------------------------------------------------- the noise of a mean


def test_independent_noise_shrinks_with_the_root_of_the_rounds() -> None:
    assert mean_deviation(2.0, 4) == 1.0


@pytest.mark.parametrize("rounds", [1, 3, 16, 50])
def test_correlated_noise_is_that_of_the_prefix_sum(rounds: int) -> None:
    made = GaussianBisr(1.0, Fraction(1), 1e-6, 4, 9, Silent(), bands=16, features=Moments(2, 1.0))
    r = [1.0, *(-made.matrix.weights / 2**30).tolist()]
    factors = [0.0] * rounds
    for t in range(rounds):  # the noise of round t is sum_k r_k Z_{t-k}
        for k, weight in enumerate(r[: t + 1]):
            factors[t - k] += weight
    expected = math.sqrt(sum(factor**2 for factor in factors)) / rounds
    assert mean_deviation(1.0, rounds, np.array(r)) == pytest.approx(expected)
