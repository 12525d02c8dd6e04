import csv
import gzip
import io
import json
import os
import resource
import sys
from threading import Event, Thread

import pytest

from streams.cli import run as run_module
from streams.mesh.file import load
from streams.records import slot_feed
from streams.state.journal import SqliteJournal
from tests.support.processes.terminal import pretend

CSV_NODES = """
nodes:
""" + "".join(
    f"""  {name}:
    source:
      kind: csv
      path: {name}.csv
      schema:
        features: {{x: number, y: number}}
        label: {{column: class, positive: "1"}}
"""
    for name in "abc"
)


def classifying(mesh, tmp_path, lengths=(30, 20, 25), slot=2):
    """Turn the mesh into one of records in files: the class is the sign of x."""
    text = mesh.read_text().replace("loss: range", "loss: hinge").replace("rounds: 40", "rounds: none")
    text = text.replace("size: 1", f"size: {slot}").replace("mechanism: laplace", "mechanism: none")
    held_out = CSV_NODES[CSV_NODES.index("      kind") : CSV_NODES.index("  b:")].replace("a.csv", "test.csv")
    held_out = "held_out:\n" + held_out.replace("      ", "  ", 3).replace("        ", "    ")
    mesh.write_text(text[: text.index("nodes:\n")] + CSV_NODES.lstrip() + held_out)
    for name, length in zip(["a", "b", "c", "test"], (*lengths, 50), strict=True):
        rows = [f"{(-1) ** k * (k + 1) / length},{k / length},{1 - k % 2}" for k in range(length)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,y,class", *rows]) + "\n")


def read_rounds(path):
    with path.open() as opened:
        return list(csv.DictReader(opened))


def test_a_run_ends_with_a_summary_and_what_was_learnt(call, mesh, tmp_path):
    outcome = call("run", mesh, "--output", "out")
    assert (outcome.code, outcome.err) == (0, "")
    x, y = json.loads((tmp_path / "out" / "summary.json").read_text())["decision"]
    assert f"Learnt, mean of the nodes' last decisions: ({x:.4g}, {y:.4g})." in outcome.out
    assert "small, run run-1: rounds 1 to 40" in outcome.out
    assert outcome.out.count("own secret") == 1
    assert outcome.out.count("Network regret/T, the largest of a node: ") == 1
    assert "Nothing in node a's stream is protected" in outcome.out
    assert "\x1b" not in outcome.out


def test_exact_noise_shows_both_epsilons(call, mesh):
    mesh.write_text(mesh.read_text().replace("simulated", "exact").replace("epsilon: 1", "epsilon: 0.5"))
    out = call("run", mesh, "--rounds", 6).out
    rows = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    assert [cell.strip() for cell in rows[0]][3:] == ["0.5", "3", "0"]


def test_output_is_written_and_named(call, mesh, tmp_path):
    outcome = call("run", mesh, "--rounds", 7, "--output", "deep/results")
    assert outcome.code == 0
    rows = read_rounds(tmp_path / "deep" / "results" / "rounds.csv")
    assert [row["node"] for row in rows] == ["a", "b", "c"] * 7
    assert "deep/results/rounds.csv" in outcome.out
    written = json.loads((tmp_path / "deep" / "results" / "summary.json").read_text())
    assert (written["rounds"], written["interrupted"]) == (7, False)
    assert sorted(path.name for path in (tmp_path / "deep" / "results").iterdir()) == [
        "model.json",
        "model.npz",
        "rounds.csv",
        "summary.json",
    ]


def test_a_disk_that_is_full_is_named_and_the_old_files_stay(call, mesh, tmp_path):
    assert call("run", mesh, "--output", "out").code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))  # a write beyond it fails, as on a full disk
    try:
        outcome = call("run", mesh, "--seed", 9, "--output", "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (outcome.code, outcome.err) == (1, "out/rounds.csv: File too large\n")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_the_same_seed_gives_the_same_bytes(call, mesh, tmp_path):
    for folder, seed in (("one", 5), ("two", 5), ("three", 6)):
        assert call("run", mesh, "--seed", seed, "--output", folder).code == 0
    one, two, three = ((tmp_path / name / "rounds.csv").read_bytes() for name in ("one", "two", "three"))
    assert one == two != three


def test_quiet_prints_nothing(call, mesh):
    assert call("run", mesh, "--quiet") == (0, "", "")


def test_progress_is_for_terminals_and_never_in_the_output(call, mesh, monkeypatch):
    assert call("run", mesh).err == ""
    pretend(monkeypatch)
    outcome = call("run", mesh)
    assert "40/40" in outcome.err
    assert "40/40" not in outcome.out
    assert call("run", mesh, "--quiet") == (0, "", "")


def test_the_first_source_that_ends_ends_the_run(call, mesh, tmp_path):
    classifying(mesh, tmp_path)
    outcome = call("run", mesh, "--output", "out")
    assert outcome.code == 0
    assert "rounds 1 to 10" in outcome.out  # b has 20 records, 2 a slot
    assert len(read_rounds(tmp_path / "out" / "rounds.csv")) == 30


def test_held_out_records_are_scored(call, mesh, tmp_path):
    classifying(mesh, tmp_path)
    outcome = call("run", mesh, "--output", "out")
    found = json.loads((tmp_path / "out" / "summary.json").read_text())["score"]
    assert found["records"] == 50
    assert found["auc"] == 1.0
    share = f"{found['accuracy']:.4f} (the most frequent class alone: {found['majority']:.4f})"
    measures = f"AUC 1.0000, AUPRC 1.0000, recall in the top 1 % {found['recall_at_top']:.4f}"

    assert found["recall_at_top"] == found["best_recall_at_top"]
    measures += f" (at best {found['best_recall_at_top']:.4f})"
    assert f"accuracy {share}, {measures}." in outcome.out
    assert 0.5 <= found["majority"] < 1


def test_a_cut_that_is_worse_than_the_most_frequent_class_is_said(call, mesh, tmp_path):
    """Labels of the held-out rows are turned round: the model is wrong wherever it was right."""
    classifying(mesh, tmp_path)
    assert "At its cut the model is right less often" not in call("run", mesh).out
    lines = (tmp_path / "test.csv").read_text().splitlines()
    turned = [f"{line[:-1]}{1 - int(line[-1])}" for line in lines[1:]]
    (tmp_path / "test.csv").write_text("\n".join([lines[0], *turned]) + "\n")
    done = call("run", mesh, "--output", "out")
    score = json.loads((tmp_path / "out" / "summary.json").read_text())["score"]
    assert score["accuracy"] < 0.5 <= score["majority"]
    assert (
        "At its cut the model is right less often than the most frequent class alone, "
        f"{score['accuracy']:.4f} of {score['majority']:.4f}: rank records by score" in done.out
    )


def test_malformed_records_are_counted_to_the_common_round(call, mesh, tmp_path):
    classifying(mesh, tmp_path)
    lines = (tmp_path / "a.csv").read_text().splitlines()
    lines[3], lines[5], lines[21] = "rubbish", "1,2", "in round 11, after the common ones"
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    assert call("run", mesh, "--output", "out").code == 0
    nodes = json.loads((tmp_path / "out" / "summary.json").read_text())["nodes"]
    assert [node["malformed"] for node in nodes] == [2, 0, 0]


def test_standard_input_can_be_a_source(call, mesh, tmp_path, monkeypatch):
    classifying(mesh, tmp_path)
    mesh.write_text(mesh.read_text().replace("path: a.csv", 'path: "-"'))
    content = io.BytesIO((tmp_path / "a.csv").read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    assert "rounds 1 to 10" in call("run", mesh).out


def test_a_file_of_fewer_records_than_a_slot_makes_one_short_slot(call, mesh, tmp_path):
    classifying(mesh, tmp_path, lengths=(3, 1, 25))
    mesh.write_text(mesh.read_text().replace("mechanism: none", "mechanism: laplace"))
    outcome = call("run", mesh, "--output", "out")
    assert (outcome.code, outcome.err) == (0, "")
    rows = read_rounds(tmp_path / "out" / "rounds.csv")
    assert [(row["round"], row["node"]) for row in rows] == [("1", "a"), ("1", "b"), ("1", "c")]
    assert rows[0]["epsilon_spent"] == rows[1]["epsilon_spent"] == rows[2]["epsilon_spent"] != "0.0"


def test_the_last_records_are_learnt_from_and_charged_as_any_others(call, mesh, tmp_path):
    """Where a last, short slot follows, the decisions before it are the same."""
    classifying(mesh, tmp_path, lengths=(7, 7, 7))
    assert call("run", mesh, "--output", "odd", "--seed", 1).code == 0
    for name in "abc":
        lines = (tmp_path / f"{name}.csv").read_text().splitlines(keepends=True)
        (tmp_path / f"{name}.csv").write_text("".join(lines[:-1]))
    assert call("run", mesh, "--output", "even", "--seed", 1).code == 0
    even, odd = ((tmp_path / name / "rounds.csv").read_text().splitlines() for name in ("even", "odd"))
    assert odd[: len(even)] == even
    assert len(odd) == len(even) + 3
    assert all(line.startswith("4,") for line in odd[len(even) :])


def test_a_pipe_without_a_record_runs_no_round(call, mesh, tmp_path, monkeypatch):
    classifying(mesh, tmp_path)
    mesh.write_text(mesh.read_text().replace("path: a.csv", 'path: "-"'))
    content = io.BytesIO((tmp_path / "a.csv").read_bytes().splitlines(keepends=True)[0])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    outcome = call("run", mesh, "--output", "out", "--quiet")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"{mesh}: nodes.a.source: has no record: must have at least one\n"
    assert list((tmp_path / "out").iterdir()) == []


def test_what_ended_the_run_is_named(call, mesh, tmp_path, monkeypatch):
    classifying(mesh, tmp_path, lengths=(30, 5, 25))
    assert "The run ended: a, b, c have no records left." in call("run", mesh).out.splitlines()
    ended = "The run ended: b has no records left; unread: a 22, c 17."
    assert ended in call("run", mesh, "--rounds", 4).out.splitlines()
    mesh.write_text(mesh.read_text().replace("path: a.csv", 'path: "-"'))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "a.csv").read_bytes())))
    ended = "The run ended: b has no records left; unread: c 17."
    assert ended in call("run", mesh, "--rounds", 4).out.splitlines()
    mesh.write_text(mesh.read_text().replace('path: "-"', "path: a.csv"))
    assert "The run ended" not in call("run", mesh, "--rounds", 2).out
    classifying(mesh, tmp_path, lengths=(5, 5, 25))
    ended = "The run ended: a, b have no records left; unread: c 17."
    assert ended in call("run", mesh, "--rounds", 4).out.splitlines()


