"""What systemd hears of a process, and that a process without it says nothing."""

import faulthandler
import os
import signal
import threading
import time

import pytest

from streams.runtime.process import INTERRUPTED, PERIOD, Asked, ServiceManager, Stop
from tests.support.processes.watchdog import ServiceSocket


@pytest.fixture
def systemd(monkeypatch):
    with ServiceSocket() as listening:
        for name, value in listening.environment.items():
            monkeypatch.setenv(name, value)
        yield listening


def test_it_hears_ready_once_then_signs_of_life_then_the_end(systemd):
    with ServiceManager() as manager:
        manager.works(None)
        assert systemd.heard() == ["READY=1", "STATUS=works", "WATCHDOG=1"]
        manager.works(None)
        assert systemd.heard() == ["WATCHDOG=1"]
    assert systemd.heard() == ["STOPPING=1", "STATUS=stops"]


def test_while_a_part_stands_still_it_hears_which_and_no_sign_of_life(systemd):
    with ServiceManager() as manager:
        manager.works("the loop has not turned for 31 s")
        assert systemd.heard() == ["STATUS=the loop has not turned for 31 s"]  # not ready either
        manager.works(None)
        assert "READY=1" in systemd.heard()


def test_it_is_told_in_the_loop_and_at_a_stop(systemd):
    repeated = []
    with ServiceManager() as manager, Stop() as stop:
        manager.attend(lambda seconds, action: repeated.append((seconds, action)), lambda: None, stop)
        ((seconds, action),) = repeated
        action()
        assert (seconds, "READY=1" in systemd.heard()) == (manager.period, True)
        stop._ask(15, None)
        assert "STOPPING=1" in systemd.heard()


@pytest.mark.parametrize(
    ("watchdog", "period"), [("400000", 0.1), ("30000000", PERIOD), ("", PERIOD), ("soon", PERIOD)]
)
def test_signs_come_four_times_as_often_as_the_watchdog_looks_and_once_a_second(watchdog, period):
    assert ServiceManager({"WATCHDOG_USEC": watchdog}).period == period


def test_one_that_does_not_listen_holds_up_nobody(systemd):
    with ServiceManager() as manager:
        for _ in range(10_000):  # far more than a socket keeps
            manager.works(None)


def test_a_watchdog_makes_the_process_tell_where_it_hangs(systemd, monkeypatch):
    enabled = []
    monkeypatch.setattr(faulthandler, "enable", lambda: enabled.append(True))
    with ServiceManager():
        assert enabled == []
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    with ServiceManager():
        assert enabled == [True]


def test_without_a_manager_nothing_is_said(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    with ServiceManager({}) as manager:
        manager.works(None)
        assert manager._notifier is None
    assert "NOTIFY_SOCKET" not in os.environ


# SIGTERM and Ctrl-C ask for an orderly end, once


def test_a_signal_asks_once_and_says_with_which_code_to_leave():
    done = []
    with Stop() as stop:
        stop.then(lambda: done.append("first"))
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked.wait(5.0)
        os.kill(os.getpid(), signal.SIGTERM)
        stop.then(lambda: done.append("late"))
        assert stop.exit_code == 0
    assert done == ["first", "late"]


def test_an_interrupt_is_told_by_the_exit_code():
    with Stop() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.asked.wait(5.0)
        assert stop.exit_code == INTERRUPTED


def test_the_handlers_before_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with Stop():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_who_waits_is_woken_and_else_waits_its_time():
    asked = Asked()
    began = time.monotonic()
    assert not asked.wait(0.02)
    assert time.monotonic() - began >= 0.02
    threading.Timer(0.01, asked.set).start()
    assert asked.wait(60.0)
    assert time.monotonic() - began < 60.0
