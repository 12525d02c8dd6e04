"""`run --state`: what goes on, and what is refused, where the sources of a run have changed."""

import json
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from nodes.accounting.spends import Span, Spend
from streams.ledger import known_spends
from streams.state.data_order import keep_order
from streams.state.folder import JournalError, StateFolder
from streams.state.spends import keep_spends, read_spends, write_spends
from streams.status.account import charge_counts
from tests.support.meshes.files import changed, loaded, with_value, written

SCHEMA = {"features": {"x": "number", "y": "number"}, "label": {"column": "d"}, "timestamp": "at"}
HEAD = "x,y,d,at\n"
HORIZON = 4


def rows(first, last):
    """Lines of a file, each of another time."""
    return "".join(f"1,0,{k},{k}\n" for k in range(first, last))


def tree_of(folder, **mesh):
    """Two nodes, which read a file of 20 records each."""
    tree = changed(nodes=["a", "b"], privacy={"noise": "exact"}, rounds=4)
    tree["mesh"] |= mesh
    for name, shift in (("a", 0), ("b", 100)):
        (folder / f"{name}.csv").write_text(HEAD + rows(shift + 1, shift + 21))
    tree["nodes"] = {
        name: {"source": {"kind": "csv", "path": f"{name}.csv", "schema": SCHEMA}} for name in "ab"
    }
    return tree


@pytest.fixture
def tree(tmp_path):
    return tree_of(tmp_path)


@pytest.fixture
def begun(call, tmp_path, tree):
    """The folder of a mesh file whose run is begun in `state`: four rounds."""
    assert call("run", written(tmp_path, tree), "--state", "state").code == 0
    return tmp_path


def going_on(call, folder, tree, rounds=9, **mesh):
    """`run` in the same state, for more rounds, by another mesh file."""
    tree["mesh"] |= {"rounds": rounds} | mesh
    return call("run", written(folder, tree), "--state", "state")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("shuffle", True, "true: was false"),
        ("take", {"every": 2, "offset": 1}, '{"every": 2, "offset": 1}: was not given'),
        ("columns", ["x", "y", "d", "at"], '["x", "y", "d", "at"]: was not given'),
        ("path", "other.csv", 'other.csv": was "'),
    ],
)
def test_a_run_does_not_go_on_with_other_records_or_in_another_order(call, begun, tree, key, value, words):
    (begun / "other.csv").write_text((begun / "a.csv").read_text())
    other = with_value(tree, f"nodes.a.source.{key}", value)
    outcome = going_on(call, begun, other)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"{begun}/mesh.yaml: nodes.a.source.{key}: ")
    assert words in outcome.err
    assert "when run run-1 was begun in state: some records would be learnt from twice" in outcome.err
    assert "a new run name (the new run counts what was spent)" in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert going_on(call, begun, tree).code == 0


def test_another_kind_is_refused(call, begun, tree):
    other = with_value(tree, "nodes.a.source", {"kind": "json-lines", "path": "a.csv", "schema": SCHEMA})
    outcome = going_on(call, begun, other)
    assert (outcome.code, outcome.out) == (2, "")
    assert 'nodes.a.source.kind: "json-lines": was "csv" when run run-1 was begun' in outcome.err


def test_another_time_column_is_refused(call, tmp_path):
    tree = tree_of(tmp_path, slots={"by": "time", "size": 1, "period": 1, "start": 0})
    assert call("run", written(tmp_path, tree), "--state", "state").code == 0
    outcome = going_on(call, tmp_path, with_value(tree, "nodes.a.source.schema.timestamp", "x"))
    assert (outcome.code, outcome.out) == (2, "")
    assert 'nodes.a.source.schema.timestamp: "x": was "at"' in outcome.err


def test_a_file_that_grew_goes_on(call, begun, tree):
    with (begun / "a.csv").open("a") as file:
        file.write(rows(200, 210))
    outcome = going_on(call, begun, tree)
    assert (outcome.code, outcome.err) == (0, "")
    assert "rounds 5 to 9" in outcome.out


