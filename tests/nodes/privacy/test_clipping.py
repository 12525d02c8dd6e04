import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.privacy.clipping import Grid, Norm, clip, to_grid

bounds = st.floats(1e-90, 1e90)
any_float = st.floats(width=64, allow_nan=True, allow_infinity=True)


def norm_of(row: list[float], norm: Norm) -> float:
    size = {"l1": math.fsum(map(abs, row)), "l2": math.hypot(*row), "linf": max(map(abs, row))}
    return size[norm]


@settings(max_examples=200)
@given(bounds, st.lists(any_float, min_size=1, max_size=6))
def test_whatever_comes_in_the_integers_stay_within_the_radius(bound: float, row: list[float]) -> None:
    grid = Grid.of(bound, len(row))
    points = to_grid(np.array(row), grid)
    assert sum(map(abs, points.tolist())) <= grid.radius


def test_the_integer_clip_holds_where_rounding_alone_would_not() -> None:
    grid = Grid(1.0, 10)
    assert to_grid(np.array([4.6, 4.6, 4.6]), grid).tolist() == [3, 3, 3]
    assert to_grid(np.array([-9.0, 3.0]), grid).tolist() == [-7, 2]
    assert to_grid(np.array([-6.0, 4.0]), grid).tolist() == [-6, 4]


def test_the_radius_is_reached() -> None:
    grid = Grid.of(0.7, 3)
    assert np.abs(to_grid(np.array([1e308, 0.0, 0.0]), grid)).sum() == grid.radius


@settings(max_examples=100)
@given(bounds, st.integers(1, 1000))
def test_the_grid_is_a_power_of_two_with_a_radius_of_about_2_30(bound: float, dimension: int) -> None:
    grid = Grid.of(bound, dimension)
    assert math.frexp(grid.step)[0] == 0.5
    assert 2**29 <= grid.radius <= 2**30 + dimension
    assert grid.radius * grid.step >= bound + dimension / 2 * grid.step * (1 - 1e-9)


@settings(max_examples=200)
@given(
    st.sampled_from(["l1", "l2", "linf"]),
    st.floats(1e-6, 1e6),
    st.lists(st.floats(-1e8, 1e8), min_size=1, max_size=6),
)
def test_clip_scales_down_what_is_above_the_bound_and_nothing_else(norm, bound, row) -> None:
    (clipped,), changed, broken = clip(np.array([row]), bound, norm)
    size = norm_of(row, norm)
    np.testing.assert_allclose(clipped, np.array(row) * min(1.0, bound / size if size else 1.0), rtol=1e-12)
    assert norm_of(clipped.tolist(), norm) <= bound * (1 + 1e-12)
    assert broken == 0
    if not math.isclose(size, bound, rel_tol=1e-12):
        assert changed == (size > bound)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_broken_rows_are_zero_and_counted(norm: Norm) -> None:
    rows = np.array([[math.nan, 1.0], [math.inf, 1.0], [-math.inf, math.nan], [0.1, 0.2], [3.0, 4.0]])
    clipped, changed, broken = clip(rows, 1.0, norm)
    assert (changed, broken) == (1, 3)
    assert not clipped[:3].any()
    assert clipped[3].tolist() == [0.1, 0.2]


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_norm_that_overflows_is_broken_too(norm: Norm) -> None:
    clipped, changed, broken = clip(np.array([[1.7e308, 1.7e308]]), 1.0, norm)
    assert (clipped.tolist(), changed, broken) == ([[0.0, 0.0]], 0, 1)


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.sampled_from(["l1", "l2", "linf"]), st.integers(1, 40))
def test_a_row_has_the_same_bits_alone_and_among_others(seed: int, norm: Norm, dimension: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(4, 3, dimension))
    grid = Grid.of(0.5, dimension)
    sum_epsilons = to_grid(clip(rows, 0.5, norm)[0], grid)
    for i, j in np.ndindex(4, 3):
        np.testing.assert_array_equal(to_grid(clip(rows[i, j], 0.5, norm)[0], grid), sum_epsilons[i, j])


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf, 1e-101, 1e101])
def test_bounds_out_of_range_are_refused(bound: float) -> None:
    with pytest.raises(ValueError, match="must be from 1e-100 to 1e"):
        Grid.of(bound, 2)


@pytest.mark.parametrize("dimension", [0, 2**24 + 1])
def test_dimensions_out_of_range_are_refused(dimension: int) -> None:
    with pytest.raises(ValueError, match="dimension"):
        Grid.of(1.0, dimension)
