"""The programs that run a mesh file on this machine, with their arguments, and the mesh file of a replay."""

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streams.bus.logs import Logs
from streams.mesh.compatibility import by_time
from streams.mesh.errors import UsageError
from streams.mesh.file import AnyFile, MeshFile, has_ended, load
from streams.mesh.settings.files import read_yaml
from streams.mesh.settings.node import FileSettings, LocalisationSettings, TopicSettings
from streams.mesh.settings.privacy import TimeSlotsSettings
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings
from streams.records.sources import check_source, decoder
from streams.state.folder import JournalError, StateFolder, write_private
from streams.state.journal_file import JournalReader
from streams.terminal.malformed import MALFORMED
from streams.terminal.text import listed
from streams.tools.feed.lines import check_pace

HIGHEST_PORT = 65_535
SINGLE = 8
"""The largest number of nodes for which each has a process of its own by default."""


@dataclass(frozen=True, slots=True)
class Observing:
    """The port of Prometheus, and that of Grafana if it is installed."""

    prometheus: int
    grafana: int


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options.

    `rate`: records per second of each feeder; None: full speed. `metrics_from`: the first port of metrics,
    which `observing` needs. `replay`: slots begin now. `processes`: the number of processes of nodes; None:
    see `hosts`. `other_data`: whether a new run reads other data than all earlier runs in `state`.
    """

    state: Path
    rate: float | None = None
    feed: bool = True
    metrics_from: int | None = None
    observing: Observing | None = None
    replay: bool = False
    processes: int | None = None
    other_data: bool = False


@dataclass(frozen=True, slots=True)
class MetricsPorts:
    """The ports of metrics on this machine. Those of a process of nodes are under its first node's name.

    `feeds`: those of feeders, by node.
    """

    scheduler: int
    shared: dict[str, int]
    private: dict[str, int]
    feeds: dict[str, int] = field(default_factory=dict)

    @property
    def all(self) -> list[int]:
        """All ports, the scheduler's first."""
        by_process = (
            port for pair in zip(self.shared.values(), self.private.values(), strict=True) for port in pair
        )
        return [self.scheduler, *by_process, *self.feeds.values()]


@dataclass(frozen=True, slots=True)
class Program:
    """The command `mirrormesh ARGUMENTS`. `label` is its name for people.

    `done`: the exit codes that mean that it has finished.
    """

    label: str
    arguments: tuple[str, ...]
    done: tuple[int, ...] = (0,)


def check(file: MeshFile, options: Options) -> None:
    """Raise MeshFileError if the mesh cannot run here. It must be called before anything is started."""
    if not file.nodes:
        raise file.refuse(("nodes",), "missing: the own part of one node at least must be here")
    file.make_code(file.nodes)
    for name in file.nodes:
        file.brokers(name)
        file.refuse_file_labels(name)
        decoder(file, name)
    hosts(file, options)
    check_pace(file, rate=options.rate)
    for name in fed_here(file) if options.feed else ():
        check_source(file, name)
    endless = [name for name in fed_here(file) if isinstance(file.own(name).source, LocalisationSettings)]
    paced = options.rate is not None or by_time(file.mesh)
    if options.feed and not paced and file.mesh.rounds is None and endless:
        text = f"none, and the generator of {endless[0]} has no end: must be a number, or give --rate"
        raise file.refuse(("mesh", "rounds"), text)


def fed_here(file: MeshFile) -> list[str]:
    """Return the nodes whose records can be fed from here: from a file that is named, or from a generator."""
    return [name for name, part in file.nodes.items() if _is_here(part.source)]


def hosts(file: MeshFile, options: Options) -> list[tuple[str, ...]]:
    """Return the nodes that are here, by process. Nodes with different brokers or endpoints, and nodes that
    read the same topic, cannot share a process.

    Unless `processes` is given, each node has a process; with more than `SINGLE` nodes there is about one
    process for each processor. Raises UsageError.
    """
    size, processes = len(file.nodes), options.processes
    if processes is None and size <= SINGLE:
        return [(name,) for name in file.nodes]
    groups_by_key: dict[object, list[str]] = {}
    readers = Counter[str]()  # how many of the nodes so far read each topic
    for name, part in file.nodes.items():
        brokers, topic = file.brokers(name), file.data_topics(name).records
        endpoint = part.private_endpoint if options.metrics_from is None else None  # which takes its place
        key = brokers.mesh, brokers.data, file.records_broker(name), endpoint, readers[topic]
        readers[topic] += 1
        groups_by_key.setdefault(key, []).append(name)
    groups = list(groups_by_key.values())
    if processes is None:
        processes = min(size, max(2, os.cpu_count() or 2, len(groups)))
    if not len(groups) <= processes <= size:
        text = f"must be from {len(groups)} to {size}, the nodes here"
        difference = (
            ""
            if len(groups) == 1
            else f": {_first(groups)} differ in brokers or private_endpoint, or share a topic"
        )
        raise UsageError(f"--processes is {processes}: {text}{difference}")
    shares = [1] * len(groups)
    while sum(shares) < processes:
        fullest = max(range(len(groups)), key=lambda k: len(groups[k]) / shares[k])
        shares[fullest] += 1
    return [tuple(share) for group, n in zip(groups, shares, strict=True) for share in _split(group, n)]