def test_a_file_that_shrank_does_not(call, begun, tree):
    with (begun / "a.csv").open("a") as file:
        file.write(rows(200, 210))
    assert going_on(call, begun, tree, rounds=6).code == 0
    (begun / "a.csv").write_text(HEAD + rows(1, 21))  # as long as when the run was begun
    outcome = going_on(call, begun, tree)
    assert (outcome.code, outcome.out) == (2, "")
    assert "nodes.a.source.path" in outcome.err
    assert "bytes, and had " in outcome.err


def test_a_shuffled_file_that_grew_has_another_order(call, tmp_path, tree):
    tree = with_value(tree, "nodes.a.source.shuffle", value=True)
    assert call("run", written(tmp_path, tree), "--state", "state").code == 0
    with (tmp_path / "a.csv").open("a") as file:
        file.write(rows(200, 210))
    outcome = going_on(call, tmp_path, tree)
    assert (outcome.code, outcome.out) == (2, "")
    assert "has grown, and more lines have another order" in outcome.err


def test_the_file_keeps_settings_alone_and_its_owner_alone_reads_it(begun):
    kept = begun / "state" / "order.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    path = str((begun / "a.csv").resolve())
    a = {"kind": "csv", "path": path, "shuffle": False, "size": (begun / "a.csv").stat().st_size}
    found = json.loads(kept.read_text())["runs"]["tracking/run-1"]
    assert (found["seed"], found["nodes"]["a"]) == (0, a)


def test_a_run_whose_order_is_not_known_does_not_go_on(call, begun, tree):
    (begun / "state" / "order.json").unlink()
    outcome = going_on(call, begun, tree)
    assert (outcome.code, outcome.out) == (2, "")
    assert "run run-1 was begun in it, and state/order.json does not say in which order" in outcome.err


@pytest.mark.parametrize("cut", range(1, HORIZON + 1))
def test_a_lost_tail_of_a_journal_is_found_by_what_was_written_down(call, tmp_path, tree, cut):
    tree["mesh"] |= {"horizon": HORIZON, "rounds": 9 - cut}
    assert call("run", written(tmp_path, tree), "--state", "state").code == 0
    journals = [tmp_path / "state" / f"{name}.journal" for name in "ab"]
    older = [path.read_bytes() for path in journals]
    assert going_on(call, tmp_path, tree, 9).code == 0
    assert budgeted(call, tmp_path, tree, "state")[1]["charged"] == 9
    for path, content in zip(journals, older, strict=True):
        path.write_bytes(content)  # the same file: no copy
    assert going_on(call, tmp_path, tree, 12).code == 0
    out, account = budgeted(call, tmp_path, tree, "state")
    assert account["charged"] >= 9 + 3
    assert "run-1 (an earlier life)" in out


@pytest.mark.parametrize(
    ("damage", "row"),
    [
        ("UPDATE records SET charged = charged - 2 WHERE round = 5", "the record of round 5"),
        ("UPDATE life SET carried = carried + 2", "whose it is (life)"),
    ],
)
def test_a_damaged_journal_ends_what_reads_it_in_one_line_and_stays_as_it_is(call, begun, tree, damage, row):
    path = begun / "state" / "a.journal"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    before = path.read_bytes()
    budget = call("budget", written(begun, tree), "a", "--state", "state")
    for outcome in (budget, going_on(call, begun, tree)):
        assert (outcome.code == 0, outcome.out) == (False, "")
        words = f"the journal state/a.journal cannot be used: it is damaged: {row} is not as it was written"
        assert words in outcome.err
        assert len(outcome.err.splitlines()) == 1
    assert path.read_bytes() == before  # nothing moves it: what it has charged is known to it alone
    with pytest.raises(JournalError, match="it is damaged"):  # what `audit releases --state` counts by
        charge_counts(loaded(begun, tree), ["a"], begun / "state")


def test_a_broken_file_is_one_line(call, begun, tree):
    (begun / "state" / "order.json").write_text("{")
    outcome = going_on(call, begun, tree)
    assert outcome == (
        2,
        "",
        "state/order.json: is broken: in which order the records were read is not known\n",
    )


def ran(call, folder, tree, *options, **mesh):
    """What `run --output` says, and what its summary says of node a."""
    tree["mesh"] |= mesh
    outcome = call("run", written(folder, tree), "--output", "out", *options)
    assert (outcome.code, outcome.err) == (0, "")
    (a, _) = json.loads((folder / "out" / "summary.json").read_text())["nodes"]
    return outcome.out, a


