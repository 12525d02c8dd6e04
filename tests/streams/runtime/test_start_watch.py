"""A start that hangs ends its process; one that waits for a broker that is away does not."""

import logging
import signal
import time
from functools import partial
from threading import Event

import pytest

from streams.bus import logs
from streams.bus.bus import Unreachable
from streams.cli import processes as process_command
from streams.live.spend import NodeSpend
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.kafka import reached
from streams.runtime.process import (
    LogCut,
    ProcessStopped,
    Pulse,
    ServiceManager,
    StartWatch,
    Stop,
    retry_until_reachable,
)
from tests.support.brokers.topics import until
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.forked import Forked, command

LOG = logging.getLogger("mirrormesh.test")
LIMIT = 0.1
AWAY = BrokerSettings(servers="127.0.0.1:1")


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def stop(now):
    stop = Stop()
    stop.asked.looks = Pulse(lambda: now[0])
    return stop


def test_a_start_that_hangs_is_ended_and_the_log_says_why(stop, now, caplog):
    ended = Event()
    with StartWatch(stop, LOG, LIMIT, ended.set):
        assert not ended.wait(3 * LIMIT)
        now[0] += 2 * LIMIT
        assert ended.wait(10.0)
    assert "the start has not turned for 0 s: the process must be restarted" in caplog.text


@pytest.mark.parametrize("way", [reached, lambda _, stop: retry_until_reachable(stop, away)])
def test_a_start_may_wait_for_its_broker_as_long_as_it_is_away(stop, now, way, monkeypatch):
    asked, ended = [], []

    def reach(_):
        now[0] += 0.9 * LIMIT  # a request takes its time
        asked.append(time.sleep(LIMIT / 4))
        if len(asked) == 8:
            stop.asked.set()
        raise Unreachable("away")

    monkeypatch.setattr(logs, "reach", reach)
    with StartWatch(stop, LOG, LIMIT, lambda: ended.append("ended")), pytest.raises(ProcessStopped):
        way(AWAY, stop)
    assert (len(asked), ended) == (8, [])


def away():
    return logs.reach(AWAY)


def test_it_is_over_with_the_first_turn_of_the_loop(stop, now):
    turns, ended = [], []
    with StartWatch(stop, LOG, LIMIT, lambda: ended.append("ended")) as watch, ServiceManager({}) as manager:
        manager.attend(lambda _, action: turns.append(action), lambda: None, stop)
        turns[0]()
        now[0] += 100 * LIMIT
        until(lambda: not watch._thread.is_alive())
    assert ended == []


def test_a_process_that_begins_again_is_watched_again(stop, now):
    attempts, ended = [], []

    def work(stop):
        attempts.append(stop)
        stop.asked.looks.rest()  # the start is over
        stop.then(lambda: ended.append(len(attempts)))
        raise LogCut("a log has lost its end")

    assert process_command._begins_again(work, stop, LOG, watched=True)
    hung = Event()
    with StartWatch(stop, LOG, LIMIT, hung.set):
        now[0] += 2 * LIMIT
        assert hung.wait(10.0)
    assert process_command._begins_again(work, stop, LOG, watched=True)
    third = []
    last = lambda stop: stop.then(lambda: third.append("asked"))  # noqa: E731
    assert not process_command._begins_again(last, stop, LOG, watched=True)
    stop._ask(signal.SIGTERM, None)
    assert (ended, third) == ([], ["asked"])  # what the attempts before added would end what is over


def hanging(*given):
    """A node whose start hangs where it reads what it has spent."""
    process_command.StartWatch = partial(StartWatch, limit=1.0)
    NodeSpend.before = lambda _: time.sleep(3600)
    command(*given)


class Hanging(Forked):
    target = staticmethod(hanging)


def test_a_node_whose_start_hangs_ends_and_says_where_it_was(tmp_path):
    path = small_mesh_file(tmp_path, "127.0.0.1:1")
    name = next(line for line in path.read_text().split() if line.startswith("a-")).rstrip(":")
    process = Hanging(tmp_path, "node", "node", path, name, "--state", tmp_path / "state")
    assert process.ends() == 1
    assert f"ERROR node {name}: the start has not turned for " in process.log
    assert "in hanging" in process.log or "test_start_watch.py" in process.log  # the threads' places
