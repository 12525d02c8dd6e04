"""Damages to a killed node's journal; two lives of a node; schedulers of two minds."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks.harm import HORIZON, SCHEDULERS
from tests.benchmarks.lossy import Loss, Lossy
from tests.support.nodes import journals
from tests.support.processes.command import Process
from tests.support.processes.mesh import wait_until

SPLIT = 15.0
"""Seconds that the leading schedulers stand."""


def _damaged(damage: Callable[..., Any]) -> Callable[[Lossy], str]:
    def inflict(losing: Lossy) -> str:
        name = losing.some_node()
        state = losing.mesh.folder / losing.states[name]
        backup = losing.mesh.folder / f"backup-{time.monotonic_ns()}"
        journals.saved(state, name, backup)
        at = losing.slowest()
        wait_until(lambda: losing.slowest() > at + HORIZON)
        losing.kill(name)
        damage(state, name, backup, losing.random)
        losing.node(name)
        return name

    return inflict


def _folder_deleted(losing: Lossy) -> str:
    name = losing.some_node()
    losing.kill(name)
    losing.states[name] = f"new-{time.monotonic_ns()}"
    losing.node(name)
    return name


def _folder_copied(losing: Lossy) -> str:
    """The copy is started beside the original, which ends."""
    name, copy = losing.some_node(), f"copy-{time.monotonic_ns()}"
    older = losing.mesh.processes[name]
    state = losing.mesh.folder / losing.states[name]
    shutil.copytree(state, losing.mesh.folder / copy, ignore=shutil.ignore_patterns("faust"))
    losing.states[name] = copy
    losing.node(name)
    assert older.ends() == 1, older.log[-2000:]
    return name


def _split(losing: Lossy) -> str:
    """All that plan are stopped, another takes over, a node dies and joins, and the first go on beside it."""
    first = [losing.mesh.processes[label] for label in SCHEDULERS]
    _signalled(first, signal.SIGSTOP)
    began, other = time.monotonic(), losing.mesh.scheduler("scheduler-3")
    at = losing.slowest()
    wait_until(lambda: losing.slowest() > at + HORIZON)
    name = losing.some_node()
    losing.kill(name)
    losing.node(name)
    at = losing.slowest()
    wait_until(lambda: losing.slowest() > at + HORIZON and time.monotonic() > began + SPLIT)
    _signalled(first, signal.SIGCONT)
    at = losing.slowest()
    wait_until(lambda: losing.slowest() > at + HORIZON)
    assert other.running, other.log[-2000:]
    other.terminate()
    assert other.ends() == 0, other.log[-2000:]
    return name


def _signalled(processes: list[Process], number: int) -> None:
    for process in processes:
        os.kill(process._process.pid, number)


JOURNAL_LOSSES = (
    Loss("a journal: one bit flipped", _damaged(journals.flipped), None),
    Loss("a journal: one bit of its write-ahead log flipped", _damaged(journals.log_flipped), None),
    Loss("a journal: cut", _damaged(journals.cut), None),
    Loss("a journal: emptied", _damaged(journals.emptied), anew=True),
    Loss("a journal: its write-ahead log deleted", _damaged(journals.log_deleted), None),
    Loss("a journal: deleted", _damaged(journals.deleted), anew=True),
    Loss("a journal: an older backup put back", _damaged(journals.restored), anew=True),
    Loss("the state folder deleted", _folder_deleted, anew=True),
    Loss("the state folder copied, and the copy started too", _folder_copied, anew=True),
    Loss(f"schedulers stopped for {SPLIT:g} s; another plans, a node dies and joins; they go on", _split),
)
