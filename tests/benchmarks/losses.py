"""Losses on a real broker as a table: `python -m tests.benchmarks.losses GROUP [--times 3] [--page]`.

GROUP: journals, topics or disks. Three sensors, two schedulers, three feeders (20 records a second) and a
broker, a process each, with ordinary timeouts and exact noise. Every loss is inflicted so many times, in an
order drawn from the seed, each after the one before is over, and what must hold is checked after each.
`--page` writes the table into docs/reference/faults.md.
"""

import argparse
from collections import Counter, defaultdict
from statistics import median
from typing import NamedTuple

from tests.benchmarks.broker_losses import BROKER_LOSSES, DISK_LOSSES
from tests.benchmarks.harm import HORIZON, RATE
from tests.benchmarks.journal_losses import JOURNAL_LOSSES
from tests.benchmarks.lossy import ORDINARY, Loss, Outcome, lossy
from tests.benchmarks.measured_page import machine, write

_LOST = "the audit names rounds whose plans are lost"


class Group(NamedTuple):
    """A table of losses and its heading."""

    heading: str
    losses: tuple[Loss, ...]


GROUPS = {
    "journals": Group("Journals lost and damaged, schedulers split", JOURNAL_LOSSES),
    "topics": Group("Topics and records lost", BROKER_LOSSES),
    "disks": Group("Power cuts and lost disks", DISK_LOSSES),
}


def main(name: str, times: int, seed: int, *, page: bool) -> None:
    """Inflict, check, print."""
    group, found = GROUPS[name], defaultdict[str, list[Outcome]](list)
    with lossy(seed) as losing:
        order = [loss for loss in group.losses for _ in range(times)]
        losing.random.shuffle(order)
        for loss in order:
            outcome = losing.suffered(loss)
            found[loss.name].append(outcome)
            print(f"{outcome.seconds:6.1f} s  {loss.name}: {held([outcome])}", flush=True)
        rounds, values = losing.slowest(), len(losing.released.values)
    lines = [
        "| loss | times | what held | went on after, median | worst |",
        "|---|---|---|---|---|",
        *(row(loss, found[loss.name]) for loss in group.losses),
    ]
    options = f"{name} --times {times} --seed {seed}"
    text = "\n".join((f"## {group.heading}", "", *lines, "", said(len(order), rounds, values, options)))
    print(text)
    if page:
        print(f"wrote {write(f'losses: {name}', text)}")


def row(loss: Loss, outcomes: list[Outcome]) -> str:
    """Return a loss's row."""
    seconds = [one.seconds for one in outcomes]
    took = f"{median(seconds):.1f} s | {max(seconds):.1f} s"
    return f"| {loss.name} | {len(outcomes)} | {held(outcomes)} | {took} |"


def held(outcomes: list[Outcome]) -> str:
    """Return what was checked, and what was seen how often."""
    often = Counter(what for one in outcomes for what in (*one.seen, *([_LOST] if one.findings else ())))
    words = ["one value a round, all charged"]
    words += [
        what if count == len(outcomes) else f"{what} ({count} of {len(outcomes)})"
        for what, count in often.items()
    ]
    return "; ".join(words)


def said(losses: int, rounds: int, values: int, options: str) -> str:
    """Return what held, and how it was measured."""
    waits = f"`round_timeout: {ORDINARY['round_timeout']}`, `silence: {ORDINARY['silence']}`"
    return (
        f"What held, over {rounds:,} rounds and {losses} losses. One value a round: none of the {values:,} "
        "rounds of an instance that were ever on an edge had two. All charged: `audit releases` compared the "
        "journals' charges with the noisy releases after each loss. It found nothing but what the table "
        "says. Every node got beyond all rounds planned before. Three nodes, horizon "
        f"{HORIZON}, {RATE} records a second and node, {waits}, `slots.timeout: 0.2`, exact noise. What ends "
        "by itself is started again, forked from a process that has imported all.\n\n"
        f"Measured by `python -m tests.benchmarks.losses {options} --page` on {machine()}. The time begins "
        "when what was killed is started again, the topic is there again, or the broker answers."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    main(given.group, given.times, given.seed, page=given.page)
