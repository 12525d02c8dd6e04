"""A whole mesh on a broker, one process a node, as operators run it; and what its edges hold."""

import signal
import time
import uuid
from collections import defaultdict
from pathlib import Path

import yaml

from streams.bus.kafka import KafkaBus
from streams.bus.provision import provision
from streams.bus.topic_specs import edges, mesh_specs
from streams.codec import decode_release
from streams.local.mesh import MemoryMesh
from streams.mesh.file import load
from streams.mesh.settings.files import read_yaml
from tests.support.brokers.feeding import Rations
from tests.support.brokers.topics import until
from tests.support.meshes.files import ignore, planned_to_close
from tests.support.processes.command import LONG
from tests.support.processes.forked import Forked


def mesh_file(folder, base, mesh_broker, data_broker=None, **changes):
    """Write a mesh file like `base` for these brokers, with `changes` of its shared part; return its path.

    Mesh and nodes get names that no other test has.
    """
    tree, mark = read_yaml(Path(base)), uuid.uuid4().hex[:8]
    tree["mesh"] |= {"name": f"test-{mark}", **changes}
    members = tree["mesh"]["nodes"]
    others = members if isinstance(members, dict) else {}  # what a node does otherwise
    tree["mesh"]["nodes"] = {f"{name}-{mark}": others.get(name, {}) for name in members}
    tree["nodes"] = {f"{name}-{mark}": own for name, own in tree["nodes"].items()}
    for own in tree["nodes"].values():
        source = own["source"]
        _resolve(source, base)
    if isinstance(tree.get("held_out"), dict):
        _resolve(tree["held_out"], base)
    tree["brokers"] = {
        "mesh": {"servers": mesh_broker},
        "data": {"servers": data_broker or mesh_broker},
        "trust_broker": data_broker is None,
    }
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def _resolve(source, base):
    for key in ("path", "schema"):
        if isinstance(source.get(key), str) and not source[key].startswith("${"):
            source[key] = str(Path(base).parent.resolve() / source[key])


def wait_until(condition, seconds=LONG):
    """Wait for what processes do to be true; fail when it is not in time."""
    until(condition, seconds)


class LiveProcesses:
    """The processes of one mesh file, each a `launched`. Whatever runs at the context's end is killed."""

    def __init__(self, path, file, launched):
        self._launched = launched
        self.path, self.folder, self.file = path, path.parent, file
        provision(self.file)
        self.processes = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()

    def start(self, label, *arguments):
        """Start a command; `label` names its log."""
        self.processes[label] = process = self._launched(self.folder, label, *arguments)
        return process

    def check(self):
        """Fail where a process has failed by itself; one that a test has killed is no failure."""
        for label, process in self.processes.items():
            assert process.code in {None, 0, -signal.SIGKILL}, f"{label}: {process.log[-3000:]}"

    def finish(self, *labels):
        """Wait until these processes have ended with exit code 0 (none named: all)."""
        waiting = {label: self.processes[label] for label in labels or self.processes}
        end = time.monotonic() + LONG
        while waiting:
            for label in [label for label, process in waiting.items() if not process.running]:
                process = waiting.pop(label)
                assert process.code == 0, f"{label}: {process.log[-3000:]}"
            assert time.monotonic() < end, {label: process.log[-500:] for label, process in waiting.items()}
            time.sleep(0.02)


class LiveMesh(LiveProcesses):
    """The processes of one mesh of nodes."""

    def __init__(self, path, launched=Forked):
        super().__init__(path, load(path), launched)
        self._rations = Rations(path)

    def scheduler(self, label="scheduler"):
        """Start a scheduler."""
        return self.start(label, "scheduler", self.path)

    def node(self, name, *options, state="state", label=None):
        """Start a node."""
        state = self.folder / state
        return self.start(label or name, "node", self.path, name, "--state", state, *options)

    def feed(self, name, *options):
        """Feed a node, and wait until that is done."""
        assert self.start(f"feed-{name}", "feed", self.path, name, *options).ends() == 0

    def allow(self, name, records):
        """Let the node have so many records in all, and not one more before the next call (Rations)."""
        self._rations.allow(name, records)

    def feed_all(self, *options, but=()):
        """Feed every node at once, those in `but` left out, and wait until that is done."""
        names = [name for name in self.file.mesh.nodes if name not in but]
        feeders = [self.start(f"feed-{name}", "feed", self.path, name, *options) for name in names]
        for feeder in feeders:
            assert feeder.ends() == 0, feeder.log

    def nodes(self, *options):
        """Start every node."""
        return {name: self.node(name, *options) for name in self.file.mesh.nodes}

    def run_through(self, *options):
        """Feed all, start scheduler and nodes, and wait until the run is over."""
        self.feed_all()
        self.scheduler()
        self.nodes(*options)
        self.finish()

    def values(self):
        """Return what all edges hold: {(source, round): set of (instance, exact, bytes of the release)}."""
        bus = KafkaBus(
            self.file.mesh_broker, {spec.name: spec.largest for spec in mesh_specs(self.file.resolved)}
        )
        try:
            return released(self.file, lambda topic: bus.read(topic, bus.span(topic)[0]))
        finally:
            bus.close()


def released_in_memory(path):
    """Return what the same mesh file releases on the memory bus: {(source, round): bytes of the release}."""
    file = load(path)
    mesh = MemoryMesh(planned_to_close(file), ignore)
    mesh.run()
    mesh.close()
    found = released(file, lambda topic: mesh.bus.read(topic, 0))
    return {key: value for key, values in found.items() for _, _, value in values}


def released(file, read):
    """Return what the edges hold: {(source, round): set of (instance, exact, bytes of the release)}."""
    found = defaultdict(set)
    for source, target in edges(file.resolved.graph):
        expected = file.resolved.node(source).expected
        for value in read(file.resolved.topics.edge(source, target)):
            message = decode_release(value, expected)
            found[source, message.round].add((message.instance, message.exact, message.release.tobytes()))
    return dict(found)
