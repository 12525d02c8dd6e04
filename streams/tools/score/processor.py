"""Reads a topic, scores its messages and writes the scores: each once, by transactions of Kafka.

The positions of a batch are committed in the transaction that holds its scores, so a reader of committed
records sees both or neither. Three rules keep each message in exactly one transaction, even if a process dies
or is suspended:

1. The positions are committed under this process's membership of the group, as it is after the batch was
   read. The broker refuses the positions of a process that it considers dead, and aborts its transaction.
2. If a partition is given back while a batch is read, its messages are removed from that batch. Nothing of
   them has been written, and the partition's next owner begins at the committed position.
3. Messages of an aborted transaction are read again from the committed positions.

Partitions are given back only while messages are read, and no transaction is open then.
"""

import gc
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import uuid4

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from streams.bus.bus import BusError, Denied, Unreachable
from streams.bus.connection import LOGGER, PATIENCE, consumer_settings, producer_settings
from streams.bus.errors import Cure, bus_error, cure, lacking
from streams.bus.registry import SchemaRegistry
from streams.codec.topics import score_letters
from streams.log_events import LogEvent
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.node import TopicSettings
from streams.records.avro import SchemaLookup, Schemas
from streams.records.faults import Fault
from streams.records.record import WholeMessage, message_headers
from streams.runtime.process import ServiceManager, Stop, retry_until_reachable
from streams.tools.score.figures import ScoreCounts, ScoreFigures
from streams.tools.score.scorer import Models, Scorer

BY_KEY: Final = -1
"""Any partition, by the message's key."""
Place = tuple[str, int]
"""A topic and a partition of it."""
Headers = list[tuple[str, bytes | None]]
BATCH: Final = 5_000
"""The most messages of a transaction."""
PRODUCERS: Final = 3
"""Producers whose transactions take turns. A broker takes the next transaction of one only when it has marked
the end of its last one on every partition, and the client asks again after 20 ms."""
WAIT: Final = 0.2
"""Seconds for which a read waits for messages. Signals are checked as often."""
DEAD: Final = 10_000
"""Milliseconds after which a silent process is dead: its partitions go to others, its transaction is void."""
_LARGEST = 8 * 2**20
_GARBAGE = 50 * BATCH
"""Containers by which a process may grow before Python looks for cyclic garbage among them."""
_LETTER = 2**19
"""A longer value is in no dead letter, and longer keys and headers in nothing that is written: a topic takes
1 MiB by default, and would refuse the message again after each restart."""
TOO_LONG = Fault(None, "its key and headers are too long to be written again")


class Copied(NamedTuple):
    """The parts of a message that are copied to its score and its dead letter."""

    key: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Route:
    """Where messages come from and scores go, all on one broker: a transaction cannot span two.

    `latest`: a group without a position begins at the log's end, not at its beginning. `transactions`:
    without them a message may be scored twice after a death, and is scored sooner. `rights_from`: what gives
    the process its rights, in words.
    """

    broker: BrokerSettings
    input: str
    output: str
    group: str
    latest: bool = False
    transactions: bool = True
    rights_from: str = "an administrator of the broker gives the rights"

    @property
    def dead_letters(self) -> str:
        """The topic of records that cannot be read."""
        return score_letters(self.output)

    @property
    def outputs(self) -> tuple[str, str]:
        """The topics that are written."""
        return self.output, self.dead_letters


class SchemaFetcher:
    """Asks a source's registry for schemas; what it learns is in `schemas`. Use it from one thread."""

    def __init__(self, source: TopicSettings, registry: SchemaRegistry, schemas: Schemas) -> None:
        self._registry, self._schemas = registry, schemas
        self._lookup = SchemaLookup(registry, schemas)
        self._keys = bool(source.record.of_keys)
        self._answers = True

    def check(self) -> None:
        """Make the first check. Raises Denied if the registry refuses these credentials."""
        try:
            self._registry.look()
        except Unreachable as error:
            self._away(error)

    def wanted(self, messages: Iterable[Any]) -> deque[int]:
        """Return the ids that the registry must be asked for, each once, before messages are scored."""
        messages = list(messages)
        texts = [message.value() or b"" for message in messages]
        if self._keys:
            texts += [message.key() or b"" for message in messages]
        return deque(self._schemas.unknown(texts))

    def fetch(self, number: int) -> bool:
        """Ask for the schema of an id. Return whether the registry answers; if not, it is asked again."""
        try:
            self._lookup.ask(number)
        except BusError as error:  # a registry that refuses counts as away, as its users may be renewed
            self._away(error)
            return False
        if not self._answers:
            LOGGER.warning("the schema registry answers again", extra=LogEvent.REGISTRY_BACK.of())
        self._answers = True
        return True

    def close(self) -> None:
        """Close the connections."""
        self._registry.close()

    def _away(self, error: BusError) -> None:
        if self._answers:
            text = "%s: messages of new schemas wait until it answers"
            LOGGER.warning(text, error, extra=LogEvent.REGISTRY_AWAY.of())
        self._answers = False


