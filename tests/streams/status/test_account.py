import math

import pytest

from nodes.accounting.spends import TIME, Span
from streams.mesh.mesh import Mesh
from streams.state.folder import JournalError, StateFolder
from streams.state.journal_file import JournalReader
from streams.state.spends import read_spends, write_spends
from streams.status.account import (
    ChargeCount,
    account,
    accounts,
    charge_counts,
    charge_counts_by,
    journal_charge_count,
)
from streams.terminal.text import account_facts
from tests.support.meshes.files import changed, loaded
from tests.support.nodes.accounts import journal, mesh_file, record
from tests.support.nodes.machines import plan
from tests.support.nodes.spends import begin_spend, earlier_spends, end_spend, reuse_beside


def test_the_account_of_a_journal_is_exact(tmp_path):
    file = mesh_file(tmp_path, privacy={"budget": 10, "noise": "exact"})
    journal(tmp_path, file, "a", record(4, stepped=6))
    charge_count = journal_charge_count(tmp_path, file, "a")
    assert charge_count == ChargeCount(6, 4, exactly=True, instance="aa" * 16)
    found = account(file, "a", charge_count)
    assert (found.source, found.charged, found.stepped, found.protected) == ("journal", 4, 6, True)
    assert (found.epsilon, found.delta, found.spent, found.stream_delta) == (1.0, 0.0, 4.0, 0.0)
    assert (found.budget, found.left, found.composition) == (10.0, 6.0, "sum")
    assert (found.last_learning_round, found.rounds_left, found.relaying) == (
        10,
        4,
        False,
    )  # round 10 ends it
    assert found.guarantee.startswith("Each record of node a's stream is protected with epsilon = 1 (pure)")


def test_before_the_first_charge_nothing_is_spent_and_after_the_budget_the_node_relays(tmp_path):
    file = mesh_file(tmp_path, privacy={"budget": 10})
    assert account(file, "a", ChargeCount(0, 0, exactly=True))[5:9] == (0.0, 0.0, 0.0, 0.0)
    over = account(file, "a", ChargeCount(40, 10, exactly=True))
    assert (over.left, over.rounds_left, over.relaying) == (0.0, 0, True)
    assert not over.protected  # the noise is simulated


def test_what_protects_nothing_has_no_account(tmp_path):
    found = account(mesh_file(tmp_path, privacy={"mechanism": "none"}), "a", ChargeCount(5, 5, exactly=True))
    assert (found.protected, found.epsilon, found.spent, found.left) == (False, None, None, None)


def test_a_journal_of_another_run_or_of_other_settings_is_not_this_nodes_account(tmp_path):
    file = mesh_file(tmp_path)
    assert journal_charge_count(tmp_path, file, "a") is None
    journal(tmp_path, file, "a", None)
    assert journal_charge_count(tmp_path, file, "a") == ChargeCount(0, 0, exactly=True, instance="aa" * 16)
    with pytest.raises(JournalError, match="is of node a in run run-1, not of a in run-2"):
        journal_charge_count(tmp_path, mesh_file(tmp_path, run="run-2"), "a")
    with pytest.raises(
        JournalError,
        match=r"is of other settings of the mesh \(privacy\.epsilon is 1, not 2\): its account",
    ):
        journal_charge_count(tmp_path, mesh_file(tmp_path, dimension=2, privacy={"epsilon": 2}), "a")


def test_a_journal_without_a_round_is_opened_once(tmp_path, monkeypatch):
    opened_paths, asked_instances = [], []

    class Counted(JournalReader):
        def __init__(self, path):
            opened_paths.append(path)
            super().__init__(path)

    def asked(file, nodes, instances):
        asked_instances.append(instances)
        return {name: ChargeCount(0, 7, exactly=False) for name in nodes}

    monkeypatch.setattr("streams.status.account.JournalReader", Counted)
    monkeypatch.setattr("streams.status.account.public_charge_counts", asked)
    tree = changed()
    tree["brokers"] = {"mesh": {"servers": "127.0.0.1:1"}, "trust_broker": True}
    file = loaded(tmp_path, tree)
    journal(tmp_path, file, "a", None)
    assert (
        charge_counts(file, ["a"], tmp_path)["a"].charged == 7
    )  # plans counted what this journal does not know
    assert asked_instances == [{"a": "aa" * 16}]
    assert opened_paths == [tmp_path / "a.journal"]


