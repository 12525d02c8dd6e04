"""A mesh beside a node at a tenth of its speed: `python -m tests.benchmarks.slow_node [--page]`.

Six nodes in a ring, a scheduler and a broker, a process each, with all records there. Each learns the mean of
its own labels: 1 for the first node, 0 for the others, so the answer of all is 1/6. After `--calm` seconds
the first node is stopped (SIGSTOP) for 0.9 of each second, `--seconds` long. For each `round_timeout` and
`lag_limit`: the speed of the others before and meanwhile, and how far from 1/6 they end. `--page` writes the
table into docs/reference/faults.md.
"""

import argparse
import json
import os
import signal
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from streams.tools.broker.broker import start, stop
from tests.benchmarks.kafka_mesh import write_mesh
from tests.benchmarks.measured_page import machine, write
from tests.kafka.test_kills import Chaos
from tests.support.brokers.development import free_port
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh, wait_until

CASES = [(timeout, limit) for timeout in (5, 0.2) for limit in ("none", 1)]
"""Each `round_timeout` and `lag_limit`, in seconds."""
STOPPED, RECORDS, HORIZON, LAST = 0.9, 20_000, 32, 100
"""Seconds of each second; records a node; rounds; the rounds at the end that the answer is the mean of."""


class Found(NamedTuple):
    """Rounds a second of the median node of the others, before and meanwhile; distance from the answer."""

    before: float
    beside: float
    distance: float


def main(seconds: float, calm: float, times: int, *, page: bool) -> None:
    """Measure each case, in turns; print."""
    found: dict[tuple[float, str | int], list[Found]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        broker = start(Path(name) / "broker", free_port())
        try:
            for turn in range(times):
                for case in CASES:
                    folder = Path(name) / f"slow-{turn}-{CASES.index(case)}"
                    found[case].append(measured(folder, broker.address, case, seconds, calm))
                    print(case, found[case][-1], flush=True)
        finally:
            stop(broker.folder)
    options = f"--seconds {seconds:g} --calm {calm:g} --times {times}"
    text = f"## Beside a slow node\n\n{table(found)}\n\n{said(seconds, options)}"
    print(text)
    if page:
        print(f"wrote {write('slow node', text)}")


def measured(folder: Path, address: str, case: tuple[float, str | int], seconds: float, calm: float) -> Found:
    """Run a mesh of its own: calm, then beside the slow node."""
    timeout, limit = case
    path = write_mesh(
        folder,
        address,
        folder.name,
        1,
        round_timeout=timeout,
        lag_limit=limit,
        silence=10,
        horizon=HORIZON,
        slots={"by": "count", "size": 1, "timeout": 10},
        privacy={"mechanism": "none", "gradient_bound": 10},
    )
    with LiveMesh(path, Process) as mesh:
        slow, *others = mesh.file.mesh.nodes
        rows = folder / "rows.jsonl"
        for name in mesh.file.mesh.nodes:
            rows.write_text((json.dumps({"f0": 1, "label": int(name == slow)}) + "\n") * RECORDS)
            mesh.feed(name)
        mesh.scheduler()
        mesh.nodes()
        chaos = Chaos(mesh, 0)

        def round_() -> float:
            mesh.check()
            return median(map(chaos.round, others))

        wait_until(lambda: round_() > HORIZON)
        began, first = time.monotonic(), round_()
        time.sleep(calm)
        then, second = time.monotonic(), round_()
        stop_and_go(mesh.processes[slow]._process.pid, seconds)
        ended, third = time.monotonic(), round_()
        values = mesh.values()
    return Found(
        (second - first) / (then - began), (third - second) / (ended - then), distance(values, others)
    )


def stop_and_go(pid: int, seconds: float) -> None:
    """Stop a process for most of each second."""
    for _ in range(round(seconds)):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(STOPPED)
        os.kill(pid, signal.SIGCONT)
        time.sleep(1 - STOPPED)


def distance(values: dict[tuple[str, int], set[tuple[bytes, bool, bytes]]], others: list[str]) -> float:
    """Return how far the mean of the others' last releases is from the answer of all six."""
    last = {name: max(round for source, round in values if source == name) for name in others}
    found = [
        np.frombuffer(value)
        for (source, round), ((_, _, value),) in values.items()
        if source in last and round > last[source] - LAST
    ]
    return abs(float(np.mean(found)) - 1 / 6)


def table(found: dict[tuple[float, str | int], list[Found]]) -> str:
    """Return a row a case: medians, with ranges."""
    lines = [
        "| `round_timeout` | `lag_limit` | others' rounds/s before | beside it | of that | from the answer |",
        "|---|---|---|---|---|---|",
    ]
    for (timeout, limit), runs in found.items():
        shares = [one.beside / one.before for one in runs]
        before, beside = (spread([one[k] for one in runs], ".1f") for k in (0, 1))
        far = spread([one.distance for one in runs], ".3f")
        lines.append(f"| {timeout:g} | {limit} | {before} | {beside} | {spread(shares, '.0%')} | {far} |")
    return "\n".join(lines)


def spread(numbers: list[float], form: str) -> str:
    """Return the median with its range."""
    middle, least, most = (format(one, form) for one in (median(numbers), min(numbers), max(numbers)))
    return f"{middle} ({least} to {most})"


def said(seconds: float, options: str) -> str:
    """Return what was done, and by which command."""
    return (
        f"One node of six is stopped for {STOPPED:g} of each second, {seconds:g} s long. The answer of all "
        "six is 1/6, as its labels are 1 and the others' 0. In rounds without it its records count "
        f"nothing. Horizon {HORIZON}, no noise. Medians, with ranges.\n\n"
        f"Measured by `python -m tests.benchmarks.slow_node {options} --page` on {machine()}."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--calm", type=float, default=10)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    main(given.seconds, given.calm, given.times, page=given.page)