def test_the_rest_of_a_pipe_is_not_waited_for(call, mesh, tmp_path):
    classifying(mesh, tmp_path, lengths=(30, 5, 25))
    mesh.write_text(mesh.read_text().replace("path: a.csv", "path: a.fifo"))
    os.mkfifo(tmp_path / "a.fifo")
    ended = Event()

    def write():
        with (tmp_path / "a.fifo").open("wb") as pipe:
            pipe.write((tmp_path / "a.csv").read_bytes())
            pipe.flush()
            ended.wait(20)  # so that a run that waits for the rest fails, and does not hang

    writer = Thread(target=write)
    writer.start()
    try:
        out = call("run", mesh, "--rounds", 4).out
    finally:
        ended.set()
        writer.join()
    assert "The run ended: b has no records left; unread: c 17." in out.splitlines()


def test_only_so_many_unread_records_are_counted(call, mesh, tmp_path, monkeypatch):
    monkeypatch.setattr(slot_feed, "MOST_COUNTED", 10)
    monkeypatch.setattr(run_module, "MOST_COUNTED", 10)
    classifying(mesh, tmp_path, lengths=(30, 5, 16))
    assert "unread: a over 10, c 8." in call("run", mesh, "--rounds", 4).out


def test_a_rest_that_cannot_be_read_has_no_number(call, mesh, tmp_path):
    classifying(mesh, tmp_path, lengths=(30, 5, 25))
    packed = gzip.compress((tmp_path / "a.csv").read_bytes()) + gzip.compress(b"0,0,0\n" * 50_000)
    (tmp_path / "a.csv.gz").write_bytes(packed[:-9])
    mesh.write_text(mesh.read_text().replace("path: a.csv", "path: a.csv.gz"))
    outcome = call("run", mesh, "--rounds", 4)
    assert (outcome.code, outcome.err) == (0, "")
    assert "unread: a unknown, c 17." in outcome.out


