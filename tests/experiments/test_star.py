"""The collaboration's experiments: their data, and runs that are those of the product."""

import csv
import gzip
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from experiments import influence
from experiments.harness import data, star, star_figures
from experiments.harness.data import Unavailable
from experiments.harness.star_data import COMPONENTS, STARS
from experiments.harness.star_data import star as loaded
from nodes.collaboration.steps import weights
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.query import QueryMechanism

ROOT = Path(__file__).parents[2]
with (ROOT / "experiments" / "results" / "collaboration-slopes.csv").open() as table:
    SLOPES = list(csv.DictReader(table))
LOAN = {
    "bank_id": "1", "member_id": "2", "address_state": "GA", "application_type": "INDIVIDUAL", "grade": "A",
    "term": "36 months", "annual_income": "30000", "dti": "0.1", "int_rate": "0.1", "loan_amount": "2500",
    "total_payment": "1009",
}  # fmt: skip


def test_a_set_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv(data.VARIABLE, raising=False)
    with pytest.raises(Unavailable, match=r"loans: set MIRRORMESH_DATA .* LendingClub"):
        loaded("loans")
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    with pytest.raises(Unavailable, match=r"cards: cannot read .*creditcard.* Kaggle"):
        loaded("cards")
    (tmp_path / "lendingclub").mkdir()
    with gzip.open(tmp_path / STARS["loans"].file, "wt") as file:
        file.write("a,b\n1,2\n")
    with pytest.raises(Unavailable, match=r"loans: .* is another file than that from LendingClub"):
        loaded("loans")


def test_a_page_says_on_which_side_the_forecast_errs():
    with (ROOT / "experiments" / "results" / "collaboration-forecast.csv").open() as table:
        below = [float(row["near"]) < float(row["psi"]) for row in csv.DictReader(table)]
    said = f"lies below the runs in {sum(below)} of the {len(below)} points"
    assert said in " ".join((ROOT / "docs" / "results.md").read_text().split())


def test_a_colour_is_the_same_value_in_all_panels(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(star_figures, "save", lambda output, name, figure: drawn.append(figure))
    found = {"a": np.array([[1.0, 10.0]]), "b": np.array([[100.0, 1000.0]])}
    star_figures.panels(tmp_path, "x", "X", [5], np.array([0.1, 1.0]), found)
    assert [axes.images[0].get_clim() for axes in drawn[0].axes] == [(0.0, 3.0), (0.0, 3.0)]


def test_a_loans_rate_is_no_feature_and_the_public_part_gives_the_components(monkeypatch):
    random = np.random.default_rng(1)
    rows = [
        LOAN | {"bank_id": str(k), "int_rate": str(random.random()), "total_payment": str(random.random()),
                "annual_income": str(random.random()), "dti": str(random.random()), "grade": "ABC"[k % 3],
                "address_state": "GAL"[k % 3], "loan_amount": str(random.random())}
        for k in range(60)
    ]  # fmt: skip
    found = STARS["loans"].made(rows, 20)
    changed = [row | {"int_rate": "0.5", "total_payment": "7", "bank_id": "x"} for row in rows]
    again = STARS["loans"].made(changed, 20)
    np.testing.assert_array_equal(found.rest[0], again.rest[0])
    assert (len(found.public[1]), len(found.rest[1])) == (20, 40)
    assert abs(found.public[1].mean()) < 1e-12
    np.testing.assert_allclose(found.public[0].mean(0), 0.0, atol=1e-12)
    assert found.rest[0].shape[1] <= COMPONENTS


def test_a_transaction_keeps_its_components_and_its_length_is_at_most_one():
    rows = [
        {"Time": str(k), "V1": str(k % 5), "V2": str(k % 3), "Amount": str(k), "Class": str(int(k % 10 == 0))}
        for k in range(50)
    ]
    found = STARS["cards"].made(rows, 20)
    assert found.rest[0].shape == (30, 4)  # V1, V2, Amount and a constant
    assert (np.linalg.norm(found.rest[0], axis=1) <= 1 + 1e-12).all()
    assert set(found.rest[1]) == {1.0, -1.0}


def test_three_owners_answers_are_together_what_the_runs_take():
    """Their weighted clipped means and their noise, by the product's own mechanism."""
    made, _ = star.cost("loans", 60, quick=True)
    sizes, epsilons, theta = (10, 20, 30), (1, 2, 5), np.linspace(-1, 1, made.dimension)
    shares = weights(np.array(sizes), np.ones(3, np.bool_))
    deviations = star.noises(sizes, epsilons, 3.0, star.QUERIES)
    first, found = 0, np.zeros(made.dimension)
    for share, size, epsilon, deviation in zip(shares, sizes, epsilons, deviations, strict=True):
        sampler = SimulatedSampler(1, "owner")
        terms = (3.0, Fraction(epsilon), 0.0, star.QUERIES, 1, size, made.dimension, sampler)
        own = QueryMechanism("laplace", *terms)
        assert share * own.noise_deviation == pytest.approx(deviation, rel=1e-6)
        rows = slice(first, first + size)
        gradients = (made.features[rows] @ theta - made.labels[rows])[:, None] * made.features[rows]
        total, *_ = own.answers.bounded_sum(gradients)
        found += share * total * own.answers.grid.step / size
        first += size
    np.testing.assert_allclose(found, made.clipped_gradient(theta, 3.0, 1), rtol=1e-6, atol=1e-8)


def test_two_reluctant_owners_spoil_the_star_and_a_node_the_mesh_unless_they_count_by_their_noise():
    by_records, by_noise = (
        influence.star_psi(0, form=form, quick=True)["value"] for form in ("records", "noise")
    )
    assert by_noise < by_records / 1e4
    clips = {"epsilon": 0.02, "gradient_bound": 0.5}, {"epsilon": 0.02}
    loud, quiet = (influence.mesh_regret(0, own=own, elsewhere=True, rounds=100) for own in clips)
    assert quiet["value"] < loud["value"] / 2
    assert quiet["off"] < loud["off"]


def test_more_epsilon_is_nearer_to_the_least_cost():
    far, near = (
        star.measured(0, **star.alike("loans", 3_000, epsilon), quick=True, runs=20)["psi"].mean()
        for epsilon in (1.0, 10.0)
    )
    assert 0 < near < far / 10
    whole = star.measured(0, **star.alike("loans", 3_000, 10.0), quick=True, runs=20, whole=True)["psi"]
    assert whole.shape == (star.QUERIES, 20)
    assert whole[-1].mean() == near


@pytest.mark.parametrize("row", SLOPES, ids=lambda row: " ".join(list(row.values())[:3]))
def test_the_slopes_are_the_theorems_and_those_that_the_text_says(row):
    slopes = [float(row[column]) for column in ("epsilon", "n", "epsilon_of_noise", "n_of_noise")]
    assert all(abs(slope + 2) <= 0.2 for slope in slopes)
    assert " | ".join(f"{slope:.2f}" for slope in slopes) in (ROOT / "docs" / "results.md").read_text()
