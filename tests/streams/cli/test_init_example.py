"""`mirrormesh init --example`: an example and its data, anywhere."""

import pytest

from tests.support.meshes.examples import COLLABORATIONS, MESHES, NAMES, example


def test_the_list_names_every_example_with_a_sentence(call):
    outcome = call("init", "--example", "list")
    lines = outcome.out.splitlines()
    assert [line.split()[0] for line in lines] == sorted([*NAMES, *COLLABORATIONS])
    assert all(line.endswith(".") and len(line.split()) > 4 for line in lines)


@pytest.mark.parametrize("name", [*NAMES, *COLLABORATIONS])
def test_an_example_is_written_with_its_data_and_checks(call, tmp_path, tmp_path_factory, monkeypatch, name):
    example(name, tmp_path_factory.mktemp("data"), monkeypatch)  # what does not come with it
    assert call("init", "--example", name).code == 0
    assert (tmp_path / f"{name}.yaml").read_bytes() == (MESHES / f"{name}.yaml").read_bytes()
    outcome = call("check", f"{name}.yaml")
    assert (outcome.code, outcome.out.splitlines()[0]) == (0, f"{name}.yaml: right")
    notices = {path.parent.name for path in tmp_path.glob("*/NOTICE.md")}
    assert notices == {
        path.name for path in tmp_path.iterdir() if path.is_dir()
    }  # a licence goes with its data


def test_one_example_runs_where_it_was_written(call, tmp_path):
    call("init", "--example", "experts", "mine.yaml")
    assert (tmp_path / "experts" / "losses.csv.gz").is_file()
    outcome = call("run", "mine.yaml", "--rounds", 2)
    assert outcome.code == 0
    assert "rounds 1 to 2" in outcome.out


def test_two_examples_share_their_data_and_nothing_is_overwritten(call, tmp_path):
    assert call("init", "--example", "income").code == 0
    assert call("init", "--example", "income-gaussian").code == 0
    outcome = call("init", "--example", "income")
    assert (outcome.code, outcome.err) == (2, "income.yaml: is there already: must be a new file\n")
    (tmp_path / "adult" / "schema.yaml").write_text("mine")
    outcome = call("init", "--example", "income", "other.yaml")
    assert (outcome.code, outcome.err) == (2, "adult/schema.yaml: is there already: must be a new file\n")
    assert (tmp_path / "adult" / "schema.yaml").read_text() == "mine"
    assert not (tmp_path / "other.yaml").exists()


def test_an_example_that_there_is_not(call):
    outcome = call("init", "--example", "incme")
    assert outcome.code == 2
    assert outcome.err.startswith("--example: 'incme': must be list or one of ")
    assert "income" in outcome.err


def test_a_folder_that_is_not_there_stays_away(call, tmp_path):
    outcome = call("init", "--example", "income", "nowhere/mesh.yaml")
    assert outcome.code == 2
    assert "cannot be written" in outcome.err
    assert not (tmp_path / "nowhere").exists()
