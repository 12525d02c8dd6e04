"""A node that was away catches up under its quota: the data of as many rounds, no waiting by the clock."""

import uuid

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition

from streams.bus.connection import consumer_settings, producer_settings
from streams.bus.provision import provision
from streams.bus.rights import ROOM, Quota, rounds_per_second
from streams.bus.topic_specs import sizes
from tests.support.brokers.topics import PATIENCE, until
from tests.support.brokers.users import Users
from tests.support.meshes.files import changed

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

AWAY = 60.0
"""Seconds that the node was away."""
PERIOD = 0.5
"""Seconds of a round."""


@pytest.fixture
def users(tmp_path, secure_broker, monkeypatch):
    """The users of a ring whose releases are long: its quotas are well above the least ones."""
    mark = uuid.uuid4().hex[:8]
    names = [f"{letter}-{mark}" for letter in "abc"]
    tree = changed(name=f"test-{mark}", nodes=names, dimension=10_000, loss="squared")
    tree["mesh"]["slots"] = {"by": "time", "period": PERIOD, "start": 0}
    login = {"username": "${MESH_USER}", "password": "${MESH_PASSWORD}"}
    tree["brokers"] = {"mesh": {"servers": secure_broker.address} | login}
    tree["nodes"] = {}
    path = tmp_path / "mesh.yaml"
    path.write_text(yaml.safe_dump(tree))
    found = Users(path, secure_broker, monkeypatch)
    provision(found.file, only="mesh")
    found.provision()
    return found


def test_a_node_that_was_away_catches_up_under_its_quota(users):
    mesh = users.file.resolved
    node = next(iter(mesh.settings.nodes))
    sources, targets = mesh.graph.neighbours(node)
    heard = [mesh.topics.edge(source, node) for source in sources]
    said = [mesh.topics.edge(node, target) for target in targets]
    size, rounds = sizes(mesh), round(AWAY * rounds_per_second(mesh))
    assert rounds == AWAY / PERIOD
    backlog = dict.fromkeys(heard, size.release) | {mesh.topics.topology: size.plan}
    sent(users.settings("admin"), backlog, rounds)
    until(lambda: limits(users, node) is not None)
    assert rounds * sum(backlog.values()) * ROOM / AWAY <= limits(users, node)["consumer_byte_rate"]

    assert read(users.settings(node), dict.fromkeys(backlog, rounds)) <= AWAY / ROOM
    assert sent(users.settings(node), dict.fromkeys(said, size.release), rounds) <= AWAY / ROOM

    quota, least = limits(users, targets[0]), AWAY / ROOM  # that the same sees one that is too small
    with users.admin() as admin:
        admin.set_quotas({targets[0]: Quota(*(int(limit) // 20 + 1 for limit in quota.values()))})
    until(lambda: limits(users, targets[0])["consumer_byte_rate"] < quota["consumer_byte_rate"] / 10)
    assert read(users.settings(targets[0]), {said[0]: rounds}, least) > least
    assert [*users.provision().gap.quotas] == [targets[0]]


def limits(users, node):
    """The quotas that the broker has for a user."""
    with users.admin() as admin:
        return admin.quotas().get(node)


def sent(settings, lengths, rounds):
    """Send that many messages of these lengths by topic; return the seconds that the broker held them up."""
    throttled = []
    extra = {"throttle_cb": throttled.append, "log_level": 0}
    producer = Producer(producer_settings(settings, max(lengths.values())) | extra)
    for _ in range(rounds):
        for topic, length in lengths.items():
            producer.produce(topic, bytes(length), partition=0)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    producer.close()
    return sum(event.throttle_time for event in throttled)


def read(settings, ends, enough=float("inf")):
    """Read these topics to their ends, or until the broker held it up `enough` seconds; return how many."""
    throttled = []
    consumer = Consumer(consumer_settings(settings) | {"throttle_cb": throttled.append, "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0) for topic in ends])
    left = dict(ends)

    def held_up():
        return sum(event.throttle_time for event in throttled)

    def done():
        message = consumer.poll(0.1)  # a longer one would go on while the broker holds it up
        if message is not None and message.error() is None and message.offset() + 1 == ends[message.topic()]:
            del left[message.topic()]
        return not left or held_up() > enough

    try:
        until(done)
    finally:
        consumer.close()
    return held_up()
