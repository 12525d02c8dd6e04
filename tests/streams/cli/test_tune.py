"""`mirrormesh tune`: what it proposes stands in its table and goes into the file; it asks for public data."""

import re

import pytest
import yaml

from streams.cli.tune import too_small
from streams.mesh.file import load
from tests.support.meshes.files import changed, written

TRIED = ("--records", 40)


def adult(folder, rows=60):
    """A mesh that learns from a small CSV file, and a pilot."""
    lines = ["one,two,label", *(f"{k % 7},{k % 3},{'yes' if k % 7 > 3 else 'no'}" for k in range(rows))]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    schema = {
        "features": {"one": {"bounds": [0, 7]}, "two": {"bounds": [0, 3]}},
        "label": {"column": "label", "positive": "yes", "negative": "no"},
    }
    tree = changed(loss="hinge", slots={"size": 4})
    source = {"kind": "csv", "path": "secret.csv", "schema": schema, "take": {"every": 4}}
    tree["nodes"] = {name: {"source": source} for name in "abcd"}
    return written(folder, tree), folder / "rows.csv"


def test_a_synthetic_pilot_gives_lines_that_the_mesh_file_takes(tmp_path, call):
    path = written(tmp_path, changed())
    done = call("tune", path, "--synthetic", *TRIED)
    assert done.code == 0, done.err
    assert "THE PILOT MUST BE PUBLIC" in done.out
    assert "Verdict of the proposal: better than guessing (" in done.out
    lines = yaml.safe_load(done.out.split("For the mesh file:")[1])
    proposed = changed(privacy=lines["privacy"], slots=lines["slots"])
    proposed["mesh"]["algorithm"] |= lines["algorithm"]
    mesh = load(written(tmp_path, proposed), {}).mesh
    row = next(line for line in done.out.splitlines() if "│ proposed" in line)
    assert f"{mesh.privacy.gradient_bound:.4g}" in row


def test_a_pilot_file_is_read_as_the_nodes_would_and_sizes_are_tried_where_asked(tmp_path, call):
    path, pilot = adult(tmp_path)  # the nodes' own file is not there: it is not read
    sizes = {}
    for more in ((), ("--slot-size",)):
        done = call("tune", path, "--pilot", pilot, *TRIED, *more)
        assert done.code == 0, done.err
        sizes[more] = set(re.findall(r"│ +\S+ │ +\S+ │ +(\d+) │", done.out))
    assert sizes[()] == {"4"}
    assert len(sizes["--slot-size",]) > 1


def test_the_same_seed_proposes_the_same(tmp_path, call):
    path = written(tmp_path, changed())
    first, again = (call("tune", path, "--synthetic", *TRIED).out for _ in range(2))
    assert first == again


@pytest.mark.parametrize("options", [(), ("--synthetic", "--pilot", "x.csv")], ids=["none", "both"])
def test_one_pilot_is_asked_for(tmp_path, call, options):
    done = call("tune", written(tmp_path, changed()), *options)
    assert done.code == 2
    assert done.err.startswith("must have either --pilot FILE, public records, or --synthetic")


def test_a_pilot_that_is_not_there_or_not_like_the_nodes_is_refused(tmp_path, call):
    path, pilot = adult(tmp_path)
    missing = call("tune", path, "--pilot", tmp_path / "no.csv")
    assert (missing.code, "no such file" in missing.err) == (2, True)
    pilot.write_text("three,label\n1,yes\n")
    other = call("tune", path, "--pilot", pilot)
    assert other.code == 2
    assert "nodes.a.source" in other.err
    made_up = call("tune", written(tmp_path, changed()), "--pilot", pilot)
    assert (made_up.code, "--synthetic" in made_up.err) == (2, True)


def test_a_nodes_own_file_is_no_pilot(tmp_path, call):
    path, pilot = adult(tmp_path)
    for own in (pilot.rename(tmp_path / "secret.csv"), tmp_path / "link.csv"):
        if not own.exists():
            own.symlink_to(tmp_path / "secret.csv")
        done = call("tune", path, "--pilot", own, *TRIED)
        assert (done.code, done.out) == (2, "")
        assert done.err == f"{own}: is node a's own source: must be another file, of public records\n"


def test_records_that_fill_no_slot_are_one_short_slot(tmp_path, call):
    path, pilot = adult(tmp_path)
    done = call("tune", path, "--pilot", pilot, "--records", 3)
    assert (done.code, done.err) == (1, "")
    assert "Nothing better than guessing (1) was tried, with 3 records a node and laplace" in done.out


