"""The localisation example: sensors measure a target that moves (Zhou, Li 2025, section 5)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nodes.values import BoolArray, FloatArray
from streams.mesh.settings.algorithm import LossSettings
from streams.mesh.settings.mesh import TargetSettings
from streams.mesh.settings.node import LocalisationSettings
from streams.records.paths import positions
from topology.keyed import generator

CIRCLE = 1.5
"""The sensors' distance from 0. The paper puts all at the target's start, a misprint: no position can be
found from there."""
NOISE = 0.001
"""Largest error of a measurement unless settings say otherwise: a uniform draw from 0 to this is added."""
LABELS = {"bearing": "bearing", "range-difference": "difference"}
"""The column of a measurement by its loss; `distance` for losses that are not listed."""
_PAPER = TargetSettings()
_RANGE = LossSettings.model_validate("range")


def target_path(seed: int, rounds: int, target: TargetSettings = _PAPER) -> FloatArray:
    """Return the target's positions in rounds 1 to `rounds`, one record a round, shape (T, 2).

    It is a function of the arguments alone.
    """
    path = np.empty((rounds, 2))
    first = 0
    for block in positions(target.path, target.speed or 0.0, seed):
        if first >= rounds:
            break
        path[first : first + len(block)] = block[: rounds - first]
        first += len(block)
    return path


def last_target(seed: int, rounds: int, target: TargetSettings, size: int) -> FloatArray:
    """Return the target's position (2,) at the last record of so many rounds, of `size` records each."""
    slowed = target.model_copy(update={"speed": (target.speed or 0.0) / size})
    position: FloatArray = target_path(seed, rounds * size, slowed)[-1]
    return position


def sensor(number: int, sensors: int) -> tuple[float, float]:
    """Return the position of sensor `number` (from 0): 1.5 (cos, sin)(2 pi number/sensors)."""
    angle = 2 * math.pi * number / sensors
    return CIRCLE * math.cos(angle), CIRCLE * math.sin(angle)


class Reading(NamedTuple):
    """A record as JSON.

    `sent` False: the record is lost, and this value without its measurement takes its place.
    """

    value: bytes
    sent: bool


@dataclass(frozen=True, slots=True)
class Readings:
    """The measurements of a simulated sensor. They are a function of the fields alone.

    `number`: the sensor's number, which chooses its errors. `settings`: the sensor's settings. `loss` decides
    what it measures: the angle to the target, its distance from the target, or this distance minus the
    reference's. `size`: the number of its records in a round.
    """

    seed: int
    number: int
    position: tuple[float, float]
    settings: LocalisationSettings
    target: TargetSettings = _PAPER
    loss: LossSettings = _RANGE
    size: int = 1

    def __iter__(self) -> Iterator[Reading]:
        """Yield a reading for each record, without end: JSON with the sensor's `x`, `y` and its measurement.

        With `truth` it also has the target's position, `target_x` and `target_y`. A target out of reach, or
        in a round before the first or after the last, is not measured. A record that is lost, or of such a
        round, is not sent.
        """
        x, y = self.position
        place = f'{{"x": {x!r}, "y": {y!r}'
        column = LABELS.get(self.loss.name, "distance")
        step = (self.target.speed or 0.0) / self.size
        for index, block in enumerate(positions(self.target.path, step, self.seed)):
            measured = self._measured(block, index)
            is_sent = in_reach = self._sent(len(block), index)
            if self.settings.reach is not None:
                in_reach = is_sent & (self._distances(block, self.position) <= self.settings.reach)
            rows = zip(measured.tolist(), in_reach.tolist(), is_sent.tolist(), block.tolist(), strict=True)
            for label, reached, goes, at in rows:
                label_text = f', "{column}": {label!r}' if reached else ""
                truth = ', "target_x": {!r}, "target_y": {!r}'.format(*at) if self.settings.truth else ""
                yield Reading(f"{place}{label_text}{truth}}}".encode(), goes)

    def _measured(self, block: FloatArray, index: int) -> FloatArray:
        """Return the measurements of a block of positions, with their errors."""
        random = generator("localisation", self.seed, self.number, index)
        if self.settings.noise is None:
            errors = random.uniform(0.0, NOISE, len(block))
        else:
            errors = self.settings.noise * random.standard_normal(len(block))
        if self.settings.outliers is not None:
            random, outliers = generator("outliers", self.seed, self.number, index), self.settings.outliers
            hit = random.random(len(block)) < outliers.share
            errors = errors + np.where(hit, random.uniform(0.0, outliers.excess, len(block)), 0.0)
        return self._exact(block) + errors

    def _exact(self, block: FloatArray) -> FloatArray:
        if self.loss.bearing is not None:
            offsets = block - np.array(self.position)
            angles: FloatArray = np.arctan2(offsets[:, 1], offsets[:, 0])
            return angles
        distances = self._distances(block, self.position)
        if self.loss.range_difference is not None:
            return distances - self._distances(block, self.loss.range_difference.reference)
        return distances

    @staticmethod
    def _distances(block: FloatArray, place: tuple[float, ...]) -> FloatArray:
        offsets = block - np.array(place)
        distances: FloatArray = np.sqrt((offsets * offsets).sum(-1))
        return distances

    def _sent(self, count: int, index: int) -> BoolArray:
        """Return which of a block's records are sent."""
        settings, last = self.settings, self.settings.last or math.inf
        rounds = 1 + (index * count + np.arange(count)) // self.size
        is_sent: BoolArray = (rounds >= settings.first) & (rounds <= last)
        if settings.dropouts:
            random = generator("dropouts", self.seed, self.number, index)
            is_sent &= random.random(count) >= settings.dropouts
        return is_sent
