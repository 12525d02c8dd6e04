"""Topics flooded with garbage, as a table: `python -m tests.benchmarks.floods [--seconds 10] [--page]`.

The mesh of tests.benchmarks.faults, made anew for each topic: an edge, the topology, and a node's progress.
Anybody without an account may write to them on its broker. A client floods one as fast as it can; then the
script waits until the mesh is as fast as before. A process that has ended by itself is started again, as a
service manager does. `--page` writes the table into docs/reference/faults.md.
"""

import argparse
import time
from typing import NamedTuple

from confluent_kafka import Producer

from streams.bus.kafka import KafkaBus
from streams.bus.topic_specs import mesh_specs
from streams.codec.topics import MeshTopics
from tests.benchmarks.harm import RATE, SCHEDULERS, Harm, harmed
from tests.benchmarks.measured_page import machine, write
from tests.support.oracles.malformed import decoders, well_formed
from tests.support.processes.command import LONG
from tests.support.processes.resident import resident

GARBAGE = b"\x01\x01" + b"\xff" * 40
"""Looks like a message, and is none."""
BATCH = 2_500
"""Bytes: the topics of a small mesh take no larger batches."""
MOST = 900_000
"""Records of a flood."""
WINDOW, AT_SPEED = 2.0, 0.9
"""Seconds over which a speed is measured, and the share of the speed before that counts as back."""
WARM = 10.0
"""Seconds until what a process takes at first is no growth, and its speed is steady."""
MIB, KB = 2**20, 1000
HEAD = (
    "topic flooded",
    "records",
    "for",
    "at speed again after",
    "restarts",
    "a node's log",
    "a scheduler's log",
    "a node's memory",
    "a scheduler's memory",
)
TOPICS = ("edge", "topology", "progress")


class Held(NamedTuple):
    """What the processes of a kind hold at most: bytes of memory, and of log."""

    memory: int
    log: int


class Flood(NamedTuple):
    """A flood of so many records in so many seconds; `back`: seconds from its end until it is at speed."""

    topic: str
    records: int
    seconds: float
    back: float
    restarts: int
    before: dict[str, Held]
    after: dict[str, Held]


def main(seconds: float, seed: int, *, page: bool) -> None:
    """Flood, measure, print."""
    floods = []
    for kind in TOPICS:
        with harmed(seed) as harm:
            floods.append(flooded(harm, kind, seconds))
            print(row(floods[-1]), flush=True)
            check(harm)
    text = "\n".join(("## Floods", "", *table(floods), "", said(seconds, seed)))
    print(text)
    if page:
        print(f"wrote {write('floods', text)}")


def flooded(harm: Harm, kind: str, seconds: float) -> Flood:
    """Flood the topic of that kind, and wait until the mesh is at speed again."""
    alive = Alive(harm)
    time.sleep(WARM)
    speed, before = alive.speed(WARM), alive.held()
    topic = topic_of(kind, harm.mesh.file.resolved.topics, harm.nodes)
    began = time.monotonic()
    records = flood(harm.broker.address, topic, seconds)
    ended = time.monotonic()
    while alive.speed(WINDOW) < AT_SPEED * speed:
        assert time.monotonic() < ended + LONG, "not back"
    back = time.monotonic() - ended
    time.sleep(WARM)  # so that all that was summed is told
    return Flood(kind, records, ended - began, back, alive.restarts, before, alive.held())


class Alive:
    """Looks at the processes of a mesh, and starts again what has ended."""

    def __init__(self, harm: Harm) -> None:
        self._harm, self.restarts = harm, 0

    def speed(self, seconds: float) -> float:
        """Rounds a second of the slowest node."""
        first, began = self._slowest(), time.monotonic()
        while time.monotonic() < began + seconds:
            time.sleep(0.2)
            self._revive()
        return (self._slowest() - first) / (time.monotonic() - began)

    def held(self) -> dict[str, Held]:
        """What the node and the scheduler that hold most hold."""
        found = {}
        for kind, labels in (("node", self._harm.nodes), ("scheduler", SCHEDULERS)):
            processes = [self._harm.mesh.processes[label] for label in labels]
            found[kind] = Held(
                max(resident(process._process.pid) for process in processes),
                max(process.path.stat().st_size for process in processes),
            )
        return found

    def _slowest(self) -> int:
        self._revive()
        return self._harm.slowest()

    def _revive(self) -> None:
        for label in (*self._harm.nodes, *SCHEDULERS):
            if not self._harm.mesh.processes[label].running:
                self.restarts += 1
                if label in SCHEDULERS:
                    self._harm.mesh.scheduler(label)
                else:
                    self._harm.mesh.node(label)


def check(harm: Harm) -> None:
    """Fail for a second value on the edges, or a process that has not ended well."""
    file = harm.mesh.file
    bus = KafkaBus(file.mesh_broker, {spec.name: spec.largest for spec in mesh_specs(file.resolved)})
    try:
        values = well_formed(decoders(file), lambda topic: bus.read(topic, bus.span(topic)[0]))
    finally:
        bus.close()
    assert values
    assert {place: found for place, found in values.items() if len(found) != 1} == {}
    harm.end()


def topic_of(kind: str, topics: MeshTopics, nodes: list[str]) -> str:
    """Return the topic of that kind which is flooded."""
    return {
        "edge": topics.edge(nodes[0], nodes[1]),
        "topology": topics.topology,
        "progress": topics.progress(nodes[0]),
    }[kind]


def flood(address: str, topic: str, seconds: float) -> int:
    """Write garbage for so long, and return how many records the broker has taken."""
    taken = []
    settings = {"linger.ms": 20, "batch.size": BATCH, "queue.buffering.max.messages": 100_000}
    producer = Producer({"bootstrap.servers": address, "log_level": 0} | settings)
    sent, until = 0, time.monotonic() + seconds
    while time.monotonic() < until and sent < MOST:
        try:
            producer.produce(topic, GARBAGE, partition=0, on_delivery=lambda error, _: taken.append(error))
            sent += 1
        except BufferError:
            producer.poll(0.01)
        if sent % 1_000 == 0:
            producer.poll(0)
    producer.flush(LONG)
    return taken.count(None)


def table(floods: list[Flood]) -> list[str]:
    """Return the table."""
    return [
        " | ".join(("", *HEAD, "")).strip(),
        f"|{len(HEAD) * '---|'}",
        *map(row, floods),
    ]


def row(one: Flood) -> str:
    """Return a flood's row."""
    grown = [f"+{(one.after[kind].log - held.log) / KB:.1f} kB" for kind, held in one.before.items()]
    memory = [
        f"{held.memory / MIB:.0f} to {one.after[kind].memory / MIB:.0f} MiB"
        for kind, held in one.before.items()
    ]
    took = f"{one.seconds:.0f} s | {one.back:.1f} s | {one.restarts}"
    return f"| {one.topic} | {one.records:,} | {took} | {' | '.join((*grown, *memory))} |"


def said(seconds: float, seed: int) -> str:
    """Return what held, and how it was measured."""
    return (
        f"A client writes garbage for {seconds:g} s, as fast as the broker takes it. At speed: "
        f"{AT_SPEED:.0%} of the rounds a second before, over {WINDOW:g} s. Log and memory are those of the "
        f"node and of the scheduler that have most. A ring of six, {RATE} records a second and node. No "
        "round of a node had two values.\n\n"
        f"Measured by `python -m tests.benchmarks.floods --seconds {seconds:g} --seed {seed} --page` on "
        f"{machine()}."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    main(given.seconds, given.seed, page=given.page)
