"""Epsilon schedules and budgets in a mesh file."""

import sys
from dataclasses import replace
from fractions import Fraction

import pytest

from nodes.accounting.releases import GaussianComposition, GrowingSum, Sum, Tight
from nodes.privacy.laplace import LaplaceSchedule
from streams.mesh.file import MeshFileError
from streams.mesh.mesh import Mesh
from tests.support.meshes.files import changed, loaded

GROWING = {"total": 10, "rounds": 100, "schedule": "growing"}
TIGHT = {"epsilon": 5, "delta": 1e-6}
GAUSSIAN = {"mechanism": "gaussian", "delta": 1e-6}


def mesh(folder, size=1, **privacy):
    slots = {"size": size}
    return loaded(folder, changed(slots=slots, privacy=privacy, loss="range")).mesh


def test_a_number_is_kept_by_the_sum(tmp_path):
    ledger = Mesh(mesh(tmp_path, 2, budget=10)).node("a").ledger
    assert isinstance(ledger.composition, Sum)
    assert (ledger.last_learning_round, ledger.delta) == (5, 0.0)


def test_a_budget_at_a_delta_is_kept_by_the_tightest_composition(tmp_path):
    ledger = Mesh(mesh(tmp_path, epsilon=0.1, budget=TIGHT)).node("a").ledger
    assert isinstance(ledger.composition, Tight)
    assert (ledger.last_learning_round, ledger.delta, ledger.composition.kind) == (111, 1e-6, "laplace")
    sphere = (
        Mesh(mesh(tmp_path, mechanism="l2-sphere", norm="l2", epsilon=0.1, budget=TIGHT)).node("a").ledger
    )
    assert sphere.last_learning_round == 108


def test_a_slot_of_h_records_costs_h_epsilon(tmp_path):
    ledger = Mesh(mesh(tmp_path, 2, epsilon=0.05, budget=TIGHT)).node("a").ledger
    assert ledger.last_learning_round == 111
    assert ledger.epsilon == Fraction(1, 20)


def test_gaussian_composes_in_closed_form_h_times_the_sensitivity(tmp_path):
    one = Mesh(mesh(tmp_path, epsilon=1, budget=TIGHT, **GAUSSIAN)).node("a").ledger
    two = Mesh(mesh(tmp_path, 2, epsilon=1, budget=TIGHT, **GAUSSIAN)).node("a").ledger
    assert isinstance(one.composition, GaussianComposition)
    assert one.spent(4) == pytest.approx(two.spent(1), rel=1e-6)  # mu sqrt(4)
    assert one.spent(1) == pytest.approx(1, rel=1e-9)
    assert one.last_learning_round // 4 == two.last_learning_round
    alone = Mesh(mesh(tmp_path, epsilon=1, **GAUSSIAN)).node("a").ledger
    assert (alone.last_learning_round, alone.delta) == (None, 1e-6)


def test_a_total_is_split_over_its_rounds_and_then_the_node_relays(tmp_path):
    uniform = mesh(tmp_path, 2, epsilon={"total": 10, "rounds": 100})
    assert Mesh(uniform).node("a").mechanism.epsilon == Fraction(1, 20)
    assert Mesh(uniform).node("a").ledger.last_learning_round == 100
    growing = mesh(tmp_path, epsilon=GROWING)
    made = Mesh(growing).node("a").mechanism
    ledger = Mesh(growing).node("a").ledger
    assert isinstance(made, LaplaceSchedule)
    assert isinstance(ledger.composition, GrowingSum)
    assert ledger.epsilon == made.epsilon == Mesh(growing).node("a").guarantee.epsilon
    assert ledger.last_learning_round == 100
    assert 9.999 < ledger.spent(100, 100) <= 10
    assert Mesh(mesh(tmp_path, epsilon=GROWING, budget=5)).node("a").ledger.last_learning_round == 62


