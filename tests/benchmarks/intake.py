"""What a node takes for each record of a backlog, and for none: `python -m tests.benchmarks.intake [TURNS]`.

Three nodes in turns with a bare client that decodes the same records: slots of 1,000, d = 2, exact noise.
Then such nodes without a record. Processor time, since the machine is shared; a broker of this run's own.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from streams.bus.connection import consumer_settings
from streams.bus.logs import Logs
from streams.codec.topics import DataTopics, MeshTopics
from streams.mesh.settings.brokers import BrokerSettings
from streams.tools.broker.broker import Broker, start, stop
from tests.benchmarks.kafka_mesh import fill, first_edge, write_mesh
from tests.benchmarks.kafka_mesh import start as start_mesh
from tests.benchmarks.kafka_watch import THREADS, Watch, seen, times
from tests.benchmarks.spreads import spread
from tests.support.brokers.development import free_port
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh

SIZE, SLOT, WARM_UP, ROUNDS, MORE = 3, 1_000, 10, 60, 10
PARTY = "deep"
SETTLING, IDLE, LONG = 10.0, 20.0, 120.0
"""Seconds that nodes have after their hello, that they are then looked at, and that they have until it."""


def taken_in(broker: Broker, folder: Path) -> tuple[float, float]:
    """Return a node's microseconds of processor time a record, and records a second."""
    path = write_mesh(folder, broker.address, PARTY, 2, SLOT, SIZE)
    with LiveMesh(path, Process) as mesh, Watch(broker.address, first_edge(mesh)) as watch:
        if folder.name.endswith("-0"):
            fill(mesh, SLOT * (WARM_UP + ROUNDS + MORE))
        looked = seen(watch, start_mesh(mesh), WARM_UP, ROUNDS)
    return looked.microseconds() / SLOT, looked.rate * SLOT


def bare(broker: Broker) -> float:
    """Return the microseconds that confluent-kafka, json and numpy take for one of the same records."""
    consumer = Consumer(consumer_settings(BrokerSettings(servers=broker.address)))
    consumer.assign([TopicPartition(DataTopics(f"bench-{PARTY}", f"{PARTY}-0").records, 0, 0)])
    consumer.consume(SLOT, 10.0)
    before = time.process_time()
    for _ in range(ROUNDS):
        values = [json.loads(message.value() or b"") for message in consumer.consume(SLOT, 10.0)]
        np.array([(value["f0"], value["f1"], value["label"]) for value in values])
    taken = time.process_time() - before
    consumer.close()
    return 1e6 * taken / (SLOT * ROUNDS)


def idle(broker: Broker, folder: Path, processes: int | None) -> dict[str, float]:
    """Return the milliseconds of processor time a second of a node and of the broker, without a record."""
    path = write_mesh(folder, broker.address, folder.name, 2, 1, SIZE)
    with LiveMesh(path, Process) as mesh:
        labels = start_mesh(mesh, processes) | {"broker": broker.pid or 0}
        await_hello(mesh)
        time.sleep(SETTLING)
        before, began = {label: times(pid) for label, pid in labels.items()}, time.perf_counter()
        time.sleep(IDLE)
        passed = time.perf_counter() - began
        after = {label: times(pid) for label, pid in labels.items()}
    took = {
        label: 1e3 * sum(after[label][kind] - before[label][kind] for kind in THREADS) / passed
        for label in labels
    }
    nodes = [took[label] for label in labels if label not in {"scheduler", "broker"}]
    return {"node": sum(nodes) / SIZE, "broker": took["broker"], "scheduler": took["scheduler"]}


def await_hello(mesh: LiveMesh) -> None:
    """Wait until every node has sent a heartbeat. Raises TimeoutError."""
    topics, logs = MeshTopics(mesh.file.mesh.name, mesh.file.mesh.run), Logs(mesh.file.mesh_broker)
    end = time.perf_counter() + LONG
    try:
        while not all(logs.span(topics.progress(name))[1] for name in mesh.file.mesh.nodes):
            if time.perf_counter() > end:
                raise TimeoutError(f"not every node has come up in {LONG:g} s")
            time.sleep(0.5)
    finally:
        logs.close()


def main() -> None:
    """Measure, and print."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {turns} turns; median (range)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            broker = start(folder / "broker", free_port())
            nodes, floors = [], []
            for turn in range(turns):
                nodes.append(taken_in(broker, folder / f"{PARTY}-{turn}"))
                floors.append(bare(broker))
            print(f"a node, slots of {SLOT:,}: us a record {spread([us for us, _ in nodes], 1)}")
            print(f"  records/s of each of {SIZE} nodes {spread([rate for _, rate in nodes], 0)}")
            print(f"  confluent-kafka, json and numpy: us a record {spread(floors, 1)}")
            ratios = [us / floor for (us, _), floor in zip(nodes, floors, strict=True)]
            print(f"  node / bare client {spread(ratios, 1)}")
            for processes, how in ((None, "a process a node"), (1, f"{SIZE} nodes in one process")):
                looks = [
                    idle(broker, folder / f"calm-{turn}-{processes or SIZE}", processes)
                    for turn in range(turns)
                ]
                shares = (f"{who} {spread([look[who] for look in looks], 1)}" for who in looks[0])
                print(f"without a record, {how}: ms of processor time a second: {', '.join(shares)}")
        finally:
            stop(folder / "broker")


if __name__ == "__main__":
    main()
