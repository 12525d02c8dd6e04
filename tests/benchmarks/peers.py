"""The engine beside DISROPT 0.1.9's distributed subgradient method: `make bench-peers`.

One problem for all: f_i(x) = 1/2 (<a_i, x> - b_i)^2 at six nodes on a ring, Metropolis weights, step
0.1/sqrt(t), no noise: x_i(t+1) = y - alpha_t grad f_i(y), y = sum_j w_ij x_j(t). All iterates of the first
rounds are checked to be the same. The engine clips and projects besides, to bounds that are never reached;
DISROPT is spared that: it would run a solver each round.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from nodes.accounting.guarantee import Ledger
from nodes.algorithms import InverseSqrt, dpdo_nc
from nodes.compiled import fastest
from nodes.geometry.constraints import L2Ball
from nodes.geometry.mirror_maps import Euclidean
from nodes.geometry.mirror_step import mirror_step
from nodes.learner import Engine, Learner
from nodes.losses.losses import Squared
from nodes.privacy.unprotected import Unprotected
from nodes.values import FloatArray, Observations
from streams.terminal.report import table
from topology.graph import ring
from topology.keyed import generator
from topology.schedules import FixedSchedule

ENVIRONMENT = Path(__file__).parents[2] / "out" / "peers"
SCRIPT = Path(__file__).with_name("peers_disropt.py")
MPIRUN = ("--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
"""More processes than cores are let in, and give their core away while they wait: else it is slower still."""

NODES, DIMENSIONS = 6, (2, 55)
NAMES = tuple(f"n{k}" for k in range(NODES))
STEP, FAR = 0.1, 1e6
ROUNDS, CHECKED, TURNS = 300, 50, 3
TOLERANCE = {"rtol": 1e-9, "atol": 1e-12}
"""Sums run in other orders: last bits differ."""


class Peer(NamedTuple):
    """A way in which DISROPT runs: with MPI or not, and with which objective."""

    mpi: bool
    objective: str


OURS, COMPILED = "the engine", "the engine, compiled (as it is without numba)"
PEERS = {
    "DISROPT, MPI": Peer(mpi=True, objective="own"),
    "DISROPT, MPI, gradient by hand": Peer(mpi=True, objective="hand"),
    "its agents in one process, by hand": Peer(mpi=False, objective="hand"),
}


class Missing(Exception):
    """DISROPT cannot be run; the text says what is missing."""


def engine(dimension: int) -> Engine:
    """The engine of the problem."""
    learner = Learner(
        dpdo_nc(mirror_step(Euclidean(), L2Ball(dimension, FAR)), InverseSqrt(STEP)),
        Squared(),
        Unprotected(FAR, "l2", 1, dimension),
        Ledger(None, 1),
        1,
    )
    return Engine(learner, FixedSchedule(ring(NAMES)))


def observations(dimension: int) -> Observations:
    """One record a node, the same in every round: features (N, 1, d)."""
    random = generator("peers", dimension)
    features = random.uniform(-1, 1, (NODES, 1, dimension)) / np.sqrt(dimension)
    return Observations(features, random.uniform(-1, 1, (NODES, 1)), np.ones((NODES, 1), np.bool_))


def write_problem(folder: Path, dimension: int) -> None:
    """Write what DISROPT is to solve: features (N, d), labels (N,), weights (N, N), steps (T,)."""
    data, ones = observations(dimension), engine(dimension).schedule.weights(1, NAMES)
    weights = np.zeros((NODES, NODES))
    weights[ones.targets, ones.sources] = ones.values
    np.fill_diagonal(weights, 1.0 - weights.sum(1))
    steps = STEP / np.sqrt(np.arange(1, ROUNDS + 1))
    np.savez(
        folder / "problem.npz",
        features=data.features[:, 0],
        labels=data.labels[:, 0],
        weights=weights,
        steps=steps,
        checked=CHECKED,
        turns=TURNS,
    )


def of_engine(dimension: int, rounds: int) -> FloatArray:
    """Return x(2), ..., x(T + 1), shape (T, N, d)."""
    slots = [observations(dimension)] * rounds
    return np.stack([step.lesson.release for step in engine(dimension).steps(slots)])


def timed_engine(made: Engine, dimension: int) -> float:
    """Return the seconds of the fastest of several runs; `of_engine` has warmed up."""
    slots, seconds = [observations(dimension)] * ROUNDS, []
    for _ in range(TURNS):
        started = time.perf_counter()
        for _ in made.steps(slots):
            pass
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def timed_peer(peer: Peer, folder: Path) -> tuple[float, FloatArray]:
    """Return the seconds of DISROPT's rounds, and the iterates of the first of them, shape (T, N, d)."""
    python = [str(ENVIRONMENT / "bin" / "python"), str(SCRIPT), str(folder), peer.objective]
    mpirun = [str(ENVIRONMENT / "bin" / "mpirun"), *MPIRUN, "-n", str(NODES)] if peer.mpi else []
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # threads would only stand in their way
    try:
        done = subprocess.run(
            [*mpirun, *python], env=os.environ | alone, capture_output=True, text=True, check=True
        )
    except FileNotFoundError as error:
        raise Missing(f"no {error.filename}: `make bench-peers` installs it") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or ["nothing"]
        raise Missing(
            f"{Path(error.cmd[0]).name} ended with {error.returncode}, and said: {said[-1]}"
        ) from None
    paths = [folder / f"iterates-{node}.npy" for node in range(NODES)]
    iterates = np.stack([np.load(path) for path in paths], 1)
    for path in paths:
        path.unlink()
    return float(done.stdout), iterates


def measure(dimension: int) -> dict[str, float]:
    """Return rounds/s of the engine (before and after the others) and of DISROPT; check the iterates."""
    expected, compiled = of_engine(dimension, CHECKED), fastest(engine(dimension), print)
    seconds = {OURS: timed_engine(engine(dimension), dimension), COMPILED: timed_engine(compiled, dimension)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_problem(folder, dimension)
        for label, peer in PEERS.items():
            seconds[label], iterates = timed_peer(peer, folder)
            np.testing.assert_allclose(iterates, expected, **TOLERANCE)
    seconds[OURS] = min(seconds[OURS], timed_engine(engine(dimension), dimension))
    seconds[COMPILED] = min(seconds[COMPILED], timed_engine(compiled, dimension))
    return {label: ROUNDS / least for label, least in seconds.items()}


def main() -> int:
    """Measure, and print; 1 where something is missing."""
    load = os.getloadavg()[0]
    try:
        found = [measure(dimension) for dimension in DIMENSIONS]
    except Missing as missing:
        print(f"bench-peers: {missing}", file=sys.stderr)
        return 1
    rows = [
        (
            label,
            *(
                cell
                for rates in found
                for cell in (
                    f"{rates[label]:,.0f}",
                    *(f"{rates[ours] / rates[label]:.1f}" for ours in (OURS, COMPILED)),
                )
            ),
        )
        for label in found[0]
    ]
    columns = [
        part
        for d in DIMENSIONS
        for part in (f"rounds/s\n({NODES}, {d})", "engine\n/ this", "compiled\n/ this")
    ]
    title = f"On the clock, the fastest of {TURNS} runs of {ROUNDS} rounds"
    Console(highlight=False).print(table(("", *columns), rows, title))
    print(f"The first {CHECKED} iterates of all nodes are the same, to {TOLERANCE['rtol']:g} relative.")
    print(f"{os.cpu_count()} cores; {load:.0f} processes wanted them when this began.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
