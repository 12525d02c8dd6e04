"""One query's pass over an owner's set, by its file: `python -m tests.benchmarks.passes [parquet=10000000]`.

20 columns of made-up numbers, squared loss. Processor time of one pass, and how much the process's memory
grew while it read.
"""

import csv
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from nodes.collaboration.messages import ReadSet
from streams.collaboration.passes import passes
from streams.mesh.file import load_any

COLUMNS = [f"x{k}" for k in range(20)]
CASES = {"parquet": 10_000_000, "csv": 1_000_000, "json-lines": 1_000_000, "libsvm": 1_000_000}
_BLOCK = 100_000
_OWN = {"csv": "", "parquet": "", "json-lines": "", "libsvm": ", label: {}"}


def blocks(rows: int) -> Iterator[np.ndarray]:
    """Yield blocks of rows, 20 features and a label each."""
    random = np.random.default_rng(1)
    for first in range(0, rows, _BLOCK):
        yield random.normal(size=(min(_BLOCK, rows - first), len(COLUMNS) + 1)).round(4)


def write(path: Path, kind: str, rows: int) -> None:
    """Write the records as a file of that kind."""
    names = [*COLUMNS, "label"]
    if kind == "parquet":
        schema = pa.schema([(name, pa.float64()) for name in names])
        with parquet.ParquetWriter(path, schema) as out:
            for block in blocks(rows):
                out.write_table(pa.table(list(block.T), schema=schema))
        return
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        if kind == "csv":
            writer.writerow(names)
        for row in (row for block in blocks(rows) for row in block.tolist()):
            if kind == "csv":
                writer.writerow(row)
            elif kind == "json-lines":
                out.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")
            else:
                out.write(f"{row[-1]} " + " ".join(f"{k + 1}:{x}" for k, x in enumerate(row[:-1])) + "\n")


def mesh_file(folder: Path, kind: str, rows: int) -> Path:
    """Write the mesh file of one owner."""
    columns = ", ".join(f"{name}: {{number: true}}" for name in COLUMNS)
    schema = f", schema: {{features: {{{columns}}}, label: {{column: label}}}}"
    path = folder / "mesh.yaml"
    path.write_text(f"""\
mesh:
  kind: collaboration
  name: bench
  run: first
  learner: analyst
  owners: {{bank: {{records: {rows}, epsilon: 1}}}}
  dimension: {len(COLUMNS)}
  loss: squared
  constraint: {{l2-ball: 10}}
  algorithm: {{name: averaged, step: 1}}
  queries: 10
  gradient_bound: 1
owners: {{bank: {{source: {{kind: {kind}, path: records{_OWN[kind] or schema}}}}}}}
""")
    return path


def measured(kind: str, rows: int) -> str:
    """Return a line about one pass; it is written and read in a process each, so memory is the reading's."""
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as name,
        ProcessPoolExecutor(1, context, max_tasks_per_child=1) as apart,
    ):
        folder = Path(name)
        apart.submit(write, folder / "records", kind, rows).result()
        seconds, grown = apart.submit(one_pass, mesh_file(folder, kind, rows), rows).result()
        size = (folder / "records").stat().st_size
        return (
            f"{kind:12}{rows:>12,} rows, {size / 1e6:,.0f} MB: {seconds:,.1f} s, "
            f"{1e6 * seconds / rows:.1f} us a record, memory {grown:+.0f} MiB"
        )


def one_pass(path: Path, rows: int) -> tuple[float, float]:
    """Return the processor time of a pass in seconds, and by how many MiB it made the process larger."""
    found = passes(load_any(path), "bank")
    found.read(ReadSet(1, np.zeros(len(COLUMNS))), iter([True, False]).__next__)  # loads what it needs
    before, began = memory(), time.process_time()
    read = found.read(ReadSet(1, np.zeros(len(COLUMNS))))
    seconds = time.process_time() - began
    if read is None or read.set.records != rows:
        raise ValueError(f"{path}: not all of the {rows} records were read")
    return seconds, memory() - before


def memory() -> float:
    """Return the most memory that the process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    wanted = dict(argument.split("=") for argument in sys.argv[1:])
    for one, count in wanted.items() or CASES.items():
        print(measured(one, int(count)), flush=True)
