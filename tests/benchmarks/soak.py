"""A mesh under random faults for a long time: `python -m tests.benchmarks.soak [--minutes 30] [--page]`.

As tests.benchmarks.faults, but one node and one scheduler are spared: their memory and open files at the
start and at the end show whether they grow. A fault follows some seconds after the one before is over. In
the end every release that the edges still hold must be that of a run in one process, bit for bit. `--page`
writes the table into docs/reference/faults.md.
"""

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.harm import FAULTS, Harm, harmed
from tests.benchmarks.measured_page import machine, write
from tests.support.resident import resident

SPARED_SCHEDULER, PAUSE, SETTLED, MIB = "scheduler-1", 5.0, 20.0, 2**20


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
            print(f"{took:6.1f} s  {fault.name}; round {harm.slowest():,}", flush=True)
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
    given = parser.parse_args()
    main(given.minutes, given.seed, page=given.page)
