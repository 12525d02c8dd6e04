"""The forms of a mesh and their floor: `python -m tests.benchmarks.kafka_turns [TURNS [D [FORM ...]]]`.

A topic an edge or a node (`layout`), and a process a node or two for all six; of `FORMS` alone unless named.
Each turn runs every form once beside the floor of that turn, since the machine's speed changes from minute to
minute.
"""

import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from streams.tools.broker.broker import start, stop
from tests.benchmarks.kafka_runs import Form, Runs, Sizes
from tests.benchmarks.kafka_watch import Seen
from tests.benchmarks.spreads import spread
from tests.support.brokers.development import free_port

SIZES = Sizes((2,), rounds=300, warm_up=100, turns=10, unmeasured=0, prefetch=0, backlog=0, restarts=0)
FORMS: dict[str, Form] = {
    "edges": Form("edges", None),
    "outbox": Form("outbox", None),
    "edges, two hosts": Form("edges", 2),
    "outbox, two hosts": Form("outbox", 2),
}
PROCESS = {f"{name}, process": form._replace(durability="process") for name, form in FORMS.items()}
"""The same forms with `durability: process`."""
PREDICTING = {f"{name}, predictions": form._replace(predictions=True) for name, form in FORMS.items()}
"""The same forms with `predictions: true`."""
HEAD = (
    "| | p50 ms | p50 / floor | p99 ms | p99 / the floor's p50 | p99 / the floor's p99 "
    "| CPU us a round: all nodes | broker | scheduler |"
)
Turns = list[dict[str, Seen]]


def row(turns: Turns, who: str) -> str:
    """Return the medians, with their ranges, of one form: round times, and processor time by process."""
    p50, p99 = ([turn[who].milliseconds(of) for turn in turns] for of in (50, 99))
    floor, late = ([turn["floor"].milliseconds(of) for turn in turns] for of in (50, 99))
    cells = [spread(p50, 1), spread(over(p50, floor), 2), spread(p99, 0)]
    cells += [spread(over(p99, floor), 1), spread(over(p99, late), 1)]
    cells += [spread([of_nodes(turn[who]) for turn in turns], 0)]
    cells += [spread([turn[who].microseconds(of=of) for turn in turns], 0) for of in ("broker", "scheduler")]
    return f"| {who} | {' | '.join(cells)} |"


def over(values: list[float], others: list[float]) -> list[float]:
    """Return the ratio of each turn."""
    return [one / other for one, other in zip(values, others, strict=True)]


def of_nodes(seen: Seen) -> float:
    """Return the microseconds of processor time that all processes of nodes take for a round."""
    labels = seen.took.keys() - {"scheduler", "broker"}
    return sum(seen.microseconds(of=label) for label in labels)


def main() -> None:
    """Measure, and print."""
    given = [int(one) for one in sys.argv[1:3]]
    count, dimension = given + [SIZES.turns, *SIZES.dimensions][len(given) :]
    forms = {name: (FORMS | PROCESS | PREDICTING)[name] for name in sys.argv[3:] or FORMS}
    load, turns = os.getloadavg()[0], Turns()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            runs = Runs(start(folder / "broker", free_port()), folder, SIZES)
            runs.forms(dimension, -1, forms)  # the broker's Java translates its code
            for number in range(count):
                turns.append(runs.forms(dimension, number, forms))
                p50 = (f"{who} {seen.milliseconds(50):.2f}" for who, seen in turns[-1].items())
                print(f"turn {number + 1}: p50 ms: {', '.join(p50)}", file=sys.stderr, flush=True)
        finally:
            stop(folder / "broker")
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    print(f"{today}, {count} turns of {SIZES.rounds} rounds, d = {dimension}, load {load:.1f}")
    print(f"{HEAD}\n|{'---|' * (HEAD.count('|') - 1)}")
    for who in turns[0]:
        print(row(turns, who))


if __name__ == "__main__":
    main()
