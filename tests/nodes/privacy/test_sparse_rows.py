"""A mechanism makes of sparse gradients, bit for bit, what it makes of the same gradients when dense."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.algorithms import Constant, dpdo_nc
from nodes.geometry.constraints import L2Ball
from nodes.geometry.mirror_maps import Euclidean
from nodes.geometry.mirror_step import mirror_step
from nodes.privacy.bisr import GaussianBisr
from nodes.privacy.clipping import to_grid
from nodes.privacy.exact import ExactSampler, SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.laplace_parameters import LaplaceParameters
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.privacy.sampled import bounded_sum, checked
from nodes.privacy.unprotected import Unprotected
from nodes.sparse import SparseRows
from nodes.values import Consensus

ONE, H = Fraction(1), 6
MADE = {
    "laplace": lambda d, sampler: LaplaceGradient(0.7, ONE, H, d, sampler),
    "gaussian": lambda d, sampler: GaussianGradient(0.7, ONE, 1e-6, H, d, sampler),
    "gaussian-bisr": lambda d, sampler: GaussianBisr(0.7, ONE, 1e-6, H, d, sampler, 4),
    "l2-sphere": lambda d, sampler: L2Sphere(0.7, ONE, H, d, sampler),
    "none-l1": lambda d, _: Unprotected(0.7, "l1", H, d),
    "none-l2": lambda d, _: Unprotected(0.7, "l2", H, d),
    "none-linf": lambda d, _: Unprotected(0.7, "linf", H, d),
}
WILD = (
    0.0,
    -0.0,
    5e-324,
    -1e-300,
    1e-9,
    0.1,
    -0.35,
    0.7,
    1.0,
    -3.0,
    1e9,
    1e200,
    -1e308,
    np.inf,
    -np.inf,
    np.nan,
)


@st.composite
def gradients(draw, most=H):
    """Rows of ordinary and of wild values, sparse: none, full and empty ones among them."""
    d = draw(st.sampled_from([2, 3, 8, 17, 300]))
    seed = draw(st.integers(0, 2**32))
    random = np.random.default_rng(seed)
    full = random.standard_normal((draw(st.integers(0, most)), d)) * 10 ** random.uniform(-3, 2)
    wild = random.random(full.shape) < draw(st.sampled_from([0.0, 0.01, 0.3]))
    full = np.where(wild, random.choice(WILD, full.shape), full)
    stored = random.random(full.shape) < draw(st.sampled_from([0.02, 0.3, 1.0]))
    where, indices = np.nonzero(stored)
    return SparseRows(np.searchsorted(where, np.arange(len(full) + 1)), indices, full[stored], d)


def release(name, sampler, rows, dimension):
    made = MADE[name](dimension, sampler).privatise(3, Private(rows), lambda gradient: gradient)
    secret = None if made.secret is None else opened(made.secret.draws).tobytes()
    # + 0.0: the dense sum of nothing but -0 is -0
    return (made.release + 0.0).tobytes(), opened(made.clipped), opened(made.broken), secret


@pytest.mark.parametrize("name", MADE)
@given(rows=gradients())
def test_the_release_and_the_counts_are_those_of_dense_rows(name, rows):
    d = rows.dimension
    sparse = release(name, SimulatedSampler(1, "a"), rows, d)
    assert sparse == release(name, SimulatedSampler(1, "a"), rows.dense(), d)


@given(rows=gradients(most=1))
def test_noise_on_the_parameters_too(rows):
    d = rows.dimension
    ball = L2Ball(d, 3.0)
    step = dpdo_nc(mirror_step(Euclidean(), ball), Constant(0.1))
    found = []
    for given_rows in (rows, rows.dense()):
        mechanism = LaplaceParameters(
            0.5, "l2", ONE, Euclidean(), ball, Constant(0.1), SimulatedSampler(0, "a")
        )
        made = mechanism.privatise(
            3, Private(given_rows), lambda g: step.update(3, Consensus(np.linspace(-1, 1, d)), g)
        )
        found.append(made.release.tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["laplace", "gaussian", "gaussian-bisr"])
@given(rows=gradients(most=1))
def test_one_record_moves_the_integers_by_the_clips_radius_at_most(name, rows):
    mechanism = MADE[name](rows.dimension, SimulatedSampler(0, "a"))
    total = mechanism.bounded_sum(checked(rows, H, rows.dimension))[0].tolist()
    size = sum(map(abs, total)) if name == "laplace" else sum(k * k for k in total) ** 0.5
    assert size <= mechanism.grid.radius


def test_every_coordinate_has_noise_whatever_is_stored():
    """Else whoever reads the release would see which words a text holds."""
    d = 400
    mechanism = LaplaceGradient(1.0, ONE, 1, d, ExactSampler())
    row = SparseRows([0, 1], [7], [1.0], d)
    noisy = mechanism.privatise(1, Private(row), lambda gradient: gradient).release
    assert np.count_nonzero(noisy) == d  # each is 0 with a chance of about 2^-31


def test_other_shapes_are_refused():
    for rows, d in ((SparseRows([0] * 8, [], [], 5), 5), (SparseRows([0, 0], [], [], 5), 4)):
        with pytest.raises(ValueError, match="must be of shape"):
            checked(rows, H, d)


def test_the_integer_clip_itself_is_taken_over_rows():
    """The float clip left out, as if it were wrong: rows of 3 K and of nothing, the first is held to K."""
    mechanism = LaplaceGradient(1.0, ONE, 2, 4, SimulatedSampler(0, "a"))
    rows = SparseRows([0, 3, 3], [0, 1, 3], [1.0, -1.0, 1.0], 4)

    def points(vectors, *, totals):
        return to_grid(np.full_like(vectors, 1.0), mechanism.grid, totals)

    total, _, _ = bounded_sum(rows, 1.0, "l1", points)
    assert mechanism.grid.radius - 3 <= total.sum() <= mechanism.grid.radius
