"""What is seen of a ring from outside: when its releases come, and what its processes take.

Round times are the times between the arrivals of one node's releases at a consumer in this process. Kafka's
own timestamps are whole milliseconds, and the bare rings keep no metrics; this reader costs a few per cent of
a core, sees a node as its neighbours do, and is the same for every ring.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from nodes.values import FloatArray
from streams.bus.connection import consumer_settings
from streams.mesh.settings.brokers import BrokerSettings
from tests.support.processes.resident import resident

LONG = 120.0
"""Seconds without a record after which a ring is given up."""
THREADS = ("main", "rdkafka", "others")
"""A process's first thread, librdkafka's own, and what else Python has started."""
COMPILING = "compiling"
"""The threads of a young JVM that translate its code: they are idle in a broker that has run for minutes."""
WAITING = "waiting"


class Watch:
    """A reader of one topic from its beginning. A context manager.

    `patience`: seconds without a record after which it gives up.
    """

    def __init__(self, address: str, topic: str, patience: float = LONG) -> None:
        self.value = b""
        self._patience = patience
        self.offset = -1
        self._consumer = Consumer(consumer_settings(BrokerSettings(servers=address)))
        self._partition = TopicPartition(topic, 0, 0)
        self._consumer.assign([self._partition])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def arrival(self) -> float:
        """Wait for the next record, and return when it came; `value` and `offset` are its own."""
        end = time.perf_counter() + self._patience
        while time.perf_counter() < end:
            message = self._consumer.poll(1.0)
            now = time.perf_counter()
            if message is not None and message.error() is None:
                self.value, self.offset = message.value() or b"", message.offset() or 0
                return now
        raise TimeoutError(f"{self._partition.topic}: nothing has come for {self._patience:g} s")

    def arrival_from(self, offset: int) -> float:
        """Wait for the record at `offset`, or the first one after it."""
        while True:
            came = self.arrival()
            if self.offset >= offset:
                return came

    def end(self) -> int:
        """Return the offset that the next record will have."""
        return self._consumer.get_watermark_offsets(self._partition, LONG)[1]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a ring did in some rounds.

    `seconds` of each round, shape (rounds,). `took`: seconds a round, by process: of processor time by kind
    of thread, and ready without a core. `resident`: bytes of memory of each process at the end.
    """

    seconds: FloatArray
    took: dict[str, dict[str, float]]
    resident: dict[str, int]

    @property
    def rate(self) -> float:
        """Rounds a second."""
        return len(self.seconds) / float(self.seconds.sum())

    def milliseconds(self, percent: float) -> float:
        """Return that percentile of the round times."""
        return 1e3 * float(np.percentile(self.seconds, percent))

    def microseconds(self, *kinds: str, of: str = "") -> float:
        """Return the time a round of one process, or the mean of the ring's, by kind: all but COMPILING."""
        chosen = [self.took[label] for label in ([of] if of else self._ring)]
        return 1e6 * float(np.mean([sum(took[kind] for kind in kinds or THREADS) for took in chosen]))

    @property
    def memory(self) -> float:
        """The mean resident memory of the ring's processes, in bytes."""
        return float(np.mean([self.resident[label] for label in self._ring]))

    @property
    def _ring(self) -> list[str]:
        return [label for label in self.took if label not in {"scheduler", "broker"}]


def seen(watch: Watch, processes: Mapping[str, int], warm_up: int, rounds: int) -> Seen:
    """Watch a ring until round `warm_up + rounds`; the first ones are left out."""
    for _ in range(warm_up):
        watch.arrival()
    came = [watch.arrival()]
    before = {label: times(pid) for label, pid in processes.items()}
    came += [watch.arrival() for _ in range(rounds)]
    after = {label: times(pid) for label, pid in processes.items()}
    took = {
        label: {kind: (found[kind] - before[label][kind]) / rounds for kind in (*THREADS, COMPILING, WAITING)}
        for label, found in after.items()
    }
    return Seen(np.diff(came), took, {label: resident(pid) for label, pid in processes.items()})


def together(parts: list[Seen]) -> Seen:
    """Return several looks at as many rounds as one: processor time their mean, memory that of the last."""
    took = {
        label: {kind: float(np.mean([part.took[label][kind] for part in parts])) for kind in found}
        for label, found in parts[0].took.items()
    }
    return Seen(np.concatenate([part.seconds for part in parts]), took, parts[-1].resident)


def times(pid: int) -> Counter[str]:
    """Return a process's seconds so far: of processor time by kind of thread, and ready without a core."""
    found: Counter[str] = Counter()
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text()
            running, ready = map(int, (task / "schedstat").read_text().split()[:2])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        found[_kind(name, first=task.name == str(pid))] += running / 1e9
        found[WAITING] += ready / 1e9
    return found


def _kind(name: str, *, first: bool) -> str:
    if first:
        return "main"
    if name.startswith("rdk:"):
        return "rdkafka"
    return COMPILING if name.startswith(("C1 Compiler", "C2 Compiler")) else "others"
