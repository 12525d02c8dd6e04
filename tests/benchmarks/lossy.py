"""A mesh with ordinary timeouts that loses what it relies on, and whether what must hold of it does."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from streams.state.folder import JournalError
from streams.status.audit import FindingKind
from streams.tools.broker.broker import Broker, start, stop
from tests.benchmarks.harm import HORIZON, PATIENCE, SCHEDULERS, Harm
from tests.support.brokers.development import free_port
from tests.support.brokers.forgetting import Released, stepped_by
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.nodes.journals import deleted
from tests.support.processes.forked import Forked
from tests.support.processes.mesh import LiveMesh, wait_until

ORDINARY = {"round_timeout": 1, "silence": 3, "slots": {"by": "count", "size": 1, "timeout": 0.2}}
"""What is late is given up, and who is silent is planned without."""
EXACT = {"mechanism": "laplace", "noise": "exact", "epsilon": 1, "gradient_bound": 0.5}
BROKEN = "cannot be used: "
"""What a node says of a journal that it refuses, before it ends."""


class Outcome(NamedTuple):
    """What a loss led to: seconds until every node was on, what was seen, findings of the audit."""

    seconds: float
    seen: tuple[str, ...]
    findings: Counter[FindingKind]


class Loss(NamedTuple):
    """A loss, in words and in deed. `inflict` returns the node that it happened to, if one.

    `anew`: whether that node must begin anew, or (None) may. `allowed`: what the audit may find after it.
    """

    name: str
    inflict: Callable[["Lossy"], str | None]
    anew: bool | None = False
    allowed: frozenset[FindingKind] = frozenset()


class Lossy(Harm):
    """As Harm, but what ends by itself with a reason is started again, as a service manager does."""

    def __init__(self, mesh: LiveMesh, broker: Broker, seed: int) -> None:
        super().__init__(mesh, broker, seed, frozenset())
        self.states = dict.fromkeys(self.nodes, "state")
        self.released = Released(mesh)
        self.restarts: Counter[str] = Counter()
        self.refused = False
        self._found: set[tuple[FindingKind, str, int, str]] = set()

    def journal(self, name: str) -> Path:
        """The journal of the node, in the state folder that it uses now."""
        return self.mesh.folder / self.states[name] / f"{name}.journal"

    def node(self, name: str) -> None:
        """Start a node in its state folder."""
        self.mesh.node(name, state=self.states[name])

    def slowest(self) -> int:
        """The last round of the slowest node."""
        self._revive()
        return min(self.stepped(self.nodes))

    def suffered(self, loss: Loss) -> Outcome:
        """Inflict it, wait until every node is beyond all rounds planned before, and check what must hold."""
        self.released.look()
        before, self.refused = self.instances(), False
        self.restarts.clear()
        victim = loss.inflict(self)
        goal, began = max(self.stepped(self.nodes)) + HORIZON + 1, time.monotonic()
        wait_until(lambda: self.slowest() >= goal and self._is_anew(loss, victim, before), PATIENCE)
        seconds = time.monotonic() - began
        self.released.look()
        assert not self.released.twice, self.released.twice
        found = {(one.kind, one.source, one.round, one.instance) for one in self.audit()}
        fresh = Counter(kind for kind, *_ in found - self._found)
        self._found |= found
        assert set(fresh) <= loss.allowed, (loss.name, found)
        return Outcome(seconds, tuple(self._seen(loss, victim, before)), fresh)

    def _is_anew(self, loss: Loss, victim: str | None, before: dict[str, str]) -> bool:
        """Whether the node has begun anew, if it must."""
        if victim is None or not loss.anew:
            return True
        try:
            return self.instances()[victim] != before[victim]
        except JournalError:  # it is about to be made
            return False

    def _seen(self, loss: Loss, victim: str | None, before: dict[str, str]) -> Iterator[str]:
        now = self.instances()
        anew = [name for name in self.nodes if now[name] != before[name]]
        if victim is not None:
            assert loss.anew is None or (victim in anew) is loss.anew, (loss.name, anew)
            assert set(anew) <= {victim}, (loss.name, victim, anew)
            yield "the node joins anew" if anew else "the node goes on as itself"
        elif anew:
            assert loss.anew is not False, (loss.name, anew)
            yield "nodes join anew"
        if self.refused:
            yield "it refuses the journal, which is moved away"
        if any(label in self.restarts for label in (*self.nodes, *SCHEDULERS) if label != victim):
            yield "processes end, and start again"

    def stepped(self, names: Iterable[str]) -> list[int]:
        """The last round that each of the nodes has stepped."""
        return [stepped_by(self.journal(name)) for name in names]

    def _revive(self) -> None:
        """Start again what has ended by itself; a journal that its node refuses is taken away first."""
        for label in (*self.nodes, *SCHEDULERS, *(f"feed-{name}" for name in self.nodes)):
            process = self.mesh.processes[label]
            if process.running:
                continue
            assert process.code != 0, f"{label}: {process.log[-2000:]}"
            self.restarts[label] += 1
            if label in self.nodes and BROKEN in process.log.rstrip().rsplit("\n", 1)[-1]:
                self.refused = True
                deleted(self.mesh.folder / self.states[label], label)
            self._begin(label)

    def _begin(self, label: str) -> None:
        if label in self.nodes:
            self.node(label)
        elif label in SCHEDULERS:
            self.mesh.scheduler(label)
        else:
            self.feed(label.removeprefix("feed-"))


@contextmanager
def lossy(seed: int) -> Iterator[Lossy]:
    """Three sensors that run on a broker of their own."""
    with ExitStack() as closing:
        folder = Path(closing.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        broker = start(folder / "broker", free_port())
        closing.callback(partial(stop, broker.folder))
        changes = {"nodes": list("abc"), "rounds": "none", "horizon": HORIZON, "privacy": EXACT}
        path = small_mesh_file(folder, broker.address, **changes, **ORDINARY)
        mesh = closing.enter_context(LiveMesh(path, Forked))
        losing = Lossy(mesh, broker, seed)
        losing.begin()
        yield losing
