"""What a mesh takes of its machines, by nodes, neighbours and dimension: `python -m tests.benchmarks.sizes`.

Each mesh runs to its end on a development broker of its own, with a process a node and exact noise.
"""

import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from streams.bus.topic_specs import mesh_specs
from streams.tools.broker.broker import Broker, start, stop
from tests.benchmarks.kafka_mesh import fill, write_mesh
from tests.benchmarks.kafka_mesh import start as start_mesh
from tests.support.brokers.development import free_port
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh

ROUNDS = 300
CASES = (
    (3, "ring", 2),
    (6, "ring", 2),
    (6, "ring", 100),
    (6, "complete", 100),
    (12, "ring", 2),
    (6, "ring", 1_000),
)
TICKS = os.sysconf("SC_CLK_TCK")
HEAD = (
    "| nodes | neighbours | d | topics on the mesh broker | node's memory, MiB | node's journal, KiB "
    "| on the mesh broker, KiB a round | broker's processor time, ms a round | broker's memory, MiB |"
)


@dataclass(frozen=True, slots=True)
class Taken:
    """What one mesh took: memory in MiB at its most (a number for each node), sizes in KiB, times in ms."""

    topics: int
    neighbours: float
    memory: tuple[float, ...]
    journals: tuple[float, ...]
    stored: float
    processor: float
    broker_memory: float


def measured(folder: Path, size: int, graph: str, dimension: int) -> Taken:
    """Run one mesh to its end on a new broker."""
    broker = start(folder / "broker", free_port())
    try:
        path = write_mesh(
            folder / "mesh",
            broker.address,
            "party",
            dimension,
            size=size,
            topology={"graph": graph},
            rounds=ROUNDS,
        )
        with LiveMesh(path, Process) as mesh:
            fill(mesh, ROUNDS)
            before = processor_time(broker)
            processes = start_mesh(mesh)
            del processes["scheduler"]
            memory = most_memory(mesh, processes)
            mesh.finish()
            nodes, topics = list(mesh.file.mesh.nodes), [spec.name for spec in mesh_specs(mesh.file.resolved)]
            return Taken(
                topics=len(topics),
                neighbours=len([name for name in topics if ".edge." in name]) / size,
                memory=tuple(memory.values()),
                journals=tuple(used(path.parent / "state", f"{name}.journal*") / 1024 for name in nodes),
                stored=sum(used(broker.folder / "data", f"{name}-0/*.log") for name in topics)
                / 1024
                / ROUNDS,
                processor=1000 * (processor_time(broker) - before) / ROUNDS,
                broker_memory=status_of(broker.pid or 0, "VmHWM"),
            )
    finally:
        stop(broker.folder)


def most_memory(mesh: LiveMesh, processes: dict[str, int]) -> dict[str, float]:
    """Return the most memory in MiB that each process held, looked at until it ends."""
    found: dict[str, float] = {}
    while any(mesh.processes[name].running for name in processes):
        for name, pid in processes.items():
            found[name] = max(found.get(name, 0.0), status_of(pid, "VmHWM"))
        time.sleep(0.1)
    return found


def status_of(pid: int, key: str) -> float:
    """Return a size in MiB from the process's status; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{key}:")), 0.0)


def processor_time(broker: Broker) -> float:
    """Return the seconds of processor time that the broker has taken."""
    fields = Path(f"/proc/{broker.pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def used(folder: Path, pattern: str) -> int:
    """Return the bytes in the files that match."""
    return sum(path.stat().st_size for path in folder.glob(pattern))


def spread(values: Iterable[float]) -> str:
    """Return the median with the range."""
    ordered = sorted(values)
    return f"{median(ordered):.0f} ({ordered[0]:.0f} to {ordered[-1]:.0f})"


def main() -> None:
    """Measure and print all cases."""
    print(HEAD)
    print("|" + "---|" * (HEAD.count("|") - 1))
    for size, graph, dimension in CASES:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(Path(folder), size, graph, dimension)
        print(
            f"| {size} | {found.neighbours:.0f} | {dimension:,} | {found.topics} | {spread(found.memory)} "
            f"| {spread(found.journals)} | {found.stored:.1f} | {found.processor:.1f} "
            f"| {found.broker_memory:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
