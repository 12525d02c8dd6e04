"""A small mesh for every kind of source: node b reads it; and ordinary records of each."""

import json
from itertools import count

import numpy as np

from tests.support.meshes.files import changed, loaded
from tests.support.processes.programs import leave_out

KINDS = ("csv", "json-lines", "libsvm", "csr", "own", "localisation")
ALL_KINDS = (*KINDS, "parquet")
"""With Parquet too, whose rows are decoded as JSON lines."""
SPARSE = ("libsvm", "csr")
DIMENSION = 2
SCHEMA = {"features": {"x": "number", "y": "number"}, "label": {"column": "label"}}
_NUMBERS = count()
_OWN = """
import sys


class Comma:
    dimension = 2

    def __init__(self, node):
        pass

    def records(self):
        return (f"{k % 7},{k % 5},{k % 3}".encode() for k in range(1, 200))

    def decode(self, value):
        if value == b"exit":
            sys.exit(value.decode())
        if value == b"interrupt":
            raise KeyboardInterrupt(value)
        if value == b"generator":
            raise GeneratorExit(value)
        x, y, label = map(float, value.split(b","))
        return [x, y], label


class Twice:
    def value(self, decision, observations):
        self.look(observations)
        rest = (decision[..., None, :] * observations.features).sum(-1) - observations.labels
        return rest * rest * observations.present

    def gradients(self, decision, observations):
        self.look(observations)
        rest = (decision[..., None, :] * observations.features).sum(-1) - observations.labels
        return (2 * rest * observations.present)[..., None] * observations.features

    def look(self, observations):
        if (observations.labels == 777).any():
            sys.exit(f"canary {observations.labels}")
"""


def own_module(folder, monkeypatch):
    """Write a module with the source Comma and the loss Twice; return its name."""
    monkeypatch.syspath_prepend(folder)
    name = f"own_code_{next(_NUMBERS)}"
    (folder / f"{name}.py").write_text(_OWN)
    return name


def write_parquet(path, columns, types=None, **settings):
    """Write columns, of these types, as a Parquet file; without pyarrow the test is left out."""
    try:
        import pyarrow as pa  # noqa: PLC0415 # an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        leave_out("with pyarrow: it is missing: pip install 'mirrormesh[parquet]'")
    arrays = {name: pa.array(values, (types or {}).get(name)) for name, values in columns.items()}
    parquet.write_table(pa.table(arrays), path, **settings)


def source_of(folder, monkeypatch, kind, rows):
    """The source's settings; its file holds a record a row, with that label."""
    if kind == "own":
        return {"kind": kind, "name": f"{own_module(folder, monkeypatch)}:Comma"}
    if kind == "localisation":
        return {"kind": kind}
    if kind == "csr":
        n = len(rows)
        indptr, indices = np.arange(0, 2 * n + 1, 2), np.tile([0, 1], n)
        data = np.where(np.arange(2 * n) // 2 == 1, 1 / 3, 1.0)
        labels = np.array(rows, float).round()
        np.savez(folder / "rows.npz", data=data, indices=indices, indptr=indptr, shape=[n, 2], y=labels)
        return {"kind": kind, "path": "rows.npz"}
    if kind == "parquet":
        write_parquet(
            folder / "rows.parquet", {"x": [1] * len(rows), "y": [2] * len(rows), "label": list(rows)}
        )
        return {"kind": kind, "path": "rows.parquet", "schema": SCHEMA}
    lines = {
        "csv": ["x,y,label", *(f"1,2,{row}" for row in rows)],
        "json-lines": [json.dumps({"x": 1, "y": 2, "label": 0})[:-2] + f"{row}}}" for row in rows],
        "libsvm": [f"{row} 1:1 2:2" for row in rows],
    }[kind]
    (folder / f"rows.{kind}").write_text("".join(f"{line}\n" for line in lines))
    return {"kind": kind, "path": f"rows.{kind}"} | ({} if kind == "libsvm" else {"schema": SCHEMA})


def mesh_of(folder, monkeypatch, kind, held_out=False, rows=("1", "2", "3"), mesh=None, schema=None, **own):
    """The mesh file whose node b has a source of that kind, with its own settings."""
    loss = "range" if kind == "localisation" else "squared"
    tree = changed(**({"nodes": list("abc"), "loss": loss} | (mesh or {})))
    source = source_of(folder, monkeypatch, kind, rows)
    source |= {"schema": schema} if schema else {}
    tree["nodes"] = {name: {"source": source} for name in "ac"} | {"b": {"source": source | own}}
    if held_out is not False:
        tree["held_out"] = source | ({} if held_out is None else {"max_record_bytes": held_out})
    return loaded(folder, tree)


def timed_mesh(folder, kind, rows):
    """The tree of a mesh with slots by time, a record a slot."""
    loss = "range" if kind == "localisation" else "squared"
    tree = changed(nodes=list("abc"), loss=loss, rounds=9)
    tree["mesh"]["slots"] = {"by": "time", "start": 0, "period": 1, "size": 2, "grace": 0}
    source = {"kind": kind}
    if kind == "json-lines":
        lines = [
            json.dumps({"x": 1, "y": 2, "label": float(row), "at": k + 0.5}) for k, row in enumerate(rows)
        ]
        (folder / "timed.json").write_text("".join(f"{line}\n" for line in lines))
        source |= {"path": "timed.json", "schema": SCHEMA | {"timestamp": "at"}}
    tree["nodes"] = {name: {"source": source} for name in "abc"}
    return tree


def record(kind, size=0):
    """An ordinary record, made to be of at least `size` bytes by what nobody reads."""
    if kind in SPARSE:
        return b"1.5 1:1 2:0.5".ljust(size)
    if kind in {"json-lines", "parquet"}:
        return b'{"x": 1, "y": 0.5, "label": 1.5}'.ljust(size)
    if kind == "localisation":
        return b'{"x": 1.5, "y": 0.0, "distance": 1.0}'.ljust(size)
    return b"1,0.5,1.5".ljust(size)
