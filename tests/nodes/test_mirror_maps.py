import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nodes.geometry.mirror_maps import Entropy, Euclidean, Mahalanobis

FULL = np.array([[2.0, 0.5], [0.5, 1.0]])
POSITIVE = st.floats(1e-3, 1.0)


def test_values_by_hand():
    x = np.array([3.0, -4.0])
    assert Euclidean().value(x) == 12.5
    assert Mahalanobis(np.array([2.0, 1.0])).value(x) == 17.0
    assert Mahalanobis(FULL).value(x) == 0.5 * (18.0 - 12.0 + 16.0)
    assert Entropy().value(np.array([0.5, 0.5, 0.0])) == pytest.approx(-math.log(2.0), abs=1e-15)
    assert Entropy().divergence(np.array([2.0]), np.array([1.0])) == pytest.approx(2 * math.log(2.0) - 1)
    assert Entropy().divergence(np.array([1.0, 0.0]), np.array([0.5, 0.5])) == pytest.approx(math.log(2.0))


def test_moduli_by_hand():
    assert Euclidean().modulus == Entropy().modulus == 1.0
    assert Mahalanobis(np.array([3.0, 0.25])).modulus == 0.25
    assert Mahalanobis(FULL).modulus == pytest.approx(1.5 - math.sqrt(0.5), rel=1e-14)


GRADIENTS = {
    "euclidean": (Euclidean(), lambda z: z),
    "diagonal": (Mahalanobis(np.array([2.0, 0.7])), lambda z: np.array([2.0, 0.7]) * z),
    "full": (Mahalanobis(FULL), lambda z: FULL @ z),
    "entropy": (Entropy(), lambda z: 1.0 + np.log(z)),
}


@pytest.mark.parametrize("name", GRADIENTS)
@given(data=st.data())
@settings(max_examples=50)
def test_divergence_is_the_definition_and_strongly_convex(name, data):
    mirror_map, gradient = GRADIENTS[name]
    x, z = data.draw(arrays(float, 2, elements=POSITIVE)), data.draw(arrays(float, 2, elements=POSITIVE))
    x, z = x / x.sum(), z / z.sum()
    defined = mirror_map.value(x) - mirror_map.value(z) - (gradient(z) * (x - z)).sum()
    assert mirror_map.divergence(x, z) == pytest.approx(defined, abs=1e-12)
    norm = np.abs(x - z).sum() if name == "entropy" else math.hypot(*(x - z))
    assert mirror_map.divergence(x, z) >= 0.5 * mirror_map.modulus * norm**2 - 1e-12


A = np.random.default_rng(1).normal(size=(55, 55))
WIDE = [Euclidean(), Mahalanobis(np.linspace(0.5, 2.0, 55)), Mahalanobis(A @ A.T + np.eye(55)), Entropy()]


@pytest.mark.parametrize("mirror_map", WIDE, ids=lambda m: m.name)
def test_rows_are_equal_bit_for_bit(mirror_map):
    x = np.random.default_rng(0).uniform(0.1, 1.0, size=(2, 9, 55))
    values, divergences = mirror_map.value(x[0]), mirror_map.divergence(x[0], x[1])
    for k in range(9):
        assert values[k].tobytes() == np.asarray(mirror_map.value(x[0, k])).tobytes()
        assert divergences[k].tobytes() == np.asarray(mirror_map.divergence(x[0, k], x[1, k])).tobytes()


def test_a_full_q_that_is_diagonal_is_kept_as_one():
    kept = Mahalanobis(np.diag([2.0, 3.0]))
    assert kept.diagonal
    assert kept.q.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("q", "words"),
    [
        ([1.0, 0.0], "smallest eigenvalue 0.0: must be positive definite"),
        ([1.0, -1.0], "smallest eigenvalue -1.0"),
        ([[1.0, 1.0], [1.0, 1.0]], "positive definite"),
        (np.outer([-0.6, 0.6, 0.8, -0.5], [-0.6, 0.6, 0.8, -0.5]), "positive definite"),  # 5e-18 by rounding
        ([[1.0, 2.0], [2.0, 1.0]], "positive definite"),
        ([[1.0, 0.5], [0.25, 1.0]], r"q\[0\]\[1\] is 0.5, q\[1\]\[0\] is 0.25: q must be symmetric"),
        ([[1.0, 0.5]], r"q has shape \(1, 2\)"),
        ([[[1.0]]], r"q has shape \(1, 1, 1\)"),
        ([], r"q has shape \(0,\)"),
        (2.0, r"q has shape \(\)"),
        ([1.0, math.nan], "q holds a value that is not finite"),
    ],
)
def test_a_broken_q_is_named(q, words):
    with pytest.raises(ValueError, match=words):
        Mahalanobis(np.array(q))