def budgeted(call, folder, tree, state):
    """What `budget` says of node a in that state, and its JSON."""
    arguments = ("budget", written(folder, tree), "a", "--state", state)
    (found,) = json.loads(call(*arguments, "--json").out)["nodes"]
    return call(*arguments).out, found


def test_a_new_run_counts_the_old(call, begun, tree):
    out, a = ran(call, begun, tree, "--state", "state", run="run-2", rounds=3)
    said = "Run run-1 learnt from some of the same records: over all runs each record is protected with eps"
    assert f"{said}ilon = 2 (pure)" in out.splitlines()[0]
    assert said in a["guarantee"]
    assert (a["epsilon_of_a_record"], a["epsilon_of_the_stream"]) == (2.0, 7.0)
    out, found = budgeted(call, begun, tree, "state")
    assert said in out
    assert (found["all_runs"]["epsilon"], found["all_runs"]["stream_epsilon"]) == (2.0, 7.0)


def test_a_new_run_is_the_way_out_of_another_order(call, begun, tree):
    tree = with_value(tree, "nodes.a.source.shuffle", value=True)
    assert going_on(call, begun, tree).code == 2
    out, a = ran(call, begun, tree, "--state", "state", run="run-2")
    assert "over all runs each record is protected with epsilon = 2 (pure)" in out
    assert a["epsilon_of_a_record"] == 2.0


def test_a_run_that_goes_on_pays_once(call, begun, tree):
    out, a = ran(call, begun, tree, "--state", "state", rounds=9)
    assert "over all runs" not in out
    assert (a["epsilon_of_a_record"], a["epsilon_of_the_stream"]) == (1.0, 9.0)
    assert "over all runs" not in budgeted(call, begun, tree, "state")[0]


def test_a_copy_starts_at_what_was_charged(call, tmp_path, tree):
    tree["mesh"]["privacy"]["budget"] = 6
    ran(call, tmp_path, tree, "--state", "state", rounds=4)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    out, a = ran(call, tmp_path, tree, "--state", "copy", rounds=4)
    assert "over all runs each record is protected with epsilon = 2 (pure)" in out.splitlines()[0]
    assert (a["epsilon_of_a_record"], a["epsilon_of_the_stream"]) == (2.0, 6.0)  # two rounds, then it relays
    out, found = budgeted(call, tmp_path, tree, "copy")
    assert "over all runs each record is protected with epsilon = 2 (pure)" in out
    assert (found["charged"], found["left"], found["all_runs"]["stream_epsilon"]) == (6, 0.0, 6.0)
    shutil.copytree(tmp_path / "copy", tmp_path / "third")
    out, a = ran(call, tmp_path, tree, "--state", "third", rounds=4)
    assert a["epsilon_of_the_stream"] == 6.0  # nothing was left to learn with
    assert a["epsilon_of_a_record"] == 2.0


def test_a_second_life_under_one_name_is_a_second_spend(call, begun, tree):
    ran(call, begun, tree, "--state", "state", run="run-2", rounds=3)
    out, a = ran(call, begun, tree, "--state", "state", run="run-1", rounds=3)
    assert "each record is protected with epsilon = 3 (pure)" in out.splitlines()[0]
    assert (a["epsilon_of_a_record"], a["epsilon_of_the_stream"]) == (3.0, 10.0)


def test_places_in_another_order_are_not_the_same_records(call, begun, tree):
    shuffled = with_value(tree, "nodes.a.source.shuffle", value=True)
    ran(call, begun, shuffled, "--state", "state", run="run-2", rounds=2)
    ran(call, begun, with_value(tree, "nodes.a.source.take", {"every": 2}), "--state", "state", run="run-3")
    third = with_value(with_value(tree, "nodes.a.source.take", {"every": 2}), "mesh.run", "run-3")
    known = known_spends(loaded(begun, third), "ab", begun / "state")
    assert {spend.run: spend.spans for spend in known["a"].earlier} == {"run-1": (), "run-2": ()}
    assert known["a"].own.spans == (Span("0", 0, 4),)
    b = {spend.run: spend.spans for spend in known["b"].earlier}  # read in one order all the time
    assert b == {"run-1": (Span("0", 0, 4),), "run-2": (Span("0", 0, 2),)}


