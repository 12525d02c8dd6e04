"""Nodes, scheduler and broker killed at random: the run completes, and nothing of it is another."""

import os
import random
import signal
import time

import pytest

from streams.state.folder import JournalError
from streams.state.journal_file import JournalReader
from streams.tools.broker.broker import start, status
from tests.kafka.test_equality import SIMULATED, WAITING, equal
from tests.support.processes.mesh import LiveMesh, mesh_file, released_in_memory, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

KILLS = 10
STEP = 20
"""Rounds from a kill to the next."""
ROUNDS = STEP * (KILLS + 2)


class Chaos:
    """Kills a process of the mesh at each of some rounds, and starts it again."""

    def __init__(self, mesh, seed):
        self.mesh, self.random = mesh, random.Random(seed)  # noqa: S311 # no secret
        self.recovered = []

    def feed(self, first=0, step=STEP):
        """Feed all nodes but one, which gets its records in portions: as many rounds as come between kills.

        So there are rounds to come as long as there are kills to come.
        """
        *_, self._rationed = self.mesh.file.mesh.nodes
        self._step, self._allowed = step, first
        self.mesh.feed_all(but=[self._rationed])
        self.more()
        self.more()

    def more(self):
        """Let the mesh go on for another portion."""
        self._allowed += self._step
        self.mesh.allow(self._rationed, self._allowed)

    def round(self, name):
        """The last round that the node's journal knows; 0: none."""
        try:
            with JournalReader(self.mesh.folder / "state" / f"{name}.journal") as journal:
                return max((record.round for record in journal.records(1)), default=0)
        except JournalError:
            return 0

    def furthest(self):
        """The furthest round of any node."""
        self.mesh.check()
        return max(map(self.round, self.mesh.file.mesh.nodes))

    def run(self, broker_at=None, kill_broker=None):
        """Kill at `KILLS` rounds, spread over the run, and once the broker."""
        for number in range(KILLS):
            at = (number + 1) * STEP
            wait_until(lambda at=at: self.furthest() >= at)
            self.kill_one(number)
            if number == broker_at:
                kill_broker()

    def kill_one(self, number):
        """Kill the scheduler each third time, else a node; start it again after up to half a second."""
        if number % 3 < 2:
            self.kill_node(self.random.choice(list(self.mesh.file.mesh.nodes)))
            return
        self.mesh.processes["scheduler"].kill()
        time.sleep(self.random.random() / 2)
        self.more()
        self.mesh.scheduler()

    def kill_node(self, name, meanwhile=lambda: None):
        """Kill a node, start it again after up to half a second, and wait for its next round."""
        self.mesh.processes[name].kill()
        meanwhile()
        time.sleep(self.random.random() / 2)
        before = self.round(name)
        self.more()
        self.mesh.node(name)
        began = time.monotonic()
        wait_until(lambda: self.round(name) > before)
        self.recovered.append(time.monotonic() - began)


def killed(broker):
    """Kill the broker, and wait until it is gone."""
    os.kill(broker.pid, signal.SIGKILL)
    wait_until(lambda: not status(broker.folder).running)


def test_killed_processes_and_a_killed_broker_change_nothing(tmp_path, new_broker):
    broker = new_broker()
    path = mesh_file(
        tmp_path, "deploy/meshes/tracking.yaml", broker.address, rounds=ROUNDS, privacy=SIMULATED, **WAITING
    )

    def kill_broker():
        killed(broker)
        start(broker.folder)

    with LiveMesh(path) as mesh:
        chaos = Chaos(mesh, 0)
        chaos.feed()
        mesh.scheduler()
        mesh.nodes()
        chaos.run(broker_at=KILLS // 2, kill_broker=kill_broker)
        mesh.finish("scheduler", *mesh.file.mesh.nodes)
        equal(mesh.values(), released_in_memory(path))
        for name in mesh.file.mesh.nodes:
            with JournalReader(tmp_path / "state" / f"{name}.journal") as journal:
                assert journal.charged == ROUNDS
    report = ", ".join(f"{seconds:.1f}" for seconds in sorted(chaos.recovered))
    (tmp_path / "recovered").write_text(report)
    assert len(chaos.recovered) == KILLS - KILLS // 3


def test_what_was_journalled_while_the_broker_was_away_is_sent_after_a_kill(tmp_path, new_broker):
    broker, outages = new_broker(), 3
    rounds = STEP * (outages + 2)
    path = mesh_file(
        tmp_path, "deploy/meshes/tracking.yaml", broker.address, rounds=rounds, privacy=SIMULATED, **WAITING
    )
    with LiveMesh(path) as mesh:
        chaos = Chaos(mesh, 0)
        chaos.feed()
        mesh.scheduler()
        names = list(mesh.nodes())
        for number in range(outages):
            wait_until(lambda number=number: chaos.furthest() >= STEP * (number + 1))
            killed(broker)
            for name in names:
                mesh.processes[name].kill()
            broker = start(broker.folder)
            chaos.more()
            mesh.nodes()
        mesh.finish("scheduler", *names)
        equal(mesh.values(), released_in_memory(path))
