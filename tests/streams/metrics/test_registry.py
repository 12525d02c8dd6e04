"""Our series beside the client library's own counter, gauge and histogram: the same text."""

import sys
from itertools import pairwise
from threading import Event, Thread

import pytest
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.openmetrics.exposition import generate_latest as as_openmetrics

from streams.metrics.catalogue import SharedMetric
from streams.metrics.registry import SECONDS as LIMITS
from streams.metrics.registry import SharedRegistry

SECONDS = (0.0, 0.0005, 0.001, 0.0011, 0.02, 1.0, 29.9, 30.0, 31.0, 1e9)
WHO = {"mesh": "m", "node": 'a "b"'}


def of_the_library():
    """The same three metrics, made by the client library."""
    disable_created_metrics()
    registry, names = CollectorRegistry(), ["mesh", "node"]

    def made(kind, metric, *labels, **more):
        what = metric.value
        own = kind(what.name, what.help, [*names, *what.labels], "mirrormesh", registry=registry, **more)
        return own.labels(*WHO.values(), *labels)

    given_up = made(Counter, SharedMetric.GIVEN_UP, "b")
    given_up.inc(3)
    made(Gauge, SharedMetric.EDGES_ON).set(2)
    histogram = made(Histogram, SharedMetric.INTERVAL, buckets=LIMITS)
    for seconds in SECONDS:
        histogram.observe(seconds)
    return registry


def ours():
    registry = SharedRegistry(**WHO)
    given_up = registry.counter(SharedMetric.GIVEN_UP, "b")
    given_up.total += 3
    registry.gauge(SharedMetric.EDGES_ON, lambda: 2)
    histogram = registry.histogram(SharedMetric.INTERVAL)
    for seconds in SECONDS:
        histogram.observe(seconds)
    return registry.collected


@pytest.mark.parametrize("written", [generate_latest, as_openmetrics])
def test_what_is_shown_is_as_the_client_library_shows_it(written):
    assert written(ours()) == written(of_the_library())


def test_a_scrape_may_ask_for_some_names_alone():
    named = "mirrormesh_releases_given_up_total"
    text = generate_latest(ours().restricted_registry([named])).decode()
    assert [line.split("{")[0] for line in text.splitlines() if line[0] != "#"] == [named]


def test_a_series_is_made_once():
    registry = SharedRegistry(**WHO)
    registry.counter(SharedMetric.GIVEN_UP, "b")
    registry.counter(SharedMetric.GIVEN_UP, "c")
    with pytest.raises(ValueError, match="is there already"):
        registry.counter(SharedMetric.GIVEN_UP, "b")


@pytest.fixture
def often_interrupted():
    """Threads take turns every microsecond."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_scrapes_lose_nothing_of_what_is_counted_beside_them(often_interrupted):
    registry, enough = SharedRegistry(**WHO), Event()
    counter, histogram = registry.counter(SharedMetric.ROUNDS), registry.histogram(SharedMetric.INTERVAL)
    turns = 0

    def count():
        nonlocal turns
        while not enough.is_set():
            turns += 1
            counter.total += 1
            histogram.observe(0.1)

    writer = Thread(target=count)
    writer.start()
    try:
        seen = [values(registry) for _ in range(2_000)]
    finally:
        enough.set()
        writer.join()
    assert values(registry) == (turns, turns)
    assert seen[0] < seen[-1]  # they did run beside each other
    for now, after in pairwise(seen):
        assert all(earlier <= later for earlier, later in zip(now, after, strict=True))


def values(registry):
    """The counter, and the histogram's last bucket, which is its count."""
    found = {
        (sample.name, sample.labels.get("le")): sample.value
        for family in registry.collected.collect()
        for sample in family.samples
    }
    bucket = found["mirrormesh_round_interval_seconds_bucket", "+Inf"]
    assert found["mirrormesh_round_interval_seconds_count", None] == bucket
    return found["mirrormesh_rounds_total", None], bucket
