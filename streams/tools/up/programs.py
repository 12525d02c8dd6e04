"""The processes of a mesh file on this machine, and their arguments."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.mesh.settings.node import FileSettings, LocalisationSettings
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings
from streams.records.sources import check_not_empty, decoder
from streams.terminal.malformed import MALFORMED

HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Observing:
    """The ports of Prometheus, and of Grafana if it is installed."""

    prometheus: int
    grafana: int


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options, beside the mesh file.

    `rate`: records per second of each feeder; None: full speed. `metrics_from`: the first port of metrics,
    which `observing` needs. `others`: folders in which the mesh has run before. `replay`: slots begin now.
    """

    state: Path
    rate: float | None = None
    feed: bool = True
    metrics_from: int | None = None
    observing: Observing | None = None
    others: tuple[Path, ...] = ()
    replay: bool = False


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of metrics on this machine."""

    scheduler: int
    shared: dict[str, int]
    private: dict[str, int]


@dataclass(frozen=True, slots=True)
class Program:
    """`mirrormesh ARGUMENTS`; `label` is what people call it. `done`: the exit codes of one that is done."""

    label: str
    arguments: tuple[str, ...]
    done: tuple[int, ...] = (0,)


def check(file: MeshFile, options: Options) -> None:
    """Raise MeshFileError if the mesh cannot run here. Call it before anything is started."""
    if not file.nodes:
        raise file.refuse(("nodes",), "missing: the own part of one node at least must be here")
    for name in file.nodes:
        file.brokers(name)
        decoder(file, name)
    for name in fed_here(file) if options.feed else ():
        check_not_empty(file, name)
    endless = [name for name in fed_here(file) if isinstance(file.own(name).source, LocalisationSettings)]
    if options.feed and options.rate is None and file.mesh.rounds is None and endless:
        text = f"none, and the generator of {endless[0]} has no end: must be a number, or give --rate"
        raise file.refuse(("mesh", "rounds"), text)


def fed_here(file: MeshFile) -> list[str]:
    """Return the nodes whose source can be fed from here: a file that is named, or a generator."""
    return [name for name, own in file.nodes.items() if _is_here(own.source)]


def ports(file: MeshFile, first: int | None) -> Ports | None:
    """Return the ports from `first` on: the scheduler's, then two a node. Raises UsageError."""
    if first is None:
        return None
    names = list(file.nodes)
    last = first + 2 * len(names)
    if not 0 < first <= last <= HIGHEST_PORT:
        raise UsageError(f"--metrics-from {first}: must be from 1 to {HIGHEST_PORT - 2 * len(names)}")
    shared = {name: first + 1 + 2 * k for k, name in enumerate(names)}
    return Ports(first, shared, {name: port + 1 for name, port in shared.items()})


def scheduler(file: MeshFile, served: Ports | None) -> Program:
    """Return the scheduler."""
    metrics = () if served is None else ("--metrics", str(served.scheduler))
    return Program("scheduler", ("scheduler", str(file.path), *metrics))


def nodes(file: MeshFile, options: Options, served: Ports | None) -> Iterator[tuple[str, Program]]:
    """Yield each node whose own part is here."""
    for name in file.nodes:
        arguments = ["node", str(file.path), name, "--state", str(options.state)]
        if served is not None:
            arguments += ["--metrics", str(served.shared[name])]
            arguments += ["--private-metrics", str(served.private[name])]
        yield name, Program(f"node {name}", tuple(arguments))


def feeders(file: MeshFile, options: Options) -> Iterator[tuple[str, Program]]:
    """Yield a feeder for each node that can be fed from here."""
    pace: tuple[str, ...] = ()
    if options.rate is not None:
        pace = ("--rate", repr(options.rate))
    elif file.mesh.slots.by == "time":
        pace = ("--timestamps",)  # slots by time follow the clock
    for name in fed_here(file) if options.feed else ():
        # a feed of which most is malformed has fed all
        yield name, Program(f"feed {name}", ("feed", str(file.path), name, *pace), (0, MALFORMED))


def _is_here(source: object) -> bool:
    if isinstance(source, FileSettings | LibsvmSettings | CsrSettings):
        return source.path not in {None, "-"}
    return source is not None
