"""A consumer of librdkafka's interface that reads a log in memory, and fails as it is told."""

import time

from confluent_kafka import KafkaError, KafkaException


class Said:
    """A message of the client: a record, or an error."""

    def __init__(self, topic=None, offset=None, value=None, error=None):
        self._topic, self._offset, self._value, self._error = topic, offset, value, error

    def topic(self):
        return self._topic

    def offset(self):
        return self._offset

    def value(self):
        return self._value

    def key(self):
        return None

    def timestamp(self):
        return 1, 1000

    def error(self):
        return self._error


class ScriptedConsumer:
    """Reads `logs`: by topic, its first offset and its values; an integer in place of one is an error's code.

    A code that stands for several offsets in a row fails them as one batch does, by its first offset. `say`
    has the next message of the client, and `call` the next error for its callback.
    """

    def __init__(self, **logs):
        self.logs, self.at, self.saying, self.calling = logs, {}, [], []
        self.asked, self._note = 0, None

    def __call__(self, settings, **_):
        self._note = settings.get("error_cb")
        return self

    def assign(self, partitions):
        self.at |= {one.topic: one.offset for one in partitions}

    incremental_assign = assign

    def incremental_unassign(self, partitions):
        for one in partitions:
            self.at.pop(one.topic)

    def unassign(self):
        self.at.clear()

    def close(self):
        pass

    def get_watermark_offsets(self, partition, _):
        if partition.topic not in self.logs:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        first, values = self.logs[partition.topic]
        return first, first + len(values)

    def poll(self, _):
        for waiting, take in ((self.calling, self._note), (self.saying, None)):
            if waiting:
                found = waiting.pop(0)
                return found if take is None else take(found)
        for topic in self.at:
            found = self._next(topic)
            if found is not None:
                return found
        time.sleep(0.001)
        return None

    def consume(self, *_):
        return []

    def _next(self, topic):
        first, values = self.logs.get(topic, (0, []))
        place = self.at[topic] - first
        if 0 <= place < len(values):
            if isinstance(values[place], int):
                return self._failed(topic, first, values, place)
            self.at[topic] += 1
            return Said(topic, first + place, values[place])
        if place == len(values):
            self.at[topic] = -1  # told once
            return Said(topic, first + place, error=KafkaError(KafkaError._PARTITION_EOF))
        if self.at[topic] < 0:
            return None
        self.at[topic] = -1
        return Said(topic, error=KafkaError(KafkaError._AUTO_OFFSET_RESET, "truncation"))

    def _failed(self, topic, first, values, place):
        self.asked += 1
        while place and values[place - 1] == values[place]:
            place -= 1
        return Said(topic, first + place, error=KafkaError(values[place]))
