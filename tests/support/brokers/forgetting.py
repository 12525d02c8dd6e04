"""A broker that loses what it had acknowledged, and what of a live mesh shows whether it goes on."""

import json
import os
import shutil
import signal
from collections import defaultdict

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from streams.bus.provision import Admin, provision
from streams.state.folder import JournalError
from streams.state.journal_file import JournalReader
from streams.tools.broker.broker import start, status
from tests.support.processes.mesh import wait_until

LOST = 3000
"""Bytes of each log that a power cut takes."""
_LONG = 30.0


def stepped_by(journal):
    """The last round that the journal has stepped; 0: none."""
    try:
        with JournalReader(journal) as reader:
            records = reader.records(1)
    except JournalError:  # it is about to be made, or it is broken
        return 0
    return records[-1].stepped if records else 0


def stepped(mesh):
    """The last round that each node has stepped, by its journal."""
    return [stepped_by(mesh.folder / "state" / f"{name}.journal") for name in mesh.file.mesh.nodes]


def logs(broker, mesh, kinds):
    """The logs of the mesh's topics, and of its nodes' own, whose names contain one of `kinds`."""
    own = (mesh.file.mesh.name, *mesh.file.mesh.nodes)
    found = [log for log in broker.folder.rglob("*.log") if any(name in log.parent.name for name in own)]
    return [log for log in found if any(kind in log.parent.name for kind in kinds)]


def cut_off(broker):
    """Kill the broker, and wait until it is gone."""
    os.kill(broker.pid, signal.SIGKILL)
    wait_until(lambda: not status(broker.folder).running)


def forget(broker, found):
    """A power cut: the ends of these logs are gone. Return the broker that runs again."""
    cut_off(broker)
    for log in found:
        with log.open("r+b") as file:
            file.truncate(max(0, log.stat().st_size - LOST))
    return start(broker.folder, broker.port)


def wiped(broker, file):
    """The broker's folder is gone, its topics are made again. Return the broker that runs again."""
    cut_off(broker)
    shutil.rmtree(broker.folder)
    made = start(broker.folder, broker.port)
    provision(file)
    return made


def topic_of(mesh, kind):
    """A topic of the mesh of that kind: edge, topology, progress, scheduler, or data."""
    topics, nodes = mesh.file.resolved.topics, list(mesh.file.mesh.nodes)
    return {
        "edge": topics.edge(nodes[0], nodes[1]),
        "topology": topics.topology,
        "progress": topics.progress(nodes[0]),
        "scheduler": topics.scheduler,
        "data": mesh.file.data_topics(nodes[0]).records,
    }[kind]


def made_again(mesh, topic):
    """Delete a topic of the mesh's only broker in mid-run, and provision it again."""
    with Admin(mesh.file.mesh_broker) as admin:
        admin._client.delete_topics([topic])
        wait_until(lambda: not admin.topics([topic]))
    provision(mesh.file)


def cut_before_end(broker, topics):
    """Delete all records that the topics hold now, as retention does."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    ends = [TopicPartition(topic, 0, -1) for topic in topics]  # -1: up to the end
    for future in admin.delete_records(ends).values():
        future.result(_LONG)


class Released:
    """All values that were ever on the edges, by (source, instance, round)."""

    def __init__(self, mesh):
        self._mesh, self.values = mesh, defaultdict(set)

    def look(self):
        """Read all edges."""
        for (source, round_), found in self._mesh.values().items():
            for instance, exact, value in found:
                self.values[source, instance, round_].add((exact, value))

    @property
    def twice(self):
        """The rounds of an instance with more than one value, and how many."""
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
