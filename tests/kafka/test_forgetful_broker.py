"""A broker that loses what it had acknowledged: the ends of logs, a topic, its whole disk."""

import os
import signal
import time

import pytest

from streams.tools.broker.broker import start
from tests.support.brokers.forgetting import (
    LOST,
    Released,
    cut_off,
    ended,
    forget,
    logs,
    made_again,
    stepped,
    topic_of,
    wiped,
)
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

IDLE = {"slots": {"by": "count", "size": 1, "timeout": 0.1}, "round_timeout": 5, "silence": 5, "horizon": 8}
"""Slots close empty where nobody is fed."""


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
    for label in labels(mesh):
        mesh.processes[label].kill()
    made = wiped(broker, mesh.file)
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
        # The cut takes whole batches: those of a second feed, which no node reaches, on the slowest
        # machine. Where every node had read what is lost, all would begin anew, and the run would be over.
        for records in ("20000", "500"):
            mesh.feed_all("--records", records)
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


def test_topics_of_each_kind_are_made_again_in_mid_run_and_then_the_disk_is_lost(tmp_path, new_broker):
    broker = new_broker()
    with LiveMesh(small_mesh_file(tmp_path, broker.address, rounds="none", **IDLE)) as mesh:
        released = Released(mesh)
        mesh.feed_all("--records", "100")
        mesh.scheduler()
        mesh.nodes()
        wait_until(lambda: min(stepped(mesh)) > IDLE["horizon"])
        for kind in ("progress", "scheduler", "data", "edge", "topology"):
            released.look()
            made_again(mesh, topic_of(mesh, kind))
            back(mesh)
        released.look()
        disk_lost(broker, mesh)
        back(mesh)
        ended(mesh, released, labels(mesh))


def test_who_does_not_notice_that_a_topic_was_made_again_finds_out_that_it_is_deaf(tmp_path, new_broker):
    """The client takes a topic of lower epochs for an old leader's: it waits for ever and says nothing."""
    broker = new_broker()
    with LiveMesh(small_mesh_file(tmp_path, broker.address, rounds="none", **IDLE), Process) as mesh:
        released = Released(mesh)
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
        made_again(mesh, topic_of(mesh, "topology"))
        for node in nodes:
            os.kill(node._process.pid, signal.SIGCONT)
        back(mesh)
        assert any("for ever" in node.log for node in nodes)
        ended(mesh, released, labels(mesh))
