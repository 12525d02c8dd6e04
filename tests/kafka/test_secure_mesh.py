"""A mesh on a broker with users, each process with what `provision --users` gives it and nothing more."""

from functools import partial

import pytest

from streams.bus.errors import given_by
from streams.bus.rights import Grant, feeder, node_on_data, node_on_mesh
from streams.bus.rights import scheduler as planner
from streams.codec.topics import DataTopics
from streams.mesh.settings.parties import feeder_user, scheduler_user
from tests.kafka.test_equality import equal
from tests.support.brokers.topics import until
from tests.support.brokers.users import Users, reads, secure_mesh_file
from tests.support.processes.mesh import LiveMesh, released_in_memory

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 30


def test_each_process_does_its_work_with_its_own_rights_and_no_more(tmp_path, secure_broker, monkeypatch):
    path = secure_mesh_file(tmp_path, secure_broker, rounds=ROUNDS)
    users = Users(path, secure_broker, monkeypatch)
    assert users.provision().different
    with LiveMesh(path) as mesh:
        work = processes(mesh)
        for user, topic in lacking(mesh):
            refused(users, user, topic, *work[user])
        assert len(users.provision().gap.missing) == 3
        fed_as_the_node(users, mesh)
        until(lambda: not any(users.wrong(user, *access) for user, (_, *access) in work.items()))
        for user in sorted(work, key=lambda user: not user.endswith("feeder")):
            users.be(user)
            process = work[user][0]()
            assert not user.endswith("feeder") or process.ends() == 0, process.log
        mesh.finish()
        users.be("admin")
        equal(mesh.values(), released_in_memory(path))
        for node in mesh.file.mesh.nodes:
            assert len(users.client("admin").read(mesh.file.data_topics(node).decisions, 1)) == 1
    assert not users.provision().different
    kept_apart(users, mesh.file.resolved.topics, *mesh.file.mesh.nodes)


def processes(mesh):
    """By user: what starts its process, and all that the process does on its brokers."""
    topics, nodes = mesh.file.resolved.topics, list(mesh.file.mesh.nodes)
    work = {scheduler_user(mesh.file.mesh.name): (mesh.scheduler, planner(topics, nodes))}
    for node in nodes:
        shared = node_on_mesh(topics, node, *mesh.file.resolved.graph.neighbours(node))
        work[node] = (
            partial(mesh.node, node),
            shared,
            node_on_data(mesh.file.data_topics(node), mesh.file.mesh.run),
        )
        feed = partial(mesh.start, f"feed-{node}", "feed", mesh.path, node)
        work[feeder_user(node)] = (feed, feeder(mesh.file.data_topics(node)))
    return work


def lacking(mesh):
    """A process of each kind, and a topic that it must write to."""
    topics, node = mesh.file.resolved.topics, next(iter(mesh.file.mesh.nodes))
    yield scheduler_user(mesh.file.mesh.name), topics.scheduler
    yield feeder_user(node), mesh.file.data_topics(node).records
    yield node, topics.progress(node)


def refused(users, user, topic, start, *access):
    """Assert that a process without one right ends at once, with one line that says what is missing."""
    users.without(Grant(f"User:{user}", "topic", topic, "literal", "Write"))
    until(lambda: len(users.wrong(user, *access)) == 1)
    users.be(user)
    process = start()
    assert process.ends() == 1
    (line,) = process.path.read_text().splitlines()
    named = user if user.endswith("-feeder") else None
    assert line.endswith(f"{topic}: these credentials may not write ({given_by(named)})")
    process.path.unlink()


def fed_as_the_node(users, mesh):
    """Assert that who feeds as the node, which may not, is told of its feeder's user."""
    node = next(iter(mesh.file.mesh.nodes))
    users.be(node)
    process = mesh.start("feed-as-the-node", "feed", mesh.path, node)
    assert process.ends() == 1
    assert f" to the user {feeder_user(node)}, with" in process.log
    del mesh.processes["feed-as-the-node"]


def kept_apart(users, topics, a, b, c):
    """Assert that nobody reads another's data, or a scheduler releases; an auditor reads all but data."""
    own, others = (DataTopics(topics.mesh, node) for node in (a, b))
    for topic in (own.records, own.spends, topics.edge(b, a), topics.edge(a, b), topics.progress(b)):
        assert reads(users.settings(a), topic)
    for topic in (others.records, others.decisions, others.spends, topics.edge(b, c)):
        assert not reads(users.settings(a), topic)
    planning, auditing = (users.settings(f"{topics.mesh}-{role}") for role in ("scheduler", "auditor"))
    for topic in (topics.progress(b), topics.topology):
        assert reads(planning, topic)
        assert reads(auditing, topic)
    assert reads(auditing, topics.edge(a, b))
    for topic in (own.records, own.spends):
        assert not reads(auditing, topic)
        assert not reads(planning, topic)
    assert not reads(planning, topics.edge(a, b))
