"""A node's metrics, what a registry shows, and Prometheus's own opinion of it."""

import time
from math import inf
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from nodes.machine.events import Decided, Scored
from nodes.privacy.private import Private
from nodes.protocol import Noticed, Stepped
from streams.codec import Reason
from streams.metrics.node_metrics import NodeMetrics
from streams.metrics.private import DataCounts
from tests.support.nodes.machines import learner
from tests.support.processes.programs import promtool


def metrics(
    parts=None,
    record=None,
    *,
    sources="bc",
    connected=lambda: True,
    lag=lambda: Private(None),
    counts=lambda: Private(DataCounts()),
    registry=None,
    labels=None,
    truth=False,
    score=None,
    ends=(inf, inf),
    clock=time.time,
    steady=time.monotonic,
):
    """Metrics of node a, with in-edges from b and c; by default nothing is known of its data."""
    who = ("tracking", "a", parts or learner(), sources, record)
    asked = {"connected": connected, "lag": lag, "counts": counts, "journal_bytes": lambda: 4096}
    asked |= {"nodes": 3, "registry": registry, "labels": labels, "score": score}
    return NodeMetrics(*who, **asked, truth=truth, ends=ends, clock=clock, steady=steady)


def told(figures, effects):
    """Let the metrics hear the reports among the effects, as a shell does, and then catch up."""
    for effect in effects:
        if isinstance(effect, Noticed | Decided | Stepped | Scored):
            figures.report(effect)
    figures.catch_up()
    return figures


def shared(figures, name, *labels):
    """A sample that everyone may see."""
    return shown(figures.shared)[f"mirrormesh_{name}", *labels]


def private(figures, name, *labels):
    """A sample for the owner."""
    return shown(figures.private)[f"mirrormesh_{name}", *labels]


def shown(registry):
    """Every sample of one of our registries: {(name, the labels but mesh and node): value}."""
    return samples(registry.collected.collect())


def samples(families):
    """Every sample of some families: {(name, the labels but mesh and node): value}."""
    return {
        (sample.name, *(v for k, v in sample.labels.items() if k not in {"mesh", "node"})): sample.value
        for family in families
        for sample in family.samples
    }


def scraped(address, port):
    """What Prometheus reads there."""
    with urlopen(f"http://{address}:{port}/metrics", timeout=10) as answer:
        return answer.read().decode()


def probed(port, path):
    """The status and the text of a probe."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode().strip()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode().strip()


def promtool_says(text):
    """Return what `promtool check metrics` finds wrong."""
    found, content = promtool("check", "metrics", given=text)
    assert bool(found) == (not content)
    return found


REASONS = {reason.value for reason in Reason}


def refused_by(port):
    """The messages of peers that a process cannot take, by reason; None: it does not answer yet.

    What a scheduler refuses that is well-formed, as plans out of their place, is left out.
    """
    try:
        shown = samples(text_string_to_metric_families(scraped("127.0.0.1", port)))
    except OSError:
        return None
    name = "mirrormesh_messages_refused_total"
    return {
        labels[-1]: count
        for labels, count in shown.items()
        if labels[0] == name and labels[-1] in REASONS and count
    }
