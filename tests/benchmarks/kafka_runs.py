"""The runs that are measured, each of six processes that end with it."""

import time
from dataclasses import dataclass
from pathlib import Path

from streams.broker.broker import Broker
from streams.kafka.logs import Logs
from streams.topics import DataTopics, MeshTopics
from tests.benchmarks.kafka_floor import Lengths, bare_mesh
from tests.benchmarks.kafka_mesh import SIZE, fill, first_edge, start, write_mesh
from tests.benchmarks.kafka_ring import bare_ring
from tests.benchmarks.kafka_watch import Seen, Watch, seen, together
from tests.support.processes import LiveMesh

MORE = 50
"""Records and rounds beyond those that are looked at: nothing ends while it is measured."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. `prefetch`: records that a node has read ahead by the time it learns."""

    rounds: int
    warm_up: int
    prefetch: int
    again: int
    backlog: int
    restarts: int


FULL = Sizes(rounds=600, warm_up=300, prefetch=250, again=3, backlog=100_000, restarts=5)
QUICK = Sizes(rounds=15, warm_up=5, prefetch=25, again=1, backlog=8_000, restarts=1)


class Runs:
    """Runs on one broker; each has a folder of its own in `folder`."""

    def __init__(self, broker: Broker, folder: Path, sizes: Sizes) -> None:
        self.sizes = sizes
        self._broker, self._folder = broker, folder
        self._filled: set[str] = set()

    @property
    def _rounds(self) -> int:
        return self.sizes.warm_up + self.sizes.rounds + MORE

    def ring(self, dimension: int) -> tuple[Path, Seen, Lengths, bytes]:
        """Run a mesh with records as many as it needs.

        Returns its file, what was seen, how long its records are, and a release.
        """
        path = self._mesh(f"d{dimension}", f"d{dimension}", dimension)
        with LiveMesh(path) as mesh, self._watch(mesh) as watch:
            self._fill(mesh, self._rounds)
            found = self._seen(mesh, watch)
            return path, found, lengths_of(mesh), watch.value

    def floor(self, dimension: int, lengths: Lengths) -> Seen:
        """Run the floor of such a mesh, on the same records."""
        data = [DataTopics(f"d{dimension}-{k}").records for k in range(SIZE)]
        with (
            bare_mesh(self._folder, self._broker.address, data, lengths, self._rounds) as (topic, processes),
            Watch(self._broker.address, topic) as watch,
        ):
            return seen(watch, self._with_broker(processes), self.sizes.warm_up, self.sizes.rounds)

    def bare(self, client: str, value: bytes) -> Seen:
        """Run a bare ring that sends `value`."""
        with (
            bare_ring(self._folder, self._broker.address, client, value, self._rounds) as (topic, processes),
            Watch(self._broker.address, topic) as watch,
        ):
            return seen(watch, self._with_broker(processes), self.sizes.warm_up, self.sizes.rounds)

    def prefetched(self) -> Seen:
        """Run short meshes whose records are all read before they are needed."""
        parts = []
        warm_up, rounds = self.sizes.prefetch // 5, self.sizes.prefetch * 7 // 10
        for number in range(self.sizes.again):
            path = self._mesh(f"short{number}", "short", 2)
            with LiveMesh(path) as mesh, self._watch(mesh) as watch:
                self._fill(mesh, self.sizes.prefetch)
                parts.append(seen(watch, self._with_broker(start(mesh)), warm_up, rounds))
        return together(parts)

    def backlog(self, slot: int, restarts: int) -> tuple[Seen, list[float]]:
        """Run a mesh whose data topics are deep, then kill a node again and again.

        Returns what was seen, and the seconds from each start of the node to its first release.
        """
        path = self._mesh(f"deep{slot}", "deep", 2, slot)
        with LiveMesh(path) as mesh, self._watch(mesh) as watch:
            self._fill(mesh, self.sizes.backlog)
            found = self._seen(mesh, watch)
            return found, [restarted(mesh, watch) for _ in range(restarts)]

    def _mesh(self, folder: str, party: str, dimension: int, slot: int = 1) -> Path:
        return write_mesh(self._folder / folder, self._broker.address, party, dimension, slot)

    def _fill(self, mesh: LiveMesh, count: int) -> None:
        """Give the parties of a mesh their records, unless a mesh before had the same parties."""
        first = next(iter(mesh.file.mesh.nodes))
        if first not in self._filled:
            self._filled.add(first)
            fill(mesh, count)

    def _watch(self, mesh: LiveMesh) -> Watch:
        return Watch(self._broker.address, first_edge(mesh))

    def _seen(self, mesh: LiveMesh, watch: Watch) -> Seen:
        return seen(watch, self._with_broker(start(mesh)), self.sizes.warm_up, self.sizes.rounds)

    def _with_broker(self, processes: dict[str, int]) -> dict[str, int]:
        if self._broker.pid is None:
            raise ValueError("the broker does not run")
        return processes | {"broker": self._broker.pid}


def lengths_of(mesh: LiveMesh) -> Lengths:
    """Return how long the newest records of a mesh are."""
    settings, name = mesh.file.mesh, next(iter(mesh.file.mesh.nodes))
    topics, logs = MeshTopics(settings.name, settings.run), Logs(mesh.file.mesh_broker)
    try:
        asked = (first_edge(mesh), topics.topology, topics.progress(name), DataTopics(name).decisions)
        found = logs.read({topic: logs.span(topic)[1] - 1 for topic in asked})
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