def test_what_a_run_that_learnt_from_nothing_was_begun_with_does_not_bind_it(call, tmp_path, tree):
    (tmp_path / "state").mkdir()
    keep_order(
        tmp_path / "state", loaded(tmp_path, with_value(tree, "nodes.a.source.shuffle", value=True)), 7, {}
    )
    out, a = ran(call, tmp_path, tree, "--state", "state")
    assert "over all runs" not in out
    assert a["epsilon_of_a_record"] == 1.0


def test_what_is_more_than_anybody_knows_has_no_number(call, begun, tree):
    path = StateFolder(begun / "state").spends("a")
    old = Spend("older", 3, Fraction(1), 0.0, 3.0, 0.0, before=5, reuse="reused", mesh="tracking", life="aa")
    old = old._replace(node="a")
    keep_spends(path, old)
    _, a = ran(call, begun, tree, "--state", "state", run="run-2")
    assert "what those runs cost a record adds to its epsilon" in a["guarantee"]
    assert a["epsilon_of_a_record"] is None


def test_slots_by_time_add_up_too(call, tmp_path):
    tree = tree_of(tmp_path, slots={"by": "time", "size": 1, "period": 1, "start": 0})
    ran(call, tmp_path, tree, "--state", "state")
    assert ran(call, tmp_path, tree, "--state", "state", run="run-2")[1]["epsilon_of_a_record"] == 2.0


def test_a_run_that_was_killed_counts_in_a_new_one(call, begun, tree):
    for name in "ab":  # what a kill leaves: the journal, and an open line
        path = StateFolder(begun / "state").spends(name)
        (spend,) = read_spends(path)
        write_spends(path, [spend._replace(charged=0, stream_epsilon=0.0, open=True)])
    _, a = ran(call, begun, tree, "--state", "state", run="run-2", rounds=3)
    assert (a["epsilon_of_a_record"], a["epsilon_of_the_stream"]) == (2.0, 7.0)


def test_a_node_that_is_away_is_not_forgotten(call, begun, tree):
    without = with_value(tree, "nodes.c", tree["nodes"]["b"])
    del without["nodes"]["b"]
    assert going_on(call, begun, without, nodes=["a", "c"]).code == 2  # c is not where a is
    others = {"c": tree["nodes"]["a"], "d": tree["nodes"]["b"]}
    assert going_on(call, begun, tree | {"nodes": others}, nodes=["c", "d"]).code == 0
    back = with_value(tree, "nodes.b.source.shuffle", value=True)
    outcome = going_on(call, begun, back, nodes=["a", "b"])
    assert (outcome.code, outcome.out) == (2, "")
    assert "nodes.b.source.shuffle: true: was false" in outcome.err


def test_a_run_in_an_order_that_nobody_knows_does_not_go_on(call, begun, tree):
    (begun / "state" / "order.json").unlink()
    outcome = going_on(call, begun, tree)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(
        "state: run run-1 was begun in it, and state/order.json does not say in which"
    )
    assert outcome.err.endswith("the mesh needs a new run name (the new run counts what was spent)\n")
    _, a = ran(call, begun, tree, "--state", "state", run="run-2", rounds=3)
    assert a["epsilon_of_a_record"] == 2.0


def test_a_journal_that_a_kill_left_empty_is_none(call, tmp_path, tree):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "a.journal").touch()
    with closing(sqlite3.connect(tmp_path / "state" / "b.journal")) as made:
        made.execute("PRAGMA journal_mode = WAL")  # as far as the kill let it come
    assert (tmp_path / "state" / "b.journal").stat().st_size
    assert ran(call, tmp_path, tree, "--state", "state")[1]["epsilon_of_a_record"] == 1.0


