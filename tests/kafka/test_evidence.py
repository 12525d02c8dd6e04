"""A member's second value on a broker: who is told, who stops hearing it, and how it is heard again.

Records come in turns, and slots wait for them: between two turns the mesh stands, so nothing is a race.
"""

import json
from collections import Counter
from contextlib import closing
from functools import partial
from itertools import product

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from nodes.values import mixed
from streams.bus.kafka import KafkaBus
from streams.bus.logs import Logs
from streams.bus.mesh_log import MeshLog
from streams.bus.topic_specs import edges, mesh_specs
from streams.codec import decode_release, encode_release
from streams.mesh.file import load
from streams.mesh.settings.parties import auditor_user, feeder_user, scheduler_user
from streams.state.journal_file import JournalReader
from tests.kafka.test_forgetful_broker import stepped
from tests.support.brokers.development import free_ports
from tests.support.brokers.users import Users, secure_mesh_file
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.nodes.metrics import samples, scraped
from tests.support.processes.in_process import Commands
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TURN = 5
"""Rounds between two looks."""
RING = {"nodes": list("abcd"), "rounds": 100, "horizon": 16}
"""b is heard by a and c; d does not hear it."""


class Told:
    """A mesh whose member b sends a second value; each process is who `be` says."""

    def __init__(self, mesh, call, be=lambda _: None):
        self.mesh, self.call, self.be = mesh, call, be
        self.a, self.b, self.c, self.d = self.names = list(mesh.file.mesh.nodes)
        self.ports = dict(zip(self.names, free_ports(4), strict=True))
        self.rounds = 0

    def node(self, name):
        """Start a node."""
        self.be(name)
        self.mesh.node(name, "--metrics", self.ports[name])

    def begin(self):
        """Start everything."""
        self.be(scheduler_user(self.mesh.file.mesh.name))
        self.mesh.scheduler()
        for name in self.names:
            self.node(name)
        self.turn()

    def turn(self):
        """Feed every node, and wait until all have stepped so far."""
        self.rounds += TURN
        for name in self.names:
            self.be(feeder_user(name))
            self.mesh.feed(name, "--records", self.rounds)
        wait_until(lambda: stepped(self.mesh) == [self.rounds] * 4 or self.mesh.check())

    def lie(self):
        """Send a second value as b on each of its edges, for the newest round."""
        self.be(self.b)
        file = load(self.mesh.path)
        edges = [file.resolved.topics.edge(self.b, reader) for reader in (self.a, self.c)]
        sizes = {spec.name: spec.largest for spec in mesh_specs(file.resolved) if spec.name in edges}
        with closing(KafkaBus(file.brokers(self.b).mesh, sizes)) as bus:
            for edge in edges:
                wait_until(lambda edge=edge: self.newest(bus, edge).round == self.rounds + 1)
                first = self.newest(bus, edge)
                second = encode_release(first._replace(release=first.release + 0.125), file.digest())
                bus.send(edge, second)
            assert bus.flush(60)

    def newest(self, bus, edge):
        """The last release that an edge of b holds."""
        resolved = self.mesh.file.resolved
        value = resolved.envelope.of_node(bus.read(edge, 0)[-1], self.b)
        return decode_release(value, resolved.node(self.b).expected)

    def journal(self, name):
        """A node's newest record."""
        with JournalReader(self.mesh.folder / "state" / f"{name}.journal") as journal:
            return journal.records(1)[-1]

    def made_without_b(self):
        """How many decisions of the last turn each node made without b; assert that the others heard all."""
        self.be("admin")
        file, found = load(self.mesh.path), Counter()
        with closing(Logs(file.mesh_broker)) as logs:
            releases, plans = first_values(file, logs), MeshLog.of(file, logs).valid_plans()
            for name, round in product(self.names, range(self.rounds - TURN + 1, self.rounds + 1)):
                row = dict(plans[round].incoming(name))
                made = partial(decided, file.resolved.node(name).learner, name, round, releases)
                if not np.allclose(decisions(logs, self.mesh.file.data_topics(name))[round], made(row)):
                    assert np.allclose(
                        decisions(logs, self.mesh.file.data_topics(name))[round], made(row | {self.b: 0.0})
                    )
                    found[name] += 1
        return found

    def metric(self, name, *labels):
        """What a node shows, by the name of a metric."""
        node, *wanted = labels
        shown = samples(text_string_to_metric_families(scraped("127.0.0.1", self.ports[node])))
        return shown[f"mirrormesh_{name}", *wanted]

    def watched(self, name, role=auditor_user):
        """What `watch` prints of a node, for an auditor or a scheduler."""
        self.be(role(self.mesh.file.mesh.name))
        shown = self.call("watch", self.mesh.path, "--once")
        assert shown.code == 0, shown.err
        return next(line for line in shown.out.splitlines()[1:] if f" {name} " in line)

    def letters(self, name):
        """Why a node has refused messages of peers."""
        self.be(auditor_user(self.mesh.file.mesh.name))
        shown = self.call("deadletters", self.mesh.path, name, "--json").out
        return [one["reason"] for one in json.loads(shown)["peers"]["last"]]

    def is_told(self, said):
        """Wait until all who are concerned know of the second value, and assert that nobody else does."""
        mesh, readers = self.mesh, (self.a, self.c)
        line = f"{self.b} {said}" % (self.rounds + 1)
        wait_until(lambda: all(line in mesh.processes[name].log for name in readers))
        accused = "%s has two values of this node for a round, as it says after its round"
        wait_until(lambda: all(accused % name in mesh.processes[self.b].log for name in readers))
        wait_until(lambda: [self.metric("evidence_total", name, self.b) for name in readers] == [1, 1])
        wait_until(lambda: self.metric("accusations_total", self.b) >= 2)
        wait_until(lambda: [self.letters(name) for name in readers] == [["second-value"] * 2] * 2)
        wait_until(lambda: f"two values: {self.a} and 1 more" in self.watched(self.b))
        wait_until(lambda: all("2 dead letters" in self.watched(name) for name in readers))
        assert not any("dead letters" in self.watched(name) for name in (self.b, self.d))
        for name in (self.a, self.c, self.d):
            assert self.metric("accusations_total", name) == 0
        assert f"{self.b} has" not in mesh.processes[self.d].log