class ScoreProcessor:
    """Scores one topic in one process. Several processes share its partitions. Call `run`, then `close`.

    `fetcher`: fetches the schemas that messages name; None: they name none. `counts`: the counts of committed
    scores.
    """

    def __init__(
        self, route: Route, scorer: Scorer, models: Models, stop: Stop, fetcher: SchemaFetcher | None = None
    ) -> None:
        self._route, self._scorer, self._models, self._stop = route, scorer, models, stop
        self._fetcher = fetcher
        self.figures: ScoreFigures | None = None
        """Shows the process's progress, if set."""
        self._manager, self._told = ServiceManager(), -math.inf
        self.counts = ScoreCounts()
        self._given_back = set[Place]()
        self._refused: tuple[str, KafkaError] | None = None
        self._producers = deque(_producer(route) for _ in range(PRODUCERS if route.transactions else 1))
        self._consumer = _consumer(route)
        self._no_member = self._consumer.consumer_group_metadata()
        self._same_partitions = False

    def run(self) -> None:
        """Score until the process is asked to stop. Raises BusError for an error that waiting cannot fix."""
        try:
            with self._manager, rare_collections():
                self._start()
                self._work()
        except KafkaException as error:
            raise self._failed(error.args[0], self._route.output) from None

    def _work(self) -> None:
        while not self._stop.asked.is_set():
            self._turn()
            if batch := self._batch():
                self._score(batch)

    def _beat(self) -> None:
        """Report to probes and the service manager that the loop turns."""
        if self.figures is not None:
            self.figures.beat()
        now = time.monotonic()
        if now - self._told >= self._manager.period:
            self._told = now
            self._manager.works(None)

    def _turn(self) -> None:
        self._beat()
        if self.figures is not None:
            self.figures.turn(self._consumer, self._models.newest())

    def _failed(self, error: KafkaError, topic: str) -> BusError:
        """Return the failure of a request that concerns a topic, or the transactions."""
        if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            ids = f"transactional ids that begin with {self._route.group}."
            return Denied(
                f"{self._route.broker.servers}: {lacking(ids, 'write')} ({self._route.rights_from})"
            )
        return bus_error(error, topic)

    def close(self) -> None:
        """Leave the group, so that other processes get its partitions at once."""
        self._consumer.close()
        for producer in self._producers:
            with suppress(KafkaException):  # a client that has failed for good does no more
                producer.purge()
                producer.flush(0)

    @property
    def _producer(self) -> Producer:
        """The producer of the current batch."""
        return self._producers[0]

    def _start(self) -> None:
        """Join the group once there is a model. Raises ProcessStopped if asked to stop before."""
        counts = retry_until_reachable(self._stop, self._partitions)
        # scores keep their partition if the output has as many as the input; otherwise they go by key
        self._same_partitions = counts[0] == counts[1]
        if self._route.transactions:
            for producer in self._producers:
                self._retried(partial(producer.init_transactions, PATIENCE))
        while self._models.newest() is None and not self._stop.asked.is_set():
            text = "%s waits for a model: there is no decision yet"
            LOGGER.warning(text, self._route.input, extra=LogEvent.WAITS_FOR_MODEL.of())
            self._turn()
            self._stop.asked.wait(WAIT)
        self._consumer.subscribe([self._route.input], on_revoke=self._give_back, on_lost=self._give_back)

    def _partitions(self) -> list[int]:
        """Return how many partitions input and output have. Raises BusError."""
        self._beat()
        try:
            topics = self._consumer.list_topics(timeout=PATIENCE).topics
        except KafkaException as error:
            raise bus_error(error.args[0], self._route.input) from None
        return [len(topics[name].partitions) for name in (self._route.input, self._route.output)]

    def _give_back(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._given_back.update((place.topic, place.partition) for place in partitions)

    def _batch(self) -> list[Any]:
        """Return the waiting messages, of partitions that this process still has."""
        self._given_back.clear()
        first = self._consumer.poll(WAIT)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(BATCH - 1, 0)]
        readable = [message for message in messages if self._is_readable(message)]
        if self._fetcher is not None and not self._has_schemas(readable, self._fetcher):
            return []
        if not self._given_back:
            return readable
        # a partition may have come back within this read, and its messages are then in it twice
        self._read_again([message for message in readable if _place(message) in self._given_back])
        return [message for message in readable if _place(message) not in self._given_back]

    def _has_schemas(self, messages: Sequence[Any], fetcher: SchemaFetcher) -> bool:
        """Wait until the registry has answered for each schema that messages name. Returns False if asked to
        stop.

        Meanwhile this process stays in its group: it reads, and later reads again the messages of partitions
        that are new to it.
        """
        numbers = fetcher.wanted(messages)
        if not numbers:
            return True
        while numbers and not self._stop.asked.is_set():
            self._turn()
            self._consumer.pause(self._consumer.assignment())
            is_there = fetcher.fetch(numbers[0])
            if is_there:
                numbers.popleft()
            early = self._consumer.consume(BATCH, 0 if is_there else WAIT)
            self._read_again([message for message in early if self._is_readable(message)])
        self._consumer.resume(self._consumer.assignment())
        return not numbers

    def _is_readable(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            return True
        if cure(error) is Cure.END:
            raise bus_error(error, self._route.input)
        return False

    def _score(self, batch: Sequence[Any]) -> None:
        """Write a batch's scores and commit its positions; or neither, and read it again."""
        version = self._models.newest()
        if version is None:
            raise BusError(f"{self._route.input}: there is no model any more")
        values: list[bytes | None] = [message.value() for message in batch]
        if self._scorer.whole:
            values = [
                value if value is None else WholeMessage.of(value, message.key(), message_headers(message))
                for value, message in zip(values, batch, strict=True)
            ]
        copies = [_copied(message) for message in batch]
        outcomes = [
            TOO_LONG if isinstance(outcome, bytes) and copy is None else outcome
            for copy, outcome in zip(copies, self._scorer.scores(values, version), strict=True)
        ]
        try:
            if self._route.transactions:
                member = self._consumer.consumer_group_metadata()
                # the broker does not check who a stranger is, and would accept its positions
                if member == self._no_member:
                    return
                self._producer.begin_transaction()
                self._produce(batch, copies, outcomes)
                self._retried(
                    lambda: self._producer.send_offsets_to_transaction(_positions(batch), member, PATIENCE)
                )
                self._retried(lambda: self._producer.commit_transaction(PATIENCE))
                self._producers.rotate()
            else:
                self._produce(batch, copies, outcomes)
                self._consumer.commit(offsets=_positions(batch), asynchronous=True)
        except KafkaException as error:
            self._recover(error.args[0])
            self._read_again(batch)
        else:
            self.counts.add(outcomes)
            if self.figures is not None:
                self.figures.scored(batch)

    def _produce(
        self,
        batch: Sequence[Any],
        copies: Sequence[Copied | None],
        outcomes: Sequence[bytes | Fault | None],
    ) -> None:
        """Write the batch's scores and letters, and wait until the broker has them.

        Without that wait a transaction's commit of positions takes a tenth of a second.
        """
        self._refused = None
        no_copy = Copied(None, [])
        for message, copy, outcome in zip(batch, copies, outcomes, strict=True):
            copied = copy or no_copy
            if isinstance(outcome, Fault):
                value, headers = _letter(message, copied.headers, outcome)
                self._send(self._route.dead_letters, message, value, Copied(copied.key, headers))
            elif outcome is not None:
                partition = message.partition() if self._same_partitions else BY_KEY
                self._send(self._route.output, message, outcome, copied, partition)
        self._retried(self._flush)

    def _flush(self) -> None:
        if self._producer.flush(WAIT) and self._refused is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "", retriable=True))  # noqa: SLF001 # its name
        if self._refused is not None:
            raise KafkaException(self._refused[1])

    def _send(
        self, topic: str, message: Any, value: bytes | None, copied: Copied, partition: int = BY_KEY
    ) -> None:
        kind, milliseconds = message.timestamp()
        time_of = 0 if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds  # 0: the present time
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    copied.key,
                    partition,
                    self._delivered,
                    timestamp=time_of,
                    headers=[*copied.headers],
                )
            except BufferError:  # large letters fill it
                self._producer.poll(WAIT)
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None and self._refused is None and error.code() not in _PURGED:
            self._refused = (message.topic(), error)

    def _recover(self, error: KafkaError) -> None:
        """Undo a batch's writes. Raises BusError for an error that would be repeated."""
        if self._route.transactions and (error.fatal() or not self._abort()):
            # the broker has aborted its transaction, and accepts no more of it
            self._producer.purge()
            self._producers[0] = _producer(self._route)
            self._retried(lambda: self._producer.init_transactions(PATIENCE))
        # asked now: a refusal of the batch's first part may have come since, and failed the rest of it
        topic, cause = self._refused or (self._route.output, error)
        if cause.code() in _REFUSED_AGAIN:
            raise self._failed(cause, topic)
        LOGGER.warning("scores are written again: %s", cause.str(), extra=LogEvent.SENT_AGAIN.of())

    def _abort(self) -> bool:
        """Abort the transaction. Return whether the producer can begin another one."""
        try:
            self._retried(lambda: self._producer.abort_transaction(PATIENCE))
        except KafkaException:
            return False
        return True

    def _read_again(self, batch: Sequence[Any]) -> None:
        """Go back to the committed positions of the batch's partitions, as far as they are this process's.

        Raises BusError if that cannot be done: then the process must end, or it would pass over messages.
        """
        firsts = {_place(message): message.offset() for message in reversed(batch)}
        until = time.monotonic() + DEAD / 1e3
        while places := [place for place in firsts if place in self._owned()]:
            try:
                partitions = [TopicPartition(*place) for place in places]
                for committed in self._consumer.committed(partitions, PATIENCE):
                    place = (committed.topic, committed.partition)
                    position = firsts[place] if committed.offset < 0 else committed.offset
                    self._consumer.seek(TopicPartition(*place, position))
                    del firsts[place]
            except KafkaException as error:
                if self._stop.asked.is_set():
                    return
                if cure(error.args[0]) is not Cure.WAIT and time.monotonic() > until:
                    raise bus_error(error.args[0], self._route.input) from None
                self._stop.asked.wait(WAIT)

    def _owned(self) -> set[Place]:
        return {(place.topic, place.partition) for place in self._consumer.assignment()}

    def _retried(self, call: Callable[[], object]) -> None:
        """Call until the broker has answered. A process that is asked to stop waits `PATIENCE` seconds."""
        until = time.monotonic() + PATIENCE
        while True:
            self._beat()
            try:
                call()
            except KafkaException as error:
                if not error.args[0].retriable() or (self._stop.asked.is_set() and time.monotonic() > until):
                    raise
            else:
                return