def standing_by(plans, node, stepped):
    return charge_counts_by(plans, {node: stepped})[node]


def test_by_plans_a_node_has_charged_at_most_the_rounds_that_named_it():
    plans = [plan(t, named=(("a", t - 1), ("b", t - 3))) for t in range(5, 10)]
    assert standing_by(plans, "a", 6) == ChargeCount(6, 9, exactly=False, planned=9)
    assert standing_by(plans, "b", 6) == ChargeCount(6, 7, exactly=False, planned=9)
    assert standing_by(plans, "a", None) == ChargeCount(
        9, 9, exactly=False, planned=9
    )  # as far as plans lead
    assert standing_by(plans, "z", 6) == ChargeCount(6, 0, exactly=False, planned=9)
    ended = plan(10, {}, names="", named=(("a", 9),))
    assert standing_by([*plans, ended], "a", 9) == ChargeCount(9, 9, exactly=False, planned=9)
    # its last heartbeat is of round 5, and it has charged all nine
    assert standing_by([*plans, ended], "a", 5) == ChargeCount(5, 9, exactly=False, planned=9)
    assert standing_by([], "a", 3) == ChargeCount(3, 3, exactly=False, planned=3)  # only that is known


def test_each_plan_is_read_once_for_all_nodes():
    class Counted(tuple):
        __slots__ = ()

        def __iter__(self):
            read.append(self)
            return super().__iter__()

    read = []
    names = [f"n{k}" for k in range(50)]
    plans = [plan(t, named=tuple((name, t - 1) for name in names)) for t in range(1, 20)]
    for one in plans:
        object.__setattr__(one, "named", Counted(one.named))
    found = charge_counts_by(plans, dict.fromkeys(names, 3))
    assert len(read) == len(plans)
    assert set(found.values()) == {ChargeCount(3, 18, exactly=False, planned=19)}


def test_by_plans_no_more_is_charged_than_the_budget_lets(tmp_path):
    file = mesh_file(tmp_path, privacy={"budget": 10})
    found = account(file, "a", ChargeCount(40, 40, exactly=False))
    assert (found.source, found.charged, found.spent) == ("plans", 10, 10.0)
    ahead = account(file, "a", ChargeCount(8, 40, exactly=False, planned=40))
    assert (ahead.charged, ahead.spent, ahead.relaying) == (10, 10.0, False)  # plans ahead end no learning


def test_a_node_that_was_away_has_a_rest_of_its_budget_and_learns_no_more(tmp_path):
    file = mesh_file(tmp_path, privacy={"budget": 10, "noise": "exact"})
    own, public = (account(file, "a", ChargeCount(12, 7, exactly=exactly)) for exactly in (True, False))
    assert (own.relaying, own.rounds_left, own.rounds_unused, own.left) == (True, 0, 3, 3.0)
    said = "3 of the budget of 10: it learns no more since round 10; {}3 rounds of its budget were not used"
    assert dict(account_facts(own))["left"] == said.format("")
    assert dict(account_facts(public))["left"] == said.format("at least ")
    assert account(file, "a", ChargeCount(9, 7, exactly=True)).rounds_unused is None  # it may still learn
    before = account(file, "a", ChargeCount(4, 10, exactly=True))  # most of it before this journal
    assert dict(account_facts(before))["left"] == "0 of the budget of 10: it learns no more"
    spent = account(file, "a", ChargeCount(12, 10, exactly=True))
    assert spent.rounds_unused == 0
    assert dict(account_facts(spent))["left"] == "0 of the budget of 10: it learns no more since round 10"


