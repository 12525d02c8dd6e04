"""Speed of the mesh in one process, through the real machines: `make bench`. Ratios are of one run.

A ring of six, simulated noise, journals in memory, d = 2 (range loss) and d = 55 (hinge loss), raw records:
rounds/s of processor time on one core, in turns with the same arithmetic without a mesh (one node's lesson,
six times a round), and where the time goes, sampled once a millisecond. Then the plan of 4,096 nodes of
degree 8, and sparse records against dense ones.
"""

import platform
import signal
import time
from collections import Counter
from fractions import Fraction
from itertools import cycle
from types import FrameType
from typing import Self

import numpy as np

from nodes.accounting.guarantee import Ledger
from nodes.algorithms import InverseSqrt, dpdo_nc
from nodes.geometry.constraints import L1Ball, L2Ball
from nodes.geometry.mirror_maps import Euclidean
from nodes.geometry.mirror_step import mirror_step
from nodes.learner import Learner
from nodes.losses.losses import Hinge, RangeLoss
from nodes.machine.slots import CountSlots
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.private import Private
from nodes.values import Consensus, Decision, FloatArray, Observations
from streams.codec import decode_plan, encode_plan
from streams.codec.topics import MeshTopics
from streams.local.mesh import MemoryMesh, MeshParts, NodeParts
from streams.records.record import RawRecord
from tests.benchmarks import decoding, engine, feeding, sparse
from tests.benchmarks.metrics import measure_metrics
from topology.graph import from_edges, ring
from topology.keyed import generator
from topology.plans import Member, Plan
from topology.scheduler import SchedulerSettings
from topology.schedules import FixedSchedule, SwitchingSchedule

NODES = ("a", "b", "c", "d", "e", "f")
ROUNDS = 750
TURNS = 10
WARM_UP = 200

PARTS = {
    "nodes/privacy": "mechanism",
    "nodes/machine/slots nodes/machine/time_slots": "records",
    "nodes/machine": "machine",
    "nodes/": "learning",
    "streams/codec": "codec",
    "streams/state": "journal",
    "streams/records": "records",
    "topology/": "scheduler",
    "streams/": "bus and shell",
}


def learner(name: str, dimension: int) -> Learner:
    """One node's settings."""
    epsilon, sampler = Fraction(1), SimulatedSampler(0, name)
    small = dimension == 2
    constraint = L1Ball(2, 3.0) if small else L2Ball(dimension, 10.0)
    return Learner(
        dpdo_nc(mirror_step(Euclidean(), constraint), InverseSqrt(0.5)),
        RangeLoss() if small else Hinge(),
        LaplaceGradient(0.5, epsilon, 1, dimension, sampler),
        Ledger(epsilon, 1),
        1,
    )


class RawDecoder:
    """Records as float64: d features and a label. What other formats cost is theirs, not the mesh's."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def decode(self, value: bytes) -> tuple[FloatArray, float] | None:
        """Return the features, shape (d,), and the label."""
        numbers = np.frombuffer(value)
        return numbers[:-1], float(numbers[-1])


def records(name: str, dimension: int) -> list[bytes]:
    """A few hundred records, to go round."""
    rng = generator("bench", name)
    features = rng.uniform(0, 1, (256, dimension))
    labels = np.where(rng.random(256) < 0.5, -1.0, 1.0) if dimension > 2 else np.ones(256)
    return [np.append(row, label).tobytes() for row, label in zip(features, labels, strict=True)]


def parts(dimension: int, rounds: int) -> MeshParts:
    """The mesh that is measured."""
    nodes = {
        name: NodeParts(
            learner(name, dimension),
            lambda: CountSlots(1),
            RawDecoder(dimension),
            map(RawRecord, cycle(records(name, dimension))),
        )
        for name in NODES
    }
    scheduler = SchedulerSettings("run-1", FixedSchedule(ring(NODES)), 32, None, None, rounds)
    return MeshParts(MeshTopics("bench", "run-1"), bytes(16), 32, scheduler, nodes)


class Shares:
    """Samples which part of the code runs, once a millisecond of processor time."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        while frame is not None:
            part = part_of(frame.f_code.co_filename)
            if part:
                self.counts[part] += 1
                return
            frame = frame.f_back

    def __str__(self) -> str:
        total = sum(self.counts.values())
        return ", ".join(f"{part} {100 * n / total:.0f} %" for part, n in self.counts.most_common())


