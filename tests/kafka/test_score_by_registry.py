"""Messages in Avro are scored by a schema registry, which denies ids and may be away."""

import json

import pytest
from confluent_kafka import Consumer, Producer

from streams.tools.score import processor
from tests.support.brokers import avro
from tests.support.brokers.registry import stub_registry
from tests.support.brokers.scoring import SCHEMA, ScoredTopics, expected, model, record, scoring
from tests.support.brokers.topics import PATIENCE
from tests.support.processes.command import Process
from tests.support.processes.forked import Forked, command
from tests.support.processes.mesh import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def in_avro(schema, schema_id, number):
    """The key and value of the number-th record in Avro; its y is the key, of the schema 1."""
    fields = record(number)
    value = avro.message(schema_id, schema, {"x": fields["x"], "fraud": fields["fraud"]})
    return avro.message(1, "long", fields["y"]), value


def test_avro_is_scored_by_its_registry_which_denies_an_id_and_is_away_for_another(tmp_path, broker):
    avro.need_fastavro()
    topics = ScoredTopics(broker.address, partitions=1)
    columns = {"x": "number", "y": {"number": True, "from": {"key": "."}}}
    path = model(tmp_path, source={"kind": "topic", "schema": SCHEMA | {"features": columns}})
    schema = avro.record(x="double", fraud="int")
    producer = Producer({"bootstrap.servers": topics.address})

    def produce(key, value):
        producer.produce(topics.input, value, key)
        assert producer.flush(PATIENCE) == 0

    def predictions():
        return [json.loads(score.value())["prediction"] for score in topics.scores()]

    with stub_registry() as stub:
        stub.schemas |= {7: schema, 8: schema, 9: schema, 1: "long"}
        place = ["--registry", stub.url]
        process = Process(tmp_path, "score", *scoring(topics, path, *place))
        for number in range(3):
            produce(*in_avro(schema, 7, number))
        produce(*in_avro(schema, 99, 3))  # the registry denies it
        wait_until(lambda: len(topics.scores()) == 3 and len(topics.letters()) == 1)
        (letter,) = topics.letters()
        assert dict(letter.headers())["mirrormesh-reason"] == b"of a schema that the registry denies"
        stub.answer = lambda path: 503
        produce(*in_avro(schema, 8, 4))
        wait_until(lambda: "the schema registry is away (HTTP 503)" in process.log)
        assert len(topics.scores()) == 3
        asked = len(stub.asked)
        wait_until(lambda: len(stub.asked) > asked + 3)
        stub.answer = lambda path: None
        wait_until(lambda: len(topics.scores()) == 4)
        wait_until(lambda: "the schema registry answers again" in process.log)
        stub.answer = lambda path: 500 if path.endswith("/ids/9") else None  # the id is to blame
        produce(*in_avro(schema, 9, 5))
        produce(*in_avro(schema, 7, 6))
        wait_until(lambda: len(topics.scores()) == 5 and len(topics.letters()) == 2)
        stub.answer = lambda path: 503
        produce(*in_avro(schema, 1_000, 5))
        wait_until(lambda: process.log.count("the schema registry is away") == 2)
        process.terminate()
        assert process.ends() == 0, process.log
    assert predictions() == [pytest.approx(expected(number)["prediction"]) for number in (0, 1, 2, 4, 6)]
    assert len(topics.letters()) == 2  # what waited is the next process's
    reason = dict(topics.letters()[1].headers())["mirrormesh-reason"]
    assert reason == b"of a schema that the registry does not give"


def eager(folder, path, arguments, environment):
    """Score, and get messages of partitions that come while others are paused."""

    class Eager(Consumer):
        paused = None

        def pause(self, partitions):
            Eager.paused = Eager.paused or [(place.topic, place.partition) for place in partitions]
            super().pause([place for place in partitions if (place.topic, place.partition) in Eager.paused])

    processor.Consumer = Eager
    command(folder, path, arguments, environment)


class EagerScore(Forked):
    target = staticmethod(eager)


def test_partitions_move_while_the_registry_is_away_and_each_message_is_scored_once(tmp_path, broker):
    avro.need_fastavro()
    topics, schema = ScoredTopics(broker.address, partitions=4), avro.record(x="double", y="long")
    flat = {"features": {"x": "number", "y": "number"}, "label": SCHEMA["label"], "intercept": True}
    path = model(tmp_path, source={"kind": "topic", "schema": flat})
    with stub_registry() as stub, stub_registry() as other:
        for one_registry in (stub, other):
            one_registry.schemas |= {7: schema, 8: schema}
            one_registry.answer = lambda path: 503
        topics.produce(
            [avro.message(7 + number % 2, schema, {"x": 1.0, "y": number}) for number in range(400)]
        )
        first = Process(tmp_path, "first", *scoring(topics, path, "--registry", stub.url))
        wait_until(lambda: stub.numbers)  # it has a batch in hand
        second = EagerScore(tmp_path, "second", *scoring(topics, path, "--registry", other.url))
        wait_until(lambda: other.numbers)
        assert topics.members("score.banks.{input}") == [2, 2]
        first.terminate()  # while it waits
        assert first.ends() == 0, first.log
        wait_until(lambda: topics.members("score.banks.{input}") == [4])
        asked = len(other.asked)
        wait_until(lambda: len(other.asked) > asked + 20)  # while messages come
        assert topics.numbers() == []
        other.answer = lambda path: None
        wait_until(lambda: len(topics.numbers()) >= 400)
        second.terminate()
        assert second.ends() == 0, second.log
    assert topics.numbers() == list(range(400))