def test_by_plans_each_planned_round_is_counted_at_its_own_epsilon(tmp_path):
    epsilon = {"total": 10, "rounds": 12, "schedule": "growing"}
    file = mesh_file(tmp_path, privacy={"epsilon": epsilon, "noise": "exact"})
    done = account(file, "a", ChargeCount(12, 12, exactly=True))
    public = account(file, "a", ChargeCount(8, 12, exactly=False, planned=12))
    assert public.spent == done.spent > account(file, "a", ChargeCount(8, 8, exactly=True)).spent


def test_a_run_is_written_down_as_it_starts_and_as_it_ends(tmp_path):
    mesh = mesh_file(tmp_path, privacy={"noise": "exact"}).mesh
    own = begin_spend(tmp_path, Mesh(mesh), "a", None, ())
    assert (own.run, own.charged, own.epsilon, own.spans, own.open) == ("run-1", 0, 1, (Span("0", 0),), True)
    end_spend(tmp_path, Mesh(mesh), "a", record(9, position=((0, 12),)))
    (kept,) = read_spends(StateFolder(tmp_path).spends("a"))
    assert (kept.charged, kept.stream_epsilon, kept.spans, kept.open) == (9, 9.0, (Span("0", 0, 12),), False)
    again = begin_spend(tmp_path, Mesh(mesh), "a", record(9, position=((0, 12),)), ())
    assert again.spans == (Span("0", 0),)  # what it has read is its spend, too
    (kept,) = read_spends(StateFolder(tmp_path).spends("a"))
    assert (kept.charged, kept.spans, kept.open) == (9, (Span("0", 0),), True)


def test_a_new_run_over_the_same_data_is_a_new_spend_and_from_the_end_it_is_not_one_for_a_record(tmp_path):
    first = mesh_file(tmp_path, privacy={"noise": "exact"}).mesh
    begin_spend(tmp_path, Mesh(first), "a", None, ())
    end_spend(tmp_path, Mesh(first), "a", record(9, position=((0, 12),)))
    second = mesh_file(tmp_path, run="run-2", privacy={"noise": "exact"}).mesh
    over = begin_spend(tmp_path, Mesh(second), "a", None, ())
    assert "epsilon = 2 (pure)" in reuse_beside(tmp_path, "a", over).sentence()
    path = StateFolder(tmp_path).spends("a")
    write_spends(path, read_spends(path)[:1])
    apart = begin_spend(tmp_path, Mesh(second), "a", None, ((0, 12),))
    assert "learnt from other records: over all runs each" in reuse_beside(tmp_path, "a", apart).sentence()
    assert [spend.run for spend in earlier_spends(tmp_path, "a", "run-2")] == ["run-1"]


def test_a_run_that_goes_on_behind_an_earlier_ones_records_has_read_them_all_the_same(tmp_path):
    first = mesh_file(tmp_path, privacy={"noise": "exact"}).mesh
    begin_spend(tmp_path, Mesh(first), "a", None, ())
    end_spend(tmp_path, Mesh(first), "a", record(9, position=((0, 12),)))
    second = mesh_file(tmp_path, run="run-2", privacy={"noise": "exact"}).mesh
    begin_spend(tmp_path, Mesh(second), "a", None, ())
    own = begin_spend(tmp_path, Mesh(second), "a", record(20, position=((0, 40),)), ())
    assert "epsilon = 2 (pure)" in reuse_beside(tmp_path, "a", own).sentence()


