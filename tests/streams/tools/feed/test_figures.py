"""What a feed's process shows of itself, and at its end: all is fed, or it has failed."""

import math
from threading import Thread

import pytest
from prometheus_client import generate_latest

from streams.metrics import endpoint as module
from streams.records.faults import Fault
from streams.runtime.process import Stop
from streams.tools.feed.figures import STILL, FeedFigures
from streams.tools.feed.lines import FeedFailed
from tests.support.brokers.development import free_ports
from tests.support.nodes.metrics import probed, promtool_says, scraped, shown

HERE = "127.0.0.1"


@pytest.fixture
def stop():
    with Stop() as stop:
        yield stop


@pytest.fixture
def figures(stop):
    return FeedFigures(stop, mesh="m", node="a")


def value(figures, name, *labels):
    return shown(figures.registry)[f"mirrormesh_{name}", *labels]


def test_lines_are_counted_by_what_became_of_them(figures):
    assert math.isnan(value(figures, "feed_line"))
    assert math.isnan(value(figures, "feed_foreign_records"))
    for fault in (None, Fault("x", "empty"), None):
        figures.progress.counts.add(fault)
    figures.progress.line, figures.progress.others, figures.progress.waiting = 12, 3, 2
    assert value(figures, "fed_records_total", "readable") == 2
    assert value(figures, "fed_records_total", "malformed") == 1
    names = ("feed_line", "feed_foreign_records", "feed_unacknowledged_records", "feed_over", "feed_failed")
    assert [value(figures, name) for name in names] == [12, 3, 2, 0, 0]
    assert promtool_says(generate_latest(figures.registry.collected).decode()) == ""


def test_a_feed_is_ready_once_it_knows_its_lines_and_alive_while_its_loop_turns(figures, stop):
    (port,) = free_ports(1)
    with figures.serve((HERE, port)):
        assert probed(port, "/readyz") == (503, "waiting for the broker, or for the source")
        figures.progress.line = 0
        assert probed(port, "/readyz") == (200, "ready")
        figures.turn()
        assert probed(port, "/livez") == (200, "alive")
        stop.asked.looks._last -= STILL + 1
        assert probed(port, "/livez") == (503, f"the feed has not turned for {STILL + 1:.0f} s")
        with figures.reading(live=True):  # a writer may take its time
            stop.asked.looks._last -= STILL + 1
            assert probed(port, "/livez") == (200, "alive")
        assert probed(port, "/livez") == (200, "alive")


def end(figures, port, error=None):
    """Serve, and end by an error, or with all fed."""
    try:
        with figures.serve((HERE, port)):
            if error is not None:
                raise error
    except type(error or FeedFailed):
        pass


def read(port, name):
    (line,) = [line for line in scraped(HERE, port).splitlines() if line.startswith(f"mirrormesh_{name}{{")]
    return float(line.split()[-1])


def test_a_feed_that_fails_at_once_says_so_before_it_ends(figures):
    """Nobody has read it before: without this it would look like one that was never there."""
    (port,) = free_ports(1)
    failing = Thread(target=end, args=(figures, port, FeedFailed("the text is in the log")))
    failing.start()
    while not figures.failure:
        failing.join(0.01)
    assert probed(port, "/readyz") == (503, "the feed has failed: FeedFailed")
    assert probed(port, "/livez") == (200, "alive")
    assert [read(port, "feed_failed"), read(port, "feed_over")] == [1, 0]
    failing.join()


def test_a_feed_that_nobody_reads_ends_in_time_all_the_same(figures, monkeypatch):
    monkeypatch.setattr(module, "LONGEST", 0.5)
    (port,) = free_ports(1)
    end(figures, port, FeedFailed("the text is in the log"))
    assert figures.failure


def test_a_feed_that_has_fed_all_stays_if_it_is_told_so_and_one_that_was_stopped_is_not_over():
    (port,) = free_ports(1)
    with Stop(stays=True) as stop:
        figures = FeedFigures(stop, mesh="m", node="a")
        staying = Thread(target=end, args=(figures, port))
        staying.start()
        while not figures.registry.run_over:
            staying.join(0.01)
        assert [read(port, "feed_over") for _ in range(4)] == [1] * 4
        assert probed(port, "/readyz") == (200, "ready\nthe run is over")
        stop.asked.set()
        staying.join()
        stopped = FeedFigures(stop, mesh="m", node="a")
        end(stopped, port)
        assert not stopped.registry.run_over
