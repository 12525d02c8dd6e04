"""A mesh on a broker of its own under faults: what is done to it, and how long it takes to go on."""

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from streams.mesh.file import load
from streams.public.audit_releases import audit_releases, read_mesh
from streams.tools.broker.broker import Broker, start, stop
from tests.kafka.test_equality import SIMULATED, WAITING
from tests.kafka.test_kills import Chaos, killed
from tests.support.brokers import free_port
from tests.support.process import Process
from tests.support.processes import LiveMesh, mesh_file, released_in_memory, wait_until

HORIZON, RATE, STOPPED = 8, 20, 3.0
"""Rounds that plans lead by, records a second on each data topic, seconds of a SIGSTOP."""
AWAY, SLOW, TURN = 90.0, 20.0, 0.1
"""Seconds that a broker is away, or slow; the seconds of a turn in which a slow one stands, then goes."""
SCHEDULERS = ("scheduler-1", "scheduler-2")


class Harm:
    """A mesh that is fed and runs. `spared`: processes that nothing is done to, to see whether they grow."""

    def __init__(self, mesh: LiveMesh, broker: Broker, seed: int, spared: frozenset[str]) -> None:
        self.mesh, self.broker, self.spared = mesh, broker, spared
        self.random = random.Random(seed)  # noqa: S311 # no secret
        self.nodes = list(mesh.file.mesh.nodes)
        self._chaos = Chaos(mesh, seed)

    def begin(self) -> None:
        """Start everything, and wait for some rounds."""
        for name in self.nodes:
            self.feed(name)
        for label in SCHEDULERS:
            self.mesh.scheduler(label)
        self.mesh.nodes()
        wait_until(lambda: self.slowest() >= HORIZON)

    def feed(self, name: str) -> None:
        """Start a feeder; it goes on after what its topic holds."""
        self.mesh.start(f"feed-{name}", "feed", self.mesh.path, name, "--rate", RATE)

    def slowest(self) -> int:
        """The last round of the slowest node."""
        self.mesh.check()
        return min(map(self._chaos.round, self.nodes))

    def some_node(self) -> str:
        """A node that may be harmed."""
        return self.random.choice([name for name in self.nodes if name not in self.spared])

    def some_scheduler(self) -> str:
        """A scheduler that may be harmed."""
        return self.random.choice([label for label in SCHEDULERS if label not in self.spared])

    def kill(self, label: str) -> None:
        """End a process as a power failure would."""
        self.mesh.processes[label].kill()

    def inflicted(self, fault: "Fault") -> float:
        """Do it, and return the seconds from its end until every node is beyond all rounds planned before."""
        goal = max(map(self._chaos.round, self.nodes)) + HORIZON + 1
        fault.inflict(self)
        began = time.monotonic()
        wait_until(lambda: self.slowest() >= goal)
        return time.monotonic() - began

    def end(self) -> None:
        """End every process in order. Fails unless each ends well, or has just begun."""
        for process in self.mesh.processes.values():
            process.terminate()
        for label, process in self.mesh.processes.items():
            code = process.ends()
            assert code in {0, -signal.SIGKILL, -signal.SIGTERM}, f"{label}: {code}: {process.log[-2000:]}"

    def check(self) -> tuple[int, int]:
        """Compare what the edges hold with one process's run; return (last common round, values).

        Fails for a second value, another value, or a finding of `mirrormesh audit releases`.
        """
        file, values = load(self.mesh.path), self.mesh.values()
        last = min(map(self._chaos.round, self.nodes))
        expected = {key: value for key, value in self._in_memory(last).items() if key[1] <= last}
        first = {node: min(round_ for source, round_ in values if source == node) for node in self.nodes}
        for (node, round_), value in expected.items():
            if round_ >= first[node]:  # what is older has been cut from its log
                assert {found for _, _, found in values[node, round_]} == {value}, (node, round_)
        assert all(len(found) == 1 for found in values.values())
        read = read_mesh(file)
        found = audit_releases(read.plans, read.releases, read.sources, horizon=HORIZON, exact_noise=False)
        assert not found.findings, found.findings
        return last, len(values)

    def _in_memory(self, rounds: int) -> dict[tuple[str, int], bytes]:
        path = self.mesh.path.with_name("reference.yaml")
        path.write_text(self.mesh.path.read_text().replace("rounds: none", f"rounds: {rounds}"))
        return released_in_memory(path)


class Fault(NamedTuple):
    """What is done, in words and in deed: `inflict` returns when what was killed is started again."""

    name: str
    inflict: Callable[[Harm], None]


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
        _stopped(harm.broker.pid, TURN)
        time.sleep(TURN)


def _stopped(pid: int, seconds: float = STOPPED) -> None:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def _node_stopped(harm: Harm) -> None:
    _stopped(harm.mesh.processes[harm.some_node()]._process.pid)


def _scheduler_stopped(harm: Harm) -> None:
    _stopped(harm.mesh.processes[harm.some_scheduler()]._process.pid)


def _broker_stopped(harm: Harm) -> None:
    _stopped(harm.broker.pid)


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


@contextmanager
def harmed(seed: int = 0, spare: tuple[int, ...] = (), schedulers: tuple[str, ...] = ()) -> Iterator[Harm]:
    """Six sensors on a broker of their own that run; `spare`: the places of nodes that are spared."""
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        broker = start(folder / "broker", free_port())
        closing.callback(stop, broker.folder)
        changes = {"rounds": "none", "horizon": HORIZON, "privacy": SIMULATED}
        path = mesh_file(folder, "deploy/meshes/tracking.yaml", broker.address, **changes, **WAITING)
        mesh = closing.enter_context(LiveMesh(path, Process))
        spared = frozenset([*(list(mesh.file.mesh.nodes)[place] for place in spare), *schedulers])
        harm = Harm(mesh, broker, seed, spared)
        harm.begin()
        yield harm
