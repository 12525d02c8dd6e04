"""The runs that are measured, each with processes of its own that end with it."""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from streams.bus.logs import Logs
from streams.codec.topics import DataTopics, MeshTopics
from streams.tools.broker.broker import Broker
from tests.benchmarks.kafka_floor import Lengths, bare_mesh
from tests.benchmarks.kafka_mesh import SIZE, fill, first_edge, start, write_mesh
from tests.benchmarks.kafka_ring import CLIENTS, bare_ring
from tests.benchmarks.kafka_watch import Seen, Watch, seen
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh


class Form(NamedTuple):
    """A mesh's layout, how many processes its nodes share (None: a process a node), and settings of nodes."""

    layout: str
    processes: int | None
    durability: str = "machine"
    predictions: bool = False


MORE = 50
"""Records and rounds beyond those that are looked at: nothing ends while it is measured."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. `prefetch`: records that a node has read ahead by the time it learns.

    `turns`: times that mesh, floor and the rest take turns, with `rounds` each; `unmeasured`: turns before
    them, so that the broker's Java has translated its code. `dimensions`: those without a backlog. `alone`:
    times that a commit, and a lesson, is measured alone. `nodes`: the nodes of each ring.
    """

    dimensions: tuple[int, ...]
    rounds: int
    warm_up: int
    turns: int
    unmeasured: int
    prefetch: int
    backlog: int
    restarts: int
    alone: int = 500
    nodes: int = SIZE