@pytest.mark.parametrize(
    ("loss", "more"),
    [
        *[(loss, {}) for loss in ("hinge", "logistic", "squared", "absolute", {"huber": 0.5})],
        ("hinge", {"class_weights": [1, 3]}),
    ],
    ids=str,
)
def test_made_up_records_are_for_every_loss_of_signs_or_numbers(tmp_path, call, loss, more):
    path = written(tmp_path, changed(loss=loss, **more) | {"nodes": {}})
    done = call("tune", path, "--synthetic", "--records", 4)
    assert done.err == ""
    assert ("For the mesh file:" in done.out) is (done.code == 0)
    assert ("Nothing better than guessing" in done.out) is (done.code == 1)


@pytest.mark.parametrize(
    ("mesh", "code"),
    [
        ({"privacy": {"budget": 3}}, 0),
        ({"privacy": {"on": "parameters", "norm": "l2", "epsilon": 100}}, 0),
        ({"algorithm": {"step_size": {"rule": "constant", "a": 1e308}}}, 1),  # too far to walk from there
    ],
    ids=["a round above the budget", "slots for parameters", "a step above all"],
)
def test_what_no_mesh_file_may_say_is_not_proposed(tmp_path, call, mesh, code):
    done = call("tune", written(tmp_path, changed(**mesh)), "--synthetic", "--slot-size", *TRIED)
    assert (done.code, done.err) == (code, "")
    if code:
        assert "For the mesh file" not in done.out
        return
    lines = yaml.safe_load(done.out.split("For the mesh file:")[1])
    proposed = changed(**mesh)
    for part, one in lines.items():
        proposed["mesh"][part] |= one
    load(written(tmp_path, proposed), {})


def test_auc_is_of_one_score(tmp_path, call):
    path, pilot = adult(tmp_path)
    tree = yaml.safe_load(path.read_text())
    tree["mesh"] |= {"loss": {"softmax": 2}, "dimension": 4}
    for own in tree["nodes"].values():
        own["source"]["schema"]["label"] = {"column": "label", "classes": ["no", "yes"]}
    done = call("tune", written(tmp_path, tree), "--pilot", pilot, "--auc", *TRIED)
    assert (done.code, done.out) == (2, "")
    assert done.err == "--auc: is for losses of one score, not for softmax (2 classes)\n"


def test_a_loss_without_made_up_records_says_so(tmp_path, call):
    tree = changed(dimension=3) | {"nodes": {}}
    done = call("tune", written(tmp_path, tree), "--synthetic")
    assert done.code == 2
    assert "no made-up records for loss range" in done.err


def test_auc_needs_labels_of_two_signs(tmp_path, call):
    done = call("tune", written(tmp_path, changed()), "--synthetic", "--auc", *TRIED)
    assert done.code == 2
    assert done.err.startswith("--auc: the pilot must have labels of both signs")
    path, pilot = adult(tmp_path)
    ranked = call("tune", path, "--pilot", pilot, "--auc", *TRIED)
    assert ranked.code == 0, ranked.err
    header = next(line for line in ranked.out.splitlines() if "AUC" in line and "┃" in line)
    assert re.search(r"AUC ┃ +AUPRC ┃", header)
    assert "the largest AUC first; by chance the AUPRC is 0.4000." in ranked.out
    aucs = [float(row) for row in re.findall(r"│ +(\d\.\d{4}) \+- \S+ │ +\d\.\d{4} │", ranked.out)]
    assert len(aucs) > 3
    assert aucs == sorted(aucs, reverse=True)
    (alone,) = re.findall(r"│ the pilot alone +│[ │]+(\d\.\d{4}) │ +(\d\.\d{4}) │", ranked.out)
    assert float(alone[0]) > 0.8  # the first column decides the label; there is no intercept


def test_a_pilot_file_has_a_row_of_its_own_and_made_up_records_have_none(tmp_path, call):
    path, pilot = adult(tmp_path)
    (row,) = re.findall("│ the pilot alone +│.*", call("tune", path, "--pilot", pilot, *TRIED).out)
    assert 0 < float(row.split("│")[-2]) < 1  # the hinge loss of a model that is nearly right
    assert "the pilot alone" not in call("tune", path, "--synthetic", *TRIED).out


