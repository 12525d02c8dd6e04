"""What metrics cost a node's machine, each report of a round by itself."""

import time

import numpy as np

from tests.support.machines import learner, machine, neighbours, plans, run_rounds, slot, started
from tests.support.metrics import metrics

TURNS = 5_000


def measure_metrics() -> None:
    """Print the median time of each report, and of the updates beside them."""
    node, figures = machine(learner(private=True)), metrics(learner(private=True))
    effects = [*started(node, *plans(1, 2)), *neighbours(1), *run_rounds(node, 1, 1), *node.handle(slot(2))]
    reports = {type(effect).__name__: effect for effect in effects}
    calls = {
        name: lambda report=reports[name]: figures.report(report) for name in ("Decided", "Stepped", "Scored")
    }
    calls |= {"sent": figures.sent, "received": lambda: figures.received("b"), "began": figures.timing.began}
    print("\nmetrics, us an update (median)")
    for name, call in calls.items():
        taken = np.empty(TURNS)
        for turn in range(TURNS):
            began = time.perf_counter()
            call()
            taken[turn] = time.perf_counter() - began
        print(f"  {name:10} {1e6 * np.median(taken):6.2f}")
