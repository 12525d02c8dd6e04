"""With slots by time nothing that others see says where a record stands in its file, or whether it does.

A loss without gradient and seeded noise: what is released does not depend on records. So every file that
others may read, and every word that is no owner's own, must be the same bytes.
"""

import json
import logging
from itertools import pairwise

import pytest

from tests.support.meshes.sources import write_parquet

ROUNDS = 4
MESH = """
mesh:
  name: timed
  run: run-1
  nodes: [a, b]
  dimension: 2
  # every record lies on the right side, far from the margin: no hinge loss has a gradient there
  algorithm: {name: dpdo-nc, constraint: {l2-ball: 100}, step_size: {rule: constant, a: 0.001}, x_1: [20, 20]}
  loss: hinge
  slots: {by: time, period: 10, start: 100, size: 2}
  privacy: {mechanism: laplace, noise: simulated, epsilon: 1, gradient_bound: 0.1}
  topology: {graph: ring}
  horizon: 4
  rounds: 4
nodes:
"""
SOURCE = """
  NAME:
    source:
      kind: KIND
      path: PATH
      schema: {features: {x: number, y: number}, label: {column: z, positive: 1}, timestamp: at}
"""
COLUMNS = ("x", "y", "z", "at")
RECORDS = [(1 + k / 10, 2.0, 1, at) for k, at in enumerate((105, 125, 105, 113, 105, 137))]
"""Slot 1 has more than it holds, at one instant."""
NEW = [(1.9, 1.0, 1, 105), (1.8, 1.0, 1, 113), (1.7, 1.0, 1, 1e9)]


def mesh_text(kind, path, every):
    """The mesh: nodes a and b take two parts of one file, or a all of it and b nothing of an empty one."""
    sources = {name: SOURCE.replace("NAME", name).replace("KIND", kind) for name in "ab"}
    if every is None:
        empty = path.replace("a.", "empty.")
        return MESH + sources["a"].replace("PATH", path) + sources["b"].replace("PATH", empty)
    takes = [f"      take: {{every: {every}, offset: {k}}}\n" for k in range(2)]
    return MESH + "".join(
        text.replace("PATH", path) + take for text, take in zip(sources.values(), takes, strict=True)
    )


def write(path, kind, records):
    """Write the records as a file of that kind."""
    if kind == "parquet":
        import pyarrow as pa  # noqa: PLC0415 # an extra

        columns = {name: [float(record[k]) for record in records] for k, name in enumerate(COLUMNS)}
        write_parquet(
            path,
            columns | {"z": [record[2] for record in records]},
            dict.fromkeys(COLUMNS[:2], pa.float64()) | {"z": pa.int64(), "at": pa.float64()},
        )
        return
    lines = [json.dumps(dict(zip(COLUMNS, record, strict=True))) for record in records]
    if kind == "csv":
        lines = [",".join(COLUMNS), *(",".join(map(str, record)) for record in records)]
    path.write_text("".join(f"{line}\n" for line in lines))


def edits():
    """Yield a line inserted, removed or changed at every place, and no line at all."""
    for k in range(len(RECORDS) + 1):
        yield [*RECORDS[:k], NEW[k % 3], *RECORDS[k:]]
    for k, (x, y, z, _) in enumerate(RECORDS):
        yield [*RECORDS[:k], *RECORDS[k + 1 :]]
        yield [*RECORDS[:k], (x, y, z, NEW[k % 3][3]), *RECORDS[k + 1 :]]
        yield [*RECORDS[:k], (x + 0.5, *RECORDS[k][1:]), *RECORDS[k + 1 :]]
    yield RECORDS[:1]
    yield []


def seen_by_others(folder):
    """Every file below the folder by its name: its mode, and its bytes unless its owner alone may read."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            mode = path.stat().st_mode & 0o777
            found[str(path.relative_to(folder))] = (mode, None if mode == 0o600 else path.read_bytes())
    return found


@pytest.mark.parametrize("every", [None, 2])
@pytest.mark.parametrize(
    ("kind", "path"), [("json-lines", "a.jsonl"), ("csv", "a.csv"), ("parquet", "a.parquet")]
)
def test_what_others_see_of_a_run_does_not_say_which_records_there_are(
    call, tmp_path, caplog, kind, path, every
):
    caplog.set_level(logging.DEBUG)
    mesh = tmp_path / "mesh.yaml"
    mesh.write_text(mesh_text(kind, path, every))
    write(tmp_path / path.replace("a.", "empty."), kind, [])
    ended = []
    for number, records in enumerate([RECORDS, *edits()]):
        write(tmp_path / path, kind, records)
        folder = tmp_path / "ends" / str(number)
        folder.mkdir(parents=True)
        caplog.clear()
        ran = call("run", mesh, "--seed", 3, "--output", folder / "out", "--state", folder / "state")
        said = [record.getMessage() for record in caplog.records]
        checked = call("check", mesh)
        ended.append((ran.code, ran.err, checked.code, checked.err, said, seen_by_others(folder)))
        assert len((folder / "out" / "rounds.csv").read_text().splitlines()) == 1 + 2 * ROUNDS
    assert ended[0][:4] == (0, "", 0, "")
    public = [name for name, (mode, _) in ended[0][-1].items() if mode != 0o600]
    assert {"out/model.json", "out/model.npz"} <= set(public)
    assert all(one == other for one, other in pairwise(ended))
