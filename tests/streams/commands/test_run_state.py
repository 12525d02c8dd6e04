"""`run --state`: what goes on, and what is refused, where the sources of a run have changed."""

import json

import pytest

from tests.support.meshes import changed, with_value, written

SCHEMA = {"features": {"x": "number", "y": "number"}, "label": {"column": "d"}, "timestamp": "at"}
HEAD = "x,y,d,at\n"


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
    found = json.loads(kept.read_text())["run-1"]
    assert (found["seed"], found["nodes"]["a"]) == (0, a)


def test_an_older_folder_has_the_seed_alone(call, begun, tree):
    state = begun / "state"
    (state / "order.json").unlink()
    (state / "seed").write_text("7\n")
    outcome = going_on(call, begun, tree)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("--seed is 0: must be 7, as when state was begun")
    (state / "seed").write_text("0\n")
    assert going_on(call, begun, tree).code == 0
    assert not (state / "seed").exists()
    assert going_on(call, begun, with_value(tree, "nodes.a.source.shuffle", value=True), rounds=12).code == 2


def test_a_broken_file_is_one_line(call, begun, tree):
    (begun / "state" / "order.json").write_text("{")
    outcome = going_on(call, begun, tree)
    assert outcome == (
        2,
        "",
        "state/order.json: is broken: in which order the records were read is not known\n",
    )
