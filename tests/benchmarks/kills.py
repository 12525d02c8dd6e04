"""The faults of tests.benchmarks.faults and tests.benchmarks.soak: what is killed, stopped, away or slow."""

import os
import signal
import time

from streams.tools.broker.broker import start
from tests.benchmarks.harm import SCHEDULERS, Fault, Harm
from tests.kafka.test_kills import killed

STOPPED = 3.0
"""Seconds of a SIGSTOP."""
AWAY, SLOW, TURN = 90.0, 20.0, 0.1
"""Seconds that a broker is away, or slow; the seconds of a turn in which a slow one stands, then goes."""


def _node_killed(harm: Harm) -> None:
    name = harm.some_node()
    harm.kill(name)
    harm.mesh.node(name)


def _node_ended(harm: Harm) -> None:
    name = harm.some_node()
    harm.mesh.processes[name].terminate()
    assert harm.mesh.processes[name].ends() == 0
    harm.mesh.node(name)


def _scheduler_killed(harm: Harm) -> None:
    label = harm.some_scheduler()
    harm.kill(label)
    harm.mesh.scheduler(label)


def _feeder_killed(harm: Harm) -> None:
    name = harm.random.choice(harm.nodes)
    harm.kill(f"feed-{name}")
    harm.feed(name)


def _storm(harm: Harm) -> None:
    names = [name for name in harm.nodes if name not in harm.spared]
    chosen = harm.random.sample(names, 3)
    for label in (*chosen, *[label for label in SCHEDULERS if label not in harm.spared]):
        harm.kill(label)
    for name in chosen:
        harm.mesh.node(name)
    for label in SCHEDULERS:
        if label not in harm.spared:
            harm.mesh.scheduler(label)


def _broker_killed(harm: Harm) -> None:
    killed(harm.broker)
    harm.broker = start(harm.broker.folder)


def _broker_away(harm: Harm) -> None:
    killed(harm.broker)
    time.sleep(AWAY)
    harm.broker = start(harm.broker.folder)


def _broker_slow(harm: Harm) -> None:
    for _ in range(round(SLOW / (2 * TURN))):
        stopped(harm.broker.pid, TURN)
        time.sleep(TURN)


def stopped(pid: int, seconds: float = STOPPED) -> None:
    """Let a process stand for so long."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def _node_stopped(harm: Harm) -> None:
    stopped(harm.mesh.processes[harm.some_node()]._process.pid)


def _scheduler_stopped(harm: Harm) -> None:
    stopped(harm.mesh.processes[harm.some_scheduler()]._process.pid)


def _broker_stopped(harm: Harm) -> None:
    stopped(harm.broker.pid)


FAULTS = (
    Fault("a node killed", _node_killed),
    Fault("a node ended with SIGTERM, and started", _node_ended),
    Fault(f"a node stopped for {STOPPED:g} s (SIGSTOP)", _node_stopped),
    Fault("a scheduler of two killed", _scheduler_killed),
    Fault(f"a scheduler of two stopped for {STOPPED:g} s", _scheduler_stopped),
    Fault("a feeder killed", _feeder_killed),
    Fault("three nodes and the schedulers killed at once", _storm),
    Fault("the broker killed", _broker_killed),
    Fault(f"the broker stopped for {STOPPED:g} s", _broker_stopped),
)
LONG_FAULTS = (
    Fault(f"the broker dead for {AWAY:g} s", _broker_away),
    Fault(f"the broker stands half of each {2 * TURN:g} s, for {SLOW:g} s", _broker_slow),
)
