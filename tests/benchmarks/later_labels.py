"""How fast labels that come later are read anew at a start: `python -m tests.benchmarks.later_labels`.

The table alone takes `--table` labels, whose keys are hashed already. `--messages` labels are messages in
memory: each is read, its key hashed, and its label put into the table. With `--broker N` so many are read
from a development broker of its own, as a node does. Processor time, as a machine may do other things.
"""

import argparse
import json
import logging
import resource
import time
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streams.live.data.labels import LaterLabels
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.node import FileSettings
from streams.records.decoder import SchemaDecoder, json_fields
from streams.records.later_labels import LabelTable, Wanted
from streams.simulation.labels import LabelEntry, LabelLog, LabelMessage, LabelsInTurn
from streams.tools.broker.broker import stop
from tests.support.brokers.development import started

TOGETHER = 1_000
"""Messages of one call of the client."""
SECONDS = 45 * 86_400


def _source() -> FileSettings:
    labels = {"topic": "chargebacks", "join": "payment_id", "after": "45d", "value": {"column": "outcome"}}
    schema = {"features": {"amount": "number"}, "label": {"column": "outcome", "positive": "fraud"}}
    tree = {"kind": "json-lines", "schema": schema, "labels": labels | {"otherwise": "legitimate"}}
    return FileSettings.model_validate(tree)


def _value(number: int) -> bytes:
    return json.dumps({"payment_id": f"payment-{number:09d}", "outcome": "fraud"}).encode()


class _Batches(LabelLog):
    """A log of so many labels, which a consumer reads in batches; none is kept."""

    def __init__(self, labels: int) -> None:
        super().__init__(())
        self.labels, self._numbers = labels, iter(range(labels))

    def get_watermark_offsets(self, of: object, timeout: float) -> tuple[int, int]:
        return 0, self.labels if of.partition == 0 else 0

    def offsets_for_times(self, parts: object, timeout: float) -> list:
        for part in parts:
            part.offset = 0
        return parts

    def consume(self, count: int, timeout: float) -> list:
        return list(self._messages())

    def _messages(self) -> Iterator[object]:
        for number in islice(self._numbers, TOGETHER):
            entry = LabelEntry(0.0, 0, 1_000.0 + number * SECONDS / self.labels, None, _value(number))
            yield LabelMessage(entry, number)


def _table(labels: int) -> None:
    table, random, before = LabelTable(), np.random.default_rng(1), _peak()
    began = time.process_time()
    for first in range(0, labels, TOGETHER):
        for key in random.integers(0, 1 << 63, TOGETHER).tolist():
            table.add(0, key, first, 1.0)
    count, size = len(table), table.bytes
    seconds = time.process_time() - began
    print(f"{count:,} labels into the table: {count / seconds:,.0f} labels/s of processor time")
    print(f"  arrays of {size / 1e6:,.0f} MB, {size / count:.0f} bytes a label")
    print(f"  the process grows by {_peak() - before:,.0f} MiB at most, while it sorts")
    _lookups(table)


def _peak() -> float:
    """Return the most memory that the process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _in_memory(labels: int) -> None:
    source, log = _source(), _Batches(labels)
    making = time.process_time()
    while log.consume(0, 0.0):
        pass
    making = time.process_time() - making
    reader = LabelsInTurn(source.labels, SchemaDecoder(source.record, json_fields), _Batches(labels))
    reader.ask(1_000.0)
    processor = time.process_time()
    reader.read()
    processor = time.process_time() - processor - making
    print(f"{labels:,} messages in memory: {labels / processor:,.0f} labels/s of processor time")


def _lookups(table: LabelTable) -> None:
    random = np.random.default_rng(1)
    requests = [Wanted(int(key), 0, 1 << 60) for key in random.integers(0, 1 << 63, 1_000)]
    began = time.process_time()
    table.find(requests)
    print(f"  a label is looked up in {(time.process_time() - began) * 1e3:.1f} us")


def _from_a_broker(labels: int) -> None:
    with TemporaryDirectory() as folder:
        broker = started(Path(folder))
        try:
            _read(broker.address, labels)
        finally:
            stop(Path(folder))


def _read(address: str, labels: int) -> None:
    client, topic = {"bootstrap.servers": address}, f"chargebacks.{uuid.uuid4().hex[:8]}"
    admin = AdminClient(client)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    producer, since = (
        Producer(client | {"linger.ms": 50, "compression.type": "lz4"}),
        time.time() - SECONDS / 2,
    )
    for number in range(labels):
        moment = round((since + number * SECONDS / 2 / labels) * 1e3)
        while True:
            try:
                producer.produce(topic, _value(number), partition=0, timestamp=moment)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    source = _source()
    settings = source.labels.model_copy(update={"topic": topic})
    decoder = SchemaDecoder(source.record, json_fields)
    reader = LaterLabels(settings, BrokerSettings(servers=address), decoder, logging.getLogger("benchmark"))
    processor, clock = time.process_time(), time.perf_counter()
    reader.start(lambda: None)
    reader.ask(since)
    while not reader.is_read:
        time.sleep(0.01)
    processor, clock = time.process_time() - processor, time.perf_counter() - clock
    reader.stop()
    print(f"{labels:,} labels from a broker: {labels / clock:,.0f} labels/s, {clock:,.1f} s by the clock")
    print(f"  {labels / processor:,.0f} labels/s of the node's processor time, its client's included")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=int, default=10_000_000, help="labels of the table (0: none)")
    parser.add_argument("--messages", type=int, default=1_000_000, help="labels in memory (0: none)")
    parser.add_argument("--broker", type=int, default=0, help="labels from a broker of its own (0: none)")
    chosen = parser.parse_args()
    if chosen.table:
        _table(chosen.table)
    if chosen.messages:
        _in_memory(chosen.messages)
    if chosen.broker:
        _from_a_broker(chosen.broker)


if __name__ == "__main__":
    main()
