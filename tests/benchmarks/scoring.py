"""What a score costs, and how soon it is there: `python -m tests.benchmarks.scoring`, on a broker of its own.

Under a backlog: decoding alone and all of `score`, beside a bare loop of confluent-kafka that reads the same
messages with json and numpy; records/s of each in turns, from the start of a consumer to the last record, or
to the last committed score. Decoding Avro, beside the same loop with fastavro. At a rate: from a record's
send to its score at a reader of committed records, beside bare transactions of ten records in the same run.
"""

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import fastavro
import numpy as np
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from streams.bus.registry import Definition
from streams.mesh.settings.brokers import RegistrySettings
from streams.runtime.process import Stop
from streams.tools.broker.broker import stop
from streams.tools.score.processor import BATCH, Route, ScoreProcessor
from streams.tools.score.score import Scoring, reading_of, scorer_of
from tests.benchmarks.spreads import spread
from tests.support.brokers.development import started
from tests.support.brokers.scoring import ScoredTopics, model
from tests.support.brokers.topics import PATIENCE, connection

RECORDS, NUMBERS, TURNS = 200_000, 20, 5
TOGETHER = 50_000
"""Records that a producer is given at once. Its queue takes 100,000."""
RATE, SECONDS, TRANSACTIONS = 1_000, 10, 100
NAMES = [f"x{k}" for k in range(NUMBERS)]
SCHEMA = {
    "features": dict.fromkeys(NAMES, "number"),
    "label": {"column": "fraud", "positive": "1", "negative": "0"},
}


def messages(count: int) -> list[bytes]:
    """Return flat JSON objects."""
    chance = np.random.Generator(np.random.Philox(1))
    rows = chance.normal(size=(count, NUMBERS)).round(6).tolist()
    return [json.dumps(dict(zip(NAMES, row, strict=True))).encode() for row in rows]


AVRO = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": name, "type": "double"} for name in NAMES],
}


def in_avro(values: list[bytes]) -> list[bytes]:
    """Return the same records in Avro, behind the frame of schema 1."""
    schema, framed = fastavro.parse_schema(AVRO), list[bytes]()
    for value in values:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, schema, json.loads(value))
        framed.append(b"\0\0\0\0\1" + stream.getvalue())
    return framed


def filled(address: str, values: list[bytes]) -> ScoredTopics:
    """Return topics whose input has these messages."""
    topics = ScoredTopics(address)
    for first in range(0, len(values), TOGETHER):
        topics.produce(values[first : first + TOGETHER], first)
    return topics


def bare_avro(topics: ScoredTopics) -> float:
    """Read Avro with fastavro and numpy, and do no more."""
    schema = fastavro.parse_schema(AVRO)
    for batch in batches(topics):
        records = [
            fastavro.schemaless_reader(BytesIO(message.value()[5:]), schema, None) for message in batch
        ]
        np.array([list(record.values()) for record in records])
    return time.perf_counter()


def reader(address: str, **settings: object) -> Consumer:
    """Return a consumer of committed records that joins no group."""
    usual = {"group.id": "bench", "enable.auto.commit": False, "isolation.level": "read_committed"}
    return Consumer({"bootstrap.servers": address, **usual, **settings})


def batches(topics: ScoredTopics) -> "Iterator[list[Message[bytes, bytes]]]":
    """Yield all messages of the input, batch by batch as a consumer gives them."""
    with closing(reader(topics.address)) as consumer:
        consumer.assign([TopicPartition(topics.input, part, 0) for part in range(topics.partitions)])
        count = 0
        while count < RECORDS:
            yield (batch := consumer.consume(BATCH, 1.0))
            count += len(batch)


def bare(topics: ScoredTopics) -> float:
    """Read with json and numpy, and do no more."""
    for batch in batches(topics):
        np.array([list(json.loads(message.value()).values()) for message in batch])
    return time.perf_counter()


def decoded(topics: ScoredTopics, scoring: Scoring) -> float:
    """Read as `score` does, and make the scores, without writing them."""
    reading = reading_of(scoring, topics.input)
    if reading.decoder.schemas is not None:
        reading.decoder.schemas.learn(1, Definition("AVRO", json.dumps(AVRO)))
    scorer, models = scorer_of(scoring, route(topics), reading)
    version = models.newest()
    assert version is not None
    for batch in batches(topics):
        assert None not in scorer.scores([message.value() for message in batch], version)
    return time.perf_counter()


def scored(topics: ScoredTopics, scoring: Scoring, *, transactions: bool = True) -> float:
    """Score all messages, as a new group; return the time of the last commit."""
    with Stop() as stopped:
        process = route(topics, f"bench.{time.monotonic_ns()}", transactions=transactions)
        scorer, models = scorer_of(scoring, process, reading_of(scoring, topics.input))
        with closing(ScoreProcessor(process, scorer, models, stopped)) as processor:
            worker = threading.Thread(target=processor.run)
            worker.start()
            while processor.counts.scored < RECORDS:
                time.sleep(0.001)
            end = time.perf_counter()
            stopped.asked.set()
            worker.join()
    return end


def route(topics: ScoredTopics, group: str = "bench", *, transactions: bool = True) -> Route:
    """Return a way from the input to the output."""
    broker = connection(topics.address)
    return Route(broker, topics.input, topics.output, group, transactions=transactions)


