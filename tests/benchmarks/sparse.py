"""Sparse records against dense ones: what a round of one node costs, as ratios; `make bench` calls it.

A node's lesson from decoded records to release at d = 8,315 (the words of Reuters-21578) and 47,236 (RCV1's
size), 64 made-up texts of 10 to 80 words a round: Sparse DOLA on sparse rows, DOLA on the same as arrays.
Time is of one core, the fastest of some rounds; memory is the peak that Python and numpy asked for in a round
(tracemalloc), the records included. The noise, which is dense and alike in both, was drawn ahead.
"""

import time
import tracemalloc
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from nodes.accounting.guarantee import Ledger
from nodes.algorithms import Algorithm, InverseSqrt, SparseDola, dola
from nodes.geometry.constraints import L2Ball
from nodes.geometry.mirror_maps import Euclidean
from nodes.geometry.mirror_step import mirror_step
from nodes.learner import Learner
from nodes.losses.losses import Hinge
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.private import Private
from nodes.sparse import SparseRows, dense
from nodes.values import Consensus, Observations
from tests.support.meshes.reuters import texts

BATCH = 64
ROUNDS = 20
DIMENSIONS = (8_315, 47_236)


def lesson(algorithm: Algorithm, *, sparse: bool) -> Callable[[int], None]:
    """Return one node's lesson of a round."""
    dimension, epsilon = algorithm.dimension, Fraction(1)
    sampler = SimulatedSampler(0, "a")
    mechanism = GaussianGradient(1.0, epsilon, 1e-6, BATCH, dimension, sampler)
    learner = Learner(algorithm, Hinge(), mechanism, Ledger(epsilon, BATCH), BATCH)
    made = texts(BATCH, dimension)
    rows = SparseRows(made["indptr"], made["indices"], made["data"], dimension)
    labels, present = made["y"].astype(np.float64), np.ones(BATCH, dtype=np.bool_)
    z = Consensus(np.linspace(-1e-3, 1e-3, dimension))

    def learn(round: int) -> None:
        features = SparseRows(rows.indptr, rows.indices, rows.values, dimension) if sparse else dense(rows)
        seen = Private(Observations(features, labels, present))
        learner.learn(round, z, algorithm.decide(round, z), seen, 0)

    return learn


def measured(learn: Callable[[int], None]) -> tuple[float, int]:
    """Return the seconds of processor time of a round, and its peak of memory in bytes."""
    learn(1)
    seconds = []
    for round in range(2, 2 + ROUNDS):
        started = time.process_time()
        learn(round)
        seconds.append(time.process_time() - started)
    tracemalloc.start()
    learn(2 + ROUNDS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return min(seconds), peak


def main() -> None:
    """Measure, and print."""
    for dimension in DIMENSIONS:
        ball, alpha = L2Ball(dimension, 10.0), InverseSqrt(1.0)
        ours, mine = measured(lesson(SparseDola(ball, alpha, 0.01), sparse=True))
        theirs, full = measured(lesson(dola(mirror_step(Euclidean(), ball), alpha), sparse=False))
        print(
            f"64 texts, d = {dimension:,}: Sparse DOLA on sparse rows {1e3 * ours:.1f} ms, "
            f"{mine / 2**20:.1f} MiB a round and node; DOLA on arrays {1e3 * theirs:.1f} ms, "
            f"{full / 2**20:.1f} MiB: "
            f"{ours / theirs:.2f} of the time, {mine / full:.3f} of the memory"
        )


if __name__ == "__main__":
    main()
