"""Commits the offsets of a process's further nodes, each in its own group, for outside tools.

A consumer commits in one group, its app's, which is the first node's.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from streams.bus.connection import PATIENCE, client_settings
from streams.mesh.settings.brokers import BrokerSettings

AT_ONCE = 4
"""Groups of one turn: more would be work for the broker, of no use to anybody."""


class Commits:
    """Commits offsets by topic, in the group of the topic's name; a turn takes the next `AT_ONCE` of them."""

    def __init__(self, broker: BrokerSettings, topics: Sequence[str]) -> None:
        self._further = tuple(topics)[1:]
        self._client = AdminClient(client_settings(broker) | {"log_level": 0}) if self._further else None
        self._next = 0

    def note(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Commit the offsets of the topics whose turn it is, without waiting for an answer."""
        if self._client is None:
            return
        turn = (*self._further[self._next :], *self._further[: self._next])
        for topic in islice(turn, AT_ONCE):
            partitions = [TopicPartition(topic, number, offset) for number, offset in offsets[topic].items()]
            group = ConsumerGroupTopicPartitions(topic, partitions)
            self._client.alter_consumer_group_offsets([group], request_timeout=PATIENCE)
        self._next = (self._next + AT_ONCE) % len(self._further)