def first_values(file, logs):
    """The first value that each node has released for a round, by (node, round)."""
    found, opened = {}, file.resolved.envelope.of_node
    for source, target in edges(file.resolved.graph):
        topic, expected = file.resolved.topics.edge(source, target), file.resolved.node(source).expected
        for one in logs.stored({topic: 0})[topic]:
            message = decode_release(opened(one.value, source), expected)
            found.setdefault((source, message.round), message.release)
    return found


def decided(learner, name, round, releases, row):
    """What a node decides on its own release and those of a row of weights; the rest weighs its own."""
    terms = [(source, weight, releases[source, round]) for source, weight in row.items()]
    own = (name, 1.0 - sum(row.values()), releases[name, round])
    return learner.algorithm.decide(round, mixed([*terms, own]))


def decisions(logs, topics):
    """What a node's application finds on its broker: decisions by round."""
    topic = topics.decisions
    found = [json.loads(one.value) for one in logs.stored({topic: 0})[topic]]
    return {one["round"]: one["x"] for one in found}


@pytest.fixture
def call(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return Commands(capsys)


@pytest.fixture
def told(tmp_path, call, monkeypatch, secure_broker):
    """A mesh in which the broker knows who writes; simulated histories have signatures that tell."""
    path = secure_mesh_file(tmp_path, secure_broker, **RING)
    users = Users(path, secure_broker, monkeypatch)
    users.provision()
    with LiveMesh(path) as mesh:
        yield Told(mesh, call, users.be)


def test_who_hears_a_known_writer_stops_hearing_it_until_it_is_pardoned(told):
    mesh, call, state = told.mesh, told.call, told.mesh.folder / "state"
    told.begin()
    told.lie()
    told.is_told("has sent two values for round %d: it is silent until it joins anew")
    told.turn()
    assert told.made_without_b() == dict.fromkeys((told.a, told.c), TURN - 1)  # the first was made before
    for name in (told.a, told.c):
        assert [source for source, _ in told.journal(name).distrusted] == [told.b]
    for name in (told.a, told.c):
        mesh.processes[name].terminate()
        assert mesh.processes[name].ends() == 0
    pardoned = call("pardon", mesh.path, told.b, "--state", state)
    assert (pardoned.code, pardoned.err) == (0, "")
    heard = [line.partition(":")[0] for line in pardoned.out.splitlines()]
    assert heard == [f"{name} hears {told.b} again" for name in (told.a, told.c)]
    for name in (told.a, told.c):
        told.node(name)
    told.turn()
    assert told.made_without_b() == {}
    for name in (told.a, told.c):
        assert told.journal(name).distrusted == ()
    wait_until(lambda: "two values" not in told.watched(told.b))
    seen_by_scheduler = told.watched(told.a, scheduler_user)
    assert ("dead letters" in seen_by_scheduler) is not bool(mesh.file.mesh_broker.users)


def test_where_anybody_may_have_written_it_nobody_is_isolated_and_all_are_told(tmp_path, call, broker):
    with LiveMesh(small_mesh_file(tmp_path, broker.address, **RING)) as mesh:
        told = Told(mesh, call)
        told.begin()
        told.lie()
        told.is_told("has two values for round %d, and anybody may have written them: the first counts")
        told.turn()
        assert told.made_without_b() == {}
        assert [told.journal(name).distrusted for name in told.names] == [()] * 4
