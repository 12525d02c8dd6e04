"""Pilots have the right shape; one with the records of a node is refused, however they are written down."""

import gzip
import json
import tracemalloc

import numpy as np
import pytest

from streams.mesh.errors import UsageError
from streams.mesh.file import load
from streams.mesh.settings.schema import SchemaSettings
from streams.tools.tuning.pilot import MovingTargets, from_file, made_up, made_up_by
from tests.support.meshes.files import changed, code_in, written
from tests.support.meshes.sources import write_parquet


def test_made_up_rows_are_of_length_one_with_labels_of_the_kind():
    signs, numbers = made_up(5, "signs", 1, 2_000), made_up(5, "numbers", 1, 2_000)
    assert (signs.features**2).sum(-1) == pytest.approx(np.ones(2_000))
    assert set(np.unique(signs.labels)) == {-1.0, 1.0}
    assert np.unique(numbers.labels).size > 1_000
    assert made_up(5, "signs", 1).features.shape == (20_000, 5)
    assert made_up(12_000, "signs", 1, 1_500).features.shape == (1_000, 12_000)
    assert signs.features.tobytes() != made_up(5, "signs", 2, 2_000).features.tobytes()


def test_made_up_rows_follow_a_schema():
    columns = {
        "age": {"bounds": [17, 90]},
        "job": {"categories": ["clerk", "farmer"]},
        "town": {"hashed": 3},
        "member": {"categories": ["yes"]},
        "debt": "number",
    }
    tree = {"features": columns, "intercept": True, "label": {"column": "income", "positive": ["high"]}}
    schema = SchemaSettings.model_validate(tree)
    pilot = made_up_by(schema, "signs", 1, 3_000)
    age, job, town, member = np.split(pilot.features[:, :7], [1, 3, 6], axis=1)
    debt, one = pilot.features[:, 7:].T
    assert (age.min() >= 0, age.max() <= 1, age.std() > 0.25) == (True, True, True)
    assert set(job.sum(1)) == {0.0, 1.0}  # no category at all is a case
    assert set(town.sum(1)) == {1.0}
    assert member.mean() == pytest.approx(0.5, abs=0.05)
    assert (debt.std(), set(one)) == (pytest.approx(1, abs=0.1), {1.0})
    assert (pilot.labels > 0).mean() == pytest.approx(0.5, abs=0.05)
    short = made_up_by(SchemaSettings.model_validate(tree | {"norm": 0.5}), "numbers", 1, 3_000)
    assert np.sqrt((short.features**2).sum(1)).max() == pytest.approx(0.5)
    assert np.unique(short.labels).size == 3_000
    beside = made_up_by(
        SchemaSettings.model_validate(tree | {"norm": 0.5, "intercept": "outside"}), "signs", 1, 3_000
    )
    assert set(beside.features[:, -1]) == {1 / 3}
    assert np.sqrt((beside.features[:, :-1] ** 2).sum(1)).max() == pytest.approx(0.5)


def test_made_up_rows_need_no_more_memory_than_they_hold():
    columns = {"town": {"hashed": 4_000}}
    schema = SchemaSettings.model_validate({"features": columns, "label": {"column": "y", "positive": ["1"]}})
    tracemalloc.start()
    try:
        pilot = made_up_by(schema, "signs", 1, 500)
        assert tracemalloc.get_traced_memory()[1] < 4 * pilot.features.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pilot", [MovingTargets(), made_up(2, "signs", 0)], ids=["targets", "resampled"])
def test_slots_are_of_all_nodes_of_all_runs_and_repeat_by_seed(pilot):
    first, again, other = (list(pilot.slots(7, 4, 3, 2, seed)) for seed in (0, 0, 1))
    assert len(first) == 7
    assert all(slot.features.shape == (8, 3, 2) for slot in first)
    assert all(slot.labels.shape == slot.present.shape == (8, 3) for slot in first)
    assert all(one.labels.tobytes() == two.labels.tobytes() for one, two in zip(first, again, strict=True))
    assert first[0].labels.tobytes() != other[0].labels.tobytes()


def test_each_run_has_a_target_of_its_own_which_distances_fit():
    slots = list(MovingTargets().slots(50, 6, 1, 3, 0))
    for run in range(3):
        part = slice(6 * run, 6 * run + 6)
        positions, distances = slots[0].features[part, 0], slots[0].labels[part, 0]
        # two circles' difference is linear in the target: solve for it
        matrix = 2 * (positions[1:] - positions[0])
        values = (positions[1:] ** 2).sum(-1) - (positions[0] ** 2).sum()
        values = values - distances[1:] ** 2 + distances[0] ** 2
        target = np.linalg.lstsq(matrix, values, rcond=None)[0]
        assert np.sqrt(((positions - target) ** 2).sum(-1)) == pytest.approx(distances, abs=0.005)
    assert len({slots[0].labels[6 * run, 0] for run in range(3)}) == 3


# A pilot with the records of a node is refused, however they are written down; public records are not.

SCHEMA = {"features": {"x": {"bounds": [0, 8]}, "y": {"bounds": [0, 8]}}, "label": {"column": "label"}}
ROWS = [(k / 10, (7 * k % 61) / 10, k % 5) for k in range(60)]
OWN = """
class Source:
    dimension = 2

    def __init__(self, node):
        pass

    def records(self):
        return [b"%r" % (row,) for row in {rows}]

    def decode(self, value):
        x, y, label = value.strip(b"()").split(b",")
        return (float(x) / 8, float(y) / 8), float(label)
"""


