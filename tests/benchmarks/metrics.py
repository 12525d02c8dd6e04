"""What metrics cost a node's machine, each event of a round by itself, and what a scrape costs."""

import time
from collections.abc import Callable, Mapping

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as as_openmetrics

from nodes.machine.events import Notice
from nodes.protocol import Noticed
from streams.codec import Reason
from streams.metrics.node_metrics import NodeMetrics
from tests.support.nodes.machines import learner, machine, neighbours, plans, run_rounds, slot, started
from tests.support.nodes.metrics import metrics

BLOCKS, TURNS = 25, 200
SCRAPED, DEGREE, SCRAPES = 64, 8, 20
"""Nodes whose metrics one process shows, in-edges of each, and how often they are read."""


def measure_metrics() -> None:
    """Print what each event costs, and what it leaves for later."""
    figures = metrics(learner(private=True))
    events = hot_path(figures)
    print(f"\nmetrics, us an update (the timer's time included): median of {TURNS}, least of {BLOCKS} such")
    for name, event in events.items():
        print(f"  {name:10} {1e6 * _taken(event, figures.catch_up):6.2f}")
    print(f"  after Scored, when it is worked out: {1e6 * _taken(figures.catch_up, events['Scored']):.2f}")
    _measure_scrapes()


def hot_path(figures: NodeMetrics) -> Mapping[str, Callable[[], None]]:
    """Return all that metrics are told in a round, by name."""
    node, timing = machine(learner(private=True)), figures.timing
    effects = [*started(node, *plans(1, 2)), *neighbours(1), *run_rounds(node, 1, 1), *node.handle(slot(2))]
    reports = {type(effect).__name__: effect for effect in effects}
    reports["Noticed"] = Noticed(Notice.GIVEN_UP, "b", 1)
    told = {
        name: lambda report=reports[name]: figures.report(report)
        for name in ("Decided", "Stepped", "Scored", "Noticed")
    }
    return told | {
        "began": timing.began,
        "entered": timing.entered,
        "closed": timing.closed,
        "committed": lambda: figures.committed(0.001),
        "sent": figures.sent,
        "received": lambda: figures.received("b"),
        "refused": lambda: figures.refused(Reason.RUN),
    }


def _taken(call: Callable[[], None], between: Callable[[], None]) -> float:
    """Return the seconds of a call, on its own: `between` is done between two of them, and not timed."""
    taken = np.empty((BLOCKS, TURNS))
    for block in taken:
        for turn in range(TURNS):
            between()
            began = time.perf_counter()
            call()
            block[turn] = time.perf_counter() - began
    return float(np.median(taken, 1).min())  # the other blocks were disturbed more


def _measure_scrapes() -> None:
    """Print how long it takes to show what everyone may see of many nodes, and all of it."""
    sources = [f"node-{k}" for k in range(DEGREE)]
    nodes = [metrics(learner(private=True), sources=sources) for _ in range(SCRAPED)]
    shared = [node.shared.collected for node in nodes]
    kinds = {"shared": shared, "and private": [*shared, *(node.private.collected for node in nodes)]}
    print(f"\n{SCRAPED} nodes, {SCRAPED * DEGREE} in-edges, ms of processor time a scrape (of {SCRAPES})")
    for name, registries in kinds.items():
        series = sum(len(family.samples) for registry in registries for family in registry.collect())
        print(f"  {name:12} {series:,} series: {_scraped(generate_latest, registries)}", end="; ")
        print(f"in OpenMetrics, as Prometheus asks for it: {_scraped(as_openmetrics, registries)}")


def _scraped(written: Callable[[CollectorRegistry], bytes], registries: list[CollectorRegistry]) -> str:
    taken = []
    for _ in range(SCRAPES):
        began = time.process_time()
        size = sum(len(written(registry)) for registry in registries)
        taken.append(1e3 * (time.process_time() - began))
    return f"{min(taken):.0f} (median {np.median(taken):.0f}), {size / 1e3:,.0f} kB"


if __name__ == "__main__":
    measure_metrics()
