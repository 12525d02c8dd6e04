"""Positions of a made-up target: curves that it follows at a constant speed, and random manoeuvres."""

import math
from collections.abc import Callable, Iterator

import numpy as np

from nodes.values import FloatArray
from streams.mesh.settings.mesh import PathSettings
from topology.keyed import generator

START = (0.8, 0.95)
"""Where `still` is, and `paper` begins."""
RADIUS = 0.9
"""The radius of the circle, and half of the figure of eight's width. Its height is two thirds of its
width."""
_BLOCK = 256
_CHORDS = 1 << 14
_TURN = 4.0
"""The largest curvature of a manoeuvre, that of a circle of radius 1/4."""
_LEG = (0.2, 1.2)
"""The shortest and the longest leg of a manoeuvre."""
_NEAR = 0.9
"""The distance from 0 at which a manoeuvre turns back."""
_STRIDE = 0.05
"""The longest step of a manoeuvre. A longer way is made of several steps."""


def positions(path: PathSettings, step: float, seed: int) -> Iterator[FloatArray]:
    """Yield the target's positions without end, in arrays (256, 2). `step`: the way from one to the next.

    It is a function of the arguments alone. Only `paper` and `random-manoeuvre` depend on `seed`.
    """
    if path.paper:
        return _paper(seed)
    if path.random_manoeuvre:
        return _in_blocks(_manoeuvre(seed, step))
    if path.still:
        return _along(_through(np.array([START])), 0.0)
    if path.waypoints is not None:
        return _along(_through(np.array(path.waypoints)), step)
    return _along(_curve(_circle if path.circle else _eight), step)


Place = Callable[[FloatArray], FloatArray]
"""The positions (n, 2) at the distances (n,) along a closed curve from its start."""


def _along(place: Place, step: float) -> Iterator[FloatArray]:
    first = 0
    while True:
        ways: FloatArray = step * np.arange(first, first + _BLOCK, dtype=np.float64)
        yield place(ways)
        first += _BLOCK


def _circle(angles: FloatArray) -> FloatArray:
    return RADIUS * np.stack((np.cos(angles), np.sin(angles)), -1)


def _eight(angles: FloatArray) -> FloatArray:
    return RADIUS * np.stack((np.sin(angles), 2 / 3 * np.sin(2 * angles)), -1)


def _curve(at: Place) -> Place:
    """Return a closed curve by the distance along it, from many chords.

    `curve` gives it by an angle from 0 to 2 pi.
    """
    angles = np.linspace(0.0, 2 * math.pi, _CHORDS + 1)
    ways = _ways(at(angles))

    def place(way: FloatArray) -> FloatArray:
        angle: FloatArray = np.interp(np.remainder(way, ways[-1]), ways, angles)
        return at(angle)

    return place


def _through(points: FloatArray) -> Place:
    """Return the closed way through points (n, 2). It does not move if all points are equal."""
    corners = np.concatenate((points, points[:1]))
    ways = _ways(corners)
    if ways[-1] == 0.0:
        return lambda way: np.broadcast_to(points[0], (*way.shape, 2)).copy()

    def place(way: FloatArray) -> FloatArray:
        within = np.remainder(way, ways[-1])
        return np.stack([np.interp(within, ways, corners[:, k]) for k in (0, 1)], -1)

    return place


def _ways(points: FloatArray) -> FloatArray:
    """Return the distance along the way to each of the points (n, 2) from the first."""
    chords = np.hypot(*np.diff(points, axis=0).T)
    return np.concatenate(([0.0], np.add.accumulate(chords)))


def _paper(seed: int) -> Iterator[FloatArray]:
    """x_{t+1} = x_t + ((-1)^q_t sin(t/50)/(10 t), -q_t cos(t/70)/(40 t)), q_t a fair coin."""
    at = np.array(START)
    first = 1
    while True:
        t = np.arange(first, first + _BLOCK)
        q = generator("target", seed, first).integers(0, 2, _BLOCK)
        moves = np.stack(((1 - 2 * q) * np.sin(t / 50) / (10 * t), -q * np.cos(t / 70) / (40 * t)), -1)
        reached = at + np.add.accumulate(moves)
        yield np.concatenate((at[None], reached[:-1]))
        at, first = reached[-1], first + _BLOCK


def _in_blocks(places: Iterator[tuple[float, float]]) -> Iterator[FloatArray]:
    while True:
        yield np.array([next(places) for _ in range(_BLOCK)])


def _manoeuvre(seed: int, step: float) -> Iterator[tuple[float, float]]:
    """Yield positions from 0 on.

    A manoeuvre has legs of constant curvature, half of them straight, and turns back in time.
    """
    parts = max(1, math.ceil(step / _STRIDE))
    x, y, heading, length_left, curvature, leg = 0.0, 0.0, 0.0, 0.0, 0.0, 0
    while True:
        yield x, y
        for _ in range(parts):
            if length_left <= 0.0:
                random = generator("manoeuvre", seed, leg)
                length_left, leg = random.uniform(*_LEG), leg + 1
                curvature = 0.0 if random.random() < 0.5 else random.uniform(-_TURN, _TURN)
            heading += step / parts * _turn(x, y, heading, curvature)
            x += step / parts * math.cos(heading)
            y += step / parts * math.sin(heading)
            length_left -= step / parts


def _turn(x: float, y: float, heading: float, curvature: float) -> float:
    """Return the curvature: the leg's own, or the largest one towards 0 if the leg leads outside."""
    outward = x * math.cos(heading) + y * math.sin(heading)
    if math.hypot(x, y) < _NEAR or outward < 0.0:
        return curvature
    aside = x * math.sin(heading) - y * math.cos(heading)
    return math.copysign(_TURN, aside)