def write_csv(path, rows):
    packed = gzip.compress if path.suffix == ".gz" else bytes
    text = "x,y,label\n" + "".join(f"{x},{y},{label}\n" for x, y, label in rows)
    path.write_bytes(packed(text.encode()))


def source(folder, kind, rows):
    """A node's source that holds the rows, as that kind of file."""
    if kind in {"csv", "csv.gz"}:
        write_csv(folder / f"node.{kind}", rows)
        return {"kind": "csv", "path": f"node.{kind}", "schema": SCHEMA}
    if kind == "json-lines":
        lines = [json.dumps({"label": label, "z": 1, "y": y, "x": x}) for x, y, label in rows]
        (folder / "node.jsonl").write_text("\n".join(lines) + "\n")
        return {"kind": kind, "path": "node.jsonl", "schema": SCHEMA}
    if kind == "parquet":
        columns = dict(zip(("x", "y", "label"), map(list, zip(*rows, strict=True)), strict=True))
        write_parquet(folder / "node.parquet", columns)
        return {"kind": kind, "path": "node.parquet", "schema": SCHEMA}
    if kind == "libsvm":
        lines = [f"{label} 1:{x / 8!r} 2:{y / 8!r}" for x, y, label in rows]
        (folder / "node.txt").write_text("\n".join(lines) + "\n")
        return {"kind": kind, "path": "node.txt", "label": {}}
    (folder / f"pilot_of_{folder.name}.py").write_text(OWN.format(rows=rows))
    return {"kind": "own", "name": f"pilot_of_{folder.name}:Source"}


def mesh(folder, monkeypatch, kind, rows=ROWS, **more):
    """A mesh whose node b holds the rows as that kind. Node a, whose file is not here, says how to read."""
    monkeypatch.syspath_prepend(folder)
    tree = changed(nodes=["a", "b"], loss="squared")
    tree["nodes"] = {"b": {"source": source(folder, kind, rows) | more}}
    tree["nodes"]["a"] = {"source": {"kind": "csv", "path": "elsewhere.csv", "schema": SCHEMA}}
    return load(written(folder, tree), {}, code=code_in(tree))


KINDS = ["csv", "csv.gz", "json-lines", "parquet", "libsvm", "own"]


@pytest.mark.parametrize("pilot", ["pilot.csv", "pilot.csv.gz"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_node_s_records_are_refused_whatever_their_order_packing_and_kind(
    tmp_path, monkeypatch, kind, pilot
):
    file, path = mesh(tmp_path, monkeypatch, kind), tmp_path / pilot
    write_csv(path, ROWS[::-1] + ROWS[:7] * 9)
    with pytest.raises(UsageError) as caught:
        from_file(file, path)
    text = "more than half of its distinct records are among those of node b: must be public ones of others"
    assert str(caught.value) == f"{path}: {text}"


@pytest.mark.parametrize("kind", KINDS)
def test_up_to_half_of_the_distinct_records_may_be_a_node_s(tmp_path, monkeypatch, kind):
    others = [(x + 1 / 3, y, label) for x, y, label in ROWS[:30]]
    file, path = mesh(tmp_path, monkeypatch, kind), tmp_path / "pilot.csv"
    write_csv(path, others + ROWS[:30] * 3)  # more than half of all, half of the distinct ones
    assert len(from_file(file, path).labels) == 120
    write_csv(path, others[1:] + ROWS[:30])
    with pytest.raises(UsageError, match="more than half of its distinct records"):
        from_file(file, path)


def test_all_parts_of_a_file_count_and_a_part_that_nobody_takes_does_not(tmp_path, monkeypatch):
    path = tmp_path / "pilot.csv"
    write_csv(path, ROWS)
    rows = source(tmp_path, "csv", ROWS)
    for here in ("a", "ab", "abc"):
        tree = changed(nodes=list("abc"), loss="squared")
        parts = {node: {"every": 3, "offset": k} for k, node in enumerate(here)}
        tree["nodes"] = {node: {"source": rows | {"take": part}} for node, part in parts.items()}
        file = load(written(tmp_path, tree), {})
        if here == "a":
            assert len(from_file(file, path).labels) == len(ROWS)
        else:
            with pytest.raises(UsageError, match="among those of node a, b: "):
                from_file(file, path)


def test_a_source_that_is_no_file_or_may_not_run_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "pilot.csv"
    write_csv(path, ROWS)
    file = mesh(tmp_path, monkeypatch, "own")
    assert len(from_file(load(file.path, {}), path).labels) == len(ROWS)
    for a in ({"kind": "localisation"}, {"kind": "csv", "path": "-", "schema": SCHEMA}, None):
        tree = changed(nodes=["a", "b"], loss="squared")
        tree["nodes"] = {"b": {"source": {"kind": "csv", "path": "elsewhere.csv", "schema": SCHEMA}}}
        if a is not None and a["kind"] == "localisation":
            tree["mesh"]["loss"] = "range"
        tree["nodes"] |= {} if a is None else {"a": {"source": a}}
        assert len(from_file(load(written(tmp_path, tree), {}), path).labels) == len(ROWS)
