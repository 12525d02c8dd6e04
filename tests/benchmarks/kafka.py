"""Speed of the mesh on a broker, one process a node, as ratios of one run: `make bench-kafka`.

Rings of six (with `--quick` of three) on one development broker of this run's own: nodes with their journals
and exact noise, as users have them; the floor, bare clients that do the same sends, acks and waits
(kafka_floor.py); and bare clients that send releases alone (kafka_ring.py). All processes share this machine.
`--quick` shows that it works, with numbers that say nothing.
"""

import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from streams.tools.broker.broker import start, stop
from tests.benchmarks.kafka_parts import commits, lessons, without_broker
from tests.benchmarks.kafka_ring import CLIENTS
from tests.benchmarks.kafka_runs import FULL, QUICK, Runs, Turn
from tests.benchmarks.kafka_watch import COMPILING, THREADS, WAITING, Seen, together
from tests.support.brokers.development import free_port

MIB = 2**20
APART = 0.01
"""Seconds between two rounds of a node, about."""
COLUMNS = f"{'p50 ms':>8}{'p99 ms':>8}{'rounds/s':>10}"


def print_rounds(runs: Runs, dimension: int) -> None:
    """Print the round times of nodes beside the floor's, and what else a round is made of."""
    turns = [runs.turn(dimension, number) for number in range(1, runs.sizes.turns + 1)]
    rings = {name: together([turn.seen[name] for turn in turns]) for name in turns[0].seen}
    print(f"\nring of {runs.sizes.nodes}, d = {dimension}, h = 1; bytes of each record: {turns[0].lengths}")
    print(f"{'':17}{COLUMNS}{'/ floor':>9}{'/ alone':>9}{'CPU us':>9}", end="")
    print(f"{'no core us':>12}{'broker us':>11}{'compiling':>11}")
    for name, ring in rings.items():
        of_floor, of_alone = (np.median(ratios(turns, name, other)) for other in ("floor", CLIENTS[0]))
        took = f"{ring.microseconds():9,.0f}{ring.microseconds(WAITING):12,.0f}{took_by_broker(ring)}"
        print(f"{name:17}{times(ring)}{of_floor:9.2f}{of_alone:9.2f}{took}")
    print("  floor: all that a round sends, acknowledges and waits for, on bare confluent-kafka")
    print("  confluent-kafka, aiokafka: releases alone; / alone: p50 beside the first of them")
    listed = ", ".join(f"{ratio:.2f}" for ratio in ratios(turns, "mirrormesh", "floor"))
    print(f"  they take {runs.sizes.turns} turns; ratios of p50s in a turn, their median; / floor: {listed}")
    print("  us: a round and process; no core: its threads were ready, and all cores taken")
    print_parts(turns[-1].path, rings["mirrormesh"], rings["floor"], runs.sizes.alone)


def ratios(turns: list[Turn], name: str, other: str) -> list[float]:
    """Return the p50 of one ring over that of another, in each turn."""
    return [turn.seen[name].milliseconds(50) / turn.seen[other].milliseconds(50) for turn in turns]


def took_by_broker(ring: Seen) -> str:
    """Return what the broker has taken for a round, and beside it what its JVM took to translate its code."""
    return f"{ring.microseconds(of='broker'):11,.0f}{ring.microseconds(COMPILING, of='broker'):11,.0f}"


def print_parts(path: Path, nodes: Seen, floor: Seen, count: int) -> None:
    """Print where a node's round goes beside the floor's: measured alone, and by its threads."""
    journal = next((path.parent / "state").glob("*-0.journal"))
    for pause, how in ((0.0, "in a loop"), (APART, f"{1e3 * APART:g} ms apart")):
        taken, cpu = commits(journal, count, pause)
        p50, p99 = 1e3 * np.percentile(taken, [50, 99])
        decoding, learning = (1e6 * part for part in lessons(path, count, pause))
        print(
            f"  alone, {how}: a commit {p50:.2f} ms p50, {p99:.2f} p99, {1e6 * cpu:.0f} us of CPU; "
            f"CPU us of decoding {decoding:.0f}, of a lesson with its exact noise {learning:.0f}"
        )
    print(f"  CPU us in one process without broker and journal: {1e6 * without_broker(path, 300):.0f}")
    for name, ring in (("node", nodes), ("floor", floor)):
        shares = ", ".join(f"{kind} {ring.microseconds(kind):,.0f}" for kind in THREADS)
        print(f"  CPU us of a {name} by thread: {shares}")
    print("    main: Faust's loop; others: the machine, its reader, Faust's fetcher")
    schedulers = (f"{ring.microseconds(of='scheduler'):,.0f}" for ring in (nodes, floor))
    print(f"  CPU us of the scheduler: {' and at the floor '.join(schedulers)}")
    print(f"  resident memory of a node: {nodes.memory / MIB:.0f} MiB")


def print_backlog(runs: Runs) -> None:
    """Print round times where every node reads a backlog, beside those where none does; and restarts."""
    without, one, many = "no backlog, h = 1", "h = 1", "h = 100"
    parts: dict[str, list[Seen]] = {without: [], one: [], many: []}
    for number in range(runs.sizes.turns):
        last = number == runs.sizes.turns - 1
        parts[without].append(runs.prefetched(number))
        parts[many].append(runs.backlog(100, number)[0])
        seen, restarts = runs.backlog(1, number, runs.sizes.restarts if last else 0)
        parts[one].append(seen)
    rings = {name: together(found) for name, found in parts.items()}
    print(f"\nring of {runs.sizes.nodes}, d = 2, {runs.sizes.backlog:,} records wait on every data topic")
    print(f"{'':17}{COLUMNS}{'p50 ratio':>11}{'p99 ratio':>11}{'MiB a node':>12}")
    for name, ring in rings.items():
        p50, p99 = (ring.milliseconds(of) / rings[without].milliseconds(of) for of in (50, 99))
        print(f"{name:17}{times(ring)}{p50:11.2f}{p99:11.2f}{ring.memory / MIB:12.0f}")
    rate = rings[many].rate
    of_all = 100 * runs.sizes.nodes * rate
    print(f"  with h = 100 a node takes {100 * rate:,.0f} records/s, all take {of_all:,.0f}")
    listed = ", ".join(f"{seconds:.1f}" for seconds in sorted(restarts))
    print(f"  a killed node's start to its first release: median {np.median(restarts):.2f} s of {listed}")


def print_logs(folder: Path) -> None:
    """Print the end of what each process has said."""
    for log in sorted((*folder.glob("*.log"), *folder.glob("*/*.log"))):
        said = log.read_text(errors="replace")
        if said:
            print(f"\n{log.relative_to(folder)}:\n{said[-500:]}")


def times(ring: Seen) -> str:
    """Return the columns that all tables begin with."""
    return f"{ring.milliseconds(50):8.2f}{ring.milliseconds(99):8.2f}{ring.rate:10.0f}"


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print."""
    sizes = QUICK if "--quick" in (sys.argv[1:] if arguments is None else arguments) else FULL
    began = time.perf_counter()
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
        f"laplace, exact noise; {sizes.turns} times {sizes.rounds} rounds after {sizes.warm_up}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            runs = Runs(start(folder / "broker", free_port()), folder, sizes)
            for number in range(sizes.unmeasured):
                runs.turn(2, -number)
            for dimension in sizes.dimensions:
                print_rounds(runs, dimension)
            print_backlog(runs)
        except TimeoutError:
            print_logs(folder)
            raise
        finally:
            stop(folder / "broker")
    print(f"\n{time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
