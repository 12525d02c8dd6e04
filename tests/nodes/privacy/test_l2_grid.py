import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nodes.privacy.clipping import Grid, clip, l2_grid, to_l2_grid

bounds = st.floats(1e-90, 1e90)
any_row = arrays.arrays(
    np.float64, st.integers(1, 40), elements=st.floats(width=64, allow_nan=True, allow_infinity=True)
)


def squares(points: np.ndarray) -> int:
    return sum(int(k) ** 2 for k in points.ravel())


@settings(max_examples=200)
@given(bounds, any_row, st.sampled_from([10, 20, 30]))
def test_whatever_comes_in_the_integers_stay_within_the_radius(bound, row, bits) -> None:
    grid = l2_grid(bound, row.size, bits)
    assert squares(to_l2_grid(row, grid)) <= grid.radius**2


@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 8, 100, 1000, 2**14, 2**20])
def test_the_worst_of_every_dimension_stays_exact_in_64_bits(dimension: int) -> None:
    grid = l2_grid(0.7, dimension)
    assert dimension * grid.radius**2 < 2**63
    points = to_l2_grid(np.full(dimension, math.inf), grid)
    assert (points > 0).all()
    assert squares(points[:1]) * dimension <= grid.radius**2


def test_the_largest_dimension_fits_too() -> None:
    assert (1 << 24) * l2_grid(0.7, 1 << 24).radius ** 2 < 2**63


def test_the_integer_clip_holds_where_rounding_alone_would_not() -> None:
    grid = Grid(1.0, 10)
    assert to_l2_grid(np.array([7.6, 7.6]), grid).tolist() == [6, 6]  # 8, 8 has norm 11.3
    assert to_l2_grid(np.array([-6.0, 8.0]), grid).tolist() == [-6, 8]


def test_the_radius_is_all_but_reached() -> None:
    grid = l2_grid(0.7, 3)
    assert math.sqrt(squares(to_l2_grid(np.array([1e308, 0.0, 0.0]), grid))) == grid.radius
    assert math.sqrt(squares(to_l2_grid(np.array([1e3, 1e3, 0.0]), grid))) > grid.radius - 4


@settings(max_examples=100)
@given(bounds, st.integers(1, 60), st.integers(0, 2**32))
def test_a_vector_within_the_bound_becomes_its_nearest_point(bound, dimension, seed) -> None:
    grid = l2_grid(bound, dimension)
    row = np.random.default_rng(seed).normal(size=dimension) * bound
    held = clip(row[None], bound * (1 - 1e-12), "l2")[0][0]
    np.testing.assert_array_equal(to_l2_grid(held, grid), np.rint(held / grid.step))


@pytest.mark.parametrize(("dimension", "bits"), [(1, 30), (3, 30), (10, 29), (100, 27), (1000, 26)])
def test_the_grid_is_as_fine_as_64_bits_allow(dimension: int, bits: int) -> None:
    grid = l2_grid(0.7, dimension)
    assert math.frexp(grid.step)[0] == 0.5
    assert 2 ** (bits - 1) <= grid.radius <= 2**bits + math.sqrt(dimension)
    assert grid.radius * grid.step >= 0.7 + math.sqrt(dimension) / 2 * grid.step * (1 - 1e-9)


def test_a_coarser_grid_may_be_asked_for() -> None:
    assert 2**19 <= l2_grid(0.7, 3, bits=20).radius <= 2**20 + 2


def test_a_row_has_the_same_bits_alone_and_among_others() -> None:
    rows = np.random.default_rng(1).normal(size=(4, 3, 7))
    grid = l2_grid(0.5, 7)
    sum_epsilons = to_l2_grid(rows, grid)
    for i, j in np.ndindex(4, 3):
        np.testing.assert_array_equal(to_l2_grid(rows[i, j], grid), sum_epsilons[i, j])


@pytest.mark.parametrize(
    ("bound", "dimension"), [(0.0, 2), (math.nan, 2), (1e101, 2), (1.0, 0), (1.0, 2**25)]
)
def test_out_of_range_is_refused(bound: float, dimension: int) -> None:
    with pytest.raises(ValueError, match="must be from"):
        l2_grid(bound, dimension)