def test_a_node_may_have_its_own_schedule_and_spent_rounds_have_no_price_in_a_growing_one(tmp_path):
    file = loaded(tmp_path, changed(nodes={"a": {"epsilon": GROWING}, "b": {}, "c": {}, "d": {}}))
    assert [file.resolved.node(name).ledger.last_learning_round for name in "ab"] == [100, None]
    with pytest.raises(ValueError, match="charged_before is 3: must be 0 where epsilon grows"):
        replace(file.resolved.node("a").learner, charged_before=3)


def test_schedules_and_budgets_are_in_the_digest_and_numbers_stay_as_they_were(tmp_path):
    found = [
        mesh(tmp_path),
        mesh(tmp_path, epsilon=GROWING),
        mesh(tmp_path, epsilon=GROWING | {"rounds": 101}),
        mesh(tmp_path, budget=5),
        mesh(tmp_path, budget=TIGHT),
        mesh(tmp_path, budget=TIGHT | {"delta": 1e-5}),
    ]
    assert len({one.digest() for one in found}) == len(found)
    assert found[3].agreed["privacy"]["budget"] == "5"
    assert found[4].agreed["privacy"]["budget"] == {"epsilon": "5", "delta": 1e-6}


MISTAKES = [
    ({"epsilon": {"total": 1}}, "mesh.privacy.epsilon.rounds: missing: must be given"),
    ({"epsilon": {"total": 0, "rounds": 5}}, "mesh.privacy.epsilon.total: 0: must be a number above 0"),
    (
        {"epsilon": GROWING | {"schedule": "falling"}},
        'epsilon.schedule: "falling": must be uniform or growing',
    ),
    ({"epsilon": GROWING | {"rounds": 0}}, "mesh.privacy.epsilon.rounds: 0: must be at least 1"),
    ({"epsilon": GROWING | {"rounds": 10**7}}, "mesh.privacy: rounds is 10000000: must be at most 1000000"),
    (
        {"epsilon": {"total": 1, "round": 5}},
        "mesh.privacy.epsilon.round: 5: unknown key: must be one of total",
    ),
    ({"epsilon": "one"}, 'mesh.privacy.epsilon: "one": must be a number above 0'),
    (
        {"epsilon": GROWING, "on": "parameters", "norm": "l2"},
        'epsilon.schedule: "growing": laplace on the param',
    ),
    (
        {"epsilon": GROWING, "mechanism": "l2-sphere", "norm": "l2"},
        "l2-sphere on the gradient keeps one epsilon: must be uniform",
    ),
    (
        {"epsilon": GROWING, "budget": TIGHT},
        "a growing epsilon is summed up: must be a number, without delta",
    ),
    (
        {"budget": 10, "norm": "l2"} | GAUSSIAN,
        "budget: 10: gaussian has a delta: must be {epsilon: ..., delta: ...}",
    ),
    ({"budget": {"epsilon": 10}}, "mesh.privacy.budget.delta: missing: must be given"),
    ({"budget": TIGHT | {"delta": 0}}, "mesh.privacy.budget.delta: 0: must be at least 1e-12"),
    ({"budget": TIGHT | {"delta": 1}}, "mesh.privacy.budget.delta: 1: "),
    ({"budget": TIGHT | {"epsilon": -1}}, "mesh.privacy.budget.epsilon: -1: must be a number above 0"),
    (
        {"budget": TIGHT | {"epsilon": 0.5}},
        "budget is 0.5: must be at least 1, one round's cost",
    ),
    ({"budget": [1]}, "mesh.privacy.budget: [1]: must be a number above 0"),
]


@pytest.mark.parametrize(("privacy", "text"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_clear_line(tmp_path, privacy, text):
    with pytest.raises(MeshFileError) as caught:
        mesh(tmp_path, **privacy)
    assert any(text in line for line in caught.value.lines), caught.value.lines


def test_a_budget_at_a_delta_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(MeshFileError, match=r"pip install 'mirrormesh\[accounting\]'"):
        mesh(tmp_path, epsilon=0.17, budget=TIGHT)
    mesh(tmp_path, epsilon=0.17, budget=5)
