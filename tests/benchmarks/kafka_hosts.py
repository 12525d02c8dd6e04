"""Many nodes in few processes, on a broker: `python -m tests.benchmarks.kafka_hosts [CASE ...]`.

Six nodes as six processes and in two, with a topic an edge and with outboxes; 64 nodes of degree 4 in two
processes; 256 nodes. Cases take turns on one broker, whose mood they share: `us` are of processor time a
round, of all processes of nodes together. All processes, and the broker, share this machine.
"""

import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streams.tools.broker.broker import Broker, start, stop
from tests.benchmarks.kafka_mesh import fill, first_edge, write_mesh
from tests.benchmarks.kafka_mesh import start as start_mesh
from tests.benchmarks.kafka_watch import Seen, Watch, seen
from tests.support.brokers.development import free_port
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh

MIB = 2**20
MORE = 20
"""Rounds beyond those that are looked at: nothing ends while it is measured."""
HEAD = (
    "| nodes | processes | layout | first release after, s | p50 ms | rounds/s | CPU us of all nodes "
    "a round | broker, us a round | MiB of all processes of nodes |"
)


class Case(NamedTuple):
    """A mesh, and how it is run. `degree`: neighbours of a node, in a circle."""

    size: int
    processes: int
    layout: str
    degree: int
    rounds: int
    warm_up: int
    turns: int


CASES = {
    "6x6-edges": Case(6, 6, "edges", 2, 200, 50, 3),
    "6x6-outbox": Case(6, 6, "outbox", 2, 200, 50, 3),
    "6x2-edges": Case(6, 2, "edges", 2, 200, 50, 3),
    "6x2-outbox": Case(6, 2, "outbox", 2, 200, 50, 3),
    "64x2-edges": Case(64, 2, "edges", 4, 60, 15, 1),
    "64x2-outbox": Case(64, 2, "outbox", 4, 60, 15, 1),
    "256x2-outbox": Case(256, 2, "outbox", 4, 20, 3, 1),
}


class Found(NamedTuple):
    """What a run has shown: `first` is the seconds from the start of its processes to a release."""

    first: float
    seen: Seen

    @property
    def nodes(self) -> list[str]:
        """The processes of nodes."""
        return [label for label in self.seen.took if label.startswith("host")]

    @property
    def microseconds(self) -> float:
        """Processor time a round of all processes of nodes."""
        return sum(self.seen.microseconds(of=label) for label in self.nodes)

    @property
    def memory(self) -> float:
        """Resident memory of all processes of nodes, in MiB."""
        return sum(self.seen.resident[label] for label in self.nodes) / MIB


def circle(size: int, degree: int) -> dict[str, object]:
    """Return the topology in which a node hears the nearest on either side."""
    pairs = [[f"n-{k}", f"n-{(k + step) % size}"] for k in range(size) for step in range(1, degree // 2 + 1)]
    return {"graph": {"edges": pairs}}


def measured(broker: Broker, folder: Path, case: Case) -> Found:
    """Run one mesh, and look at some of its rounds."""
    total = case.warm_up + case.rounds + MORE
    shared = {"layout": case.layout, "topology": circle(case.size, case.degree), "rounds": total}
    path = write_mesh(folder, broker.address, "n", 2, size=case.size, **shared)
    with LiveMesh(path, Process) as mesh:
        if not any(folder.parent.glob(f"*/filled-{case.size}")):
            fill(mesh, max(one.warm_up + one.rounds + MORE for one in CASES.values()))
            (folder / f"filled-{case.size}").touch()
        with Watch(broker.address, first_edge(mesh)) as watch:
            began = time.perf_counter()
            processes = start_mesh(mesh, case.processes)
            first = watch.arrival() - began
            return Found(
                first, seen(watch, processes | {"broker": broker.pid or 0}, case.warm_up, case.rounds)
            )


def printed(case: Case, runs: list[Found]) -> str:
    """Return the line of a case: medians over its turns."""

    def middle(values: list[float]) -> float:
        return float(np.median(values))

    return (
        f"| {case.size} | {case.processes} | {case.layout} | {middle([run.first for run in runs]):.1f} "
        f"| {middle([run.seen.milliseconds(50) for run in runs]):.1f} "
        f"| {middle([run.seen.rate for run in runs]):.1f} "
        f"| {middle([run.microseconds for run in runs]):,.0f} "
        f"| {middle([run.seen.microseconds(of='broker') for run in runs]):,.0f} "
        f"| {middle([run.memory for run in runs]):,.0f} |"
    )


def main() -> None:
    """Measure the cases that are named, or all, and print them."""
    chosen = {name: CASES[name] for name in sys.argv[1:] or CASES}
    found: dict[str, list[Found]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory() as folder:
        broker = start(Path(folder) / "broker", free_port())
        try:
            for turn in range(max(case.turns for case in chosen.values())):
                for name, case in chosen.items():
                    if turn < case.turns:
                        found[name].append(measured(broker, Path(folder) / f"{name}-{turn}", case))
                        print(f"{name}: {printed(case, found[name][-1:])}", file=sys.stderr, flush=True)
        finally:
            stop(broker.folder)
    print(f"{datetime.now(UTC):%Y-%m-%d}\n{HEAD}\n|{'---|' * (HEAD.count('|') - 1)}")
    for name, case in chosen.items():
        print(printed(case, found[name]))


if __name__ == "__main__":
    main()
