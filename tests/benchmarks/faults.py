"""Faults on a real broker as a table: `python -m tests.benchmarks.faults [--long] [--times 5] [--page]`.

Six sensors, two schedulers, six feeders (20 records a second) and a broker, a process each. Every fault is
inflicted so many times, in an order drawn from the seed, each after the one before is over. In the end every
release must be that of a run in one process, bit for bit. `--long` takes the faults that last long instead.
`--page` writes the table into docs/reference/faults.md.
"""

import argparse
from collections import defaultdict
from statistics import median

from tests.benchmarks.harm import HORIZON, RATE, Fault, harmed
from tests.benchmarks.kills import FAULTS, LONG_FAULTS
from tests.benchmarks.measured_page import machine, write

HELD = "same releases, no new instance, all charged"
"""What is checked of every fault; `said` says how."""


def main(times: int, seed: int, *, long: bool, page: bool) -> None:
    """Inflict, compare, print."""
    took = defaultdict(list)
    faults, name, option = (
        (LONG_FAULTS, "Away and slow", "--long ") if long else (FAULTS, "Killed and stopped", "")
    )
    with harmed(seed) as harm:
        order = [fault for fault in faults for _ in range(times)]
        harm.random.shuffle(order)
        for fault in order:
            took[fault.name].append(harm.inflicted(fault))
            print(f"{took[fault.name][-1]:6.1f} s  {fault.name}", flush=True)
        harm.end()
        last, values = harm.check()
    table = f"## {name}\n\n{rows(faults, took)}"
    table += f"\n\n{said(last, values, len(order), f'{option}--times {times} --seed {seed}')}"
    print(table)
    if page:
        print(f"wrote {write('long faults' if long else 'faults', table)}")


def rows(faults: tuple[Fault, ...], took: dict[str, list[float]]) -> str:
    """Return the table."""
    lines = [
        "| fault | times | what held | went on after, median | worst |",
        "|---|---|---|---|---|",
    ]
    for fault in faults:
        found = took[fault.name]
        seconds = f"{median(found):.1f} s | {max(found):.1f} s"
        lines.append(f"| {fault.name} | {len(found)} | {HELD} | {seconds} |")
    return "\n".join(lines)


def said(last: int, values: int, faults: int, options: str) -> str:
    """Return what held, and how it was measured."""
    return (
        f"What held, over {last:,} rounds and {faults} faults. Same releases: all {values:,} on the edges "
        "were, bit for bit, those of a run in one process, and no round of a node had two values. No new "
        "instance: no node began anew, and no process ended by itself. All charged: `audit releases` "
        "compared the journals' charges with the noisy releases, and found nothing. A ring of six, "
        f"horizon {HORIZON}, {RATE} records a second and node; nobody is given up (`round_timeout: none`)."
        "\n\n"
        f"Measured by `python -m tests.benchmarks.faults {options} --page` on "
        f"{machine()}. Kills are SIGKILL. The time begins when what was killed is started again (of the "
        "broker: when it answers), or what was stopped goes on."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    main(given.times, given.seed, long=given.long, page=given.page)
