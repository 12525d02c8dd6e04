"""The localisation example: sensors measure their distances to a moving target (Zhou, Li 2025, section 5)."""

import math
from collections.abc import Iterator

import numpy as np

from nodes.values import FloatArray
from topology.keyed import generator

START = (0.8, 0.95)
"""The target's position in round 1."""
CIRCLE = 1.5
"""The sensors' distance from 0. The paper has all at the target's start, which finds nothing: a misprint."""
NOISE = 0.001
"""Largest error of a distance: a uniform draw from 0 to this is added."""
_BLOCK = 256


def target_path(seed: int, rounds: int) -> FloatArray:
    """Return the target's positions in rounds 1 to `rounds`, shape (T, 2): a function of `seed`.

    x_{t+1} = x_t + ((-1)^q_t sin(t/50)/(10 t), -q_t cos(t/70)/(40 t)), q_t a fair coin.
    """
    path = np.empty((rounds, 2))
    for first, block in zip(range(0, rounds, _BLOCK), _path_blocks(seed), strict=False):
        path[first : first + _BLOCK] = block[: rounds - first]
    return path


def sensor(number: int, sensors: int) -> tuple[float, float]:
    """Return the position of sensor `number` (from 0): 1.5 (cos, sin)(2 pi number/sensors)."""
    angle = 2 * math.pi * number / sensors
    return CIRCLE * math.cos(angle), CIRCLE * math.sin(angle)


def measurements(
    seed: int, number: int, position: tuple[float, float], *, truth: bool = False
) -> Iterator[bytes]:
    """Yield one record per round without end: JSON with the sensor's `x`, `y` and measured `distance`.

    With `truth` also the target's position: `target_x`, `target_y`. A function of the arguments alone.
    """
    x, y = position
    template = f'{{"x": {x!r}, "y": {y!r}, "distance": %r'
    for index, block in enumerate(_path_blocks(seed)):
        offsets = block - np.array(position)
        errors = generator("localisation", seed, number, index).uniform(0.0, NOISE, len(block))
        distances = (np.sqrt((offsets * offsets).sum(-1)) + errors).tolist()
        for distance, at in zip(distances, block.tolist(), strict=True):
            target = ', "target_x": {!r}, "target_y": {!r}'.format(*at) if truth else ""
            yield f"{template % distance}{target}}}".encode()


def _path_blocks(seed: int) -> Iterator[FloatArray]:
    """Yield the path, `_BLOCK` rounds at a time."""
    at = np.array(START)
    first = 1
    while True:
        t = np.arange(first, first + _BLOCK)
        q = generator("target", seed, first).integers(0, 2, _BLOCK)
        moves = np.stack(((1 - 2 * q) * np.sin(t / 50) / (10 * t), -q * np.cos(t / 70) / (40 * t)), -1)
        reached = at + np.add.accumulate(moves)
        yield np.concatenate((at[None], reached[:-1]))
        at, first = reached[-1], first + _BLOCK
