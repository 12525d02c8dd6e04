import math
import subprocess
import sys
from math import comb

import pytest

from nodes.accounting.calibration import gaussian_epsilon
from nodes.accounting.releases import checked_delta, gaussian, laplace, pure

DELTA = 1e-6


@pytest.mark.parametrize(
    ("epsilon", "releases", "expected"),
    [
        (1, 10, 10),
        (1, 1000, 486),
        (0.1, 100, 4.69),
        (0.1, 1000, 18.95),
        (0.1, 10_000, 94.2),
        (0.01, 10_000, 4.876),
    ],
)
def test_laplace_gives_the_vectors_of_privacy_md_5(epsilon, releases, expected):
    assert laplace(epsilon, releases, DELTA) == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize(
    ("epsilon", "releases", "expected"),
    [(1, 1000, 591.1), (0.1, 100, 4.775), (0.1, 1000, 19.35), (0.1, 10_000, 96.6)],
)
def test_pure_gives_the_vectors_of_privacy_md_5(epsilon, releases, expected):
    assert pure(epsilon, releases, DELTA) == pytest.approx(expected, rel=5e-3)


def test_gaussian_gives_the_vector_of_privacy_md_5():
    assert gaussian(2**31, 42.25 * 2**31, 2, 1000, DELTA) == pytest.approx(3.524, rel=1e-3)


def delta_of_randomised_response(epsilon, releases, x):
    """The sum of Kairouz, Oh, Viswanath 2015 as it stands, in floats: for few releases."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    terms = (
        comb(releases, k)
        * (p ** (releases - k) * (1 - p) ** k - math.exp(x) * (1 - p) ** (releases - k) * p**k)
        for k in range(releases + 1)
        if (releases - 2 * k) * epsilon > x
    )
    return math.fsum(terms)


@pytest.mark.parametrize("releases", [2, 3, 10, 107, 108])
@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2, 0.3])
def test_pure_is_the_least_epsilon_at_which_the_sum_is_delta(epsilon, releases, delta):
    found = pure(epsilon, releases, delta)
    assert delta_of_randomised_response(epsilon, releases, found) <= delta
    if found:
        assert delta_of_randomised_response(epsilon, releases, found * (1 - 1e-5)) > delta


def test_nothing_costs_more_than_the_sum_nor_less_with_more_releases():
    for kind in (laplace, pure):
        for epsilon in (0.05, 1.0, 29.0, 31.0, 1e4):
            spent = [kind(epsilon, releases, DELTA) for releases in (1, 2, 5, 20, 100)]
            assert spent == sorted(spent)
            assert spent[0] == pytest.approx(epsilon, rel=1e-8)
            assert all(
                one <= n * epsilon * (1 + 1e-8) for one, n in zip(spent, (1, 2, 5, 20, 100), strict=True)
            )


def test_randomised_response_is_the_worst_of_pure_mechanisms():
    assert all(laplace(0.1, n, DELTA) <= pure(0.1, n, DELTA) * (1 + 1e-6) for n in (10, 100, 1000))


def test_laplace_on_one_coordinate_bounds_laplace_on_several():
    from dp_accounting.pld import privacy_loss_distribution as losses  # noqa: PLC0415 # an extra

    one = losses.from_laplace_mechanism(1 / 2.0, value_discretization_interval=1e-3)
    parts = [losses.from_laplace_mechanism(1 / e, value_discretization_interval=1e-3) for e in (0.5, 1.5)]
    sum_epsilons = parts[0].compose(parts[1])
    for x in (0.0, 0.5, 1.0, 1.5, 1.9):
        assert sum_epsilons.get_delta_for_epsilon(x) <= one.get_delta_for_epsilon(x) + 1e-9


@pytest.mark.parametrize("distance", [1, 2, 5])
def test_discrete_laplace_is_bounded_by_the_continuous_pair_a_quarter_step_over_the_scale_further(distance):
    scale = 3.0
    a = math.exp(-1 / scale)
    noise = {k: (1 - a) / (1 + a) * a ** abs(k) for k in range(-300, 301)}
    for step in range(-20, 21):
        x = step / 20 * distance / scale
        excess = math.fsum(
            max(0.0, noise[k] - math.exp(x) * noise.get(k - distance, 0.0))
            for k in noise
            if k - distance in noise
        )
        far = (distance + 1 / (4 * scale)) / scale
        assert excess <= 1 - math.exp((x - far) / 2) if x > -far else True
        if step == 1:  # and the quarter step is needed
            assert excess > 1 - math.exp((x - distance / scale) / 2)


def test_gaussian_is_that_of_one_release_of_sqrt_t_the_sensitivity():
    for releases in (1, 7, 10_000):
        mu = math.sqrt(releases) / 30
        assert gaussian(2**31, 30 * 2**31, 4, releases, DELTA) == pytest.approx(
            gaussian_epsilon(mu, DELTA), rel=1e-6
        )
    assert gaussian(2**31, 30 * 2**31, 4, 0, DELTA) == 0.0


def test_a_coarse_grid_costs_more():
    fine, coarse = gaussian(2**31, 5 * 2**31, 9, 100, DELTA), gaussian(8, 40, 9, 100, DELTA)
    assert coarse > fine * 1.01


@pytest.mark.parametrize("coordinates", [10**6, 2**24])
@pytest.mark.parametrize("releases", [1 << 39, 1 << 40])
def test_so_little_noise_on_so_many_coordinates_that_nothing_is_known_costs_infinitely_much(
    coordinates, releases
):
    assert gaussian(2**20, 1e6, coordinates, releases, DELTA) == math.inf
    assert gaussian(2**20, 1e6, coordinates, 10, DELTA) < 30


def test_without_dp_accounting_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(ValueError, match=r"pip install 'mirrormesh\[accounting\]'"):
        laplace(0.1, 100, DELTA)
    assert pure(0.1, 100, DELTA) > 0  # needs none


@pytest.mark.parametrize("delta", [0.0, 1e-13, 1.0, math.nan, math.inf, -1.0])
def test_a_delta_out_of_range_is_refused(delta):
    with pytest.raises(ValueError, match="delta is "):
        checked_delta(delta)


def test_dp_accounting_is_imported_only_where_it_is_needed():
    code = (
        "import sys, streams.cli.command_line, streams.mesh.mesh; "
        "from nodes.accounting.releases import laplace, pure; "
        "pure(0.1, 9, 1e-6); assert 'dp_accounting' not in sys.modules; "
        "laplace(0.1, 9, 1e-6); assert 'dp_accounting' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