def test_a_journal_that_is_lost_and_stopped_before_it_reads_hides_no_records(tmp_path):
    first = mesh_file(tmp_path, privacy={"noise": "exact"}).mesh
    begin_spend(tmp_path, Mesh(first), "a", None, ())  # learns from 1,000 records, and is killed
    begin_spend(tmp_path, Mesh(first), "a", None, (), by_plans=True)
    end_spend(tmp_path, Mesh(first), "a", record(1000, position=None))
    (kept,) = read_spends(StateFolder(tmp_path).spends("a"))
    assert (kept.spans, kept.charged, kept.by_plans) == ((Span("0", 0),), 1000, True)
    second = mesh_file(tmp_path, run="run-2", privacy={"noise": "exact"}).mesh
    own = begin_spend(tmp_path, Mesh(second), "a", None, ())
    assert "some of the same records" in reuse_beside(tmp_path, "a", own).sentence()


def test_what_an_operator_has_said_is_kept_while_the_run_goes_on(tmp_path):
    mesh = mesh_file(tmp_path, privacy={"noise": "exact"}).mesh
    begin_spend(tmp_path, Mesh(mesh), "a", None, ((0, 12),), before=90, reuse="end")
    end_spend(tmp_path, Mesh(mesh), "a", record(95, position=((0, 17),)))
    own = begin_spend(tmp_path, Mesh(mesh), "a", record(95, position=((0, 17),)), ())
    assert (own.before, own.reuse) == (90, "end")
    assert begin_spend(tmp_path, Mesh(mesh), "a", None, (), reuse="reused").reuse == "reused"
    assert begin_spend(tmp_path, Mesh(mesh), "a", None, (), reuse="end").reuse == "reused"  # once is enough


def test_time_slots_are_told_apart_by_time(tmp_path):
    columns = {
        "features": {"x": "number", "y": "number"},
        "label": {"column": "z"},
        "timestamp": "t",
    }
    source = {"kind": "csv", "path": "a.csv", "schema": columns}
    tree = changed(
        slots={"by": "time", "period": 2.0, "start": 1000}, loss="squared", privacy={"noise": "exact"}
    )
    tree["nodes"] = {"a": {"source": source}}
    mesh = loaded(tmp_path, tree).mesh
    assert begin_spend(tmp_path, Mesh(mesh), "a", None, ()).spans == (Span(TIME),)
    end_spend(tmp_path, Mesh(mesh), "a", record(5))
    assert read_spends(StateFolder(tmp_path).spends("a"))[0].spans == (Span(TIME, -math.inf, 1010.0),)
    assert begin_spend(tmp_path, Mesh(mesh), "a", record(5), ()).spans == (Span(TIME),)
    StateFolder(tmp_path).spends("a").unlink()  # then the journal tells where it goes on
    assert begin_spend(tmp_path, Mesh(mesh), "a", record(5), ()).spans == (Span(TIME, 1010.0),)


def test_what_is_left_counts_the_runs_earlier_lives_that_a_new_journal_does_not_know(tmp_path):
    """The state was thrown away; the folder has learnt from the broker that the run had spent its budget."""
    file = mesh_file(tmp_path, privacy={"noise": "exact", "budget": 5})
    begin_spend(tmp_path, Mesh(file.mesh), "a", None, ())
    end_spend(tmp_path, Mesh(file.mesh), "a", record(5, position=((0, 5),)))
    (earlier,) = read_spends(StateFolder(tmp_path).spends("a"))
    state = tmp_path / "new"
    state.mkdir()
    StateFolder(state).id()  # it is this folder, and those lives are of another
    elsewhere = earlier._replace(folder="f" * 32, life="e" * 32, mesh=file.mesh.name)
    write_spends(StateFolder(state).spends("a"), [elsewhere])
    journal(state, file, "a", None)
    (known, _) = accounts(file, ["a"], state)["a"]
    assert (known.charged, known.left, known.rounds_left, known.at_most) == (5, 0.0, 0, False)
    write_spends(StateFolder(state).spends("a"), [elsewhere._replace(open=True, charged=2)])
    (known, reuse) = accounts(file, ["a"], state)["a"]
    assert (known.charged, known.left, known.at_most) == (2, 3.0, True)
    assert dict(account_facts(known, reuse))["left"].startswith(
        "at most, as an earlier life of the run may have"
    )