def backlog(address: str, scoring: Scoring) -> None:
    """Print records/s of each form, and its ratio to the bare loop's in the same turn."""
    topics = filled(address, messages(RECORDS))
    forms: dict[str, Callable[[], float]] = {
        "bare loop, json and numpy": lambda: bare(topics),
        "scores made, not written": lambda: decoded(topics, scoring),
        "score, transactions": lambda: scored(topics, scoring),
        "score, at least once": lambda: scored(topics, scoring, transactions=False),
    }
    compared("backlog", forms)


def backlog_of_avro(address: str, scoring: Scoring) -> None:
    """Print the same of decoding Avro."""
    topics = filled(address, in_avro(messages(RECORDS)))
    of_registry = replace(scoring, registry=RegistrySettings(url="http://asked.by.nobody"))
    forms: dict[str, Callable[[], float]] = {
        "bare loop, fastavro and numpy": lambda: bare_avro(topics),
        "scores made, not written": lambda: decoded(topics, of_registry),
    }
    compared("Avro", forms)


def compared(label: str, forms: dict[str, Callable[[], float]]) -> None:
    """Print records/s of each form in turns, and its ratio to the first."""
    turns = []
    for _ in range(TURNS + 1):
        turn = {}
        for name, work in forms.items():
            before = time.perf_counter()
            turn[name] = RECORDS / (work() - before)
        turns.append(turn)
    first, *_ = forms
    for name in forms:
        rates = [turn[name] for turn in turns[1:]]
        ratios = [turn[name] / turn[first] for turn in turns[1:]]
        print(f"{label:10} {name:29} {spread(rates, 0)} records/s, {spread(ratios, 2)} of the first")


def transactions(topics: ScoredTopics) -> list[float]:
    """Return the seconds that bare transactions of ten records take, with positions of a group."""
    producer = Producer(
        {"bootstrap.servers": topics.address, "transactional.id": topics.input, "linger.ms": 0}
    )
    producer.init_transactions(PATIENCE)
    took = []
    with closing(reader(topics.address)) as consumer:
        for number in range(TRANSACTIONS):
            before = time.perf_counter()
            producer.begin_transaction()
            for _ in range(10):
                producer.produce(topics.dead_letters, b"x" * 100)
            producer.flush()
            position = TopicPartition(topics.input, 0, number)
            producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata())
            producer.commit_transaction()
            took.append(time.perf_counter() - before)
    return took


def latencies(topics: ScoredTopics, scoring: Scoring, *, transactions: bool) -> list[float]:
    """Return the seconds from each record's send to its score at a reader of committed records."""
    values, sent, took = messages(RATE), list[float](), list[float]()
    producer = Producer({"bootstrap.servers": topics.address, "linger.ms": 0})

    def send() -> None:
        begin = time.perf_counter()
        for number in range(RATE * SECONDS):
            time.sleep(max(0.0, begin + number / RATE - time.perf_counter()))
            sent.append(time.perf_counter())
            producer.produce(topics.input, values[number % RATE], str(number), number % topics.partitions)
            producer.poll(0)
        producer.flush()

    with Stop() as stopped:
        process = route(topics, f"bench.{time.monotonic_ns()}", transactions=transactions)
        scorer, models = scorer_of(scoring, process, reading_of(scoring, topics.input))
        with (
            closing(reader(topics.address, **{"fetch.wait.max.ms": 100})) as consumer,
            closing(ScoreProcessor(process, scorer, models, stopped)) as processor,
        ):
            consumer.assign([TopicPartition(topics.output, part, 0) for part in range(topics.partitions)])
            threads = [threading.Thread(target=work) for work in (processor.run, send)]
            for thread in threads:
                thread.start()
            while len(took) < RATE * SECONDS:
                message = consumer.poll(1.0)
                if message is not None and message.error() is None:
                    took.append(time.perf_counter() - sent[int(message.key() or b"0")])
            stopped.asked.set()
            for thread in threads:
                thread.join()
    return took[2 * RATE :]  # the group is joined, and the code is warm


def main() -> None:
    """Measure, and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weights = [0.1] * NUMBERS
        source = {"kind": "json-lines", "schema": SCHEMA}
        path = model(folder, source=source, dimension=NUMBERS, newest=weights, average=weights)
        scoring = Scoring(model=path)
        broker = started(folder / "broker")
        try:
            backlog(broker.address, scoring)
            backlog_of_avro(broker.address, scoring)
            for of in (True, False):
                topics = ScoredTopics(broker.address)
                floor = 1e3 * np.quantile(transactions(topics), [0.5, 0.99])
                p50, p99 = 1e3 * np.quantile(latencies(topics, scoring, transactions=of), [0.5, 0.99])
                form = "transactions" if of else "at least once"
                bare_ones = f"bare transactions of ten: p50 {floor[0]:.1f}, p99 {floor[1]:.1f}"
                ratios = f"ratios {p50 / floor[0]:.1f}, {p99 / floor[1]:.1f}"
                print(f"{RATE:,}/s    {form:16} p50 {p50:.1f} ms, p99 {p99:.1f}; {bare_ones}; {ratios}")
        finally:
            stop(folder / "broker")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
