"""A node joins a running mesh and another one leaves it while something breaks, on a broker."""

import json
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager

import pytest
import yaml

from streams.bus.provision import provision
from streams.mesh.file import load
from streams.state.folder import StateFolder, lock_of
from streams.tools.broker.broker import start
from tests.kafka.test_host_kills import Mortal, charges
from tests.support.brokers.forgetting import Released, cut_off, made_again, stepped_by
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.nodes.journals import restored, saved
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

HORIZON = 8
SERVICE = {
    "nodes": list("abcd"),
    "rounds": "none",
    "horizon": HORIZON,
    "round_timeout": 2,
    "silence": 5,
    "slots": {"by": "count", "size": 1, "timeout": 0.1},
    "privacy": {"noise": "exact"},
}
"""Slots close empty where nobody is fed, and are charged all the same."""
HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "a")
fcntl.flock(lock, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


class Burning(LiveMesh):
    """Three nodes that run; a newer file has a fourth, `joiner`, and `leaver` is asked to leave."""

    def __init__(self, whole):
        self.whole, self.state = yaml.safe_load(whole.read_text()), whole.parent / "state"
        self.first, self.second, self.leaver, self.joiner = self.whole["mesh"]["nodes"]
        super().__init__(self._written(whole.parent, 0, [self.first, self.second, self.leaver]))
        self.released = Released(self)

    def _written(self, folder, generation, names):
        shared = self.whole["mesh"] | {"nodes": list(names), "generation": generation}
        parts = {name: self.whole["nodes"][name] for name in names}
        path = folder / f"mesh-{generation}.yaml"
        path.write_text(yaml.safe_dump(self.whole | {"mesh": shared, "nodes": parts}))
        return path

    def begin(self):
        """Run as three, then with the newer file, without its fourth node; ask one of the three to leave."""
        self.scheduler("scheduler-0")
        members = list(self.nodes())
        self.go_on(members)
        self.path = self._written(self.folder, 1, self.whole["mesh"]["nodes"])
        self.file = load(self.path)
        provision(self.file)
        for name in members:
            self.processes[name].kill()
            self.node(name)
        self.scheduler()
        assert self.processes.pop("scheduler-0").ends() == 2  # it lacks the newer file
        self.go_on(members)
        saved(self.state, self.first, self.folder / "backup")
        self.go_on(members)
        self.released.look()
        asked = self.start("leave", "leave", self.path, self.leaver, "--state", self.state)
        assert asked.ends() == 0, asked.log

    def stepped(self, name):
        """The last round that the node's journal has stepped."""
        return stepped_by(self.state / f"{name}.journal")

    def go_on(self, names):
        """Wait until these are H rounds further than anybody was; start again what has failed by itself."""
        goal = max(map(self.stepped, self.whole["mesh"]["nodes"])) + HORIZON
        wait_until(lambda: self._revived(names) and min(map(self.stepped, names)) > goal)

    def _revived(self, names):
        for label in names:
            if not self.processes[label].running:
                assert self.processes[label].code != 0, self.processes[label].log[-2000:]
                self.node(label)
        assert all(process.code != 2 for process in self.processes.values()), [
            process.log[-1000:] for process in self.processes.values() if process.code == 2
        ]
        return True

    def finish_all(self, goes_on):
        """End the run and check what every edge has ever held against what every journal has charged."""
        left = self.processes.pop(self.leaver)
        assert left.ends() == 0, left.log[-2000:]
        assert "the node has left, as asked" in left.log
        assert self.start("end", "end", self.path, "--yes").ends() == 0
        self.finish("scheduler", *goes_on)
        self.released.look()
        values = self.released.values
        assert {place: found for place, found in values.items() if len(found) != 1} == {}
        rounds = Counter((source, round) for source, _, round in values)
        assert {place: count for place, count in rounds.items() if count != 1} == {}
        noisy = Counter(name for (name, _, _), ((exact, _),) in values.items() if not exact)
        assert min(noisy[name] for name in goes_on) > HORIZON
        for name, releases in noisy.items():
            assert releases <= charges(self.state / f"{name}.journal"), name
        audit = self.start("audit", "audit", "releases", self.path, "--state", self.state, "--json")
        audit.ends()
        assert json.loads(audit.log)["findings"] == []


@contextmanager
def held(lock):
    """Let another process hold this lock."""
    lock.touch()
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"\n"
            yield
        finally:
            holder.kill()


def the_joiner_is_turned_away_dies_and_is_not_heard(mesh, _broker):
    """Another process has its journal; it dies after its first append; then an edge of it is made again."""
    is_turned_away(mesh)
    dies_after_its_first_append(mesh)
    mesh.node(mesh.joiner)
    made_again(mesh, mesh.file.resolved.topics.edge(mesh.joiner, mesh.first))


def is_turned_away(mesh):
    """Another process has the joiner's journal: it is turned away in one line."""
    mesh.state.mkdir(exist_ok=True)
    with held(lock_of(StateFolder(mesh.state).journal(mesh.joiner))):
        turned_away = mesh.start("turned-away", "node", mesh.path, mesh.joiner, "--state", mesh.state)
        assert turned_away.ends() == 2
        assert "another process has the journal" in turned_away.log.splitlines()[-1]
    del mesh.processes["turned-away"]


def dies_after_its_first_append(mesh):
    """The joiner dies before it has sent anything."""
    arguments = ("node", mesh.path, mesh.joiner, "--state", mesh.state)
    dead = Mortal(mesh.folder, "mortal", "after append", 1, *arguments)
    assert dead.ends() == -signal.SIGKILL, dead.log[-2000:]
    mesh.released.look()
    assert mesh.joiner not in {source for source, _, _ in mesh.released.values}


def a_journal_is_restored_and_the_broker_restarts(mesh, broker):
    """While the joiner starts, another node dies and gets an older journal; then the broker dies."""
    mesh.node(mesh.joiner)
    mesh.processes[mesh.first].kill()
    mesh.released.look()
    restored(mesh.state, mesh.first, mesh.folder / "backup")
    mesh.node(mesh.first)
    wait_until(lambda: "joining as a new instance" in mesh.processes[mesh.first].log)
    wait_until(lambda: "goes on with a new journal" in mesh.processes[mesh.joiner].log)
    cut_off(broker)
    start(broker.folder, broker.port)


FIRES = [the_joiner_is_turned_away_dies_and_is_not_heard, a_journal_is_restored_and_the_broker_restarts]


@pytest.mark.parametrize("fire", FIRES, ids=lambda fire: fire.__name__)
def test_a_node_joins_and_another_leaves_while(fire, tmp_path, new_broker, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    broker = new_broker()
    with Burning(small_mesh_file(tmp_path, broker.address, **SERVICE)) as mesh:
        mesh.begin()
        fire(mesh, broker)
        goes_on = [mesh.first, mesh.second, mesh.joiner]
        mesh.go_on(goes_on)
        mesh.go_on(goes_on)
        mesh.finish_all(goes_on)
