"""How far a mesh goes on this machine: `python -m tests.benchmarks.kafka_scale [CASE ...]`.

Nodes in a circle, with outboxes, exact noise and a record a round, on a broker for the mesh and one for the
data, of 2 GiB each. A case prints what its topics take to make, when the first release is there, its rounds,
and what plans are of it. Processor time and bytes are what counts: all processes share this machine.
"""

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from streams.bus.logs import Logs
from streams.bus.topic_specs import data_specs, mesh_specs
from streams.codec import decode_plans, plans
from streams.tools.broker.broker import Broker, start, stop
from tests.benchmarks.kafka_hosts import MIB, MORE, circle
from tests.benchmarks.kafka_mesh import fill, first_edge, write_mesh
from tests.benchmarks.kafka_mesh import start as start_mesh
from tests.benchmarks.kafka_watch import Seen, Watch, seen, times
from tests.support.brokers.development import free_port
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh

PATIENCE = 900.0
"""Seconds without a release after which a case is given up."""
SAMPLES = 20


class Case(NamedTuple):
    """A mesh of `size` nodes of `degree` neighbours, in so many `processes`."""

    size: int
    processes: int
    degree: int
    dimension: int
    rounds: int
    warm_up: int


CASES = {
    "6": Case(6, 2, 2, 2, 100, 20),
    "64": Case(64, 2, 4, 2, 100, 20),
    "64-d1000": Case(64, 2, 4, 1_000, 100, 20),
    "256": Case(256, 4, 8, 2, 100, 10),
    "1000": Case(1_000, 10, 8, 2, 100, 5),
}


@contextmanager
def brokers(folder: Path) -> Iterator[dict[str, Broker]]:
    """Give a broker for the mesh and one for the data; they end with the context."""
    os.environ["_JAVA_OPTIONS"] = "-Xmx2g"  # Java takes it after the command line's own
    with ExitStack() as stack:
        started = {}
        for name in ("mesh", "data"):
            started[name] = start(folder / name, free_port())
            stack.callback(stop, folder / name)
        yield started


def stored(broker: Broker, kinds: dict[str, str]) -> Counter[str]:
    """Return the bytes that a broker has in the logs of its topics, by their kind."""
    sizes: Counter[str] = Counter()
    for log in (broker.folder / "data").glob("*/*.log"):
        kind = kinds.get(log.parent.name.rpartition("-")[0])
        if kind is not None:
            sizes[kind] += log.stat().st_size
    return sizes


def loopback() -> int:
    """Return the bytes that this machine has sent to itself."""
    lines = Path("/proc/net/dev").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))


def took(broker: Broker) -> float:
    """Return the seconds of processor time that a broker has taken, its compiler's too."""
    parts = times(broker.pid or 0)
    return sum(seconds for kind, seconds in parts.items() if kind != "waiting")


def measured(live: dict[str, Broker], folder: Path, case: Case) -> None:
    """Run one mesh, and print what was seen of it."""
    total = case.warm_up + case.rounds + MORE
    path = write_mesh(
        folder,
        live["mesh"].address,
        "n",
        case.dimension,
        size=case.size,
        data=live["data"].address,
        layout="outbox",
        topology=circle(case.size, case.degree),
        rounds=total,
        silence=600,
    )
    before, began = {name: took(broker) for name, broker in live.items()}, time.perf_counter()
    with LiveMesh(path, Process) as mesh:
        seconds = time.perf_counter() - began
        specs = mesh_specs(mesh.file.resolved)
        own = [spec for name in mesh.file.mesh.nodes for spec in data_specs(mesh.file.mesh, name)]
        making = ", ".join(f"{took(broker) - before[name]:.0f} s" for name, broker in live.items())
        print(
            f"\n{folder.name}: {case}\n  topics: {len(specs):,} on the mesh broker, {len(own):,} of the data"
        )
        print(f"  provision: {seconds:.1f} s; processor time of both brokers {making}", flush=True)
        fill(mesh, total)
        with Watch(live["mesh"].address, first_edge(mesh), PATIENCE) as watch:
            began = time.perf_counter()
            processes = start_mesh(mesh, case.processes) | {name: live[name].pid or 0 for name in live}
            processes["broker"] = processes.pop("mesh")
            watch.arrival()
            print(f"  first release after {time.perf_counter() - began:.1f} s", flush=True)
            kinds = {spec.name: spec.kind for spec in (*specs, *own)}
            for _ in range(case.warm_up):
                watch.arrival()
            sizes, sent = stored(live["mesh"], kinds) + stored(live["data"], kinds), loopback()
            found = seen(watch, processes, 0, case.rounds)
            grown = stored(live["mesh"], kinds) + stored(live["data"], kinds) - sizes
            print_rounds(case, found)
            print_bytes(mesh, case, grown, (loopback() - sent) / (case.rounds + 1), found)
        mesh.check()