_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}  # noqa: SLF001 # librdkafka's names
"""What becomes of the rest of a batch when its transaction is aborted. It says nothing of the reason."""
_REFUSED_AGAIN = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_RECORD,  # a compacted topic takes no record without a key
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 # librdkafka's name
}


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python look for cyclic garbage less often than once a batch.

    A batch has several objects a message and no cycles. By default Python goes through them dozens of times
    while the batch is scored, which took 40 % of the loop's processor time.
    """
    usual = gc.get_threshold()
    gc.set_threshold(_GARBAGE, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _place(message: Any) -> Place:
    return message.topic(), message.partition()


def _positions(batch: Iterable[Any]) -> list[TopicPartition]:
    """Return the positions behind the batch."""
    behind = {_place(message): message.offset() + 1 for message in batch}
    return [TopicPartition(*place, position) for place, position in behind.items()]


def _copied(message: Any) -> Copied | None:
    """Return the parts of a message that are written again; None if they are too long."""
    key, headers = message.key(), message_headers(message)
    length = len(key or b"")
    for name, content in headers:
        length += len(name) + len(content or b"")
    return Copied(key, headers) if length <= _LETTER else None


def _letter(message: Any, own_headers: Headers, fault: Fault) -> tuple[bytes | None, Headers]:
    """Return the dead letter of an unreadable record: the record itself, with the reason in its headers."""
    value = message.value()
    reasons = {
        "reason": str(fault),
        "topic": message.topic(),
        "partition": str(message.partition()),
        "offset": str(message.offset()),
    }
    headers = [*own_headers, *((f"mirrormesh-{name}", text.encode()) for name, text in reasons.items())]
    return (value if value is None or len(value) <= _LETTER else None), headers


def _producer(route: Route) -> Producer:
    settings = producer_settings(route.broker, _LARGEST, linger=5) | {
        "partitioner": "murmur2_random",  # that of Java's clients
        "message.timeout.ms": DEAD,
        "delivery.report.only.error": True,  # a call for each score would take as long as a write
    }
    if route.transactions:
        settings |= {"transactional.id": f"{route.group}.{uuid4().hex[:12]}", "transaction.timeout.ms": DEAD}
    return Producer(settings, logger=LOGGER)


def _consumer(route: Route) -> Consumer:
    settings = consumer_settings(route.broker, committed=True) | {
        "group.id": route.group,
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": DEAD,
        "auto.offset.reset": "latest" if route.latest else "earliest",
        "enable.partition.eof": False,
    }
    return Consumer(settings, logger=LOGGER)
