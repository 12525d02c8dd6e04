"""Late policies on a real broker: a node that has fallen behind passes over records by their offsets."""

import pytest
from confluent_kafka import Producer

from nodes.machine.partition_slots import shares
from nodes.machine.slots import CountSlots, LatePolicy
from streams.state.folder import StateFolder
from streams.state.journal_file import JournalReader
from tests.support.brokers.data_streams import DataTopic, live_stream
from tests.support.brokers.topics import until
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(broker):
    return DataTopic(broker.address)


def test_the_oldest_are_dropped_at_the_start_and_later(topic, tmp_path):
    topic.count_up(5000)
    late = LatePolicy("drop-oldest", 10, 2)
    with live_stream(topic, tmp_path, slots=lambda: CountSlots(2), late=late) as live:
        assert live.take(2) == ([4990.0, 4991.0, 4992.0, 4993.0], ((0, 4994),))
        assert live.counts.skipped == 4990
        until(lambda: live.lag == 0)
        topic.count_up(7000, first=5000)
        until(lambda: live.lag)  # the next look at the log's end has found them
        assert live.take(2, ((0, 4994),), first=3) == ([6990.0, 6991.0, 6992.0, 6993.0], ((0, 6994),))


def test_a_sample_is_taken_evenly_of_what_waits(topic, tmp_path):
    topic.count_up(1000)
    with live_stream(topic, tmp_path, late=LatePolicy("sample", 10)) as live:
        found, position = live.take(3)
        assert found == [99.0, 99.0 + 90, 99.0 + 90 + 81]
        assert position == ((0, 271),)


def test_several_partitions_go_by_the_sum_of_their_records_markers_apart(broker, tmp_path):
    """Of 70 records, most with a marker behind them, the newest 20 are left, by the partitions' shares."""
    topic, parts = DataTopic(broker.address, partitions=2), {0: 20, 1: 50}
    producer = Producer(topic.client | {"transactional.id": topic.name})
    producer.init_transactions()
    for part, count in parts.items():
        for k in range(count):
            producer.begin_transaction()
            producer.produce(topic.name, b"%d " % (1000 * part + k), partition=part)
            producer.commit_transaction()
    with live_stream(topic, tmp_path, late=LatePolicy("drop-oldest", 20)) as live:
        learnt, _ = live.take(20)
        assert live.counts.skipped == 50
    passed = shares(parts, 50)
    assert sorted(learnt) == [
        1000.0 * part + k for part, count in parts.items() for k in range(passed[part], count)
    ]


def position(state, name):
    with JournalReader(StateFolder(state).journal(name)) as journal:
        return dict(journal.records(1)[0].data_position)[0]


@pytest.mark.slow
def test_a_node_that_drops_and_one_that_does_not(tmp_path, broker):
    own = {"a": {"late_policy": {"drop-oldest": 5}}, "b": {"late_policy": "queue"}}
    path = small_mesh_file(tmp_path, broker.address, rounds=5, own=own)
    with LiveMesh(path) as mesh:
        mesh.feed_all("--records", "200")
        mesh.scheduler()
        mesh.nodes()
        mesh.finish()
        assert [position(tmp_path / "state", name) for name in mesh.file.mesh.nodes] == [200, 5, 5]
