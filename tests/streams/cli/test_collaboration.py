"""The commands for a collaboration: what they print, and the one line for each mistake."""

import json
import re

import pytest

from tests.support.collaborations.folders import write


@pytest.fixture
def small(tmp_path):
    """A small collaboration that scores its model on the records of one owner."""
    held_out = "held_out: {kind: csv, path: a.csv, schema: schema.yaml}\n"
    return write(tmp_path, more=held_out)


def test_plan_shows_noise_guarantees_and_that_seeded_noise_protects_nothing(call, small, tmp_path):
    shown = call("plan", small)
    assert shown.code == 0
    assert "learner l and 3 owners of 15 records, dimension 3, squared loss, 5 queries" in shown.out
    assert "THE NOISE IS SIMULATED" in shown.out
    assert "Nothing in owner a's set is protected" in shown.out
    exact = call("plan", write(tmp_path, noise="exact"))
    assert "Each record of owner b's set is protected with epsilon = 9 (delta = 1e-06)" in exact.out
    assert "for all 5 answers together" in exact.out
    refused = call("plan", small, "--estimate")
    assert refused.code == 2
    assert "mirrormesh forecast" in refused.err


def test_run_model_predict_and_budget(call, small, tmp_path):
    state, output = tmp_path / "state", tmp_path / "out"
    part = call("run", small, "--rounds", "2", "--state", state)
    assert part.code == 0
    assert "2 of 5 queries answered" in part.out
    whole = call("run", small, "--state", state, "--output", output)
    assert "small, run first: 5 of 5 queries answered." in whole.out
    assert "Owner b has spent epsilon 9 of 9." in whole.out
    assert re.search(r"Held-out, 6 records, last theta: mean loss \S+, RMSE", whole.out)
    assert "Held-out, 6 records, average (the model): mean loss" in whole.out
    assert "Nothing was asked" not in whole.out
    again = call("run", small, "--state", state)
    assert "Nothing was asked: this run is over, and what follows is what it has learnt.\n" in again.out
    assert (
        again.out.splitlines()[-5:] == [line for line in whole.out.splitlines() if "Wrote" not in line][-5:]
    )
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["queries"], summary["owners"]["a"]["charged"]) == (5, 5)
    assert summary["owners"]["a"]["epsilon_spent"] == 8

    made = call("model", small, "--state", state, "--output", tmp_path / "m")
    assert made.code == 0
    model = json.loads((tmp_path / "m.json").read_text())
    assert model["average"] == summary["average"]
    assert model == json.loads((output / "model.json").read_text())
    assert model["guarantee"]["epsilon"] is None  # the noise is simulated
    predicted = call("predict", tmp_path / "m.json", tmp_path / "b.csv")
    assert len(predicted.out.splitlines()) == 5

    told = json.loads(call("budget", small, "--state", state, "--json").out)
    assert [(one["owner"], one["charged"], one["epsilon_spent"]) for one in told["owners"]] == [
        ("a", 5, 8.0),
        ("b", 5, 9.0),
        ("c", 5, 7.0),
    ]


def test_budget_says_what_is_spent_and_left_of_real_noise(call, tmp_path):
    path, state = write(tmp_path, noise="exact"), tmp_path / "state"
    wrong = call("budget", path, "a", "--state", state)
    assert wrong == (2, "", f"{state}: is no folder: must be the state folder of a run or an owner\n")
    state.mkdir()
    fresh = call("budget", path, "a", "--state", state)
    assert "a: 0 of 5 queries answered" in fresh.out
    call("run", path, "--rounds", "2", "--state", state, "--quiet")
    shown = call("budget", path, "a", "--state", state).out
    assert "a: 2 of 5 queries answered" in shown
    assert "epsilon 3.2 of 8" in shown
    assert "epsilon 4.8, for 3 more" in shown


def test_budget_adds_up_all_runs_on_the_same_set(call, tmp_path):
    path, state = write(tmp_path, noise="exact"), tmp_path / "state"
    call("run", path, "--state", state, "--quiet")
    assert "all runs" not in call("budget", path, "--state", state).out
    path = write(tmp_path, noise="exact", run="second")
    call("run", path, "--rounds", "2", "--state", state, "--quiet")
    shown = " ".join(call("budget", path, "b", "--state", state).out.split())
    assert "b: 2 of 5 queries answered" in shown
    assert "over all runs each record is protected with epsilon = 18 (delta = 2e-06)" in shown
    found = json.loads(call("budget", path, "--state", state, "--json").out)["owners"]
    assert [one["all_runs"]["epsilon"] for one in found] == [16, 18, 14]
    assert (found[1]["charged"], found[1]["all_runs"]["delta"]) == (2, 2e-6)
    (state / "b.journal").unlink()
    lost = json.loads(call("budget", path, "b", "--state", state, "--json").out)["owners"][0]
    assert (lost["charged"], lost["all_runs"]["epsilon"]) == (2, 18)


def test_what_is_less_than_epsilon_is_explained_where_records_may_be_in_two_sets(call, tmp_path):
    path, state = write(tmp_path, noise="exact", sharing=2), tmp_path / "state"
    shown = call("run", path, "--state", state).out
    assert "Owner a has spent epsilon 4 of 4 (its epsilon of 8 over 2, sharing).\n" in shown
    assert (
        "it holds if each record is in at most 2 owners' sets, which sharing says and nobody checks" in shown
    )
    told = call("budget", path, "a", "--state", state).out
    assert "epsilon 4 of 4 (its epsilon of 8 over 2, sharing)\n" in told


