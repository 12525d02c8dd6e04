"""Two data sets of the shape that first users bring: three banks' card payments, three sensors' readings.

`python -m tests.support.meshes.first_users FOLDER` writes both, with their mesh files.
"""

import csv
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import yaml

from nodes.values import FloatArray

BANKS = {"bank-a": 9_000, "bank-b": 6_000, "bank-c": 5_000}
HELD_OUT, PUBLIC = 8_000, 3_000
SENSORS = ("attic", "cellar", "hall")
READINGS = 3_000  # of each sensor
OPEN = "mechanism: none, gradient_bound: 20"
PRIVATE = "mechanism: gaussian-bisr, epsilon: 10, delta: 1.0e-6, gradient_bound: 5"
_START = datetime(2026, 3, 2, tzinfo=UTC)
_SHOPS, _CHANNELS = ("grocery", "fuel", "travel", "electronics", "gambling"), ("chip", "web", "phone")
_PAYMENT = ("id", "time", "amount", "age_days", "shop", "channel", "abroad", "is_fraud")
_READING = ("time", "outside", "humidity", "fan", "inside")

PAYMENTS_MESH = """
mesh:
  name: payments
  run: run-1
  nodes: []
  dimension: 40
  algorithm:
    name: dola
    constraint: {l2-ball: 8}
    step_size: {rule: inverse-sqrt, a: 4}
  loss: logistic
  class_weights: [1, 20]
  slots: {by: count, size: 50}
  privacy: {PRIVACY}
  topology: {graph: complete}
  rounds: 100
"""
PAYMENTS_SCHEMA = """
features:
  amount: {log: [1, 10000]}
  age_days: {buckets: [30, 90, 365]}
  time: {hour: UTC}
  shop: {categories: [grocery, fuel, travel, electronics, gambling]}
  channel: {categories: [chip, web, phone]}
  abroad: {categories: ["0", "1"]}
intercept: true
norm: 2
label: {column: is_fraud, positive: [fraud], negative: [ok]}
"""
READINGS_MESH = """
mesh:
  name: readings
  run: run-1
  nodes: []
  dimension: 4
  algorithm:
    name: dola
    constraint: {l2-ball: 8}
    step_size: {rule: inverse-sqrt, a: 1}
  loss: squared
  slots: {by: time, period: PERIOD, start: 2026-03-02T00:00:00Z, size: 30, grace: 0.2}
  privacy: {PRIVACY}
  topology: {graph: complete}
  rounds: 100
"""
READINGS_SCHEMA = """
features:
  outside: {bounds: [-10, 40]}
  humidity: {bounds: [0, 100]}
  fan: {bounds: [0, 1]}
intercept: true
label: {column: inside}
timestamp: time
"""


def payments(folder: Path, privacy: str = OPEN, mark: str = "") -> Path:
    """Write the banks' files, held-out and public ones; return the mesh file (names end in `mark`)."""
    random = np.random.default_rng(1)
    for name, count in (BANKS | {"held-out": HELD_OUT, "public": PUBLIC}).items():
        _write(folder / f"{name}.csv", _PAYMENT, _payments(random, name, count))
    return _mesh(folder, PAYMENTS_MESH, PAYMENTS_SCHEMA, BANKS, privacy, mark)


def readings(folder: Path, privacy: str = OPEN, mark: str = "", every: float = 60) -> Path:
    """Do the same for the sensors; `every`: seconds between two readings."""
    random = np.random.default_rng(2)
    for name in (*SENSORS, "held-out"):
        _write(folder / f"{name}.csv", _READING, _readings(random, every))
    mesh = READINGS_MESH.replace("PERIOD", str(30 * every))
    return _mesh(folder, mesh, READINGS_SCHEMA, SENSORS, privacy, mark)


def on_broker(path: Path, servers: str) -> None:
    """Let the mesh of that file use one trusted broker."""
    tree = yaml.safe_load(path.read_text())
    tree["brokers"] = {"mesh": {"servers": servers}, "data": {"servers": servers}, "trust_broker": True}
    path.write_text(yaml.safe_dump(tree, sort_keys=False))


def _mesh(folder: Path, mesh: str, schema: str, nodes: Iterable[str], privacy: str, mark: str) -> Path:
    (folder / "schema.yaml").write_text(schema)
    tree = yaml.safe_load(mesh.replace("PRIVACY", privacy))
    tree["mesh"]["name"] += mark
    tree["mesh"]["nodes"] = [name + mark for name in nodes]
    source = {"kind": "csv", "schema": "schema.yaml"}
    tree["nodes"] = {name + mark: {"source": {**source, "path": f"{name}.csv"}} for name in nodes}
    tree["held_out"] = {**source, "path": "held-out.csv"}
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return path


def _payments(random: np.random.Generator, name: str, count: int) -> Iterable[Sequence[object]]:
    """About one in fifty is a fraud: dear, at night, on the web, abroad, with a young card."""
    amount = np.clip(np.exp(random.normal(3.4, 1.3, count)), 1, 10_000)
    age = random.integers(1, 2_000, count)
    shop, channel = random.integers(len(_SHOPS), size=count), random.integers(len(_CHANNELS), size=count)
    abroad = random.random(count) < 0.1
    seconds = np.sort(random.integers(30 * 86_400, size=count))
    night = seconds % 86_400 < 6 * 3_600
    score = 0.9 * np.log(amount) + 1.2 * (channel == 1) + 1.6 * abroad + 1.0 * night
    odds = score + 1.5 * (shop == 4) + 1.0 * (age < 90) - 9.2
    fraud = random.random(count) < 1 / (1 + np.exp(-odds))
    for k in range(count):
        yield (
            f"{name}-{k}",
            (_START + timedelta(seconds=int(seconds[k]))).isoformat(),
            f"{amount[k]:.2f}",
            age[k],
            _SHOPS[shop[k]],
            _CHANNELS[channel[k]],
            int(abroad[k]),
            "fraud" if fraud[k] else "ok",
        )


def _readings(random: np.random.Generator, every: float) -> Iterable[Sequence[object]]:
    """How warm it is inside depends on the weather and the fan, with an error of 0.11."""
    minutes = np.arange(READINGS)
    outside = 12 + 8 * np.sin(2 * np.pi * minutes / 1_440) + random.normal(0, 1, READINGS)
    humidity = np.clip(random.normal(55, 15, READINGS), 0, 100)
    fan = (random.random(READINGS) < 0.4).astype(float)
    features: FloatArray = np.stack([(outside + 10) / 50, humidity / 100, fan], axis=1)
    inside = features @ [3.0, -0.6, -0.7] + 0.4 + random.normal(0, 0.11, READINGS)
    for k in range(READINGS):
        time = (_START + timedelta(seconds=every * k)).isoformat()
        yield time, f"{outside[k]:.2f}", f"{humidity[k]:.1f}", fan[k], f"{inside[k]:.3f}"


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


if __name__ == "__main__":
    for make in (payments, readings):
        where = Path(sys.argv[1]) / make.__name__
        where.mkdir(parents=True)
        make(where)
