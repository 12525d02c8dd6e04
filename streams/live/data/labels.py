"""Reads a node's labels that come later than their records from their topic into a table.

A slot that is due requests its labels. The reader then looks up the ends of the labels' log, and reads up to
them; after that the slot gets its labels and is handed on. The topic is the store: nothing is kept at a stop.
At a start, or if a slot needs older labels than were read, the topic is read again from the needed time.

While the broker is away no slot gets labels. How long a slot waits depends on the number of labels in the
topic, and not on which records the slot has: a slot asks only whether it has any record or none.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock, Thread
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from nodes.machine.slots import ClosedSlot
from nodes.privacy.private import Private
from nodes.values import Observations
from streams.bus.bus import BusError, Unreachable
from streams.bus.connection import PATIENCE, consumer_settings
from streams.bus.errors import Cure, cure
from streams.bus.registry import SchemaRegistry
from streams.log_events import LogEvent
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.labels import LaterLabelsSettings
from streams.metrics.private import LabelCounts
from streams.records.avro import SchemaLookup
from streams.records.decoder import SchemaDecoder
from streams.records.later_labels import KeyHash, LabelMessages, LabelTable, Wanted

EVERY = 1.0
"""Seconds between attempts while the broker is away."""
_TOGETHER, _LOOK = 1_000, 0.02
"""Messages of one call of the client, and seconds that it waits for them."""
_GROWN = 60.0
"""Seconds between looks at whether the topic has got further partitions."""
_MARGIN = 1 / 16
"""The share of a label's life by which more is read than a slot needs, to spare the next slots a reread."""


class Question(NamedTuple):
    """A slot's request: its number, and the time in seconds before which the slot needs no label."""

    number: int
    since: float