def test_a_journal_that_is_put_back_starts_at_what_was_charged(call, begun, tree):
    kept = {name: (begun / "state" / f"{name}.journal").read_bytes() for name in "ab"}
    ran(call, begun, tree, "--state", "state", rounds=9)
    for name, content in kept.items():  # in place: no other file
        with (begun / "state" / f"{name}.journal").open("r+b") as file:
            file.write(content)
            file.truncate()
    out, a = ran(call, begun, tree, "--state", "state", rounds=3)
    assert "Run run-1 (an earlier life) learnt from some of the same records" in out.splitlines()[0]
    assert (a["epsilon_of_a_record"], a["epsilon_of_the_stream"]) == (2.0, 12.0)


def without_journals(folder):
    """Delete the journals, and leave what is written down of their lives."""
    for file in (folder / "state").glob("*.journal*"):
        file.unlink()


def test_a_budget_does_not_begin_afresh_where_the_journal_is_deleted(call, tmp_path, tree):
    tree["mesh"]["privacy"]["budget"] = 5
    ran(call, tmp_path, tree, "--state", "state", rounds=3)
    without_journals(tmp_path)
    out, a = ran(call, tmp_path, tree, "--state", "state", rounds=9)
    assert "over all runs each record is protected with epsilon = 2 (pure)" in out.splitlines()[0]
    assert (a["epsilon_of_a_record"], a["epsilon_of_the_stream"]) == (2.0, 5.0)
    _, found = budgeted(call, tmp_path, tree, "state")
    assert (found["charged"], found["left"], found["all_runs"]["stream_epsilon"]) == (5, 0.0, 5.0)
    without_journals(tmp_path)
    out, a = ran(call, tmp_path, tree, "--state", "state", rounds=4)
    assert a["epsilon_of_the_stream"] == 5.0  # nothing was left to learn with
    assert "and this life from nothing: over all runs each record is protected" in a["guarantee"]


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ({"epsilon": 3}, {"epsilon": 1}, "its epsilon is 3, not 1: a node's own privacy settings need a new"),
        ({}, {"mechanism": "l2-sphere"}, "its mechanism is laplace, not l2-sphere: a node's own privacy"),
        ({"mechanism": "none"}, {}, "its mechanism is none, not laplace"),
    ],
)
def test_the_price_does_not_change_where_the_journal_is_deleted(call, tmp_path, tree, was, now, words):
    ran(call, tmp_path, tree, "--state", "state", rounds=3, nodes={"a": was, "b": {}})
    without_journals(tmp_path)
    outcome = going_on(call, tmp_path, tree, nodes={"a": now, "b": {}})
    assert (outcome.code != 0, outcome.out) == (True, "")
    assert f"run-1 has charged in this folder, and {words}" in outcome.err
    assert len(outcome.err.splitlines()) == 1
    ran(call, tmp_path, tree, "--state", "state", rounds=3, nodes={"a": now, "b": {}}, run="run-2")
    without_journals(tmp_path)
    ran(call, tmp_path, tree, "--state", "state", nodes={"a": was, "b": {}}, run="run-1")


def test_no_budget_is_kept_where_nobody_knows_what_was_spent(call, tmp_path, tree):
    tree["mesh"]["privacy"]["budget"] = 5
    ran(call, tmp_path, tree, "--state", "state", rounds=3)
    without_journals(tmp_path)
    path = StateFolder(tmp_path / "state").spends("a")
    (spend,) = read_spends(path)
    write_spends(path, [spend._replace(charged=0, stream_epsilon=0.0, open=True)])  # as a kill does
    outcome = going_on(call, tmp_path, tree)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "state: run run-1 was not ended in order, and a journal of a is gone: nobody knows what it has spent "
        "of its budget, so the mesh needs a new run name (the new run counts what was spent)\n"
    )
    ran(call, tmp_path, tree, "--state", "state", run="run-2")


def test_runs_may_take_turns_in_one_folder(call, tmp_path, tree):
    tree["mesh"]["privacy"]["budget"] = 5
    for run in ("run-1", "run-2", "run-1", "run-3"):
        _, a = ran(call, tmp_path, tree, "--state", "state", run=run, rounds=3)
    assert sorted(path.name for path in (tmp_path / "state").glob("a.*.journal")) == [
        "a.run-1.2.journal",
        "a.run-1.journal",
        "a.run-2.journal",
    ]
    assert (a["epsilon_of_a_record"], a["epsilon_of_the_stream"]) == (4.0, 11.0)  # run-1's budget: 5 in all
