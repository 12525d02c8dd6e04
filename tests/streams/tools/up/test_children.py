import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from streams.state.folder import StateFolder
from streams.tools.up import children
from streams.tools.up.children import FIRST, LONGEST, Backoff, Child, end_all, ending
from streams.tools.up.programs import Program

LONG = 20.0


@pytest.fixture
def child(monkeypatch, tmp_path):
    """Make a child that runs a line of Python; it is ended with the test."""
    monkeypatch.setattr(children, "_COMMAND", (sys.executable, "-c"))
    made, said = [], []
    folder = StateFolder(tmp_path)
    folder.logs.mkdir()

    def make(code, label="node a"):
        made.append(Child(Program(label, (code,)), folder.log(label), said.append))
        made[-1].said = said
        return made[-1]

    yield make
    for one in made:
        one.end(time.monotonic())


def look_until(child, condition):
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        child.look()
        child.log.read()
        time.sleep(0.01)


def test_a_failure_waits_twice_as_long_each_time_and_a_long_life_forgives():
    backoff = Backoff()
    assert [backoff.after(0.0) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [backoff.after(LONGEST + 1), backoff.after(1.0)] == [FIRST, 2 * FIRST]


def test_one_that_ends_with_0_is_done(child):
    one = child("print('hello')")
    assert one.state == "not started"
    look_until(one, lambda: one.done)
    assert (one.state, one.said) == ("done", [])
    assert one.log.path.name == "node-a.log"
    assert one.log.path.read_text() == "hello\n"


def test_a_log_is_its_owners_alone_and_goes_on(child):
    """A feed's log says how many records there are."""
    one = child("print('hello')")
    one.log.path.write_text("earlier\n")
    one.log.path.chmod(0o644)
    look_until(one, lambda: one.done)
    assert one.log.path.stat().st_mode & 0o777 == 0o600
    assert one.log.path.read_text() == "earlier\nhello\n"


def test_one_that_fails_is_started_again(child, monkeypatch, tmp_path):
    now = [100.0]
    monkeypatch.setattr(children, "time", SimpleNamespace(monotonic=lambda: now[0]))
    mark = tmp_path / "mark"
    one = child(
        f"import pathlib, sys; mark = pathlib.Path({str(mark)!r}); there = mark.exists(); mark.touch(); "
        "print('no mark yet'); sys.exit(0 if there else 3)"
    )
    look_until(one, lambda: one.said)
    assert one.said == ["node a has failed (exit code 3), and starts again in 1 s: no mark yet"]
    now[0] += 0.9
    one.look()
    assert one.state == "again in 1 s"
    now[0] += 0.2
    assert one.restarts == 0
    assert one.failure == "node a has failed (exit code 3): no mark yet"
    look_until(one, lambda: one.done)
    assert not one.failure
    assert len(one.said) == one.restarts == 1


def test_a_feeder_of_malformed_records_is_done_and_its_line_is_kept(child):
    line = "Malformed records: a 3 of 4 (x: not a number)."
    feeder = child(f"print('data.a: fed 4 records'); print('{line}'); import sys; sys.exit(3)", "feed a")
    feeder._program = replace(feeder._program, done=(0, 3))
    look_until(feeder, lambda: feeder.done)
    assert (feeder.code, feeder.said, feeder.log.malformed) == (3, [], line)
    asked = child(
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(3)); print('here', flush=True); "
        "time.sleep(600)",
        "feed b",
    )
    look_until(asked, lambda: asked.log.last == "here")
    end_all((asked,))
    assert (asked.code, asked.log.malformed) == (3, "")


def test_one_that_is_asked_to_end_has_a_while_for_it(child, monkeypatch):
    monkeypatch.setattr(children, "PATIENCE", 0.5)
    willing = child("import time; print('here', flush=True); time.sleep(600)", "feed a")
    deaf = child(
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('here', flush=True); time.sleep(600)"
    )
    for one in (willing, deaf):
        look_until(one, lambda one=one: one.log.last == "here")
    end_all((willing, deaf))
    assert willing.said == ["node a did not end within 0.5 s: killed"]
    assert not willing.done


def test_a_child_does_not_hear_the_terminal_and_its_input_ends_with_us(child):
    one = child(
        "import os, sys; print(os.getsid(0) == os.getpid(), flush=True); sys.stdin.read(); print('over')"
    )
    look_until(one, lambda: one.log.last == "True")
    one._process.stdin.close()
    look_until(one, lambda: one.done)
    assert one.log.last == "over"


def test_ends_in_words():
    assert [ending(code) for code in (1, -9, -99)] == [
        "has failed (exit code 1)",
        "was killed (SIGKILL)",
        "was killed (signal 99)",
    ]