class LaterLabels:
    """Reads the labels of one node in a thread of its own.

    That thread calls `changed` when it has answered a request, and when it cannot, as the broker is away.
    Only `changed` may call `fill`. If the messages need a schema registry and it is away, no slot gets
    labels, whichever schemas its labels name. Raises NoRegistryExtra.
    """

    def __init__(
        self,
        settings: LaterLabelsSettings,
        broker: BrokerSettings,
        decoder: SchemaDecoder,
        log: logging.Logger,
    ) -> None:
        self.settings = settings
        self._broker, self._decoder, self._log = broker, decoder, log
        self._messages = LabelMessages(settings, decoder.schema)
        self._hash = KeyHash()
        self._changed: Callable[[], None] = lambda: None
        self._question, self._answered, self._looked = Question(0, float("inf")), 0, 0
        self._answers, self._stopped, self._started = True, False, time.time()
        self._lock = Lock()
        self._table, self._learnt = LabelTable(), LabelTable()
        self._since = float("inf")  # from when on the table has labels
        self._next: dict[int, int] = {}
        self._counted: dict[int, int] = {}
        self._ends: Mapping[int, int] = {}
        self._heard = self._listed = 0.0
        self._registry = None if settings.registry is None else SchemaRegistry(settings.registry)
        self._checked = -math.inf  # when the registry answered last
        self._unread: list[Message[bytes, bytes]] = []  # they wait for the registry
        self._counts = LabelCounts()

    @property
    def counts(self) -> Private[LabelCounts]:
        """The counts since the process started."""
        return Private(self._counts)

    def start(self, changed: Callable[[], None]) -> None:
        """Begin to read, from the time that the first slots need if they are on time."""
        self.prepare(changed, time.time())
        Thread(target=self._work, name="later-labels", daemon=True).start()

    def check_registry(self) -> None:
        """Check whether the schema registry answers, if there is one. Raises Denied."""
        with suppress(Unreachable):
            self._check()

    def prepare(self, changed: Callable[[], None], now: float) -> None:
        """Prepare to read what slots need that are on time; `now` in seconds since 1970."""
        self._changed = changed
        self._question = self._question._replace(since=now - self.settings.window)

    def hold_up(self, records: int) -> None:
        """Note, for the owner, how many records wait behind others that are dated ahead, these included."""
        self._counts.held_up = records

    def stop(self) -> None:
        """Read no more. A request under way is not waited for."""
        self._stopped = True

    def ask(self, oldest: float) -> None:
        """Request, for a slot that is due now, the labels of records from that time on.

        The request replaces earlier ones.
        """
        with self._lock:
            self._question = Question(self._question.number + 1, oldest - self.settings.before)

    @property
    def is_read(self) -> bool:
        """Whether the labels of the last request are read."""
        with self._lock:
            return self._answered >= self._question.number

    @property
    def is_away(self) -> bool:
        """Whether the broker did not answer the last request."""
        return not self._answers

    def fill(self, slot: ClosedSlot[bytes], observations: Observations) -> Observations:
        """Return a slot's records with their labels."""
        keys = [
            self._decoder.key(value) if present else None
            for value, present in zip(slot.values, observations.present.tolist(), strict=True)
        ]
        requests = [
            Wanted(self._hash(key), round((moment - self.settings.before) * 1e3), self._due(moment))
            for key, moment in zip(keys, slot.times, strict=True)
            if key is not None
        ]
        labels, places = observations.labels.copy(), [k for k, key in enumerate(keys) if key is not None]
        labels[places] = self._messages.or_otherwise(self._table.find(requests))
        for key, _, due in requests:
            self._learnt.add(0, key, due, 0.0)
        return observations._replace(labels=labels)

    def _due(self, moment: float) -> int:
        return round((moment + self.settings.after) * 1e3)

    # ------------------------------------------------------------------------------------- its thread

    def _work(self) -> None:
        consumer = Consumer(consumer_settings(self._broker, committed=True) | {"log_level": 0})
        try:
            while not self._stopped:
                try:
                    self.turn(consumer)
                except KafkaException as error:
                    self._away(str(error.args[0].name()))
                    time.sleep(EVERY)
                except BusError as error:  # of the registry
                    self._away(str(error))
                    time.sleep(EVERY)
        finally:
            with suppress(KafkaException):
                consumer.close()
            if self._registry is not None:
                self._registry.close()

    def turn(self, consumer: Consumer) -> None:
        """Look up what is asked, and read on. The thread does it again and again.

        Raises KafkaException if the broker is away, BusError if the schema registry is.
        """
        self._check()
        with self._lock:
            question = self._question
        now = time.monotonic()
        if question.since < self._since:
            self._begin(consumer, question.since - self.settings.window * _MARGIN)
        elif now - self._listed >= _GROWN:
            self._grow(consumer)
        if question.number > self._looked or now - self._heard >= PATIENCE:
            self._ends = {part: self._end(consumer, part) for part in self._next}
            self._looked, self._heard = question.number, now
            self._there()
        if self._reached and self._answered < self._looked:
            with self._lock:
                self._answered = self._looked
            self._forget(question.since)
            self._changed()
        self._unread = messages = self._unread or consumer.consume(_TOGETHER, _LOOK)
        self._learn_schemas(messages)
        self._unread = []
        self._take(consumer, messages)

    def _check(self) -> None:
        """Check that the registry answers, once a second, whichever schemas are needed. Raises BusError."""
        if self._registry is not None and time.monotonic() - self._checked >= EVERY:
            self._registry.look()
            self._checked = time.monotonic()

    def _learn_schemas(self, messages: list["Message[bytes, bytes]"]) -> None:
        """Ask the registry for the schemas that messages name. Raises BusError if it is away."""
        if self._registry is not None and self._messages.schemas is not None:
            parts = [part for message in messages for part in (message.value(), message.key()) if part]
            SchemaLookup(self._registry, self._messages.schemas).ask_all(parts)

    @property
    def _reached(self) -> bool:
        return all(self._next[part] >= end for part, end in self._ends.items())

    def _begin(self, consumer: Consumer, since: float) -> None:
        """Read again, from that time on."""
        topic, milliseconds = self.settings.origin, max(0, round(since * 1e3))
        parts = [TopicPartition(topic, part, milliseconds) for part in self._partitions(consumer)]
        offsets = dict[int, int]()
        for of in consumer.offsets_for_times(parts, timeout=PATIENCE):
            if of.error is not None:
                raise KafkaException(of.error)
            offsets[of.partition] = of.offset if of.offset >= 0 else self._end(consumer, of.partition)
        consumer.assign([TopicPartition(topic, part, offset) for part, offset in offsets.items()])
        self._next, self._ends, self._since, self._looked = offsets, {}, since, self._answered
        self._table, self._unread = LabelTable(), []

    def _grow(self, consumer: Consumer) -> None:
        if set(self._partitions(consumer)) - self._next.keys():
            self._begin(consumer, self._since)

    def _partitions(self, consumer: Consumer) -> list[int]:
        listing = consumer.list_topics(self.settings.origin, timeout=PATIENCE).topics[self.settings.origin]
        if listing.error is not None:
            raise KafkaException(listing.error)
        self._listed = time.monotonic()
        return sorted(listing.partitions)

    def _end(self, consumer: Consumer, partition: int) -> int:
        of = TopicPartition(self.settings.origin, partition)
        return int(consumer.get_watermark_offsets(of, timeout=PATIENCE)[1])

    def _take(self, consumer: Consumer, messages: list["Message[bytes, bytes]"]) -> None:
        new_labels = list[tuple[int, int]]()  # their keys and times
        for message in messages:
            error, part, offset = message.error(), message.partition(), message.offset()
            if part is None or offset is None:  # of no partition: the broker is away
                continue
            if error is None:
                self._next[part] = offset + 1
                label = self._add(message, part)
                if offset >= self._counted.get(part, 0):
                    self._counted[part] = offset + 1
                    self._counts.came += label is not None
                    self._counts.unreadable += label is None
                    new_labels += [] if label is None else [label]
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 # librdkafka's name
                self._next[part] = max(offset, self._next.get(part, 0))
            elif part in self._next and self._pass(consumer, part, error):
                break  # what was fetched before is void
        if messages:
            self._heard = time.monotonic()
        if new_labels and self._answered and len(self._learnt):
            late = self._learnt.find([Wanted(key, 0, time - 1) for key, time in new_labels])
            self._counts.late += int((late == 0.0).sum())

    def _pass(self, consumer: Consumer, part: int, error: KafkaError) -> bool:
        """Continue behind an unreadable batch, or at the log's new start; return whether all is read anew."""
        remedy = cure(error)
        if remedy is Cure.SEEK:
            self._begin(consumer, self._since)
            return True
        if remedy is Cure.SKIP:
            self._next[part] += 1
            self._counts.unreadable += 1
            consumer.seek(TopicPartition(self.settings.origin, part, self._next[part]))
        return False

    def _add(self, message: "Message[bytes, bytes]", partition: int) -> tuple[int, int] | None:
        """Put a message's label into the table; return its key and time, or None if it cannot be read."""
        _, milliseconds = message.timestamp()
        label = self._messages(message.value(), message.key())
        if label is None or milliseconds < 0:
            return None
        key = self._hash(label.key)
        self._table.add(partition, key, milliseconds, label.value)
        return key, milliseconds

    def _forget(self, since: float) -> None:
        """Drop, now and then, labels that no slot needs: each expires by its own age."""
        margin = self.settings.window * _MARGIN
        if since - self._since >= 4 * margin:
            self._since = since - margin
            oldest = round(self._since * 1e3)
            self._counts.unmatched += self._table.forget(oldest, round(self._started * 1e3))
            self._learnt.forget(oldest, oldest)

    def _there(self) -> None:
        if not self._answers:
            text = "%s: the labels can be read again"
            self._log.info(text, self.settings.origin, extra=LogEvent.LABELS_BACK.of())
        self._answers = True

    def _away(self, reason: str) -> None:
        if self._answers:
            text = "%s: the labels cannot be read now (%s): slots by count wait, slots by time close empty"
            self._log.warning(text, self.settings.origin, reason, extra=LogEvent.LABELS_AWAY.of())
        self._answers = False
        self._changed()
