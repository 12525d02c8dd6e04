"""`import mirrormesh`: what its users rely on."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import mirrormesh
from streams.cli import main
from streams.collaboration.local import run_collaboration
from streams.mesh.errors import UsageError
from tests.support.collaborations.folders import write

FILE = mirrormesh.load(mirrormesh.example_mesh("tracking.yaml"))


def test_every_name_is_there_and_no_other():
    assert dir(mirrormesh) == mirrormesh.__all__ == sorted(mirrormesh.__all__)
    for name in mirrormesh.__all__:
        assert getattr(mirrormesh, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'sample'"):
        _ = mirrormesh.sample


def test_the_page_names_all_that_there_is_and_nothing_else():
    page = Path("docs/howto/python.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall("`([^`]+)`", row)} == set(mirrormesh.__all__)


def test_a_promise_counts_the_other_readers_of_a_file(tmp_path):
    path = write(tmp_path, noise="exact")
    alone = mirrormesh.promise(mirrormesh.load_collaboration(path), "a")
    assert alone.epsilon == alone.guarantee.epsilon == 8
    path.write_text(path.read_text().replace("path: b.csv", "path: a.csv"))
    shared = mirrormesh.promise(mirrormesh.load_collaboration(path), "a")
    assert (shared.epsilon, shared.guarantee.epsilon) == (8 + 9, 8)  # with those of b
    assert shared.sentence != shared.guarantee.sentence("a")


def test_a_promise_of_nobody_is_a_mistake_in_one_line():
    with pytest.raises(mirrormesh.UsageError, match=r"^name is 'nobody': is no node of the mesh"):
        mirrormesh.promise(FILE, "nobody")


def test_importing_it_loads_nothing_else():
    code = "import sys, mirrormesh; print(*{'numpy', 'pydantic', 'streams', 'nodes'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_run_gives_a_model_that_is_written_and_read_again(tmp_path):
    outcome = mirrormesh.run(FILE, rounds=20, seed=3)
    assert outcome.summary.rounds == 20
    assert set(outcome.nodes) == set(FILE.mesh.nodes)
    model = mirrormesh.run_model(FILE, outcome.summary)
    for path in mirrormesh.write_model(tmp_path / "model", model):
        assert mirrormesh.read_model(path) == model


def test_a_budget_is_read_from_a_journal(tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(
            ["run", str(mirrormesh.example_mesh("tracking.yaml")), "--rounds", "5", "--state", str(tmp_path)]
        )
    assert not ended.value.code
    name = next(iter(FILE.mesh.nodes))
    account = mirrormesh.budget(FILE, name, tmp_path)
    assert (account.stepped, account.charged, account.source) == (5, 5, "journal")
    assert account.guarantee == mirrormesh.promise(FILE, name).sentence


def test_a_collaboration_is_loaded_run_taken_away_and_asked_about(tmp_path):
    path = write(tmp_path, more="held_out: {kind: csv, path: a.csv, schema: schema.yaml}\n")
    file = mirrormesh.load_collaboration(path)
    outcome = mirrormesh.run(file)
    assert outcome.queries == 5
    assert outcome.average.tobytes() == run_collaboration(file).average.tobytes()
    assert {name: one.charged for name, one in outcome.owners.items()} == {"a": 5, "b": 5, "c": 5}
    assert outcome.owners["a"].guarantee == mirrormesh.promise(file, "a").sentence
    assert outcome.scores["average"].records == 6
    assert mirrormesh.run(file, rounds=2).queries == 2
    assert mirrormesh.run(file, seed=4).average.tobytes() != outcome.average.tobytes()
    model = mirrormesh.run_model(file, outcome)
    for made in mirrormesh.write_model(tmp_path / "model", model):
        assert mirrormesh.read_model(made) == model
    found = mirrormesh.predict(tmp_path / "model.json", str(tmp_path / "b.csv"))
    assert len(found.records) == 4
    with pytest.raises(UsageError, match="type CollaborationOutcome: must be the outcome of a run of a mesh"):
        mirrormesh.run_model(FILE, outcome)


def test_an_owners_budget_is_read_from_its_journal(tmp_path):
    path, state = write(tmp_path, noise="exact"), tmp_path / "state"
    file = mirrormesh.load_collaboration(path)
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path), "--rounds", "2", "--state", str(state)])
    assert not ended.value.code
    account = mirrormesh.budget(file, "a", state)
    assert (account.charged, account.queries, account.epsilon_spent, account.epsilon) == (2, 5, 3.2, 8.0)
    assert account.all_runs == (8.0, 0.0)
    assert account.guarantee == mirrormesh.promise(file, "a").sentence
    with pytest.raises(UsageError, match="--state: must be given"):
        mirrormesh.budget(file, "a")


def test_types_are_those_that_a_program_is_checked_against():
    program = Path(__file__).with_name("typed_api.py")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
