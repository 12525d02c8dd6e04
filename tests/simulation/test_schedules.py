"""Whole meshes that learn on a schedule or a budget: the account of every record is right."""

import itertools
from fractions import Fraction

import pytest

from nodes.accounting.releases import GrowingEpsilon
from nodes.checks import rounded_up
from streams.bus.memory import Faults
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.mesh import Mesh
from tests.support.meshes.files import changed, loaded


def histories(folder, faults=None, nodes=("a", "b", "c", "d"), **privacy):
    """The mesh, and every node's records, of 12 rounds."""
    file = loaded(folder, changed(privacy=privacy, nodes=nodes))
    local = LocalRun(mesh_parts(file), faults=faults) if faults else LocalRun(mesh_parts(file))
    local.mesh.run()
    return file.mesh, [local.recorder.nodes[name].records for name in "abcd"]


def test_a_growing_schedule_is_spent_round_by_round_and_ends_the_run(tmp_path):
    mesh, nodes = histories(tmp_path, epsilon={"total": 10, "rounds": 8, "schedule": "growing"})
    schedule = GrowingEpsilon(Fraction(10), 8, 1)
    for records in nodes:
        assert [record.charged for record in records] == [*range(1, 9)]
        assert not any(record.exact for record in records)
        assert [record.epsilon_spent for record in records] == [
            rounded_up(schedule.until(t)) for t in range(1, 9)
        ]
    assert Mesh(mesh).node("a").ledger.spent(8, 12) <= 10


def test_a_node_whose_budget_is_spent_relays_while_another_learns(tmp_path):
    privacy = {"epsilon": 1, "budget": 5}
    nodes = histories(tmp_path, nodes={"a": {"epsilon": 0.5}, "b": {}, "c": {}, "d": {}}, **privacy)[1]
    for records, last in zip(nodes, (10, 5, 5, 5), strict=True):  # then the run ends
        assert [record.charged for record in records] == [min(t, last) for t in range(1, 11)]
        assert [record.exact for record in records] == [t > last for t in range(1, 11)]


@pytest.mark.parametrize(
    ("privacy", "last"),
    [
        ({"epsilon": {"total": 10, "rounds": 5}}, 5),
        ({"epsilon": 0.5, "budget": {"epsilon": 3, "delta": 1e-6}}, 6),
        (
            {"mechanism": "l2-sphere", "norm": "l2", "epsilon": 0.5, "budget": {"epsilon": 2, "delta": 1e-6}},
            4,
        ),
        (
            {"mechanism": "gaussian", "norm": "l2", "delta": 1e-6, "budget": {"epsilon": 2.5, "delta": 1e-6}},
            5,
        ),
    ],
)
def test_learning_ends_with_the_budget_whatever_composes_it(tmp_path, privacy, last):
    mesh, nodes = histories(tmp_path, **privacy)
    ledger = Mesh(mesh).node("a").ledger
    assert ledger.last_learning_round == last
    for records in nodes:
        assert [record.charged for record in records] == [*range(1, last + 1)]
        spent = [record.epsilon_spent for record in records]
        assert all(one <= after for one, after in itertools.pairwise(spent))
        assert spent[-1] == ledger.spent(last) <= (ledger.budget or 10)


@pytest.mark.parametrize("at", range(3, 40, 5))
def test_a_crash_anywhere_charges_no_round_twice(tmp_path, at):
    faults = Faults(crash_before=frozenset({("a", at), ("b", at + 1)}), restart_after=0.1)
    _, nodes = histories(tmp_path, faults, epsilon={"total": 10, "rounds": 8, "schedule": "growing"})
    total = rounded_up(GrowingEpsilon(Fraction(10), 8, 1).until(8))
    for records in nodes:  # a report may die with its process: the records that were told are looked at
        assert [record.charged for record in records] == [min(record.stepped, 8) for record in records]
        assert (records[-1].stepped, records[-1].epsilon_spent) == (8, total)
