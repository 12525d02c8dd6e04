"""Topics to be scored, models to score with, and what a reader of committed records finds."""

import json
import math
import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers.topics import PATIENCE

WEIGHTS = (0.5, -0.25, 0.125)
"""Of the features x and y, and of the intercept."""
SCHEMA = {
    "features": {"x": "number", "y": "number"},
    "label": {"column": "fraud", "positive": "1", "negative": "0"},
    "intercept": True,
}


def committed(address, topic):
    """Return what a reader of committed records finds in a topic, from its first message to its end."""
    settings = {
        "bootstrap.servers": address,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer, messages = Consumer(settings), []
    try:
        waiting = set(consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in waiting])
        while waiting:
            message = consumer.poll(PATIENCE)
            assert message is not None, "waited in vain"
            if message.error() is None:
                messages.append(message)
            else:
                waiting.discard(message.partition())
    finally:
        consumer.close()
    return messages


def model(folder, **changes):
    """Write a logistic model of run-3, and return its path."""
    tree = {
        "format": 1,
        "mesh": "banks",
        "run": "run-3",
        "round": 41,
        "nodes": 3,
        "rounds": 41,
        "averaged": "as a test likes it",
        "algorithm": "dola",
        "loss": "logistic",
        "dimension": len(WEIGHTS),
        "source": {"kind": "json-lines", "schema": SCHEMA},
        "guarantee": {"adjacency": "event", "epsilon": 1.5, "delta": 0.0, "nodes": {"a": "a sentence"}},
        "newest": list(WEIGHTS),
        "average": [0.0] * len(WEIGHTS),
    } | changes
    path = folder / "model.json"
    path.write_text(json.dumps(tree))
    return path


def record(number):
    """The number-th record."""
    return {"x": number % 7 / 2, "y": number % 5, "fraud": number % 2}


def expected(number):
    """The score of the number-th record, by the definition of the logistic model."""
    fields = record(number)
    score = WEIGHTS[0] * fields["x"] + WEIGHTS[1] * fields["y"] + WEIGHTS[2]
    return {"prediction": score, "probability": 1 / (1 + math.exp(-score))}


class ScoredTopics:
    """Topics that no other test knows: messages, scores, and dead letters."""

    def __init__(self, address, partitions=3, outputs=None, **configs):
        self.address, self.partitions = address, partitions
        self.began = 1_000 * int(time.time())  # older ones would be beyond the broker's retention
        mark = uuid.uuid4().hex[:8]
        self.input, self.output = f"payments.new.{mark}", f"payments.scored.{mark}"
        self.dead_letters = f"{self.output}.deadletter"
        counts = {self.input: partitions, self.output: outputs or partitions, self.dead_letters: 1}
        admin = AdminClient({"bootstrap.servers": address})
        created = admin.create_topics([NewTopic(topic, n, 1, config=configs) for topic, n in counts.items()])
        for future in created.values():
            future.result(PATIENCE)

    def produce(self, messages, first=0):
        """Write values, each with its number as key, header and time."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 5})
        for number, value in enumerate(messages, first):
            mark = str(number).encode()
            producer.produce(
                self.input,
                value,
                mark,
                number % self.partitions,
                timestamp=self.began + number,
                headers=[("number", mark)],
            )
            producer.poll(0)
        assert producer.flush(PATIENCE) == 0

    def scores(self):
        """All messages of the output that are committed."""
        return committed(self.address, self.output)

    def letters(self):
        """All dead letters that are committed."""
        return committed(self.address, self.dead_letters)

    def numbers(self):
        """The number of the message that each score is of, in order."""
        return sorted(int(score.key()) for score in self.scores())

    def members(self, group):
        """How many partitions each member of a group has; `{input}` in its name is the input."""
        admin = AdminClient({"bootstrap.servers": self.address})
        (answer,) = admin.describe_consumer_groups([group.format(input=self.input)]).values()
        members = answer.result(PATIENCE).members
        return sorted(len(member.assignment.topic_partitions) for member in members)


def scoring(topics, path, *more):
    """The arguments of a process that scores the topics."""
    return [
        *("score", "--model", path, "--servers", topics.address),
        *("--input", topics.input, "--output", topics.output, *more),
    ]


def values(count):
    """The values of so many messages."""
    return [json.dumps(record(number)).encode() for number in range(count)]
