"""Speed of the engine beside a bare numpy loop with the same arithmetic, on a ring: ratios of one run.

Both mix in the same order, take gradients, clip them to the integer grid, add seeded Laplace noise, step and
project, and come to the same releases. The loop is one function without objects. The compiled engine
is a third, where numba is installed. They take turns, and each turn has its own ratio, of processor time:
`make bench`, or `python -m tests.benchmarks.engine 4096x100 ...`.
"""

import sys
import time
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from nodes.accounting.guarantee import Ledger
from nodes.algorithms import InverseSqrt, dpdo_nc
from nodes.compiled import fastest, njit
from nodes.geometry.constraints import L2Ball
from nodes.geometry.mirror_maps import Euclidean
from nodes.geometry.mirror_step import mirror_step
from nodes.learner import Engine, Learner
from nodes.losses.losses import Hinge
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.laplace import LaplaceGradient
from nodes.values import FloatArray, Observations
from topology.graph import ring
from topology.keyed import generator
from topology.schedules import FixedSchedule

SIZES = ((6, 2), (6, 55), (64, 55), (64, 1000), (1024, 100), (4096, 2))
BLOCK = 64
TURNS = 10
STEP, THETA, RADIUS = 0.5, 0.5, 10.0


def names_of(nodes: int) -> tuple[str, ...]:
    """Names in bytes order."""
    return tuple(f"n{k:04}" for k in range(nodes))


def engine(nodes: int, dimension: int) -> Engine:
    """A ring with hinge loss and Laplace noise."""
    names, epsilon = names_of(nodes), Fraction(1)
    learner = Learner(
        dpdo_nc(mirror_step(Euclidean(), L2Ball(dimension, RADIUS)), InverseSqrt(STEP)),
        Hinge(),
        LaplaceGradient(THETA, epsilon, 1, dimension, SimulatedSampler(0, names)),
        Ledger(epsilon, 1),
        1,
    )
    return Engine(learner, FixedSchedule(ring(names)))


def records(nodes: int, dimension: int, rounds: int) -> list[Observations]:
    """A few slots, to go round."""
    random = generator("bench", nodes, dimension)
    present = np.ones((nodes, 1), np.bool_)
    few = [
        Observations(
            random.uniform(-1, 1, (nodes, 1, dimension)), np.sign(random.normal(size=(nodes, 1))), present
        )
        for _ in range(16)
    ]
    return [few[round % 16] for round in range(rounds)]


def of_engine(nodes: int, dimension: int, slots: list[Observations]) -> FloatArray:
    """Run the engine; return the last releases."""
    return _last(engine(nodes, dimension), slots)


def of_compiled(nodes: int, dimension: int, slots: list[Observations]) -> FloatArray:
    """Run the compiled engine; return the last releases."""
    return _last(fastest(engine(nodes, dimension), print), slots)


def _last(runs: Engine, slots: list[Observations]) -> FloatArray:
    last = None
    for step in runs.steps(slots):
        last = step.lesson.release
    assert last is not None
    return last


def bare(nodes: int, dimension: int, slots: list[Observations]) -> FloatArray:
    """Return the same releases from a plain loop."""
    mechanism = engine(nodes, dimension).learner.mechanism
    assert isinstance(mechanism, LaplaceGradient)
    step, radius, scale = mechanism.grid.step, mechanism.grid.radius, mechanism.scale
    order = np.sort(np.stack([np.arange(nodes), np.arange(nodes) - 1, np.arange(nodes) + 1]) % nodes, 0)
    third, rest = 1 / 3, max(0.0, 1.0 - (1 / 3 + 1 / 3))
    weights = np.where(order == np.arange(nodes), rest, third)[..., None]
    releases = np.zeros((nodes, dimension))
    for round, (features, labels, _) in enumerate(slots, 1):
        if round == 1 or round % BLOCK == 0:
            block, keys = round // BLOCK, names_of(nodes)
            drawn = [generator("noise", 0, key, block).laplace(size=(BLOCK, dimension)) for key in keys]
            noise = np.stack(drawn, 1)
        mixed = weights[0] * releases[order[0]]
        mixed = mixed + weights[1] * releases[order[1]]
        mixed = mixed + weights[2] * releases[order[2]]
        point = projected(mixed)
        margins = (point[:, None] * features).sum(-1)
        gradients = np.where(labels * margins < 1.0, -labels, 0.0)[..., None] * features
        sizes = np.abs(gradients).sum(-1)
        held = gradients * (THETA / np.maximum(sizes, THETA))[..., None]
        points = np.rint(held / step).astype(np.int64)
        magnitudes = np.abs(points)
        sums = np.maximum(magnitudes.sum(-1, keepdims=True), radius)
        total = (np.sign(points) * (magnitudes * radius // sums)).sum(-2)
        noisy = total + np.rint(noise[round % BLOCK] * scale).astype(np.int64)
        releases = projected(mixed - STEP / np.sqrt(round) * (noisy * step))
    return releases


def projected(x: FloatArray) -> FloatArray:
    """Return the nearest points of the L2 ball."""
    norms = np.sqrt((x * x).sum(-1, keepdims=True))
    return np.where(norms > RADIUS, x * (RADIUS / np.maximum(norms, RADIUS)), x)


def turns(nodes: int, dimension: int, rounds: int) -> FloatArray:
    """Return the seconds of processor time of (engine, loop, compiled engine) in each turn, (turns, 3)."""
    slots, seconds = records(nodes, dimension, rounds), np.empty((TURNS, 3))
    releases = of_engine(nodes, dimension, slots)
    assert np.allclose(releases, bare(nodes, dimension, slots), rtol=1e-9, atol=1e-12)
    assert releases.tobytes() == of_compiled(nodes, dimension, slots).tobytes()
    for turn in seconds:
        for k, run in enumerate((of_engine, bare, of_compiled)):
            started = time.process_time()
            run(nodes, dimension, slots)
            turn[k] = time.process_time() - started
    return seconds


def main(sizes: Iterable[tuple[int, int]] = SIZES) -> None:
    """Measure, and print."""
    for nodes, dimension in sizes:
        rounds = max(
            BLOCK - 1, 400_000 // (200 + nodes * dimension)
        )  # or the noise of rounds that are not run
        seconds = turns(nodes, dimension, rounds)
        ours, loop, compiled = rounds / seconds.min(0)
        times, faster = seconds[:, 0] / seconds[:, 1], seconds[:, 0] / seconds[:, 2]
        print(
            f"engine, ring of {nodes}, d = {dimension}: {ours:,.0f} rounds/s; a bare numpy loop with the "
            f"same arithmetic {loop:,.0f}; the engine takes {np.median(times):.2f} times as long "
            f"({times.min():.2f} to {times.max():.2f} in {TURNS} turns); "
            + (
                "numba is missing: pip install 'mirrormesh[fast]'"
                if njit is None
                else f"compiled {compiled:,.0f} rounds/s, {np.median(faster):.1f} times the engine's "
                f"({faster.min():.1f} to {faster.max():.1f})"
            ),
            flush=True,
        )


if __name__ == "__main__":
    asked = [
        (int(nodes), int(dimension)) for nodes, _, dimension in (size.partition("x") for size in sys.argv[1:])
    ]
    main(asked or SIZES)
