"""What a signal's handler raises inside a user's code comes out behind it; nothing else does."""

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path

import pytest

from streams.mesh.user_code import OrderlyEnd, UserCode, interrupted
from streams.runtime.process import INTERRUPTED, Interruptible, ProcessStopped, Stop
from tests.support.meshes.files import changed, written
from tests.support.processes.in_process import Commands

NUMBERS = count()
HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.001)  # Python handles it at the next step of the main thread


@pytest.fixture(autouse=True)
def usual():
    """Python's own handler, and all as before after the test: two interrupts leave none."""
    before = {number: signal.getsignal(number) for number in HEARD}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def noted(usual):
    """The handler of the command line."""
    signal.signal(signal.SIGINT, interrupted)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, ProcessStopped, ValueError])
def test_what_the_code_raises_itself_ends_there(noted, kind):
    told = []
    with UserCode(told.append):
        raise kind("secret")
    assert told == [kind.__name__]


def interrupted_code(tell, *, keeps):
    """A user's code into which a Ctrl-C comes."""
    with UserCode(tell):
        try:
            ctrl_c()
        except KeyboardInterrupt:
            if not keeps:
                raise SystemExit("secret") from None


@pytest.mark.parametrize("keeps", [False, True])
def test_a_ctrl_c_comes_out_even_of_code_that_keeps_it(noted, keeps):
    told = []
    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted_code(told.append, keeps=keeps)
    assert told == []
    assert caught.value.args == ()
    with UserCode(told.append):
        raise SystemExit  # what came before it is not its
    assert told == ["SystemExit"]


def test_the_first_of_two_comes_out_of_nothing():
    told = []
    with OrderlyEnd() as end:
        interrupted_code(told.append, keeps=False)
        assert end.asked
        with pytest.raises(KeyboardInterrupt):
            interrupted_code(told.append, keeps=True)
        end._stopped = False  # as if it had not been: its own end is another test's
    assert told == []


def test_a_feed_that_is_stopped_in_a_source_is_stopped():
    told = []
    with Stop() as stop, Interruptible(stop), pytest.raises(ProcessStopped), UserCode(told.append):
        ctrl_c()
    assert told == []


def test_in_another_thread_there_is_no_ctrl_c(noted):
    told = []

    def work():
        with UserCode(told.append):
            raise KeyboardInterrupt("secret")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert told == ["KeyboardInterrupt"]


def test_under_pythons_own_handler_a_keyboard_interrupt_is_a_ctrl_c():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt) as caught, UserCode(pytest.fail):
        raise KeyboardInterrupt("secret")
    assert caught.value.args == ()


SLEEPING = """
import os
import signal
import time

import numpy as np


class Sleeping:
    def value(self, decision, observations):
        return np.zeros(observations.labels.shape)

    def gradients(self, decision, observations):
        try:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.001)
            time.sleep(600)
        except BaseException as error:
            if {keeps}:
                return np.zeros((1, 2))
            raise SystemExit(f"canary {{observations.labels}}")
"""


@pytest.mark.parametrize("keeps", [False, True])
def test_two_interrupts_end_a_run_inside_an_own_loss_that_sleeps(tmp_path, monkeypatch, capsys, keeps):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"sleeping_{next(NUMBERS)}"
    (tmp_path / f"{name}.py").write_text(SLEEPING.format(keeps=keeps))
    path = written(tmp_path, changed(loss={"own": f"{name}:Sleeping"}))
    outcome = Commands(capsys)("run", path, "--code", f"{name}:Sleeping")
    assert outcome.code == INTERRUPTED
    assert "Interrupted: what follows is what there is." in outcome.out
    assert "No round was run" in outcome.out
    assert "canary" not in outcome.out + outcome.err


BREAKING = """
import os
import signal


class Breaking:
    dimension = 2

    def __init__(self, node):
        pass

    def records(self):
        yield b"canary"
        os.kill(os.getpid(), signal.SIGINT)
        raise SystemExit("canary")

    def decode(self, value):
        raise SystemExit(value)
"""


def test_so_does_one_where_a_command_ends_with_the_first(tmp_path):
    (tmp_path / "breaking_off.py").write_text(BREAKING)
    tree = changed(nodes=list("abc"), loss="squared")
    tree["nodes"] = {"a": {"source": {"kind": "own", "name": "breaking_off:Breaking"}}}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from streams.cli import main; main()", "check"),
            *(written(tmp_path, tree), "--code", "breaking_off:Breaking"),
        ],
        env={"PYTHONPATH": f"{root}:{tmp_path}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == INTERRUPTED, done.stderr
    assert "canary" not in done.stdout + done.stderr


def test_an_ignored_sighup_stays_ignored_and_all_are_put_back():
    before = [signal.getsignal(number) for number in HEARD]
    usual = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with OrderlyEnd() as end:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not end.asked
            os.kill(os.getpid(), signal.SIGTERM)
            assert end.asked
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, usual)
    assert [signal.getsignal(number) for number in HEARD] == before
