"""A mesh on a broker with passwords, each process with what streams/bus/access.py says and nothing more."""

from functools import partial

import pytest
import yaml
from confluent_kafka import KafkaException

from streams.bus.access import feeder, node_on_data, node_on_mesh
from streams.bus.access import scheduler as planner
from streams.codec.topics import DataTopics
from tests.kafka.test_equality import equal
from tests.support.kafka import until
from tests.support.processes import LiveMesh, released_in_memory
from tests.support.small_mesh import small_mesh_file
from tests.support.users import Users, reads

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 30


def test_each_process_does_its_work_with_its_own_rights_and_no_more(tmp_path, new_broker, monkeypatch):
    users = Users(new_broker(secure=True), monkeypatch)
    path = small_mesh_file(tmp_path, users.broker.address, rounds=ROUNDS)
    tree = yaml.safe_load(path.read_text())
    login = {"username": "${MESH_USER}", "password": "${MESH_PASSWORD}"}
    tree["brokers"] |= {side: tree["brokers"][side] | login for side in ("mesh", "data")}
    path.write_text(yaml.safe_dump(tree))
    with LiveMesh(path) as mesh:
        topics, nodes = mesh.file.resolved.topics, list(mesh.file.mesh.nodes)
        work = {"scheduler": (mesh.scheduler, planner(topics, nodes))}
        for node in nodes:
            around = mesh.file.resolved.node(node).surroundings
            shared = node_on_mesh(topics, node, around.expected, around.targets)
            own = node_on_data(node, DataTopics(node).group)
            work[node] = (partial(mesh.node, node), shared, own)
            feed = partial(mesh.start, f"feed-{node}", "feed", path, node)
            work[f"feeder-{node}"] = (feed, feeder(node))
        last = {user: users.make(user, *access) for user, (_, *access) in work.items()}
        for user in ("scheduler", f"feeder-{nodes[0]}", nodes[0]):
            refused(users, user, work[user][0])
        users.allow(*last.values())
        until(lambda: not any(users.wrong(user) for user in work))
        for user in sorted(work, key=lambda user: "feeder" not in user):
            users.be(user)
            process = work[user][0]()
            assert "feeder" not in user or process.ends() == 0, process.log
        mesh.finish()
        equal(mesh.values(), released_in_memory(path))
        for node in nodes:
            assert len(users.client("admin").read(f"decisions.{node}", 1)) == 1
    kept_apart(users, topics, *nodes)


def refused(users, user, start):
    """Assert that a process without one right ends at once, with one line that says what is missing."""
    users.be(user)
    process = start()
    assert process.ends() == 1
    (missing,) = users.wrong(user)
    (line,) = process.path.read_text().splitlines()
    assert line.endswith(missing)
    process.path.unlink()


def kept_apart(users, topics, a, b, c):
    """Assert that nobody reads another's data, or writes, or a scheduler reads, another's releases."""
    for topic in (f"data.{a}", f"spends.{a}", topics.edge(b, a), topics.edge(a, b)):
        assert reads(users.settings(a), topic)
    for topic in (f"data.{b}", f"decisions.{b}", f"spends.{b}", topics.edge(b, c), topics.progress(b)):
        assert not reads(users.settings(a), topic)
    assert reads(users.settings("scheduler"), topics.progress(b))
    for topic in (f"data.{a}", f"spends.{a}", topics.edge(a, b)):
        assert not reads(users.settings("scheduler"), topic)
    for topic in (
        topics.edge(b, a),
        topics.edge(b, c),
        topics.topology,
        f"data.{a}",
        f"data.{b}",
        f"spends.{b}",
    ):
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            users.client(a).send(topic, b"forged")
