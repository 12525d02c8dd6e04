"""Pilots: public data, dealt to the nodes of many runs at once."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nodes.losses.losses import scores
from nodes.values import FloatArray, Observations
from streams.mesh.settings.mesh import PathSettings, TargetSettings
from streams.mesh.settings.schema import ColumnSettings, SchemaSettings
from streams.records.localisation import NOISE, sensor, target_path
from streams.records.paths import START
from topology.keyed import generator

MOST_NUMBERS = 10_000_000
"""Largest total of numbers in made-up records, about 80 MB."""


class Pilot(Protocol):
    """The source of records for trials."""

    def slots(self, rounds: int, nodes: int, size: int, runs: int, seed: int) -> Iterator[Observations]:
        """Yield the slots of `rounds` rounds, features (runs * nodes, size, p), run by run."""


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """Records (n, p) with labels (n,), drawn with replacement: a stream of any length."""

    features: FloatArray
    labels: FloatArray

    def slots(self, rounds: int, nodes: int, size: int, runs: int, seed: int) -> Iterator[Observations]:
        """Yield slots; every node draws from the whole pilot."""
        present = np.ones((runs * nodes, size), np.bool_)
        for round in range(1, rounds + 1):
            rows = generator("pilot", seed, round).integers(0, len(self.labels), present.shape)
            yield Observations(self.features[rows], self.labels[rows], present)


def made_up(dimension: int, labels: str, seed: int, records: int = 20_000) -> Resampled:
    """Return records on the unit sphere, labelled by a hidden direction; `labels`: signs or numbers.

    One label in ten is wrong (signs), or off by a tenth (numbers). Long records are fewer.
    """
    records = min(records, max(1_000, MOST_NUMBERS // dimension))
    random = generator("made-up", seed)
    features = random.standard_normal((records, dimension))
    features /= np.sqrt((features * features).sum(-1, keepdims=True))
    values = scores(random.standard_normal(dimension), features)
    return Resampled(features, _labels(values, labels, random))


def made_up_by(schema: SchemaSettings, labels: str, seed: int, records: int = 20_000) -> Resampled:
    """Return records with the features of a schema, labelled as those of `made_up`.

    A category is any of a column's with equal chances, or none of them. A number is normal, one with bounds
    uniform between them. Half of the signs are positive.
    """
    records = min(records, max(1_000, MOST_NUMBERS // schema.width))
    random = generator("made-up", seed)
    columns = [_column(column, records, random) for column in schema.features.values()]
    features = np.concatenate([*columns, np.ones((records, int(schema.intercept)))], axis=1)
    if schema.norm is not None:
        lengths = np.sqrt((features * features).sum(-1, keepdims=True))
        features /= np.maximum(lengths / schema.norm, 1.0)
    values = scores(random.standard_normal(schema.width), features)
    return Resampled(features, _labels(values - np.median(values), labels, random))


def _column(settings: ColumnSettings, records: int, random: np.random.Generator) -> FloatArray:
    if settings.number:
        return random.standard_normal((records, 1))
    if settings.width == 1 and settings.categories is None:
        return random.random((records, 1))
    kinds = settings.width + int(settings.categories is not None)
    one_hot = np.zeros((records, kinds))
    one_hot[np.arange(records), random.integers(kinds, size=records)] = 1.0
    return one_hot[:, : settings.width]


def _labels(values: FloatArray, labels: str, random: np.random.Generator) -> FloatArray:
    if labels == "numbers":
        return values + 0.1 * random.standard_normal(values.size)
    wrong = random.random(values.size) < 0.1
    return np.where(values > 0, 1.0, -1.0) * np.where(wrong, -1, 1)


@dataclass(frozen=True, slots=True)
class MovingTargets:
    """Sensors on a circle, and for each run its own target, which starts anywhere within the circle.

    Targets move as in the localisation example, with other starts and coins; with a `speed`, the way of a
    round, in random manoeuvres.
    """

    speed: float | None = None

    def slots(self, rounds: int, nodes: int, size: int, runs: int, seed: int) -> Iterator[Observations]:
        """Yield slots of `size` successive distances."""
        random = generator("pilot-targets", seed)
        positions = np.array([sensor(number, nodes) for number in range(nodes)])
        paths = np.stack([self._path(random, rounds * size, size) for _ in range(runs)])  # (R, T h, 2)
        offsets = paths[:, :, None] - positions
        distances = np.sqrt((offsets * offsets).sum(-1)) + random.uniform(0.0, NOISE, offsets.shape[:-1])
        features = np.broadcast_to(positions[:, None], (runs, nodes, size, 2)).reshape(-1, size, 2)
        present = np.ones((runs * nodes, size), np.bool_)
        for round in range(rounds):
            part = distances[:, round * size : (round + 1) * size].swapaxes(1, 2)
            yield Observations(features, part.reshape(-1, size), present)

    def _path(self, random: np.random.Generator, records: int, size: int) -> FloatArray:
        if self.speed is not None:
            path = PathSettings.model_validate("random-manoeuvre")
            target = TargetSettings(path=path, speed=self.speed / size)
            return target_path(int(random.integers(1 << 32, 1 << 33)), records, target)
        angle, distance = random.uniform(0.0, 2 * math.pi), 1.5 * math.sqrt(random.random())
        start = distance * np.array([math.cos(angle), math.sin(angle)])
        coins = int(random.integers(1 << 32, 1 << 33))
        positions: FloatArray = start + target_path(coins, records) - START
        return positions
