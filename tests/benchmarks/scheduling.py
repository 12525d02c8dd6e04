"""The scheduler's time by number of nodes, in memory: `python -m tests.benchmarks.scheduling`.

A circle of degree 4, fixed weights and random switching. Every node beats each H/4 rounds, as live ones do;
every plan is encoded, and read back by the scheduler. Processor time from the first plan on, without the
nodes' first heartbeats; the least of three runs.
"""

import time

from streams.codec import decode_plans, encode_plans
from tests.support.nodes.scheduling import beat
from topology.graph import from_edges
from topology.scheduler import (
    HeartbeatRead,
    PlansRead,
    PublishPlans,
    SchedulerMachine,
    SchedulerSettings,
    SchedulerStarted,
)
from topology.schedules import FixedSchedule, Schedule, SwitchingSchedule

SIZES = (16, 64, 256, 1_000)
HORIZON = 32
DIGEST = bytes(16)


def circle(size: int) -> list[tuple[str, str]]:
    """Return the pairs of a circle in which a node hears the two nearest on either side."""
    return [(f"n{k}", f"n{(k + step) % size}") for k in range(size) for step in (1, 2)]


def seconds(schedule: Schedule, plans: int) -> float:
    """Return the processor time of that many plans."""
    nodes = schedule.graph.nodes
    machine = SchedulerMachine(SchedulerSettings("r", schedule, HORIZON, 10.0))
    beats = {
        stepped: [beat(node, stepped, f"{k:032x}") for k, node in enumerate(nodes)]
        for stepped in range(0, plans, HORIZON // 4)
    }
    began, made = 0.0, 0
    machine.handle(SchedulerStarted((), ()))
    for at in beats.values():
        for one in at:
            waiting = list(machine.handle(HeartbeatRead(one)))
            while waiting:
                effect = waiting.pop(0)
                if isinstance(effect, PublishPlans):
                    began = began or time.process_time()
                    made += len(effect.plans)
                    for value in encode_plans(effect.last, effect.plans, DIGEST):
                        waiting += machine.handle(PlansRead(decode_plans(value, "r", DIGEST)))
    if made < plans:
        raise ValueError(f"{made} plans, and not {plans}")
    return (time.process_time() - began) / made


def main() -> None:
    """Measure, and print."""
    print("| nodes | fixed: ms a plan | us a plan and node | switching: ms a plan | us a plan and node |")
    print("|---|---|---|---|---|")
    for size in SIZES:
        names = tuple(f"n{k}" for k in range(size))
        graph = from_edges(names, circle(size))
        cells = []
        for schedule in (FixedSchedule(graph), SwitchingSchedule(graph, 0.5, 0)):
            took = min(seconds(schedule, 96) for _ in range(3))
            cells.append(f"{1e3 * took:.2f} | {1e6 * took / size:.1f}")
        print(f"| {size:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
