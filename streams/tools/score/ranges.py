"""Predicts a range of a topic once, as `predict` does the records of a file."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition

from nodes.losses.evaluation import predicted
from nodes.losses.losses import Loss
from nodes.values import FloatArray
from streams.bus.bus import UnknownTopic, Unreachable
from streams.bus.connection import PATIENCE, consumer_settings
from streams.bus.errors import Cure, bus_error, cure
from streams.bus.logs import reached
from streams.bus.preflight import no_partition
from streams.bus.registry import SchemaRegistry
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.mesh.model_file import VectorName
from streams.mesh.settings.brokers import BrokerSettings
from streams.records.avro import SchemaLookup
from streams.records.record import WholeMessage, message_headers
from streams.tools.model.predicting import LeftOutRecords, PredictionWriter, RecordsRead, written
from streams.tools.score.score import MessageReading, Scoring, broker_of, reading_of

_TOGETHER, _LOOK, _SILENT = 5_000, 0.2, 10.0
"""Messages of one call of the client, seconds that it waits for them, and seconds without any message."""


class Edge(NamedTuple):
    """Where a range begins or ends: at an offset of each partition, or at a time in milliseconds."""

    offset: int | None
    milliseconds: int = 0


def edge(option: str, text: str | None) -> Edge | None:
    """Return the edge that a text names; None if there is none. Raises UsageError, which names the option."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal() and len(text) < 19:  # Kafka has 63 bits
        return Edge(int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        allowed = "must be an offset, or a time with its zone, as 2026-11-27T04:00Z"
        raise UsageError(f"{option} {text}: {allowed}")
    return Edge(None, round(1e3 * moment.timestamp()))


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Committed messages of a topic: from one edge on (None: from the first) to before another.

    `until` None: those that are there when reading begins. `partitions` None: all.
    """

    broker: BrokerSettings
    topic: str
    since: Edge | None = None
    until: Edge | None = None
    partitions: tuple[int, ...] | None = None


def range_of(
    topic: str,
    named: BrokerSettings | None,
    node: tuple[MeshFile, str] | None,
    since: Edge | None,
    until: Edge | None,
) -> TopicRange:
    """Return a range of a topic on the broker `named`.

    If `named` is None, the broker is that of the node: for the topic of its source the source's broker, with
    the source's partitions only; for any other topic the data broker. Raises UsageError, MeshFileError.
    """
    source = None if node is None else node[0].existing_topic(node[1])
    if named is None and node is not None and source is not None and source.topic == topic:
        return TopicRange(node[0].records_broker(node[1]), topic, since, until, source.partitions)
    return TopicRange(broker_of(named, node), topic, since, until)


def predict_range(
    scoring: Scoring, messages: TopicRange, vector: VectorName, id_column: str | None = None
) -> PredictionWriter:
    """Predict a range of a topic with a model file, as `score` reads messages.

    Raises MeshFileError, UsageError, BusError.
    """
    reading = reading_of(scoring, messages.topic)
    if reading.file is None:
        raise UsageError("MODEL: must be given")
    records, loss = _read(reading, messages, id_column), reading.loss
    if records.left_out.records.malformed == len(records.numbers):
        reason = f": {records.left_out.records}" if records.numbers else ""
        raise UsageError(f"{messages.topic}: holds no record there that can be read{reason}")
    weights = reading.file.model.seen(vector)
    rows = partial(_predicted, loss, weights)
    return written(records, loss, rows, weights, reading.classes, scoring.threshold)


def _predicted(loss: Loss, weights: FloatArray, rows: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):  # a score beyond all numbers is infinite
        return predicted(loss, weights, rows)


def _read(reading: MessageReading, messages: TopicRange, id_column: str | None) -> RecordsRead:
    """Read the records of all messages.

    Messages without a record, by their owner's settings, are left out.
    """
    decoder, settings = reading.decoder, reading.settings
    records = RecordsRead([], [], LeftOutRecords(), None if id_column is None else [], [])
    with closing(_Schemas(reading)) if settings.registry is not None else closing(_NoSchemas()) as schemas:
        for batch in _batches(messages):
            schemas.learn(batch)
            values = [
                WholeMessage.of(message.value(), message.key(), message_headers(message))
                if settings.reads_whole
                else message.value() or b""
                for message in batch
            ]
            places = [k for k, value in enumerate(values) if value and decoder.no_record(value) is None]
            if not places:
                continue
            lines = [values[k] for k in places]
            records.numbers.extend(range(len(records.numbers) + 1, len(records.numbers) + len(places) + 1))
            records.blocks.append(decoder.parts_of(lines))
            records.left_out.add(lines, records.blocks[-1], decoder)
            if records.places is not None:
                records.places.extend((batch[k].partition(), batch[k].offset()) for k in places)
            if records.ids is not None and id_column is not None:
                records.ids.extend(decoder.texts(lines, id_column))
    return records


class _NoSchemas:
    """For messages that name no schemas."""

    def learn(self, batch: Sequence[Any]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Schemas(_NoSchemas):
    """The schemas of a registry, each fetched before the first message that names it."""

    def __init__(self, reading: MessageReading) -> None:
        settings, schemas = reading.settings, reading.decoder.schemas
        assert settings.registry is not None  # noqa: S101 # as asked before
        assert schemas is not None  # noqa: S101 # Avro has them
        self._registry, self._schemas = SchemaRegistry(settings.registry), schemas
        self._lookup, self._keys = SchemaLookup(self._registry, schemas), bool(settings.record.of_keys)

    def learn(self, batch: Sequence[Any]) -> None:
        """Ask for the schemas that the batch names. Raises BusError while the registry is away."""
        texts = [message.value() or b"" for message in batch]
        texts += [message.key() or b"" for message in batch] if self._keys else []
        for number in sorted(self._schemas.unknown(texts)):
            self._lookup.ask(number)

    def close(self) -> None:
        """Close the connections."""
        self._registry.close()


def _batches(messages: TopicRange) -> Iterator[list[Any]]:
    """Yield the messages of a range, of each partition in their order. Raises BusError, UsageError."""
    topic = messages.topic
    with closing(reached(messages.broker)) as logs:
        try:
            count = logs.partitions([topic])[topic]
        except UnknownTopic:
            raise UsageError(f"--topic: no topic {topic} on {messages.broker.servers}") from None
        numbers = range(count) if messages.partitions is None else messages.partitions
        if (problem := no_partition(numbers, count)) is not None:
            raise UsageError(f"--topic {topic}: {problem}")
        spans = {number: logs.span(topic, number) for number in numbers}
    settings = consumer_settings(messages.broker, committed=True) | {"enable.partition.eof": True}
    with closing(Consumer(settings | {"log_level": 0})) as consumer:
        try:
            firsts = _positions(consumer, topic, spans, messages.since, 0)
            ends = _positions(consumer, topic, spans, messages.until, 1)
        except KafkaException as error:
            raise bus_error(error.args[0], topic) from None
        unread = {number for number in spans if firsts[number] < ends[number]}
        consumer.assign([TopicPartition(topic, number, firsts[number]) for number in unread])
        until = time.monotonic() + _SILENT
        while unread:
            arrived = consumer.consume(_TOGETHER, _LOOK)
            if arrived:
                until = time.monotonic() + _SILENT
            elif time.monotonic() > until:
                raise Unreachable(f"{messages.broker.servers}: {topic} cannot be read to the end")
            if batch := _inside(arrived, ends, unread):
                yield batch


def _inside(arrived: Sequence[Any], ends: Mapping[int, int], unread: set[int]) -> list[Any]:
    """Return the messages before their partition's end.

    Removes partitions that are read whole from `unread`.
    """
    batch = []
    for message in arrived:
        number, error = message.partition(), message.error()
        if error is not None:
            if error.name() == "_PARTITION_EOF":
                unread.discard(number)
            elif cure(error) is Cure.END:
                raise bus_error(error, message.topic())
            continue
        if message.offset() < ends[number]:
            batch.append(message)
        if message.offset() >= ends[number] - 1:
            unread.discard(number)
    return batch


def _positions(
    consumer: Consumer, topic: str, spans: dict[int, tuple[int, int]], limit: Edge | None, side: int
) -> dict[int, int]:
    """Return the offset of an edge in each partition, within its log.

    Without an edge return the log's `side`.
    """
    if limit is None:
        return {number: span[side] for number, span in spans.items()}
    if limit.offset is not None:
        return {number: min(max(limit.offset, first), end) for number, (first, end) in spans.items()}
    moments = [TopicPartition(topic, number, limit.milliseconds) for number in spans]
    offsets = consumer.offsets_for_times(moments, PATIENCE)
    return {
        place.partition: spans[place.partition][1] if place.offset < 0 else place.offset for place in offsets
    }