FULL = Sizes(
    (2, 100), rounds=300, warm_up=100, turns=3, unmeasured=1, prefetch=250, backlog=100_000, restarts=5
)
QUICK = Sizes(
    (2,),
    rounds=30,
    warm_up=5,
    turns=1,
    unmeasured=0,
    prefetch=25,
    backlog=8_000,
    restarts=1,
    alone=20,
    nodes=3,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """The file of a mesh, how long its records are, and what was seen of it and of the rings beside it."""

    path: Path
    lengths: Lengths
    seen: dict[str, Seen]


class Runs:
    """Runs on one broker; each has a folder of its own in `folder`."""

    def __init__(self, broker: Broker, folder: Path, sizes: Sizes) -> None:
        self.sizes = sizes
        self._broker, self._folder = broker, folder
        self._filled: set[str] = set()

    @property
    def _rounds(self) -> int:
        return self.sizes.warm_up + self.sizes.rounds + MORE

    def turn(self, dimension: int, number: int) -> Turn:
        """Let a mesh, its floor and the rings that send releases alone run one after the other."""
        path = self._mesh(f"d{dimension}-{number}", f"d{dimension}", dimension)
        with LiveMesh(path, Process) as mesh, self._watch(mesh) as watch:
            self._fill(mesh, self._rounds)
            nodes, lengths = self._seen(mesh, watch), lengths_of(mesh)
        address, data = (
            self._broker.address,
            [DataTopics(f"bench-d{dimension}", f"d{dimension}-{k}").records for k in range(self.sizes.nodes)],
        )
        rings = {"floor": bare_mesh(self._folder, address, data, lengths, self._rounds)} | {
            client: bare_ring(self._folder, address, client, watch.value, self._rounds, self.sizes.nodes)
            for client in CLIENTS
        }
        return Turn(path, lengths, {"mirrormesh": nodes} | {n: self._bare(r) for n, r in rings.items()})

    def _bare(self, ring: AbstractContextManager[tuple[str, dict[str, int]]]) -> Seen:
        with ring as (topic, processes), Watch(self._broker.address, topic) as watch:
            return seen(watch, self._with_broker(processes), self.sizes.warm_up, self.sizes.rounds)

    def forms(self, dimension: int, number: int, forms: Mapping[str, Form]) -> dict[str, Seen]:
        """Let the same mesh run in each form, and its floor, one after the other."""
        found, party = {}, f"d{dimension}"
        for name, (layout, processes, durability, predictions) in forms.items():
            folder = f"{party}-{number}-{len(found)}"
            path = self._mesh(
                folder, party, dimension, layout=layout, durability=durability, predictions=predictions
            )
            with LiveMesh(path, Process) as mesh, self._watch(mesh) as watch:
                self._fill(mesh, self._rounds)
                found[name], lengths = self._seen(mesh, watch, processes), lengths_of(mesh)
        data = [DataTopics(f"bench-{party}", f"{party}-{k}").records for k in range(self.sizes.nodes)]
        floor = bare_mesh(self._folder, self._broker.address, data, lengths, self._rounds)
        return found | {"floor": self._bare(floor)}

    def prefetched(self, number: int) -> Seen:
        """Run a short mesh whose records are all read before they are needed."""
        path = self._mesh(f"short-{number}", "short", 2)
        with LiveMesh(path, Process) as mesh, self._watch(mesh) as watch:
            self._fill(mesh, self.sizes.prefetch)
            warm_up, rounds = self.sizes.prefetch // 5, self.sizes.prefetch * 7 // 10
            return seen(watch, self._with_broker(start(mesh)), warm_up, rounds)

    def backlog(self, slot: int, number: int, restarts: int = 0) -> tuple[Seen, list[float]]:
        """Run a mesh whose data topics are deep, then kill a node again and again.

        Returns what was seen, and the seconds from each start of the node to its first release.
        """
        path = self._mesh(f"deep{slot}-{number}", "deep", 2, slot)
        with LiveMesh(path, Process) as mesh, self._watch(mesh) as watch:
            self._fill(mesh, self.sizes.backlog)
            found = self._seen(mesh, watch)
            return found, [restarted(mesh, watch) for _ in range(restarts)]

    def _mesh(self, folder: str, party: str, dimension: int, slot: int = 1, **shared: Any) -> Path:
        place, size = self._folder / folder, self.sizes.nodes
        return write_mesh(place, self._broker.address, party, dimension, slot, size, **shared)

    def _fill(self, mesh: LiveMesh, count: int) -> None:
        """Give the parties of a mesh their records, unless a mesh before had the same parties."""
        first = next(iter(mesh.file.mesh.nodes))
        if first not in self._filled:
            self._filled.add(first)
            fill(mesh, count)

    def _watch(self, mesh: LiveMesh) -> Watch:
        return Watch(self._broker.address, first_edge(mesh))

    def _seen(self, mesh: LiveMesh, watch: Watch, processes: int | None = None) -> Seen:
        return seen(watch, self._with_broker(start(mesh, processes)), self.sizes.warm_up, self.sizes.rounds)

    def _with_broker(self, processes: dict[str, int]) -> dict[str, int]:
        if self._broker.pid is None:
            raise ValueError("the broker does not run")
        return processes | {"broker": self._broker.pid}


def lengths_of(mesh: LiveMesh) -> Lengths:
    """Return how long the newest records of a mesh are."""
    settings, name = mesh.file.mesh, next(iter(mesh.file.mesh.nodes))
    topics, logs = MeshTopics(settings.name, settings.run), Logs(mesh.file.mesh_broker)
    try:
        asked = (
            first_edge(mesh),
            topics.topology,
            topics.progress(name),
            mesh.file.data_topics(name).decisions,
        )
        found = logs.stored({topic: logs.span(topic)[1] - 1 for topic in asked})
    finally:
        logs.close()
    return Lengths(*(len(found[topic][0].value) for topic in asked))


def restarted(mesh: LiveMesh, watch: Watch) -> float:
    """Kill the first node of a mesh that runs, and return its seconds from a new start to a release."""
    name = next(iter(mesh.file.mesh.nodes))
    watch.arrival_from(watch.end() + 5)
    mesh.processes[name].kill()
    end = watch.end()
    began = time.perf_counter()
    mesh.node(name)
    return watch.arrival_from(end) - began
