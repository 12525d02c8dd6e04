"""Two data sets as first users bring them: card payments of three banks, and readings of three sensors.

`python -m tests.support.first_users FOLDER` writes both, with their mesh files.
"""

import csv
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from nodes.values import FloatArray

BANKS = {"bank-a": 9_000, "bank-b": 6_000, "bank-c": 5_000}
HELD_OUT, PUBLIC = 8_000, 3_000
SENSORS = ("attic", "cellar", "hall")
READINGS = 3_000  # of each sensor, one a minute
_START = datetime(2026, 3, 2, tzinfo=UTC)
_SHOPS, _CHANNELS = ("grocery", "fuel", "travel", "electronics", "gambling"), ("chip", "web", "phone")
_PAYMENT = ("id", "time", "amount", "age_days", "shop", "channel", "abroad", "is_fraud")
_READING = ("time", "outside", "humidity", "fan", "inside")

PAYMENTS_MESH = """
mesh:
  name: payments
  run: run-1
  nodes: [bank-a, bank-b, bank-c]
  dimension: 40
  algorithm:
    name: dola
    constraint: {l2-ball: 8}
    step_size: {rule: inverse-sqrt, a: 4}
  loss: logistic
  class_weights: [1, 20]
  slots: {by: count, size: 50}
  privacy: {mechanism: MECHANISM}
  topology: {graph: complete}
  rounds: 100
nodes:
  bank-a: {source: {kind: csv, path: bank-a.csv, schema: schema.yaml}}
  bank-b: {source: {kind: csv, path: bank-b.csv, schema: schema.yaml}}
  bank-c: {source: {kind: csv, path: bank-c.csv, schema: schema.yaml}}
held_out: {kind: csv, path: held-out.csv, schema: schema.yaml}
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
norm: 1
label: {column: is_fraud, positive: [fraud], negative: [ok]}
"""
READINGS_MESH = """
mesh:
  name: readings
  run: run-1
  nodes: [attic, cellar, hall]
  dimension: 4
  algorithm:
    name: dola
    constraint: {l2-ball: 8}
    step_size: {rule: inverse-sqrt, a: 1}
  loss: squared
  slots: {by: time, period: 1800, start: 2026-03-02T00:00:00Z, size: 30, grace: 0.2}
  privacy: {mechanism: MECHANISM}
  topology: {graph: complete}
  rounds: 100
nodes:
  attic: {source: {kind: csv, path: attic.csv, schema: schema.yaml}}
  cellar: {source: {kind: csv, path: cellar.csv, schema: schema.yaml}}
  hall: {source: {kind: csv, path: hall.csv, schema: schema.yaml}}
held_out: {kind: csv, path: held-out.csv, schema: schema.yaml}
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


def payments(folder: Path, mechanism: str) -> Path:
    """Write the banks' files, the held-out ones and the public ones; return the mesh file."""
    random = np.random.default_rng(1)
    for name, count in (BANKS | {"held-out": HELD_OUT, "public": PUBLIC}).items():
        _write(folder / f"{name}.csv", _PAYMENT, _payments(random, name, count))
    (folder / "schema.yaml").write_text(PAYMENTS_SCHEMA)
    path = folder / "payments.yaml"
    path.write_text(PAYMENTS_MESH.replace("MECHANISM", mechanism))
    return path


def readings(folder: Path, mechanism: str) -> Path:
    """Write the sensors' files and the held-out ones; return the mesh file."""
    random = np.random.default_rng(2)
    for name in (*SENSORS, "held-out"):
        _write(folder / f"{name}.csv", _READING, _readings(random))
    (folder / "schema.yaml").write_text(READINGS_SCHEMA)
    path = folder / "readings.yaml"
    path.write_text(READINGS_MESH.replace("MECHANISM", mechanism))
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
    odds = score + 1.5 * (shop == 4) + 1.0 * (age < 90) - 9.7
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


def _readings(random: np.random.Generator) -> Iterable[Sequence[object]]:
    """How warm it is inside depends on the weather and the fan, with an error of 0.11."""
    minutes = np.arange(READINGS)
    outside = 12 + 8 * np.sin(2 * np.pi * minutes / 1_440) + random.normal(0, 1, READINGS)
    humidity = np.clip(random.normal(55, 15, READINGS), 0, 100)
    fan = (random.random(READINGS) < 0.4).astype(float)
    features: FloatArray = np.stack([(outside + 10) / 50, humidity / 100, fan], axis=1)
    inside = features @ [3.0, -0.6, -0.7] + 0.4 + random.normal(0, 0.11, READINGS)
    for k in range(READINGS):
        time = (_START + timedelta(minutes=int(minutes[k]))).isoformat()
        yield time, f"{outside[k]:.2f}", f"{humidity[k]:.1f}", fan[k], f"{inside[k]:.3f}"


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


if __name__ == "__main__":
    for make in (payments, readings):
        where = Path(sys.argv[1]) / make.__name__
        where.mkdir(parents=True)
        sys.stdout.write(f"{make(where, 'none')}\n")
