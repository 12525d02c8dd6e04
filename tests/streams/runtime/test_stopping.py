"""SIGTERM and Ctrl-C ask for an orderly end, once."""

import os
import signal
import threading
import time

from streams.runtime.process import INTERRUPTED, Asked, Stop


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
