"""What it takes to decode a record: `python -m tests.benchmarks.decoding`, also in `make bench`.

Slots of records decoded at once, beside the same decoder record by record and beside a bare loop that only
splits and converts them. And `run` on Adult, from its file to the last round, and `predict` on its other
rows, beside river's pipeline, if river is installed. Processor time in us a record; all forms take turns, and
ratios are of one turn.
"""

import csv
import gzip
import importlib.util
import io
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import orjson

import mirrormesh
from streams.bus.registry import Definition
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.file import load
from streams.mesh.settings.node import TopicSettings
from streams.mesh.settings.schema import SchemaSettings
from streams.records.decoder import SchemaDecoder, json_fields
from streams.records.messages import Messages
from streams.records.observed import observed
from streams.records.parquet import RowDecoder, RowFields, parquet_lines, parquet_row_values
from streams.records.sources import decoder
from tests.benchmarks.spreads import spread
from tests.support.brokers.avro import message
from tests.support.brokers.avro import record as record_of

INCOME = Path(__file__).parents[2] / "deploy" / "meshes" / "income.yaml"
TURNS, RECORDS = 9, 2_000
NUMBERS = ("age", "education-num", "hours-per-week", "capital-gain", "capital-loss")
WORDS = (
    *("workclass", "marital-status", "occupation", "relationship"),
    *("race", "sex", "native-country"),
)


def timed(work: Callable[[], object], records: int) -> float:
    """Return the processor time of a call, in us a record."""
    began = time.process_time()
    work()
    return 1e6 * (time.process_time() - began) / records


def compare(title: str, records: int, forms: dict[str, Callable[[], object]], count: int = TURNS) -> None:
    """Measure the forms in so many turns; print each one's time, and its ratio to the first."""
    for work in forms.values():
        work()
    turns = [{name: timed(work, records) for name, work in forms.items()} for _ in range(count)]
    first = next(iter(forms))
    for name in forms:
        times, ratios = [turn[name] for turn in turns], [turn[name] / turn[first] for turn in turns]
        print(f"{title:24} {name:24} {spread(times, 2)} us a record, {spread(ratios, 2)} of the first")


def alone(slots: list[tuple[bytes, ...]], read: SchemaDecoder) -> None:
    """Decode record by record."""
    for values in slots:
        features, labels = np.zeros((len(values), read.dimension)), np.zeros(len(values))
        for k, value in enumerate(values):
            pair = read.decode(value)
            assert pair is not None
            features[k], labels[k] = pair


def json_objects(dimension: int, size: int) -> None:
    """Compare on JSON objects of numbers, in slots of that size."""
    chance = np.random.Generator(np.random.Philox(1))
    names = [*(f"x{k}" for k in range(dimension)), "y"]
    tree = {"features": dict.fromkeys(names[:-1], "number"), "label": {"column": "y"}}
    read = SchemaDecoder(SchemaSettings.model_validate(tree), json_fields)
    rows = chance.normal(size=(RECORDS, len(names))).tolist()
    lines = [json.dumps(dict(zip(names, row, strict=True))).encode() for row in rows]
    slots = [tuple(lines[k : k + size]) for k in range(0, RECORDS, size)]

    def bare() -> None:
        for values in slots:
            np.array([list(orjson.loads(value).values()) for value in values])

    compare(
        f"JSON, d = {dimension}, h = {size:,}",
        RECORDS,
        {
            "bare orjson and numpy": bare,
            "a slot at once": lambda: [observed(values, read) for values in slots],
            "record by record": lambda: alone(slots, read),
        },
    )


def parquet(folder: Path, dimension: int, size: int) -> None:
    """Compare on a Parquet file of numbers, from the file to arrays in slots of that size."""
    arrow = importlib.import_module("pyarrow")
    files = importlib.import_module("pyarrow.parquet")
    chance = np.random.Generator(np.random.Philox(1))
    names = [*(f"x{k}" for k in range(dimension)), "y"]
    path, records = str(folder / "rows.parquet"), 10 * RECORDS
    files.write_table(arrow.table({name: chance.normal(size=records) for name in names}), path)
    tree = {"features": dict.fromkeys(names[:-1], "number"), "label": {"column": "y"}}
    schema = SchemaSettings.model_validate(tree)

    def bare() -> None:
        table = files.read_table(path, use_threads=False)
        np.column_stack([table.column(name).to_numpy() for name in names])

    def slots(values: Iterator[bytes], read: SchemaDecoder) -> None:
        while slot := tuple(islice(values, size)):
            observed(slot, read)

    compare(
        f"Parquet, d = {dimension}, h = {size:,}",
        records,
        {
            "bare pyarrow and numpy": bare,
            "by columns": lambda: slots(
                parquet_row_values(path, names, schema), RowDecoder(schema, RowFields())
            ),
            "by lines": lambda: slots(parquet_lines(path, names), SchemaDecoder(schema, json_fields)),
        },
        5,
    )