def _first(groups: Sequence[Sequence[str]]) -> str:
    return " and ".join(names[0] for names in groups[:2])


def _split(names: Sequence[str], n: int) -> Iterator[Sequence[str]]:
    for k in range(n):
        yield names[k * len(names) // n : (k + 1) * len(names) // n]


def ports(file: MeshFile, options: Options) -> MetricsPorts | None:
    """Return the ports: the scheduler's first, then two for each process of nodes, then one for each feeder.

    Raises UsageError.
    """
    first = options.metrics_from
    if first is None:
        return None
    names = [names[0] for names in hosts(file, options)]
    fed = fed_here(file) if options.feed else []
    further = 2 * len(names) + len(fed)
    if not 0 < first <= HIGHEST_PORT - further:
        raise UsageError(f"--metrics-from {first}: must be from 1 to {HIGHEST_PORT - further}")
    shared = {name: first + 1 + 2 * k for k, name in enumerate(names)}
    feeds = {name: first + 1 + 2 * len(names) + k for k, name in enumerate(fed)}
    return MetricsPorts(first, shared, {name: port + 1 for name, port in shared.items()}, feeds)


def scheduler(file: MeshFile, served: MetricsPorts | None) -> Program:
    """Return the program of the scheduler."""
    metrics = () if served is None else ("--metrics", str(served.scheduler))
    return Program("scheduler", ("scheduler", str(file.path), *metrics))


def nodes(file: MeshFile, options: Options, served: MetricsPorts | None) -> Iterator[tuple[str, Program]]:
    """Yield each node whose own part is here, with its program.

    Nodes of one process have the same program.
    """
    for names in hosts(file, options):
        arguments = ["node", str(file.path), *names, "--state", str(options.state), *_allowing(file)]
        arguments += ["--other-data"] * options.other_data
        if served is not None:
            arguments += ["--metrics", str(served.shared[names[0]])]
            arguments += ["--private-metrics", str(served.private[names[0]])]
        suffix = "" if len(names) == 1 else f" and {len(names) - 1} more"
        program = Program(f"node {names[0]}{suffix}", tuple(arguments))
        for name in names:
            yield name, program


def feeders(file: MeshFile, options: Options, served: MetricsPorts | None) -> Iterator[tuple[str, Program]]:
    """Yield a feeder for each node that can be fed from here."""
    pace: tuple[str, ...] = ()
    if options.rate is not None:
        pace = ("--rate", repr(options.rate))
    elif by_time(file.mesh):
        pace = ("--timestamps",)  # slots by time follow the clock
    for name in fed_here(file) if options.feed else ():
        metrics = () if served is None else ("--private-metrics", str(served.feeds[name]))
        arguments = ("feed", str(file.path), name, *pace, *metrics, *_allowing(file))
        # a feed whose records are mostly malformed has still fed all of them
        yield name, Program(f"feed {name}", arguments, (0, MALFORMED))


def scorers(file: MeshFile, names: Sequence[str]) -> Iterator[tuple[str, Program]]:
    """Yield a process that scores for each of these nodes, by the node's own part."""
    for name in names:
        yield name, Program(f"score {name}", ("score", str(file.path), name, *_allowing(file)))


def _allowing(file: MeshFile) -> list[str]:
    """Return the options by which a process may run the same user's code as this one."""
    return [f"--code={name}" for name in sorted(file.code.allowed)]


def _is_here(source: object) -> bool:
    if isinstance(source, FileSettings | LibsvmSettings | CsrSettings):
        return source.path not in {None, "-"}
    return source is not None and not isinstance(source, TopicSettings)


# The default folder of `up`. All runs of a mesh share it, so that the charges of earlier runs are known.

PARENT = Path("mirrormesh-state")


def default_folder(file: AnyFile, parent: Path = PARENT) -> Path:
    """Return the folder of all runs of the mesh."""
    return Path(parent, file.mesh.name)


def has_begun(file: MeshFile, state: Path) -> bool:
    """Return whether a node of the run has stepped a round, by the journals in the folder `state`."""
    for name in file.nodes:
        with suppress(JournalError), JournalReader(StateFolder(state).journal(name)) as journal:
            if journal.life.run == file.mesh.run and journal.records(1):
                return True
    return False


# Replays a mesh with slots by time. Its slots begin when all processes run, and the times of all records are
# moved by the same number of seconds.
#
# One party must run all nodes. The number is a whole one that follows from the mesh file's start and the
# clock, never from a record. The state folder has the replay's mesh file, so that a replay continues after an
# interruption.

LEAD, EACH = 10.0, 3.0
"""Seconds until slot 1 begins: the least, and the time for each process, which processors share. A start
takes 2 s of one processor. With three nodes on two busy processors the last was ready after 16 s."""


def lead(file: MeshFile) -> float:
    """Return the time in seconds that this machine needs, at most, until scheduler, nodes and feeders run."""
    return LEAD + EACH * (1 + 2 * len(file.nodes)) / (os.cpu_count() or 1)


def check_replay(file: MeshFile) -> None:
    """Raise MeshFileError if the mesh cannot be replayed here.

    It must be called before anything is started.
    """
    if not isinstance(file.mesh.slots, TimeSlotsSettings):
        raise file.refuse(("mesh", "slots", "by"), "--replay moves times: must be time", file.mesh.slots.by)
    missing = [name for name in file.mesh.nodes if name not in file.nodes]
    if missing:
        text = f"the own part of {listed(missing)} is missing: with --replay one party must run all nodes"
        raise file.refuse(("nodes",), text)


def fed_topics(file: MeshFile) -> list[str]:
    """Return the data topics of the mesh that contain records. Raises BusError."""
    topics = []
    for name in file.nodes:
        logs, topic = Logs(file.brokers(name).data), file.data_topics(name).records
        try:
            # records of an open transaction count, as they may be committed later with their old times
            topics += [topic] if logs.span(topic)[1] else []
        finally:
            logs.close()
    return topics


def replayed(
    file: MeshFile, state: Path, now: float, fed: Callable[[MeshFile], list[str]] = fed_topics
) -> MeshFile:
    """Write the replay's mesh file into the folder `state`, and return it. Its slots start soon after `now`.

    A replay that was begun continues with its own start. If its slots have ended before any was learnt from,
    it begins anew, unless its topics were `fed`. Raises MeshFileError if they were, or if another run was
    replayed there: its records, with its times, are still in the topics.
    """
    place, slots = StateFolder(state).replay, file.mesh.slots
    if not isinstance(slots, TimeSlotsSettings):
        raise TypeError("check_replay comes first")
    if place.exists() and place.samefile(file.path):
        raise UsageError(f"--state {state}: the replay would be written over {place}: must be another folder")
    earlier = _earlier(file, state, now, fed)
    start = earlier.start if earlier else slots.start + math.ceil(now + lead(file) - slots.start)
    shift = round(start - slots.start)
    text = json.dumps(_moved(file, slots, shift), indent=2, ensure_ascii=False)  # JSON is YAML
    write_private(place, lambda _: f"# written by mirrormesh up --replay, from {file.path}\n{text}\n")
    return load(place, code=file.code.allowed)


def _earlier(
    file: MeshFile, state: Path, now: float, fed: Callable[[MeshFile], list[str]]
) -> TimeSlotsSettings | None:
    """Return the slots of a replay that was begun and continues. Raises MeshFileError."""
    place = StateFolder(state).replay
    earlier = load(place) if place.exists() else None
    if earlier is None or not isinstance(earlier.mesh.slots, TimeSlotsSettings):
        return None
    if earlier.mesh.run != file.mesh.run:
        if not any(any(StateFolder(state).journals(name)) for name in file.nodes):
            return None
        text = (
            f"{state} holds a replay of run {earlier.mesh.run}: must be that, or give another --state, "
            "in which what that run has spent may not count"
        )
        raise file.refuse(("mesh", "run"), text, file.mesh.run)
    if has_begun(earlier, state) or not has_ended(earlier, now):
        return earlier.mesh.slots
    if topics := fed(earlier):
        text = (
            f"the replay in {state} ended before its first step, and its times are in {listed(topics)}: "
            "delete what is there, or give another --state, if that has a broker of its own"
        )
        raise file.refuse(("mesh", "run"), text, file.mesh.run)
    return None


def _moved(file: MeshFile, slots: TimeSlotsSettings, shift: float) -> dict[str, Any]:
    """Return the content of the mesh file, with start and records moved, and with absolute paths."""
    folder, original = file.path.parent, read_yaml(file.path)
    tree: dict[str, Any] = dict(original)
    mesh = dict(tree["mesh"])
    mesh["slots"] = mesh["slots"] | {"start": slots.start + shift, "shift": slots.shift + shift}
    if file.mesh.algorithm.x_1 is not None:
        mesh["algorithm"] = mesh["algorithm"] | {"x_1": file.mesh.algorithm.x_1}  # from a file, perhaps
    if isinstance(mesh.get("features"), str):
        mesh["features"] = str(Path.cwd() / folder / mesh["features"])
    tree["mesh"] = mesh
    nodes: dict[str, Any] = {}
    for name, part in tree["nodes"].items():
        nodes[name] = part
        if isinstance(part, str):
            nodes[name] = str(Path.cwd() / folder / part)
        elif isinstance(part, Mapping) and isinstance(part.get("source"), Mapping):
            nodes[name] = {**part, "source": _source(part["source"], file.own(name).source, folder)}
    tree["nodes"] = nodes
    if "held_out" in tree:
        tree["held_out"] = _source(tree["held_out"], file.held_out, folder)
    return tree


def _source(written: Mapping[str, Any], settings: object, folder: Path) -> dict[str, Any]:
    source, path = dict(written), getattr(settings, "path", None)
    if path not in {None, "-"}:
        source["path"] = str(Path.cwd() / path)
    if isinstance(source.get("schema"), str):
        source["schema"] = str(Path.cwd() / folder / source["schema"])
    return source
