"""What metrics cost a node's machine, each report of a round by itself."""

import time

import numpy as np
from prometheus_client import generate_latest

from tests.support.machines import learner, machine, neighbours, plans, run_rounds, slot, started
from tests.support.metrics import metrics

TURNS = 5_000
SCRAPED, DEGREE, SCRAPES = 64, 8, 20
"""Nodes whose metrics one process shows, in-edges of each, and how often they are read."""


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
    _measure_scrapes()


def _measure_scrapes() -> None:
    """Print how long it takes to show what everyone may see of many nodes, and all of it."""
    sources = [f"node-{k}" for k in range(DEGREE)]
    nodes = [metrics(learner(private=True), sources=sources) for _ in range(SCRAPED)]
    shared = [node.shared.collected for node in nodes]
    kinds = {"shared": shared, "and private": [*shared, *(node.private.collected for node in nodes)]}
    print(
        f"\n{SCRAPED} nodes, {SCRAPED * DEGREE} in-edges, ms of processor time a scrape (median of {SCRAPES})"
    )
    for name, registries in kinds.items():
        taken = []
        for _ in range(SCRAPES):
            began = time.process_time()
            size = sum(len(generate_latest(registry)) for registry in registries)
            taken.append(time.process_time() - began)
        print(f"  {name:12} {1e3 * np.median(taken):6.1f}, {size / 1e3:,.0f} kB")