def print_rounds(case: Case, found: Seen) -> None:
    """Print rounds, processor time and memory."""
    hosts = [label for label in found.took if label.startswith("host")]
    nodes = sum(found.microseconds(of=label) for label in hosts)
    shares = {label: found.microseconds(of=label) for label in ("scheduler", "broker", "data")}
    print(
        f"  {found.rate:.2f} rounds/s; p50 {found.milliseconds(50):,.0f} ms, "
        f"p99 {found.milliseconds(99):,.0f} ms"
    )
    print(
        f"  processor time, ms a round: nodes {nodes / 1e3:,.1f} ({nodes / 1e3 / case.size:.2f} each)", end=""
    )
    print("".join(f", {label} {us / 1e3:,.1f}" for label, us in shares.items()))
    memory = {label: bytes_ / MIB for label, bytes_ in found.resident.items()}
    of_hosts = [memory[label] for label in hosts]
    print(
        f"  MiB: {sum(of_hosts):,.0f} of all hosts ({min(of_hosts):,.0f} to {max(of_hosts):,.0f} each)",
        end="",
    )
    print("".join(f", {label} {memory[label]:,.0f}" for label in shares), flush=True)


def print_bytes(mesh: LiveMesh, case: Case, grown: Counter[str], sent: float, found: Seen) -> None:
    """Print the bytes of a round by kind of topic, and what plans are of them and of the processor time."""
    listed = ", ".join(f"{kind} {size / (case.rounds + 1) / 1024:,.1f}" for kind, size in grown.most_common())
    print(f"  KiB a round, stored: {listed}; all that went over loopback {sent / 1024:,.0f}")
    logs = Logs(mesh.file.mesh_broker)
    try:
        topic = mesh.file.resolved.topics.topology
        first, end = logs.span(topic)
        values = [record.value for record in logs.stored({topic: max(first, end - 8)})[topic]]
    finally:
        logs.close()
    readers, stored_plans = case.processes + 1, grown["topology"] / (case.rounds + 1)
    began = time.process_time()
    for _ in range(SAMPLES):
        for cache in (plans.decode_plans, plans.decode_plan):
            cache.cache_clear()
        for value in values:
            decode_plans(value, mesh.file.mesh.run, mesh.file.resolved.digest)
    decoding = (time.process_time() - began) / SAMPLES / len(values)
    everything = sum(found.microseconds(of=label) for label in found.took) / 1e6
    print(
        f"  plans: {sum(map(len, values)) / len(values) / 1024:.1f} KiB each, read {readers} times "
        f"({100 * readers * stored_plans / sent:.1f} % of the bytes sent), decoded in "
        f"{1e3 * decoding:.2f} ms "
        f"({100 * readers * decoding / everything:.2f} % of a round's processor time)",
        flush=True,
    )


def main() -> None:
    """Measure the cases that are named, or all."""
    print(f"{time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name in sys.argv[1:] or CASES:
        with tempfile.TemporaryDirectory() as folder, brokers(Path(folder) / "brokers") as live:
            measured(live, Path(folder) / f"n{name}", CASES[name])


if __name__ == "__main__":
    main()
