"""How the engine's time and memory grow: linear in the edges, flat in the rounds.

Processor time of a round (the least of three runs) and the peak of traced memory of nodes of degree 8 under
`laplace`, squared loss: against N at d = 2 (6 nodes: of degree 4), against d at N = 64, and
against the number of rounds T at (64, 55). Measured where it is drawn: times are this machine's.
"""

import time
import tracemalloc
from collections.abc import Iterator
from itertools import repeat

import numpy as np

from experiments.harness.figures import Curve, draw, table
from experiments.harness.meshes import numpy_engine, settings
from experiments.harness.study import Study
from nodes.learner import Engine
from nodes.values import Observations

DEGREE = 8
SIZES = {
    "nodes N, d = 2": [(6, 2, 200), (64, 2, 200), (256, 2, 200), (1024, 2, 200), (4096, 2, 200)],
    "dimension d, N = 64": [(64, 2, 200), (64, 10, 200), (64, 55, 200), (64, 250, 200), (64, 1000, 200)],
    "rounds T, N = 64, d = 55": [(64, 55, 200), (64, 55, 1000), (64, 55, 5000), (64, 55, 20000)],
}
"""What grows, and (N, d, T)."""


def main(study: Study) -> None:
    """Draw growth-time and growth-memory, and write growth.csv."""
    rows: list[list[object]] = []
    times, memory = {}, {}
    for grows, cases in SIZES.items():
        chosen = [(*case[:2], 20) for case in cases[:2]] if study.quick else cases
        place = {"n": 0, "d": 1, "r": 2}[grows[0]]
        x = np.array([case[place] for case in chosen], np.float64)
        found = np.array([measured(*case) for case in chosen])
        times[grows], memory[grows] = Curve(x, found[:, 0]), Curve(x, found[:, 1])
        rows += [[grows, *case, *one] for case, one in zip(chosen, found.tolist(), strict=True)]
    table(study.output, "growth", ["grows", "nodes", "dimension", "rounds", "ms_a_round", "peak_MB"], rows)
    for name, curves, y in (("time", times, "ms a round"), ("memory", memory, "peak memory, MB")):
        draw(
            study.output,
            f"growth-{name}",
            curves,
            title=f"The engine, nodes of degree {DEGREE}",
            x="what grows",
            y=y,
            scales=("log", "log"),
            points=True,
        )


def measured(nodes: int, dimension: int, rounds: int) -> tuple[float, float]:
    """Return milliseconds of processor time a round, and the peak of traced memory in MB."""
    fastest = min(timed(built(nodes, dimension), nodes, dimension, rounds) for _ in range(3))
    return 1e3 * fastest / rounds, peak(nodes, dimension, rounds)


def peak(nodes: int, dimension: int, rounds: int) -> float:
    """Return the peak of traced memory in MB, of all the rounds."""
    one = built(nodes, dimension)
    tracemalloc.start()
    timed(one, nodes, dimension, rounds)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def built(nodes: int, dimension: int) -> Engine:
    """Return the engine of a ring whose nodes also hear those up to four places off."""
    reach = range(1, min(DEGREE, nodes - 1) // 2 + 1)
    pairs = [[f"node-{k:04}", f"node-{(k + off) % nodes:04}"] for k in range(nodes) for off in reach]
    mesh = settings(
        nodes,
        dimension,
        algorithm={
            "name": "dpdo-nc",
            "constraint": {"l2-ball": 3},
            "step_size": {"rule": "inverse-sqrt", "a": 0.5},
        },
        loss="squared",
        privacy={"mechanism": "laplace", "epsilon": 1, "gradient_bound": 1, "noise": "simulated"},
        topology={"graph": {"edges": pairs}},
    )
    return numpy_engine(mesh, 0)


def timed(one: Engine, nodes: int, dimension: int, rounds: int) -> float:
    """Run so many rounds, keeping nothing; return the seconds of processor time."""
    started = time.process_time()
    for _ in one.steps(slots(nodes, dimension, rounds)):
        pass
    return time.process_time() - started


def slots(nodes: int, dimension: int, rounds: int) -> Iterator[Observations]:
    """Yield one slot again and again."""
    random = np.random.Generator(np.random.Philox(0))
    features = random.uniform(-1, 1, (nodes, 1, dimension))
    labels, present = random.uniform(-1, 1, (nodes, 1)), np.ones((nodes, 1), np.bool_)
    return repeat(Observations(features, labels, present), rounds)