def test_nothing_better_than_guessing_is_an_answer(tmp_path, call):
    path, pilot = adult(tmp_path)
    tree = yaml.safe_load(path.read_text())
    tree["mesh"]["privacy"]["epsilon"] = 0.001
    done = call("tune", written(tmp_path, tree), "--pilot", pilot, "--auc", *TRIED)
    assert done.code == 1
    assert done.err.startswith("Warning: mesh.privacy: even in round 12 the noise of all nodes' mean")
    assert done.err.count("\n") == 1
    (line,) = (line for line in done.out.splitlines() if line.startswith("Nothing better than guessing"))
    assert "(0.5) was tried, with 40 records a node and laplace" in line
    assert "For the mesh file" not in done.out


def test_slots_by_time_keep_their_period_and_start(tmp_path, call):
    slots = {"by": "time", "period": 60, "start": "2026-01-31T12:00:00Z", "size": 4, "grace": 1.5}
    tree = changed(loss="hinge", rounds=10) | {"nodes": {}}
    tree["mesh"]["slots"] = slots
    path = written(tmp_path, tree)
    before = load(path, {}).mesh
    done = call("tune", path, "--synthetic", *TRIED, "--slot-size")
    assert done.code == 0, done.err
    lines = yaml.safe_load(done.out.split("For the mesh file:")[1])
    assert lines["slots"] == slots | {"size": lines["slots"]["size"]}
    tree["mesh"] |= lines
    pasted = load(written(tmp_path, tree), {}).mesh
    assert (pasted.rounds, pasted.algorithm.name) == (10, before.algorithm.name)
    assert pasted.slots.start == before.slots.start


def test_slots_by_time_that_leave_records_out_are_said(tmp_path):
    tree = changed(rounds=10) | {"nodes": {}}
    mesh = load(written(tmp_path, tree), {}).mesh
    assert not too_small(mesh, 4, 100)  # slots by count take all
    tree["mesh"]["slots"] = {"by": "time", "period": 60, "start": 0, "size": 4}
    mesh = load(written(tmp_path, tree), {}).mesh
    assert not too_small(mesh, 10, 100)
    assert not too_small(mesh.model_copy(update={"rounds": None}), 4, 100)
    assert too_small(mesh, 4, 1000) == (
        "Slots by time of 4 leave out 96 % of the records: a period has about 100 of a node "
        "(1,000 in 10 rounds)."
    )


@pytest.mark.parametrize("delta", [(), ("--delta", 1e-6)], ids=["pure", "with a delta"])
def test_mechanisms_are_compared_at_the_same_epsilon(tmp_path, call, delta):
    tree = changed(loss="hinge", dimension=20, rounds=200, slots={"size": 20}) | {"nodes": {}}
    path = written(tmp_path, tree)
    done = call("tune", path, "--synthetic", "--records", 2_000, "--mechanisms", *delta)
    assert done.code == 0, done.err
    names = set(re.findall(r"│ +(laplace|l2-sphere|gaussian|gaussian-bisr) │", done.out))
    assert names == {"laplace", "l2-sphere"} | ({"gaussian", "gaussian-bisr"} if delta else set())
    (row,) = (line for line in done.out.splitlines() if "│ proposed" in line)
    lines = yaml.safe_load(done.out.split("For the mesh file:")[1])
    assert lines["privacy"]["mechanism"] in row
    tree["mesh"]["privacy"] = lines.pop("privacy")
    tree["mesh"] |= lines
    privacy = load(written(tmp_path, tree), {}).mesh.privacy
    assert privacy.epsilon == 1
    assert privacy.delta == (1e-6 if privacy.mechanism.startswith("gaussian") else None)


@pytest.mark.parametrize(
    ("privacy", "options", "said"),
    [
        ({"mechanism": "none"}, ["--mechanisms"], "--mechanisms: the mesh file's mechanism is none: must be"),
        ({}, ["--mechanisms", "--delta", "2"], "--delta is 2: must be a number from"),
    ],
    ids=["no mechanism", "no delta"],
)
def test_mechanisms_that_cannot_be_compared(tmp_path, call, privacy, options, said):
    done = call("tune", written(tmp_path, changed(privacy=privacy)), "--synthetic", *TRIED, *options)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(said)


def test_a_mechanism_that_does_not_go_with_the_budget_is_left_out(tmp_path, call):
    path = written(tmp_path, changed(privacy={"budget": 3}))
    done = call("tune", path, "--synthetic", *TRIED, "--mechanisms", "--delta", 1e-6)
    assert done.code == 0, done.err
    assert "Not tried: gaussian, gaussian-bisr: not with the mesh file's epsilon or budget." in done.out
