"""From a record to the decision that has learnt from it: `python -m tests.benchmarks.kafka_decisions`.

A ring of six at d = 2, exact noise, on a development broker of this run's own. Every node gets a record a
tick, at 10, 50 and 100 ticks a second. The time begins before the record is sent to its data topic, and ends
when a consumer of `decisions.<node>` has the first decision after it. All processes share this machine.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from streams.bus.connection import consumer_settings, producer_settings
from streams.codec.topics import DataTopics
from streams.mesh.settings.brokers import BrokerSettings
from streams.tools.broker.broker import Broker, start, stop
from tests.benchmarks.kafka_mesh import ROWS, rows, write_mesh
from tests.benchmarks.kafka_mesh import start as start_mesh
from tests.benchmarks.kafka_parts import lessons
from tests.benchmarks.kafka_turns import FORMS
from tests.support.brokers.development import free_port
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh

RATES, SECONDS, WARM_UP, LONG = (10, 50, 100), 20, 100, 60.0
UNMEASURED = 3_000
"""Rounds of each form before any is measured: until then the broker's Java translates its code."""


class Decisions:
    """Reads the decisions of all nodes, and keeps when each came, by node and round."""

    def __init__(self, address: str, topics: Iterable[DataTopics]) -> None:
        self.came: dict[tuple[str, int], float] = {}
        self._nodes = {own.decisions: own.node for own in topics}
        self._consumer = Consumer(consumer_settings(BrokerSettings(servers=address)))
        self._consumer.assign([TopicPartition(topic, 0, 0) for topic in self._nodes])

    def read_until(self, moment: float) -> None:
        """Read what comes before `moment`."""
        while (left := moment - time.perf_counter()) > 0:
            message = self._consumer.poll(left)
            if message is not None and message.error() is None:
                place = self._nodes[message.topic() or ""], json.loads(message.value() or b"")["round"]
                self.came[place] = time.perf_counter()

    def read_round(self, round: int) -> None:
        """Read until every node has decided in `round`. Raises TimeoutError."""
        end = time.perf_counter() + LONG
        while not all((name, round) in self.came for name in self._nodes.values()):
            self.read_until(time.perf_counter() + 0.001)
            if time.perf_counter() > end:
                raise TimeoutError(f"no decisions of round {round} for {LONG:g} s")

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()


def ticks(first: int, rate: int) -> Iterator[tuple[int, float]]:
    """Yield the number and the moment of each tick."""
    begin = time.perf_counter() + 0.5
    for k in range(rate * SECONDS):
        yield first + k, begin + k / rate


def measured(
    broker: Broker, path: Path, processes: int | None, rate: int, at_once: int = WARM_UP
) -> list[float]:
    """Return the seconds from each record to the decision after it, of all nodes; `at_once` come before."""
    with LiveMesh(path, Process) as mesh:
        names, lines = list(mesh.file.mesh.nodes), rows(mesh.file.mesh.dimension)
        producer, sent = Producer(producer_settings(mesh.file.mesh_broker, 0)), {}
        decisions = Decisions(broker.address, map(mesh.file.data_topics, names))

        def send(k: int) -> None:
            sent[k] = time.perf_counter()
            for name in names:
                producer.produce(mesh.file.data_topics(name).records, lines[k % ROWS], partition=0)
            producer.poll(0)

        start_mesh(mesh, processes)
        for k in range(at_once):
            send(k)
        decisions.read_round(at_once + 1)
        for k, moment in ticks(at_once, rate):
            decisions.read_until(moment)
            send(k)
        last = max(sent)
        decisions.read_round(last + 2)
        decisions.close()
        producer.close()
        # a slot is one record: record k is learnt from in round k + 1, and known to the decision of k + 2
        return [decisions.came[name, k + 2] - sent[k] for k in range(at_once, last + 1) for name in names]


def main() -> None:
    """Measure, and print."""
    chosen = [int(rate) for rate in sys.argv[1:]] or RATES
    print(f"{datetime.now(UTC):%Y-%m-%d}, {SECONDS} s each")
    print("| | records/s a node | p50 ms | p99 ms |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = start(folder / "broker", free_port())
        try:
            for number, form in enumerate(("edges", "outbox, two hosts")):
                layout, processes = FORMS[form].layout, FORMS[form].processes
                party = f"warm-{number}"
                path = write_mesh(folder / party, broker.address, party, 2, layout=layout)
                measured(broker, path, processes, min(RATES), UNMEASURED)
                for rate in chosen:
                    party = f"at-{rate}-{number}"
                    path = write_mesh(folder / party, broker.address, party, 2, layout=layout)
                    p50, p99 = 1e3 * np.percentile(measured(broker, path, processes, rate), [50, 99])
                    print(f"| {form} | {rate} | {p50:.1f} | {p99:.1f} |", flush=True)
            decoding, learning = (1e3 * part for part in lessons(path, 500, 0.01))
            print(f"\na record: decoding {decoding:.2f} ms of processor time, lesson {learning:.2f}")
        finally:
            stop(folder / "broker")


if __name__ == "__main__":
    main()
