"""Values that must not get out of a party's hands, and the looking for them."""

import random
import struct

from confluent_kafka import Consumer, TopicPartition

from streams.bus.connection import consumer_settings
from tests.support.brokers.topics import PATIENCE


class Canaries:
    """Words and numbers that stand nowhere else, in every form in which they could be written down."""

    def __init__(self, seed):
        self._random = random.Random(seed)  # noqa: S311 # no secret
        self.forms = {}

    def word(self):
        """A new word."""
        made = f"canary-{self._random.getrandbits(64):016x}"
        self.forms[made.encode()] = made
        return made

    def number(self):
        """A new number between 0 and 1: in text, and as a float64 of either byte order."""
        made = self._random.uniform(0.1, 1.0)
        text = repr(made)[:9]  # numpy prints no more
        self.forms |= {text.encode(): text, struct.pack("<d", made): text, struct.pack(">d", made): text}
        return made

    def among(self, where):
        """The canaries in these bytes."""
        return {text for form, text in self.forms.items() if form in where}

    def in_files(self, folder):
        """The files below a folder that hold some, each with those."""
        files = [path for path in folder.rglob("*") if path.is_file()]
        found = {
            path.relative_to(folder).as_posix(): self.among(path.read_bytes().rstrip(b"\0")) for path in files
        }
        return {path: canaries for path, canaries in found.items() if canaries}


def held(broker, topic, partition=0):
    """All bytes of a topic's messages: keys, values, headers. Internal topics too."""
    consumer = Consumer(consumer_settings(broker) | {"log_level": 0, "isolation.level": "read_uncommitted"})
    at = TopicPartition(topic, partition)
    try:
        first, end = consumer.get_watermark_offsets(at, PATIENCE)
        consumer.assign([TopicPartition(topic, partition, first)])
        parts, offset = [], first
        while offset < end:
            message = consumer.poll(PATIENCE)
            assert message is not None, "waited in vain"
            if message.error() is None:
                headers = [part for header in message.headers() or () for part in header]
                parts += [message.key(), message.value(), *headers]
            offset = message.offset() + (message.error() is None)
        return b"\0".join(part.encode() if isinstance(part, str) else part or b"" for part in parts)
    finally:
        consumer.close()