def part_of(filename: str) -> str | None:
    """The part of the mesh that a file belongs to."""
    for places, part in PARTS.items():
        if any(f"/{place}" in filename for place in places.split()):
            return part
    return None


def ignore(node: str, report: object) -> None:
    """Take a report, and forget it."""


def timed(mesh: MemoryMesh) -> float:
    """Run the mesh, and return the seconds of processor time a round."""
    started = time.process_time()
    mesh.run()
    assert mesh.done
    return (time.process_time() - started) / ROUNDS


def measure_mesh(dimension: int) -> None:
    """Print the rounds/s of the mesh, and the lessons' share of its time."""
    warm = MemoryMesh(parts(dimension, WARM_UP), ignore)
    warm.run()
    seconds = np.empty((TURNS, 2))
    for turn in seconds:
        turn[:] = timed(MemoryMesh(parts(dimension, ROUNDS), ignore)), measure_lessons(dimension)
    again = MemoryMesh(parts(dimension, ROUNDS), ignore)
    with Shares() as shares:
        again.run()
    (fastest, bare), (median, _) = seconds.min(0), np.median(seconds, 0)
    share = seconds[:, 1] / seconds[:, 0]
    print(
        f"ring of 6, d = {dimension}: {1 / fastest:,.0f} rounds/s (the fastest of {TURNS} turns; "
        f"median {1 / median:,.0f}); the lessons alone {1 / bare:,.0f} rounds/s, "
        f"{np.median(share):.2f} of the time ({share.min():.2f} to {share.max():.2f})",
        flush=True,
    )
    print(f"  where the time goes: {shares}")


def measure_lessons(dimension: int) -> float:
    """Return the seconds a round that six lessons take, without a mesh around them."""
    decoder_rng = generator("bench", "lesson")
    features = decoder_rng.uniform(0, 1, (1, dimension))
    seen = Private(Observations(features, np.ones(1), np.ones(1, dtype=np.bool_)))
    learners = [learner(name, dimension) for name in NODES]
    point = np.zeros(dimension)
    for _ in range(2):  # the first is the warm-up
        started = time.process_time()
        for round in range(1, 1001):
            for one in learners:
                one.learn(round, Consensus(point), Decision(point), seen, 0)
        seconds = (time.process_time() - started) / 1000
    return seconds


def measure_topology() -> None:
    """Print what one round of 4,096 nodes of degree 8 costs."""
    size, degree = 4096, 8
    names = tuple(f"n{k:04d}" for k in range(size))
    pairs = [(names[k], names[(k + step) % size]) for k in range(size) for step in range(1, degree // 2 + 1)]
    graph = from_edges(names, pairs)
    members = tuple(Member(name, f"{k:032x}") for k, name in enumerate(names))
    schedules = {"fixed": FixedSchedule(graph), "switching 0.5": SwitchingSchedule(graph, 0.5, 0)}
    for kind, schedule in schedules.items():
        schedule.weights(1, names)
        started = time.process_time()
        for round in range(2, 7):
            weights = schedule.weights(round, names)
        made = (time.process_time() - started) / 5
        plan = Plan("run-1", 7, 6, members, weights.sources, weights.targets, weights.values)
        started = time.process_time()
        data = encode_plan(plan, bytes(16))
        decode_plan(data, "run-1", bytes(16))
        wired = time.process_time() - started
        print(
            f"4,096 nodes of degree 8, {kind}: weights {1e3 * made:.1f} ms a round, "
            f"plan to bytes and back {1e3 * wired:.1f} ms, {len(data):,} bytes, "
            f"{weights.values.size:,} edges on"
        )


def main() -> None:
    """Measure, and print."""
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    for dimension in (2, 55):
        measure_mesh(dimension)
    measure_topology()
    measure_metrics()
    engine.main()
    decoding.main()
    feeding.main()
    sparse.main()


if __name__ == "__main__":
    main()
