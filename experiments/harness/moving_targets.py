"""Targets that keep moving, at a constant mean speed, and what six sensors on a circle measure of them."""

import math

import numpy as np

from nodes.values import FloatArray, Observations
from streams.records.localisation import sensor
from topology.keyed import generator

NODES = 6
ERROR = 0.01
"""The standard deviation of a distance's error."""
WIDE = 0.9
"""How far a target goes from 0, where all paths begin."""
KINDS = ("eight", "circle", "manoeuvre")


def path(kind: str, seed: int, speed: float, rounds: int) -> FloatArray:
    """Return the target's places, shape (T, 2), a function of the arguments; it begins at 0.

    `eight`: (0.9 sin s, 0.6 sin 2s), turned by any angle and passed in either direction. `circle`: of
    diameter 0.9. `manoeuvre`: it turns as it likes, more and less, and towards 0 when far from it. Of seed 0
    the eight is not turned.
    """
    random = generator("moving-target", kind, seed)
    angle, mirrored = (random.uniform(0, 2 * math.pi), random.random() < 0.5) if seed else (0.0, False)
    steps = speed * np.arange(rounds)
    if kind == "manoeuvre":
        return _manoeuvre(random, angle, speed, rounds)
    if kind == "eight":
        s = steps / 1.034  # the mean length of the derivative
        found = np.stack((WIDE * np.sin(s), 0.6 * np.sin(2 * s)), -1)
    else:
        s = steps / (WIDE / 2)
        found = WIDE / 2 * np.stack((1 - np.cos(s), np.sin(s)), -1)
    if mirrored:
        found[:, 1] *= -1
    turned: FloatArray = found @ np.array(
        [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    )
    return turned


def _manoeuvre(random: np.random.Generator, heading: float, speed: float, rounds: int) -> FloatArray:
    found, at, turn = np.empty((rounds, 2)), np.zeros(2), 0.0
    kept = math.exp(-speed / 0.3)  # a turn lasts for 0.3 of the way
    for t, kick in enumerate(random.standard_normal(rounds)):
        found[t] = at
        turn = kept * turn + math.sqrt(1 - kept * kept) * 2.0 * kick  # radians a length
        far = math.hypot(*at) > WIDE
        home = math.remainder(math.atan2(-at[1], -at[0]) - heading, 2 * math.pi)
        heading += speed * (math.copysign(4.0, home) if far and abs(home) > 0.5 else turn)
        at = at + speed * np.array([math.cos(heading), math.sin(heading)])
    return found


def sensors() -> FloatArray:
    """Return the sensors' places, shape (N, 2)."""
    return np.array([sensor(number, NODES) for number in range(NODES)])


def distances(targets: FloatArray, seed: int) -> FloatArray:
    """Return what the sensors measure of targets (T, R, 2), shape (T, R, N), with errors of that seed."""
    offsets = targets[..., None, :] - sensors()
    errors = generator("moving-errors", seed).standard_normal(offsets.shape[:-1])
    found: FloatArray = np.sqrt((offsets * offsets).sum(-1)) + ERROR * errors
    return found


def slot(measured: FloatArray, copies: int = 1) -> Observations:
    """Return a round's slot (copies R N, 1) of the distances (R, N); each copy has the same."""
    labels = np.tile(measured.reshape(-1, 1), (copies, 1))
    features = np.tile(sensors(), (len(labels) // NODES, 1))[:, None]
    return Observations(features, labels, np.ones(labels.shape, np.bool_))
