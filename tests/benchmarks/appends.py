"""What the checksums of a journal cost: appends with and without them, in turns on one disk.

`python -m tests.benchmarks.appends [D] [APPENDS]`. Both journals are the product's; without checksums, they
are constant. Each turn appends the same records to a new pair of journals, one record to each in turn, and
the order changes from record to record, so that the disk's mood hits both alike.
"""

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np

from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from nodes.privacy.private import Private
from nodes.values import Average, Release
from streams.state import journal as journals
from streams.state import secret as secrets
from streams.state.journal import SqliteJournal

TURNS, HORIZON, BANDS = 5, 32, 4
CONSTANT = 0


def opened(path: Path) -> SqliteJournal:
    """A new journal."""
    return SqliteJournal(path, run="r", node="a", digest=bytes(16), instance="a" * 32, horizon=HORIZON)


def record(number: int, dimension: int) -> JournalRecord:
    """A record with a running average, as `algorithm.decision: average` keeps it."""
    values = np.linspace(-1.0, 1.0, dimension) * number
    return JournalRecord(
        number, number - 1, Release(values), False, number, 1.0, ((0, number),), number, (), (), (),
        average=Average(number, values / 3),
    )  # fmt: skip


Seconds = tuple[list[float], list[float]]
"""Of each append: by the clock, and of the processor."""


def turn(dimension: int, appends: int, *, band: bool) -> tuple[Seconds, Seconds]:
    """What appends take with checksums, and without."""
    seconds: tuple[Seconds, Seconds] = (([], []), ([], []))
    with (
        TemporaryDirectory(dir=Path.cwd()) as folder,
        opened(Path(folder) / "with") as checked,
        opened(Path(folder) / "without") as bare,
    ):
        for number in range(1, appends + 1):
            draws = np.arange(BANDS * dimension, dtype=np.int64).reshape(BANDS, -1) + number
            made = record(number, dimension), Secret("b", Private(draws)) if band else None
            for kind in ((0, 1), (1, 0))[number % 2]:
                _append((checked, bare)[kind], made, seconds[kind], checksums=kind == 0)
    return seconds


def _append(
    journal: SqliteJournal, made: tuple[JournalRecord, Secret | None], seconds: Seconds, *, checksums: bool
) -> None:
    with ExitStack() as patched:
        if not checksums:
            for module in (journals, secrets):
                patched.enter_context(patch.object(module, "checksum", lambda *_: CONSTANT))
        began, busy = time.perf_counter(), time.thread_time()
        journal.append(*made)
        seconds[0].append(time.perf_counter() - began)
        seconds[1].append(time.thread_time() - busy)


def main(dimension: int = 10_000, appends: int = 200) -> None:
    """Print medians: of each turn, and of the ratios."""
    for band in (False, True):
        sys.stdout.write(f"d = {dimension:,}{f', a band of {BANDS}' if band else ''}\n")
        ratios: tuple[list[float], list[float]] = ([], [])
        for _ in range(TURNS):
            pairs = list(zip(*turn(dimension, appends, band=band), strict=True))
            middle = [(1e3 * median(checked), 1e3 * median(bare)) for checked, bare in pairs]
            for known, (checked, bare) in zip(ratios, middle, strict=True):
                known.append(checked / bare)
            clock, busy = (f"{checked:.2f} ms, without {bare:.2f}" for checked, bare in middle)
            sys.stdout.write(f"  by the clock {clock}; of the processor {busy}\n")
        for name, known in zip(("by the clock", "of the processor"), ratios, strict=True):
            low, high = min(known), max(known)
            sys.stdout.write(f"  ratio {name}: median {median(known):.3f}, from {low:.3f} to {high:.3f}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
