"""What was spent, on the data broker: written by key, read whole, never cut."""

import time
import uuid
from contextlib import closing, contextmanager
from fractions import Fraction

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from nodes.accounting.spends import Span, Spend
from streams.bus.bus import BusError, UnknownTopic
from streams.bus.kafka import KafkaBus
from streams.bus.logs import Logs
from streams.bus.provision import Admin
from streams.bus.topic_specs import MIB, data_specs
from streams.codec.topics import DataTopics
from streams.state.spends_topic import SpendsBus, SpendsTopic
from tests.support.brokers.development import Client
from tests.support.brokers.topics import PATIENCE, connection, until
from tests.support.meshes.files import changed, loaded

pytestmark = pytest.mark.kafka

ONE = Spend(
    "run-1",
    3,
    Fraction(1, 3),
    0.0,
    1.5,
    0.0,
    (Span("0", 0),),
    open=True,
    mesh="m",
    folder="f",
    life="aa",
    node="a",
)


@pytest.fixture
def at(broker):
    return connection(broker.address)


@pytest.fixture
def node(at, tmp_path):
    """A node of that name alone, with its topic of spends."""
    return made(at, tmp_path)


def made(at, folder, **configs):
    node = f"a-{uuid.uuid4().hex[:8]}"
    spec = data_specs(loaded(folder, changed(name="m", nodes=[node, "b"]) | {"nodes": {}}).mesh, node)[-1]
    assert spec.name == DataTopics("m", node).spends
    settings = spec.configs | {key.replace("_", "."): str(value) for key, value in configs.items()}
    with Admin(at) as admin:
        admin._client.create_topics(
            {
                spec.name: {"num_partitions": 1, "configs": settings},
                DataTopics("m", node).records: {"num_partitions": 1},
            },
            wait_for_metadata=True,
        )
    return node


@contextmanager
def opened(at, node):
    with closing(SpendsBus(at, [DataTopics("m", node)])) as bus:
        yield SpendsTopic(bus, DataTopics("m", node))


def test_another_process_reads_what_was_written(at, node):
    two = ONE._replace(run="run-2", epsilon=None, spans=())
    with opened(at, node) as topic:
        assert topic.read() == ()
        for spend in (ONE, two, ONE._replace(charged=5), ONE):
            topic.write([spend])
    with opened(at, node) as again:
        assert set(again.read()) == {ONE, two}


def test_a_line_that_is_none_is_not_passed_over(at, node):
    name = DataTopics("m", node).spends
    with closing(KafkaBus(at, {name: MIB})) as bus:
        bus.send(name, b'{"run": "run-1"}', key=b"m/run-1/f/aa")  # or Kafka refuses it
        assert bus.flush(20)
    with (
        opened(at, node) as topic,
        pytest.raises(BusError, match=f"{name}: the record at offset 0 is damaged"),
    ):
        topic.read()


def test_a_topic_that_is_not_there_is_told(at):
    with pytest.raises(UnknownTopic, match=r"no topic spends\.data\.m\.nobody"):
        SpendsBus(at, [DataTopics("m", "nobody")])


@contextmanager
def eager_cleaner(broker):
    """Have the broker's cleaner look for work ten times a second, in place of once in fifteen."""
    admin = Client(broker).admin

    def settle(operation):
        entry = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=operation)
        (broker_id,) = admin.list_topics(timeout=PATIENCE).brokers
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker_id), incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(PATIENCE)

    settle(AlterConfigOpType.SET)  # which starts it anew
    try:
        yield
    finally:
        settle(AlterConfigOpType.DELETE)


def test_compaction_keeps_the_last_line_of_each_key(broker, at, tmp_path):
    node = made(at, tmp_path, segment_ms=100, min_cleanable_dirty_ratio=0.01)
    name = DataTopics("m", node).spends
    with opened(at, node) as topic:
        for charged in range(4):
            for run in ("run-1", "run-2"):
                topic.write([ONE._replace(run=run, charged=charged)])

        def lines():
            time.sleep(0.2)  # older than a segment gets: the next write begins another
            topic.write([ONE._replace(run="run-3")])
            with closing(Logs(at)) as logs:
                held = logs.stored({name: 0})[name]
            return sum(stored.key.startswith(b"m/run-1/") for stored in held)

        with eager_cleaner(broker):
            until(lambda: lines() == 1)
        last = {one.run: one.charged for one in topic.read()}
    assert last == {"run-1": 3, "run-2": 3, "run-3": 3}