def test_a_start_that_is_refused_leaves_no_journal(call, tmp_path):
    path, state = write(tmp_path, noise="exact"), tmp_path / "state"
    right = path.read_text()
    path.write_text(right.replace("records: 6", "records: 7"))
    refused = call("run", path, "--state", state)
    assert refused.code == 2
    assert "mesh.owners.a.records: 7: the set holds 6 of them" in refused.err
    assert not state.exists()
    path.write_text(right)
    assert "5 of 5 queries answered" in call("run", path, "--state", state).out


@pytest.mark.parametrize("command", ["check", "plan"])
def test_a_delta_that_hides_nobody_is_warned_of(call, small, command):
    assert "delta:" not in call(command, small).out
    small.write_text(small.read_text().replace("delta: 1.0e-6", "delta: 0.25"))
    said = "arning: " if command == "check" else "warning:     "
    said += "mesh.owners.b.delta: 0.25 times 4 records is 1: a mechanism that publishes so many of them whole"
    assert said in call(command, small).out


def test_check_looks_at_every_set_whole(call, small, tmp_path):
    assert "small.yaml: right" in call("check", small).out
    (tmp_path / "b.csv").write_text((tmp_path / "b.csv").read_text().replace("0.25", "x"))
    (tmp_path / "c.csv").write_text("x,y,z\n")
    found = call("check", small)
    assert found.code == 2
    assert [line.partition("small.yaml: ")[2] for line in found.err.splitlines()] == [
        (
            "owners.b.source: 1 of 4 records cannot be read (y: not a number (1)), the first is record 1: "
            "must be none, as nothing of a set is left out"
        ),
        "mesh.owners.c.records: 5: the set holds no record: must be that number, at least 2",
    ]


def test_an_owners_own_model_is_its_alone_and_says_that_nothing_protects_it(call, small, tmp_path):
    state, output = tmp_path / "state", tmp_path / "out"
    call("run", small, "--state", state, "--output", output)
    before = {path: path.read_bytes() for path in state.iterdir()}
    fitted = call("model", small, "--own", "b", "--star", output / "model.json", "--output", tmp_path / "own")
    assert (fitted.code, fitted.err) == (0, "")
    assert "Not private: fitted to b's own records without noise." in fitted.out
    assert re.search(r"On b's own 4 records, out of fold, the mean loss is \S+, of the coll", fitted.out)
    assert "Held-out, 6 records, b's own (the model): mean loss" in fitted.out
    model = json.loads((tmp_path / "own.json").read_text())
    assert (model["own"], model["guarantee"]["epsilon"]) == ("b", None)
    for path in (tmp_path / "own.json", tmp_path / "own.npz"):
        assert path.stat().st_mode & 0o077 == 0
    # its cost is nothing, and its file can be used like any other, but as another's star
    assert {path: path.read_bytes() for path in state.iterdir()} == before
    assert len(call("predict", tmp_path / "own.npz", tmp_path / "b.csv").out.splitlines()) == 5
    again = call("model", small, "--own", "c", "--star", tmp_path / "own.json", "--output", tmp_path / "c")
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "is not the model of small, run first" in again.err


def test_an_own_model_of_a_loss_with_kinks_is_refused(call, tmp_path):
    path = write(tmp_path)
    path.write_text(path.read_text().replace("loss: squared", "loss: absolute"))
    refused = call("model", path, "--own", "b", "--star", "m.json", "--output", "m")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "--own: serves squared and logistic losses of at most 600 columns" in refused.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--seed", "4", "exact"], "--seed: goes with noise: {simulated: ...}"),
        (["budget"], "--state: must be given: an owner's spending is in its journal"),
        (["model", "--output", "m"], "--state: must be given, without --node"),
        (["model", "--output", "m", "--own", "b"], "--own and --star: must be given both"),
        (["model", "--output", "m", "--star", "m.json"], "--own and --star: must be given both"),
        (
            ["model", "--output", "m", "--own", "z", "--star", "m.json"],
            "z: not an owner of the collaboration",
        ),
        (["model", "--output", "m", "--own", "b", "--star", "m.json"], "m.json"),
        (["tune"], "`tune` needs a mesh of nodes; "),
    ],
)
def test_a_wrong_option_is_one_line(call, tmp_path, words, says):
    path = write(tmp_path, noise="exact" if words[-1] == "exact" else "{simulated: 3}")
    command, *options = [word for word in words if word != "exact"]
    found = call(command, path, *options)
    assert found.code == 2
    assert says in found.err
    assert len(found.err.splitlines()) == 1


@pytest.mark.parametrize(
    "changes",
    [
        (
            ("  constraint: {l2-ball: 5}\n", ""),
            ("{name: averaged, step: 0.5}", "{name: strongly-convex, rho: 1.0e+200}"),
        ),
        (("step: 0.5", "step: 1.0e+308"), ("gradient_bound: 1", "gradient_bound: 100")),
    ],
    ids=("strongly-convex", "averaged"),
)
def test_a_theta_that_diverges_ends_the_run_with_a_line(call, small, tmp_path, changes):
    text = small.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    small.write_text(text)
    done = call("run", small, "--output", tmp_path / "out", "--quiet")
    assert (done.code, done.out) == (2, "")
    must = "the algorithm's step or rho must be smaller, in a new run"
    assert re.fullmatch(rf"theta diverges at query [1-4]: {must}\n", done.err)
    assert not (tmp_path / "out" / "summary.json").exists()


def test_budget_of_an_unknown_owner_names_the_owners(call, small, tmp_path):
    said = "zz: not an owner of the collaboration: must be one of a, b, c\n"
    assert call("budget", small, "zz", "--state", tmp_path / "state") == (2, "", said)
