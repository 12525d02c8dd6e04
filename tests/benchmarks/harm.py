"""A mesh on a broker of its own under faults: what is done to it, and how long it takes to go on."""

import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from streams.state.journal_file import JournalReader
from streams.status.audit import Finding, audit_releases, read_mesh
from streams.tools.broker.broker import Broker, start, stop
from tests.kafka.test_equality import SIMULATED, WAITING
from tests.kafka.test_kills import Chaos
from tests.support.brokers.development import free_port
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh, mesh_file, released_in_memory, wait_until

HORIZON, RATE = 8, 20
"""Rounds that plans lead by, records a second on each data topic."""
PATIENCE = 300.0
"""Seconds in which a mesh must begin, or go on: the machine may be busy."""
SCHEDULERS = ("scheduler-1", "scheduler-2")
T = TypeVar("T")


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
        wait_until(lambda: self.slowest() >= HORIZON, PATIENCE)

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
        goal, instances = max(map(self._chaos.round, self.nodes)) + HORIZON + 1, self.instances()
        fault.inflict(self)
        began = time.monotonic()
        wait_until(lambda: self.slowest() >= goal, PATIENCE)
        took = time.monotonic() - began
        assert self.instances() == instances, "a node has begun anew"
        return took

    def journal(self, name: str) -> Path:
        """The journal of a node."""
        return self.mesh.folder / "state" / f"{name}.journal"

    def instances(self) -> dict[str, str]:
        """The life that each node is in."""
        return {name: self._read(name, lambda journal: journal.instance) for name in self.nodes}

    def charged(self) -> dict[str, int]:
        """The charges of each node, by its journal."""
        return {name: self._read(name, lambda journal: journal.charged) for name in self.nodes}

    def _read(self, name: str, wanted: Callable[[JournalReader], T]) -> T:
        with JournalReader(self.journal(name)) as journal:
            return wanted(journal)

    def audit(self) -> tuple[Finding, ...]:
        """What `mirrormesh audit releases --state` finds on the edges, beside the journals' charges."""
        read = read_mesh(self.mesh.file)
        exact = self.mesh.file.mesh.privacy.noise == "exact"
        found = audit_releases(
            read.plans,
            read.releases,
            read.sources,
            horizon=HORIZON,
            exact_noise=exact,
            charged=self.charged(),
        )
        assert not read.undecodable, read.undecodable
        return found.findings

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
        values = self.mesh.values()
        last = min(map(self._chaos.round, self.nodes))
        expected = {key: value for key, value in self._in_memory(last).items() if key[1] <= last}
        first = {node: min(round_ for source, round_ in values if source == node) for node in self.nodes}
        for (node, round_), value in expected.items():
            if round_ >= first[node]:  # what is older has been cut from its log
                assert {found for _, _, found in values[node, round_]} == {value}, (node, round_)
        assert all(len(found) == 1 for found in values.values())
        findings = self.audit()
        assert not findings, findings
        return last, len(values)

    def _in_memory(self, rounds: int) -> dict[tuple[str, int], bytes]:
        path = self.mesh.path.with_name("reference.yaml")
        path.write_text(self.mesh.path.read_text().replace("rounds: none", f"rounds: {rounds}"))
        return released_in_memory(path)


class Fault(NamedTuple):
    """What is done, in words and in deed: `inflict` returns when what was killed is started again."""

    name: str
    inflict: Callable[[Harm], None]


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
