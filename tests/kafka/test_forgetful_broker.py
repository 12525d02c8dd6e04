"""A broker that loses what it had acknowledged: the ends of logs, a topic, its whole disk."""

import json
import os
import shutil
import signal
import time
from collections import defaultdict

import pytest

from streams.bus.admin import Admin
from streams.bus.provision import provision
from streams.state.folder import JournalError
from streams.state.journal_reader import JournalReader
from streams.tools.broker.broker import start, status
from tests.support.process import Process
from tests.support.processes import LiveMesh, wait_until
from tests.support.small_mesh import small_mesh_file

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LOST = 3000
"""Bytes of each log."""
IDLE = {"slots": {"by": "count", "size": 1, "timeout": 0.1}, "round_timeout": 5, "silence": 5, "horizon": 8}
"""Slots close empty where nobody is fed."""


def stepped(mesh):
    """The last round that each node has stepped, by its journal."""
    found = []
    for name in mesh.file.mesh.nodes:
        path = mesh.folder / "state" / f"{name}.journal"
        try:
            with JournalReader(path) as journal:
                records = journal.records(1)
        except JournalError:  # it is about to be made
            records = ()
        found.append(records[-1].stepped if records else 0)
    return found


def logs(broker, mesh, topics):
    """The logs of the mesh's topics, and of its nodes' own, whose names contain one of `topics`."""
    own = (mesh.file.mesh.name, *mesh.file.mesh.nodes)
    found = [log for log in broker.folder.rglob("*.log") if any(name in log.parent.name for name in own)]
    return [log for log in found if any(kind in log.parent.name for kind in topics)]


def cut_off(broker):
    """Kill the broker, and wait until it is gone."""
    os.kill(broker.pid, signal.SIGKILL)
    wait_until(lambda: not status(broker.folder).running)


def forget(broker, found):
    """A power cut: the ends of these logs are gone."""
    cut_off(broker)
    for log in found:
        with log.open("r+b") as file:
            file.truncate(max(0, log.stat().st_size - LOST))
    return start(broker.folder, broker.port)


class Released:
    """All values that were ever on the edges, by (source, instance, round)."""

    def __init__(self, mesh):
        self._mesh, self.values = mesh, defaultdict(set)

    def look(self):
        for (source, round), found in self._mesh.values().items():
            for instance, exact, value in found:
                self.values[source, instance, round].add((exact, value))

    @property
    def twice(self):
        return {place: len(values) for place, values in self.values.items() if len(values) > 1}


def ended(mesh, released, labels):
    """End the run; fail if a process has failed, or a node has ever released two values for a round."""
    assert mesh.start("end", "end", mesh.path, "--yes").ends() == 0
    mesh.finish(*labels)
    released.look()
    assert len(released.values) > 10
    assert released.twice == {}
    audit = mesh.start("audit", "audit", "releases", mesh.path, "--json")
    audit.ends()
    assert [one for one in json.loads(audit.log)["findings"] if one["kind"] == "second value"] == []


def made_again(mesh, topic):
    """Delete a topic of the mesh broker in mid-run, and provision it again."""
    with Admin(mesh.file.mesh_broker) as admin:
        admin._client.delete_topics([topic])
        wait_until(lambda: not admin.topics([topic]))
    provision(mesh.file)


def labels(mesh):
    """The processes that work on the run."""
    return ["scheduler", *mesh.file.mesh.nodes]


def begun(mesh, label):
    """Start the scheduler or a node, under its own label."""
    if label == "scheduler":
        mesh.scheduler()
    else:
        mesh.node(label)


def disk_lost(broker, mesh):
    """The broker's folder is wiped; topics and records are made again, and all are started again."""
    cut_off(broker)
    for label in labels(mesh):
        mesh.processes[label].kill()
    shutil.rmtree(broker.folder)
    made = start(broker.folder, broker.port)
    provision(mesh.file)
    mesh.feed_all("--records", "100")
    for label in labels(mesh):
        begun(mesh, label)
    return made


def back(mesh):
    """Wait until every node is beyond all rounds that had been planned before; return the seconds.

    What has ended by itself is started again, as a service manager does.
    """
    goal, since = max(stepped(mesh)) + IDLE["horizon"], time.monotonic()
    wait_until(lambda: revived(mesh) and min(stepped(mesh)) > goal)
    return time.monotonic() - since


def revived(mesh):
    """Start again what has ended by itself."""
    for label in labels(mesh):
        process = mesh.processes[label]
        if not process.running:
            assert process.code != 0, process.log[-2000:]
            begun(mesh, label)
    return True


@pytest.mark.parametrize("topics", [(".topology",), (".", "data")], ids=["topology", "all"])
def test_the_ends_of_logs_are_lost_and_nobody_is_restarted(tmp_path, new_broker, topics):
    broker = new_broker()
    with LiveMesh(small_mesh_file(tmp_path, broker.address, rounds="none", **IDLE)) as mesh:
        released = Released(mesh)
        for _ in range(2):  # so that the cut takes batches of unread records alone: a batch falls as a whole
            mesh.feed_all("--records", "500")
        mesh.scheduler()
        mesh.nodes()
        (topology,) = logs(broker, mesh, [".topology"])
        wait_until(lambda: topology.stat().st_size > 3 * LOST)
        released.look()
        forget(broker, logs(broker, mesh, topics))
        before = max(stepped(mesh))
        wait_until(lambda: min(stepped(mesh)) > before + IDLE["horizon"])
        released.look()
        assert "begins again" in mesh.processes["scheduler"].log
        ended(mesh, released, ["scheduler", *mesh.file.mesh.nodes])


def test_topics_are_made_again_and_then_the_disk_is_lost(tmp_path, new_broker):
    broker = new_broker()
    with LiveMesh(small_mesh_file(tmp_path, broker.address, rounds="none", **IDLE)) as mesh:
        released, topics = Released(mesh), mesh.file.resolved.topics
        mesh.feed_all("--records", "100")
        mesh.scheduler()
        first, second, _ = mesh.nodes()
        wait_until(lambda: min(stepped(mesh)) > IDLE["horizon"])
        for topic in (topics.edge(first, second), topics.topology):
            released.look()
            made_again(mesh, topic)
            back(mesh)
        released.look()
        disk_lost(broker, mesh)
        back(mesh)
        ended(mesh, released, labels(mesh))


def test_who_does_not_notice_that_a_topic_was_made_again_finds_out_that_it_is_deaf(tmp_path, new_broker):
    """The client takes a topic of lower epochs for an old leader's: it waits for ever and says nothing."""
    broker = new_broker()
    with LiveMesh(small_mesh_file(tmp_path, broker.address, rounds="none", **IDLE), Process) as mesh:
        released, topology = Released(mesh), mesh.file.resolved.topics.topology
        mesh.feed_all("--records", "2000")
        mesh.scheduler()
        mesh.nodes()
        wait_until(lambda: min(stepped(mesh)) > IDLE["horizon"])
        cut_off(broker)
        broker = start(broker.folder)  # leads in a higher epoch now
        back(mesh)
        released.look()
        nodes = [mesh.processes[name] for name in mesh.file.mesh.nodes]
        for node in nodes:
            os.kill(node._process.pid, signal.SIGSTOP)
        made_again(mesh, topology)
        for node in nodes:
            os.kill(node._process.pid, signal.SIGCONT)
        back(mesh)
        assert any("for ever" in node.log for node in nodes)
        ended(mesh, released, labels(mesh))
