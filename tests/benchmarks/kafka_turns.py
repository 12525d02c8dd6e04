"""The mesh and its floor in turns, as rows of a table: `python -m tests.benchmarks.kafka_turns [TURNS [D]]`.

Processor time is more telling than the clock while other work is on the machine. `make bench-kafka` has more.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from streams.tools.broker.broker import start, stop
from tests.benchmarks.kafka_runs import Runs, Sizes, Turn
from tests.support.brokers import free_port

SIZES = Sizes((2,), rounds=200, warm_up=60, turns=3, unmeasured=0, prefetch=0, backlog=0, restarts=0)
PROCESSES = ("node", "broker", "scheduler")


def row(turns: list[Turn], who: str) -> str:
    """Return the medians, with their ranges, of one ring: p50, and processor time by process."""
    p50, floor = ([turn.seen[name].milliseconds(50) for turn in turns] for name in (who, "floor"))
    cells = [spread(p50, 1), spread([one / other for one, other in zip(p50, floor, strict=True)], 1)]
    cells += [spread([taken(turn, who, process) for turn in turns], 0) for process in PROCESSES]
    return f"| {who} | {' | '.join(cells)} |"


def taken(turn: Turn, who: str, process: str) -> float:
    """Return the microseconds of processor time of a process in a round."""
    seen = turn.seen[who]
    return seen.microseconds() if process == "node" else seen.microseconds(of=process)


def spread(values: list[float], digits: int) -> str:
    """Return the median and the range."""
    low, middle, high = min(values), float(np.median(values)), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def main() -> None:
    """Measure, and print."""
    given = [int(one) for one in sys.argv[1:3]]
    turns, dimension = given + [3, 2][len(given) :]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            runs = Runs(start(folder / "broker", free_port()), folder, SIZES)
            found = [runs.turn(dimension, number) for number in range(turns)]
        finally:
            stop(folder / "broker")
    print("| | p50 ms | p50 / floor | CPU us a round: a node | broker | scheduler |")
    print("|---|---|---|---|---|---|")
    for who in ("mirrormesh", "floor"):
        print(row(found, who))


if __name__ == "__main__":
    main()
