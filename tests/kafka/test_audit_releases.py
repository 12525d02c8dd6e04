"""`mirrormesh audit releases` on a real broker: after a sound run, and after what a liar has added."""

import json
from contextlib import closing

import numpy as np
import pytest

from nodes.machine.journal import ReleaseMessage
from nodes.values import Release
from streams.bus.kafka import KafkaBus
from streams.bus.provision import provision
from streams.bus.topic_specs import mesh_specs
from streams.codec import decode_release, encode_release
from streams.local.mesh import MemoryMesh
from streams.mesh.file import load
from tests.support.brokers.topics import PATIENCE
from tests.support.meshes.files import ignore, planned_to_close
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.in_process import Commands
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = pytest.mark.kafka

ROUNDS = 20
CLOSED = ROUNDS + 1
"""The closing round."""
NODES = {"a": {}, "b": {}, "c": {"epsilon": 0.5}}
"""Two whose budgets are spent while the third one learns."""
EXACT = {"mechanism": "laplace", "epsilon": 1, "gradient_bound": 0.5, "noise": "exact", "budget": 15}


@pytest.fixture
def call(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return Commands(capsys)


class OnBroker:
    """A mesh that has run, its topics on the broker; and a liar who may write to them."""

    def __init__(self, path):
        self.file = load(path, {})
        self.topics = self.file.resolved.topics
        provision(self.file)
        self.bus = KafkaBus(
            self.file.mesh_broker, {spec.name: spec.largest for spec in mesh_specs(self.file.resolved)}
        )

    def play(self):
        """Run the mesh in memory, and put what it said on the broker."""
        mesh = MemoryMesh(planned_to_close(self.file), ignore)
        mesh.run()
        for topic in mesh.bus.topics:
            for value in mesh.bus.read(topic, 0):
                self.bus.send(topic, value)
        mesh.close()
        assert self.bus.flush(PATIENCE)

    def message(self, source, target, round) -> ReleaseMessage:
        """What the edge holds for that round."""
        edge, expected = self.topics.edge(source, target), self.file.resolved.node(source).context.own
        found = [decode_release(value, expected) for value in self.bus.read(edge, 0)]
        return next(message for message in found if message.round == round)

    def lie(self, source, target, sent, **changes):
        """Send on that edge what was sent for the round `sent`, changed."""
        message = self.message(source, target, sent)._replace(**changes)
        self.bus.send(self.topics.edge(source, target), encode_release(message, self.file.digest()))
        assert self.bus.flush(PATIENCE)
        return message.instance


@pytest.fixture
def mesh(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, nodes=NODES, rounds=ROUNDS, privacy=EXACT)
    made = OnBroker(path)
    with closing(made.bus):
        made.play()
        yield made


def findings(outcome):
    """What is wrong: [(kind, source, round, edges)]."""
    told = json.loads(outcome.out)
    assert outcome.code == (0 if told["clean"] else 1)
    assert outcome.err == ""
    return [(one["kind"], one["source"], one["round"], one["edges"]) for one in told["findings"]]


def test_a_sound_run_is_clean(call, mesh):
    outcome = call("audit", "releases", mesh.file.path)
    assert (outcome.code, outcome.err) == (0, "")
    assert (
        f"read:        {3 * CLOSED} releases in {6 * CLOSED} records on all edges, {CLOSED + 1} plans"
        in outcome.out
    )
    assert outcome.out.endswith("nothing wrong\n")
    assert findings(call("audit", "releases", mesh.file.path, "--json")) == []


def test_every_lie_is_told(call, mesh):
    a, b, c = mesh.file.mesh.nodes
    other = Release(np.array([0.5, 0.5]))
    instance = mesh.lie(a, b, 5, release=other)  # a second value
    mesh.lie(b, a, 6, exact=True)  # another flag is another value, and no noise is claimed
    mesh.lie(b, c, 7, round=ROUNDS + 5)  # nobody has planned that
    mesh.lie(c, a, 8, instance="f" * 32)  # nor named this one
    mesh.lie(c, b, 9, simulated=True)
    mesh.lie(a, c, 18, exact=False, round=17)  # after the budget: round 15 was the last to learn
    mesh.bus.send(mesh.topics.edge(a, c), b"no release")
    mesh.bus.send(mesh.topics.topology, b"no plan")
    mesh.bus.send(mesh.topics.progress(c), b"no heartbeat")
    assert mesh.bus.flush(PATIENCE)
    outcome = call("audit", "releases", mesh.file.path, "--json")
    assert findings(outcome) == [
        ("second value", a, 5, [b, c]),
        ("second value", b, 6, [a, c]),
        ("exact", b, 6, [a, c]),
        ("unnamed instance", c, 8, [a]),
        ("second value", c, 9, [a, b]),
        ("simulated", c, 9, [a, b]),
        ("second value", a, 17, [b, c]),
        ("drawn", a, 17, [b, c]),
        ("unplanned round", b, ROUNDS + 5, [c]),
        ("not charged", c, CLOSED, []),  # it has learnt in each round, and the other instance said one more
    ]
    undecodable = {
        (one["topic"], one["reason"]): one["count"] for one in json.loads(outcome.out)["undecodable"]
    }
    topics = [mesh.topics.edge(a, c), mesh.topics.topology, mesh.topics.progress(c)]
    assert undecodable == {(topic, "version"): 1 for topic in topics}
    said = call("audit", "releases", mesh.file.path).out
    assert f"second value: round 5 of {a}, instance {instance}, to {b}, {c}: 2 values: to {b}" in said
    assert f"undecodable: 1 record of {mesh.topics.topology}: version" in said
    assert said.endswith("13 things wrong\n")


def test_a_mesh_that_is_not_there_is_an_error(call, tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, privacy=EXACT)
    outcome = call("audit", "releases", path)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("no topic test-")


@pytest.mark.slow
def test_a_live_run_in_which_a_node_loses_its_journal_is_clean(call, tmp_path, broker):
    """Its new instance listens, and then releases what is exact; all others relay after the budget."""
    rounds, budget = 240, 220  # many, so that the others still learn when the new instance has started
    quick, privacy = {"by": "count", "size": 1, "timeout": 0.2}, EXACT | {"budget": budget}
    path = small_mesh_file(
        tmp_path,
        broker.address,
        nodes=NODES,
        rounds=rounds,
        privacy=privacy,
        slots=quick,
        round_timeout=2,
        silence=3,
        horizon=8,
    )
    with LiveMesh(path) as live:
        live.feed_all()
        live.scheduler()
        lost, *others = live.nodes()
        wait_until(lambda: heard(live, lost) > 20)
        assert findings(call("audit", "releases", path, "--json")) == []  # beside the processes
        live.processes[lost].kill()
        for file in (tmp_path / "state").glob(f"{lost}.journal*"):
            file.unlink()
        live.node(lost)
        live.finish("scheduler", lost, *others)
        assert findings(call("audit", "releases", path, "--json")) == []
        exact = {key for key, values in live.values().items() for _, is_exact, _ in values if is_exact}
    assert any(source == lost and 1 < round <= budget + 1 for source, round in exact)
    assert {(source, round) for source, round in exact if source != lost} >= {
        (others[0], 1),
        (others[0], rounds),
    }


def heard(live, node):
    """The last round that the node has released."""
    return max((round for source, round in live.values() if source == node), default=0)
