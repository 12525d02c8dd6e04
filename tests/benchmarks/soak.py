"""A mesh under random faults for a long time: `python -m tests.benchmarks.soak [--minutes 30] [--page]`.

With `--calm` a mesh of three without faults, as fast as it goes: whether its processes grow with the rounds.

As tests.benchmarks.faults, but one node and one scheduler are spared: their memory and open files at the
start and at the end show whether they grow. A fault follows some seconds after the one before is over. In
the end every release that the edges still hold must be that of a run in one process, bit for bit. `--page`
writes the table into docs/reference/faults.md.
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from streams.bus.logs import Logs
from streams.tools.broker.broker import start as started
from streams.tools.broker.broker import stop
from tests.benchmarks.harm import Harm, harmed
from tests.benchmarks.kafka_mesh import fill, first_edge, start, write_mesh
from tests.benchmarks.kills import FAULTS
from tests.benchmarks.measured_page import machine, write
from tests.support.brokers.development import free_port
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh
from tests.support.processes.resident import resident

SPARED_SCHEDULER, PAUSE, SETTLED, MIB = "scheduler-1", 5.0, 20.0, 2**20
CALM, PLENTY, BEGINNING = 3, 150_000, 2_000
"""Nodes without faults, records of each, and the rounds after which its memory is first looked at."""


class Sample(NamedTuple):
    """What a process holds: bytes of memory, open files."""

    memory: int
    files: int


def main(minutes: float, seed: int, *, page: bool) -> None:
    """Inflict faults for so long, compare, print."""
    done, worst = Counter(), 0.0
    with harmed(seed, (0,), (SPARED_SCHEDULER,)) as harm:
        time.sleep(min(SETTLED, minutes * 6))  # what a process takes at first is no growth
        spared = {"a node": harm.nodes[0], "a scheduler": SPARED_SCHEDULER}
        first, began, ends = samples(harm, spared), harm.slowest(), time.monotonic() + minutes * 60
        while time.monotonic() < ends:
            fault = harm.random.choice(FAULTS)
            took = harm.inflicted(fault)
            done[fault.name] += 1
            worst = max(worst, took)
            memory = samples(harm, spared)["a node"].memory / MIB
            print(f"{took:6.1f} s  {fault.name}; round {harm.slowest():,}; {memory:.1f} MiB", flush=True)
            time.sleep(harm.random.uniform(0, 2 * PAUSE))
        last_samples, rounds = samples(harm, spared), harm.slowest() - began
        harm.end()
        _, values = harm.check()
    text = "\n".join(
        (
            "## Soak",
            "",
            *table(first, last_samples),
            "",
            f"{minutes:g} minutes, {rounds:,} rounds, {done.total()} faults (longest pause {worst:.1f} s):",
            f"{', '.join(f'{name} {count}' for name, count in done.most_common())}.",
            "",
            f"What held: the {values:,} releases that the edges still had were those of a run in one",
            "process, bit for bit, and `audit releases` found nothing.",
            "",
            f"Measured by `python -m tests.benchmarks.soak --minutes {minutes:g} --seed {seed} --page` on",
            f"{machine()}.",
        )
    )
    print(text)
    if page:
        print(f"wrote {write('soak', text)}")


def calm(minutes: float, *, page: bool) -> None:
    """Let a mesh run without faults for so long, and say what its processes hold."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        broker = started(Path(folder) / "broker", free_port())
        try:
            found = calm_memory(Path(folder) / "mesh", broker.address, minutes)
        finally:
            stop(broker.folder)
    assert found, f"fewer than {BEGINNING:,} rounds in {minutes:g} minutes"
    (first, *before), (last, *after) = found[0], found[-1]
    node, scheduler = (
        f"{one / MIB:.1f} MiB after {first:,} rounds and {two / MIB:.1f} MiB after {last:,}"
        for one, two in zip(before, after, strict=True)
    )
    text = (
        f"Without faults a process hardly grows with its rounds. Of {CALM} nodes that go as fast as they "
        f"can, the largest has {node}. The scheduler has {scheduler}.\n\n"
        f"Measured by `python -m tests.benchmarks.soak --calm --minutes {minutes:g} --page` on {machine()}."
    )
    print(text)
    if page:
        print(f"wrote {write('calm', text)}")


def calm_memory(folder: Path, address: str, minutes: float) -> list[tuple[int, int, int]]:
    """Run the mesh; return, every few seconds, its round and the bytes of a node and of the scheduler."""
    found: list[tuple[int, int, int]] = []
    slots = {"by": "count", "size": 1}
    path = write_mesh(folder, address, "calm", 4, size=CALM, slots=slots, round_timeout=5)
    with LiveMesh(path, Process) as mesh:
        fill(mesh, PLENTY)
        pids, logs, topic = start(mesh), Logs(mesh.file.mesh_broker), first_edge(mesh)
        scheduler = pids.pop("scheduler")
        ends = time.monotonic() + minutes * 60
        while time.monotonic() < ends:
            time.sleep(PAUSE)
            mesh.check()
            round_ = logs.span(topic)[1]
            if round_ >= BEGINNING:
                found.append((round_, max(map(resident, pids.values())), resident(scheduler)))
                print(*found[-1], flush=True)
        logs.close()
    return found


def samples(harm: Harm, spared: dict[str, str]) -> dict[str, Sample]:
    """Look at the processes that nothing is done to."""
    pids = {what: harm.mesh.processes[label]._process.pid for what, label in spared.items()}
    return {
        what: Sample(resident(pid), len(list(Path(f"/proc/{pid}/fd").iterdir())))
        for what, pid in pids.items()
    }


def table(first: dict[str, Sample], last: dict[str, Sample]) -> list[str]:
    """Return the table of what was spared."""
    lines = [
        "| spared | memory at start | at the end | open files at start | at the end |",
        "|---|---|---|---|---|",
    ]
    for what, before in first.items():
        after = last[what]
        memory = f"{before.memory / MIB:.0f} MiB | {after.memory / MIB:.0f} MiB"
        lines.append(f"| {what} | {memory} | {before.files} | {after.files} |")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--calm", action="store_true")
    given = parser.parse_args()
    if given.calm:
        calm(given.minutes, page=given.page)
    else:
        main(given.minutes, given.seed, page=given.page)
