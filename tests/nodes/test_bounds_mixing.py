"""The constants bound what is left of disagreement on real schedules."""

import math

import numpy as np
import pytest

from nodes.bounds import left_in_all, li_lemma_3, zhou_li_lemma_2
from topology.graph import complete, from_edges, ring, star
from topology.schedules import (
    CycleSchedule,
    FixedSchedule,
    SwitchingSchedule,
    least_weight,
    mixing_rate,
    window,
)
from topology.weights import fixed

SCHEDULES = {
    "ring": (FixedSchedule(ring("abcd")), 1),
    "directed": (FixedSchedule(ring("abcd", directed=True)), 1),
    "in turn": (CycleSchedule([from_edges("abcd", [pair]) for pair in ("ab", "bc", "cd")]), 3),
    "star and ring": (CycleSchedule([star("abcd"), ring("abcd")]), 2),
    "switching": (SwitchingSchedule(complete("abc"), 0.5, seed=2), 40),
}


def products(schedule, start, most):
    """Phi(start + k, start) for k = 1, ..., most."""
    product, nodes = np.eye(len(schedule.graph.nodes)), schedule.graph.nodes
    for round in range(start, start + most):
        product = schedule.weights(round, nodes).dense() @ product
        yield product


def test_the_papers_constants_by_hand():
    # N = 3, B = 2, a = 1/2: x = 1/16; C = 2 * 17/(15/16), 1 - lambda = 1 - (15/16)^(1/4)
    found = zhou_li_lemma_2(3, 2, 0.5)
    assert found.scale == pytest.approx(2 * 17 * 16 / 15)
    assert found.gap == pytest.approx(1 - (15 / 16) ** 0.25)
    # m = 2, N = 3, eta = 1/2: 1 - 1/32
    assert li_lemma_3(2, 3, 0.5) == pytest.approx(((32 / 31) ** 2, 1 - (31 / 32) ** (1 / 3)))


def test_edges_of_the_papers_constants():
    assert zhou_li_lemma_2(1, 1, 1.0) == (0.0, 1.0)
    assert zhou_li_lemma_2(4096, 100, 0.01) == (math.inf, 0.0)
    assert zhou_li_lemma_2(3, 1, 1.0) == (math.inf, 0.0)
    assert zhou_li_lemma_2(64, 1, 0.2).gap > 0  # 1 - lambda far below the rounding of lambda


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_bound_holds_for_the_products(name):
    schedule, starts = SCHEDULES[name]
    size = len(schedule.graph.nodes)
    width = window(schedule, 50, starts)
    least, positive = least_weight(schedule, starts)
    assert positive
    rate = mixing_rate(schedule, width, starts)
    papers = [make(size, width, least) for make in (zhou_li_lemma_2, li_lemma_3)]
    for start in range(1, min(starts, 6) + 1):
        for k, product in enumerate(products(schedule, start, 30), 1):
            off = np.abs(product - 1 / size).max()
            assert all(off <= of.scale * (1 - of.gap) ** k for of in papers)
            assert np.linalg.norm(product - 1 / size, 2) <= rate ** (k // width) + 1e-12


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_sum_covers_what_is_left(name):
    schedule, starts = SCHEDULES[name]
    width = window(schedule, 50, starts)
    bound = left_in_all(width, mixing_rate(schedule, width, starts))
    size = len(schedule.graph.nodes)
    left = sum(np.linalg.norm(product - 1 / size, 2) for product in products(schedule, 1, 300))
    assert left <= bound + 1e-9
    assert left > bound / (4 * width)


def test_sums_by_hand():
    assert left_in_all(1, 0.5) == 1.0  # 1/2 + 1/4 + ...
    assert left_in_all(2, 0.5) == 3.0  # 1 + 1/2 + 1/2 + 1/4 + 1/4 + ...
    assert left_in_all(1, 0.0) == 0.0
    assert left_in_all(3, 1.0) == math.inf


def test_the_least_weight_counts_the_diagonal():
    matrix = fixed("abc", [[0.9, 0.1, 0], [0.1, 0.5, 0.4], [0, 0.4, 0.6]])
    assert least_weight(FixedSchedule(matrix), 1) == (pytest.approx(0.1), True)
    lazy = fixed("abc", [[0.05, 0.95, 0], [0.95, 0.05, 0], [0, 0, 1]])
    assert least_weight(CycleSchedule([matrix, lazy]), 2) == (pytest.approx(0.05), True)
    swap = fixed("ab", [[0, 1], [1, 0]])
    assert least_weight(FixedSchedule(swap), 1) == (1.0, False)