def test_a_header_alone_is_a_mistake_at_its_source(call, mesh, tmp_path):
    classifying(mesh, tmp_path, lengths=(30, 0, 25))
    outcome = call("run", mesh, "--quiet")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"{mesh}: nodes.b.source.path: ")
    assert outcome.err.endswith(": holds no record\n")


def test_state_keeps_journals(call, mesh, tmp_path):
    assert call("run", mesh, "--state", "state").code == 0
    assert {path.name for path in (tmp_path / "state").glob("*.journal")} == {
        "a.journal",
        "b.journal",
        "c.journal",
    }


def in_the_way(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken" / "rounds.csv").mkdir(parents=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mesh.yaml", "--output", "file"), "file: is a file: must be a folder, or not there yet"),
        (("mesh.yaml", "--output", "file/deeper"), "file/deeper: cannot be written to: Not a directory"),
        (
            ("mesh.yaml", "--output", "taken"),
            "taken/rounds.csv: is a folder: must be a file, or not there yet",
        ),
        (("mesh.yaml", "--state", "file"), "file: is a file: must be a folder, or not there yet"),
        (("nowhere.yaml",), "nowhere.yaml: cannot be read: No such file or directory"),
        ((".",), ".: cannot be read: Is a directory"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_run(call, mesh, tmp_path, arguments, words):
    in_the_way(tmp_path)
    assert call("run", *arguments) == (2, "", f"{words}\n")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments", [("--rounds", "0"), ("--seed", "-1"), ("--rounds", "many"), ("--bogus",)]
)
def test_a_mistake_on_the_command_line(call, mesh, arguments):
    outcome = call("run", mesh, *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert arguments[0] in outcome.err.splitlines()[-1]
    assert "Traceback" not in outcome.err


def test_a_node_whose_own_part_is_elsewhere_cannot_be_run_here(call, mesh):
    mesh.write_text(mesh.read_text().replace("  b: {source: {kind: localisation}}", "  b: b.yaml"))
    outcome = call("run", mesh)
    assert (outcome.code, outcome.out) == (2, "")
    assert "nodes.b: " in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_journals_of_other_settings_are_refused(call, mesh):
    call("run", mesh, "--state", "state")
    mesh.write_text(mesh.read_text().replace("epsilon: 1", "epsilon: 2"))
    outcome = call("run", mesh, "--state", "state")
    assert (outcome.code, outcome.out) == (2, "")
    said = (
        "a.journal cannot be used: its privacy.epsilon is 1, not 2: other settings of the mesh need a new run"
    )
    assert said in outcome.err


def test_a_journal_that_is_open_elsewhere_is_refused(call, mesh, tmp_path):
    call("run", mesh, "--state", "state")
    life = {"run": "run-1", "node": "a", "instance": "1" * 32, "horizon": 32}
    digest = load(mesh).digest()
    with SqliteJournal(tmp_path / "state" / "a.journal", digest=digest, **life):
        outcome = call("run", mesh, "--state", "state")
    assert (outcome.code, outcome.out) == (2, "")
    assert "another process has the journal" in outcome.err


def test_a_state_that_was_not_left_in_order_is_refused(call, mesh, tmp_path):
    journal = tmp_path / "state" / "b.journal"
    call("run", mesh, "--rounds", 3, "--state", "state")
    older = journal.read_bytes()
    call("run", mesh, "--rounds", 9, "--state", "state")
    journal.write_bytes(older)
    outcome = call("run", mesh, "--rounds", 12, "--state", "state")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("state: the run in it was not ended in order (")


def test_nodes_whose_sources_end_apart_relay_and_close_together(call, mesh, tmp_path):
    classifying(mesh, tmp_path, lengths=(30, 5, 25))
    call("run", mesh, "--state", "state", "--output", "out")
    nodes = json.loads((tmp_path / "out" / "summary.json").read_text())["nodes"]
    assert [node["averaged"] for node in nodes] == [15, 3, 13]  # each learns from all its records
    outcome = call("run", mesh, "--state", "state")
    assert outcome.code == 0
    assert "No round was run: of a, b, c no records are left." in outcome.out


def test_a_run_that_ended_in_order_goes_on(call, mesh, tmp_path):
    exact = mesh.read_text().replace("simulated", "exact")
    mesh.write_text(exact)
    call("run", mesh, "--rounds", 10, "--state", "state", "--output", "out")
    outcome = call("run", mesh, "--rounds", 25, "--state", "state", "--output", "out")
    assert outcome.code == 0
    assert "rounds 11 to 25" in outcome.out
    nodes = json.loads((tmp_path / "out" / "summary.json").read_text())["nodes"]
    assert [node["epsilon_of_the_stream"] for node in nodes] == [25.0, 25.0, 25.0]
    assert len(read_rounds(tmp_path / "out" / "rounds.csv")) == 30
    assert len(read_rounds(tmp_path / "out" / "rounds-from-11.csv")) == 45
    assert "had ended before" in call("run", mesh, "--rounds", 25, "--state", "state").out


def test_a_state_goes_on_in_the_order_it_was_begun_in(call, mesh):
    call("run", mesh, "--rounds", 5, "--seed", 1, "--state", "state")
    outcome = call("run", mesh, "--rounds", 9, "--state", "state")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("--seed is 0: must be 1, as when state was begun")
    assert call("run", mesh, "--rounds", 9, "--seed", 1, "--state", "state").code == 0