def avro_records(dimension: int, size: int, *, nested: bool = False) -> None:
    """Compare on Avro records of nullable doubles, in slots of that size; nested: in an envelope."""
    chance = np.random.Generator(np.random.Philox(1))
    names = [*(f"x{k}" for k in range(dimension)), "y"]
    row: dict[str, Any] = record_of("Row", **{name: ["null", "double"] for name in names})
    schema = record_of("Envelope", after=["null", row], op="string") if nested else row
    tree = {"features": dict.fromkeys(names[:-1], "number"), "label": {"column": "y"}}
    settings: dict[str, Any] = {"kind": "topic", "topic": "t", "schema": tree, "format": "avro"}
    settings |= {"registry": {"url": "http://127.0.0.1:1"}, "value": "after" if nested else None}
    source = TopicSettings.model_validate(settings)
    read = SchemaDecoder(source.record, Messages(source))
    assert read.schemas is not None
    read.schemas.learn(1, Definition("AVRO", json.dumps(schema)))
    rows = [dict(zip(names, one, strict=True)) for one in chance.normal(size=(RECORDS, len(names))).tolist()]
    lines = [message(1, schema, {"after": one, "op": "c"} if nested else one) for one in rows]
    slots = [tuple(lines[k : k + size]) for k in range(0, RECORDS, size)]
    parsed = fastavro.parse_schema(schema)

    def bare() -> None:
        for values in slots:
            for value in values:
                fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed, None)

    compare(
        f"Avro, d = {dimension}, h = {size:,}{', nested' if nested else ''}",
        RECORDS,
        {
            "bare fastavro": bare,
            "a slot at once": lambda: [observed(values, read) for values in slots],
            "record by record": lambda: alone(slots, read),
        },
    )


def adult() -> None:
    """Compare on Adult's CSV, in the slots of the example."""
    read = decoder(load(INCOME), "bank-1")
    assert isinstance(read, SchemaDecoder)
    with gzip.open(INCOME.parent / "adult" / "adult_train.csv.gz") as file:
        lines = file.read().splitlines()[1 : RECORDS + 1]
    slots = [tuple(lines[k : k + 220]) for k in range(0, RECORDS, 220)]
    compare(
        "Adult's CSV, h = 220",
        RECORDS,
        {
            "bare csv": lambda: list(csv.reader(io.StringIO(b"\n".join(lines).decode()))),
            "a slot at once": lambda: [observed(values, read) for values in slots],
            "record by record": lambda: alone(slots, read),
        },
    )


def run(folder: Path) -> None:
    """Compare `run` and `predict` on Adult with river's pipeline on the same files and columns."""
    file = load(INCOME)
    rounds, size = file.mesh.rounds or 0, file.mesh.slots.size

    def whole_run() -> None:
        local = LocalRun(mesh_parts(file))
        local.mesh.run()
        local.mesh.close()

    learning: dict[str, Callable[[], object]] = {"mirrormesh run": whole_run}
    arrays, _ = mirrormesh.write_model(
        folder / "model", mirrormesh.run_model(file, mirrormesh.run(file).summary)
    )
    test = INCOME.parent / "adult" / "adult_test.csv.gz"
    predicting: dict[str, Callable[[], object]] = {
        "mirrormesh predict": lambda: mirrormesh.predict(arrays, str(test))
    }
    if importlib.util.find_spec("river") is not None:
        learning["river's pipeline"] = lambda: _river_learns(_river())
        model = _river()
        _river_learns(model)
        predicting["river's pipeline"] = lambda: [model.predict_one(record) for record, _ in _rows(test)]
    else:
        print("river is not installed: no comparison with it")
    compare("Adult, learning", rounds * size * len(file.mesh.nodes), learning, 3)
    compare("Adult, predicting", sum(1 for _ in _rows(test)), predicting, 3)


def _river() -> Any:
    """Scaler, one-hot and logistic regression, as river's own examples have them.

    It gets the columns that our schema has, and no others: with `fnlwgt` as words it would learn some 20,000
    coordinates, and take many times as long.
    """
    from river import compose, linear_model, preprocessing  # noqa: PLC0415 # no dependency of ours

    numbers = compose.Select(*NUMBERS) | preprocessing.StandardScaler()
    words = compose.Select(*WORDS) | preprocessing.OneHotEncoder()
    return (numbers + words) | linear_model.LogisticRegression()


def _river_learns(model: Any) -> None:
    """Learn from all rows, one by one."""
    for record, label in _rows(INCOME.parent / "adult" / "adult_train.csv.gz"):
        model.learn_one(record, label)


def _rows(path: Path) -> Iterator[tuple[dict[str, object], bool]]:
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            record = {name: float(row[name]) for name in NUMBERS} | {name: row[name] for name in WORDS}
            yield record, row["income"] == ">50K"


def main() -> None:
    """Measure, and print."""
    for dimension, size in ((2, 1000), (10, 1000), (55, 1000), (2, 8)):
        json_objects(dimension, size)
    for size, nested in ((32, False), (256, False), (256, True)):
        avro_records(20, size, nested=nested)
    adult()
    with tempfile.TemporaryDirectory() as name:
        if importlib.util.find_spec("pyarrow") is None:
            print("pyarrow is not installed: no Parquet")
        else:
            for dimension in (2, 55):
                parquet(Path(name), dimension, 1000)
        run(Path(name))


if __name__ == "__main__":
    main()
