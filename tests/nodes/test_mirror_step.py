"""Every mirror map on every set it is offered with: plain loops, a general solver, optimality itself."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, brentq, minimize, nnls

from nodes.geometry.constraints import Box, L1Ball, L2Ball, LinfBall, Simplex
from nodes.geometry.mirror_maps import Entropy, Euclidean, Mahalanobis
from nodes.geometry.mirror_step import ENTROPY_FLOOR, MirrorStep, NotOffered, mirror_step

FINITE = st.floats(-20, 20, allow_subnormal=False)


def full(d):
    a = np.random.default_rng(d).normal(size=(d, d))
    return Mahalanobis(a @ a.T / d + 0.3 * np.eye(d))


def diagonal(d):
    return Mahalanobis(np.linspace(0.5, 3.0, d))


def box(d):
    lower = np.linspace(-1.0, 0.2, d)
    return Box(lower, lower + 1.5)


def l1(d):
    return L1Ball(d, 1.2)


def l2(d):
    return L2Ball(d, 1.2)


def linf(d):
    return LinfBall(d, 0.6)


OFFERED = {
    "euclidean-l1": (lambda d: Euclidean(), l1),
    "euclidean-l2": (lambda d: Euclidean(), l2),
    "euclidean-linf": (lambda d: Euclidean(), linf),
    "euclidean-box": (lambda d: Euclidean(), box),
    "euclidean-simplex": (lambda d: Euclidean(), Simplex),
    "diagonal-l1": (diagonal, l1),
    "diagonal-l2": (diagonal, l2),
    "diagonal-linf": (diagonal, linf),
    "diagonal-box": (diagonal, box),
    "full-l1": (full, l1),
    "full-l2": (full, l2),
    "full-linf": (full, linf),
    "full-box": (full, box),
    "entropy-simplex": (lambda d: Entropy(), Simplex),
}
EVERY = pytest.mark.parametrize("name", OFFERED)


def offered(name, d) -> MirrorStep:
    make_map, make_set = OFFERED[name]
    return mirror_step(make_map(d), make_set(d))


def inputs(name, d, seed, size=()):
    rng = np.random.default_rng(seed)
    s = rng.normal(size=(*size, d)) * 2
    if name == "entropy-simplex":
        return rng.dirichlet(np.ones(d), size=size or None), s
    return rng.normal(size=(*size, d)), s


def mirror_gradient(mirror_map, x):
    """grad phi(x), from the formulas."""
    match mirror_map:
        case Euclidean():
            return x
        case Mahalanobis(q=q):
            return q * x if q.ndim == 1 else q @ x
        case _:
            return np.log(x)


# ---------------------------------------------------------------- plain loops, 1e-12


def root(function, low, high):
    return brentq(function, low, high, xtol=1e-15, rtol=1e-15, maxiter=500)


def plain_step(name, step, z, s):
    """The step as the formulas have it, coordinate by coordinate; multipliers by bisection."""
    d, (kind, where) = len(z), name.split("-")
    if kind == "entropy":
        powers = [z[k] * math.exp(-s[k]) for k in range(d)]
        return [p / sum(powers) for p in powers]
    q = [1.0] * d if kind == "euclidean" else step.mirror_map.q.tolist()
    y = [z[k] - s[k] / q[k] for k in range(d)]
    if where == "linf":
        return [min(max(c, -0.6), 0.6) for c in y]
    if where == "box":
        return [min(max(c, low), low + 1.5) for c, low in zip(y, step.constraint.lower, strict=True)]

    def at(tau):
        if where == "l2":
            return [q[k] * y[k] / (q[k] + tau) for k in range(d)]
        if where == "simplex":
            return [max(c - tau, 0.0) for c in y]
        return [math.copysign(max(abs(y[k]) - tau / q[k], 0.0), y[k]) for k in range(d)]

    def excess(tau):
        x = at(tau)
        return (
            math.hypot(*x) - 1.2 if where == "l2" else sum(map(abs, x)) - (1.0 if where == "simplex" else 1.2)
        )

    if where != "simplex" and excess(0.0) <= 0:
        return y
    return at(root(excess, min(y) - 1.0 if where == "simplex" else 0.0, 1e4))


@pytest.mark.parametrize("name", [name for name in OFFERED if not name.startswith("full")])
@pytest.mark.parametrize("d", [1, 2, 5, 55])
def test_closed_forms_against_plain_loops(name, d):
    step = offered(name, d)
    for seed in range(10):
        z, s = inputs(name, d, seed)
        expected = plain_step(name, step, z.tolist(), s.tolist())
        np.testing.assert_allclose(step(z, s), expected, atol=1e-12, rtol=0)


def test_full_q_in_the_plane_against_the_sides_of_the_ball():
    """The L1 ball in the plane has four sides and four corners: the least over all of them, one by one."""
    step = mirror_step(Mahalanobis(np.array([[2.0, 0.5], [0.5, 1.0]])), L1Ball(2, 1.2))
    q = step.mirror_map.q
    for seed in range(200):
        z, s = inputs("full-l1", 2, seed)
        y = z - np.linalg.solve(q, s)
        candidates = [y] if np.abs(y).sum() <= 1.2 else []
        for a, b in [
            ((1.2, 0), (0, 1.2)),
            ((0, 1.2), (-1.2, 0)),
            ((-1.2, 0), (0, -1.2)),
            ((0, -1.2), (1.2, 0)),
        ]:
            start, along = np.array(a), np.array(b) - np.array(a)
            share = along @ q @ (y - start) / (along @ q @ along)
            candidates.append(start + min(max(share, 0.0), 1.0) * along)
        best = min(candidates, key=lambda x: (x - y) @ q @ (x - y))
        np.testing.assert_allclose(step(z, s), best, atol=1e-12, rtol=0)


# ---------------------------------------------------------------- a general solver, 1e-8


def solved_l1(step, z, s):
    """argmin over <signs, x> <= radius, as a least-distance problem (Lawson, Hanson 1974, chapter 23)."""
    d, q = len(z), getattr(step.mirror_map, "q", np.ones(len(z)))
    q = np.diag(q) if q.ndim == 1 else q
    root_q = np.linalg.cholesky(q).T  # u = root_q (x - y): minimise ||u|| subject to G u >= h
    y = z - np.linalg.solve(q, s)
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=d)))
    system = np.vstack([(-signs @ np.linalg.inv(root_q)).T, signs @ y - step.constraint.radius])
    weights, _ = nnls(system, np.eye(d + 1)[-1])
    residual = system @ weights - np.eye(d + 1)[-1]
    return y + np.linalg.solve(root_q, -residual[:-1] / residual[-1])


def solved(step, z, s):
    """argmin D(x, z) + <s, x> by SLSQP."""
    d, constraint = len(z), step.constraint

    def objective(x):
        return float(step.mirror_map.divergence(x, z)) + (s * x).sum()

    def slope(x):
        return mirror_gradient(step.mirror_map, x) - mirror_gradient(step.mirror_map, z) + s

    options = {"ftol": 1e-16, "maxiter": 2000}
    bounds, extra = None, ()
    match constraint:
        case L2Ball(radius=r):
            extra = NonlinearConstraint(lambda x: (x * x).sum(), -np.inf, r * r, jac=lambda x: 2 * x[None])
        case LinfBall(radius=r):
            bounds = Bounds(np.full(d, -r), np.full(d, r))
        case Box(lower=lower, upper=upper):
            bounds = Bounds(lower, upper)
        case _:
            bounds = Bounds(np.full(d, 1e-12), np.ones(d))
            extra = LinearConstraint(np.ones((1, d)), 1.0, 1.0)
    x = np.array(step.start)
    for _ in range(2):  # once more from where it stopped: its own accuracy is about 1e-8
        x = minimize(
            objective, x, jac=slope, bounds=bounds, constraints=extra, method="SLSQP", options=options
        ).x
    return x


@EVERY
@pytest.mark.parametrize("d", [1, 2, 6])
def test_against_a_general_solver(name, d):
    step = offered(name, d)
    for seed in range(3):
        z, s = inputs(name, d, seed)
        s = s / 2
        solver = solved_l1 if isinstance(step.constraint, L1Ball) else solved
        np.testing.assert_allclose(step(z, s), solver(step, z, s), atol=1e-8, rtol=0)


# ---------------------------------------------------------------- optimality itself


def optimality_gap(step, x, z, s):
    """max over members m of <grad phi(z) - grad phi(x) - s, m - x>: 0 exactly at the minimum."""
    descent = mirror_gradient(step.mirror_map, z) - mirror_gradient(step.mirror_map, x) - s
    return float(step.constraint.support(descent) - (descent * x).sum())


@pytest.mark.parametrize("name", [name for name in OFFERED if name != "entropy-simplex"])
@given(data=st.data(), d=st.integers(1, 6))
@settings(max_examples=60)
def test_nothing_in_the_set_is_better(name, data, d):
    step = offered(name, d)
    z, s = data.draw(arrays(float, d, elements=FINITE)), data.draw(arrays(float, d, elements=FINITE))
    x = step(z, s)
    assert optimality_gap(step, x, z, s) <= 1e-10
    assert np.abs(step.constraint.project(x) - x).max() <= 1e-13


@given(data=st.data(), d=st.integers(1, 6))
@settings(max_examples=60)
def test_nothing_in_the_simplex_is_better_for_the_entropy(data, d):
    step = offered("entropy-simplex", d)
    raw = data.draw(arrays(float, d, elements=st.floats(0.01, 1.0)))
    z, s = raw / raw.sum(), data.draw(arrays(float, d, elements=st.floats(-5, 5)))
    assert optimality_gap(step, step(z, s), z, s) <= 1e-10


@EVERY
@pytest.mark.parametrize("d", [1, 2, 3, 8, 9, 55])
def test_rows_are_equal_bit_for_bit(name, d):
    step = offered(name, d)
    z, s = inputs(name, d, d, (3, 4))
    s *= np.array([0.0, 0.01, 1.0])[:, None, None]
    stepped, projected = step(z, s), step.project(z)
    for i, j in np.ndindex(3, 4):
        assert stepped[i, j].tobytes() == step(z[i, j], s[i, j]).tobytes()
        assert projected[i, j].tobytes() == step.project(z[i, j]).tobytes()


def test_a_row_on_the_rim_does_not_depend_on_the_others():
    step = mirror_step(diagonal(5), L1Ball(5, 1.0))
    x = np.random.default_rng(0).dirichlet(np.ones(5), size=2000)
    sum_epsilons = step.project(np.concatenate([x, np.full((1, 5), 9.0)]))[:-1]
    assert all(sum_epsilons[k].tobytes() == step.project(x[k]).tobytes() for k in range(2000))


@EVERY
@pytest.mark.parametrize("d", [1, 2, 7])
def test_project_is_the_step_with_zero_gradient(name, d):
    step = offered(name, d)
    z, _ = inputs(name, d, 3, (10,))
    np.testing.assert_allclose(step.project(z), step(z, np.zeros(d)), atol=1e-15, rtol=1e-15)
    again = step.project(step.project(z))
    np.testing.assert_allclose(again, step.project(z), atol=1e-13, rtol=0)


@EVERY
@pytest.mark.parametrize("d", [1, 2, 7])
def test_phi_is_least_at_the_start(name, d):
    step = offered(name, d)
    members = step.project(inputs(name, d, 5, (50,))[0])
    assert step.start.shape == (d,)
    assert (step.mirror_map.value(step.start) <= step.mirror_map.value(members) + 1e-15).all()
    np.testing.assert_allclose(step.project(step.start), step.start, atol=1e-15, rtol=0)
    with pytest.raises(ValueError, match="read-only"):
        step.start[0] = 1.0


# ---------------------------------------------------------------- the entropy's floor


def test_a_step_of_the_entropy_by_hand():
    step = mirror_step(Entropy(), Simplex(2))
    x = step(np.array([0.5, 0.5]), np.array([math.log(3.0), 0.0]))
    assert x.tolist() == pytest.approx([0.25, 0.75], abs=1e-15)


@pytest.mark.parametrize("s", [[1e3, 0.0, 0.0], [1e308, 0.0, 0.0], [0.0, -1e308, 0.0]])
def test_no_coordinate_of_the_entropy_falls_below_the_floor(s):
    step = mirror_step(Entropy(), Simplex(3))
    x = step(step.start, np.array(s))
    assert x.min() == pytest.approx(ENTROPY_FLOOR / 3, rel=1e-9)
    assert x.sum() == pytest.approx(1.0, abs=1e-15)
    back = step(x, np.array([-40.0 if c == x.min() else 0.0 for c in x]))
    assert back[x.argmin()] > 0.4  # it comes back


def test_the_entropy_projects_a_point_outside_the_simplex_first():
    step = mirror_step(Entropy(), Simplex(2))
    z = np.array([1.5, 0.3])
    assert step.project(z).tolist() == pytest.approx([1.0, ENTROPY_FLOOR / 2], abs=1e-11)
    assert step.project(np.array([0.8, 0.4])).tolist() == pytest.approx([0.7, 0.3], abs=1e-11)
    assert step(np.array([0.8, 0.4]), np.zeros(2)).tolist() == pytest.approx([0.7, 0.3], abs=1e-11)


# ---------------------------------------------------------------- what is not offered


@pytest.mark.parametrize(
    ("mirror_map", "constraint", "words"),
    [
        (
            Entropy(),
            L1Ball(2, 1.0),
            "entropy on the l1-ball is not offered; offered are: .*entropy on simplex",
        ),
        (Entropy(), box(2), "entropy on the box is not offered"),
        (diagonal(2), Simplex(2), "mahalanobis with a diagonal q on the simplex is not offered"),
        (full(2), Simplex(2), "full q on the simplex is not offered; .*a full q, on l1-ball, l2-ball, linf"),
    ],
)
def test_what_is_not_offered_says_what_is(mirror_map, constraint, words):
    with pytest.raises(NotOffered, match=words):
        mirror_step(mirror_map, constraint)


def test_q_and_set_of_different_dimensions():
    with pytest.raises(ValueError, match="q has dimension 3, the l1-ball 2: must be the same"):
        mirror_step(diagonal(3), L1Ball(2, 1.0))
