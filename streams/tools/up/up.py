"""`mirrormesh up`, step by step: brokers, topics, processes; the view; the end."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextlib import closing as closed
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from nodes.accounting.spends import Spend
from streams.bus.provision import provision
from streams.ledger import known_spends
from streams.live.data.letters import unread_records
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile, begins, has_ended, refuse_ended
from streams.runtime.process import ProcessStopped, Stop
from streams.state.folder import StateFolder
from streams.state.spends_topic import written
from streams.status.status_poller import StatusPoller, TopicPoller
from streams.terminal.live_views import shown, summary
from streams.terminal.malformed import say_malformed
from streams.terminal.report import say, say_promises
from streams.terminal.text import counted, listed
from streams.tools.broker.broker import take
from streams.tools.up import observers as observing
from streams.tools.up import programs
from streams.tools.up.brokers import Fact, StartedBroker, ensure_brokers
from streams.tools.up.children import Say
from streams.tools.up.mesh import UpMesh
from streams.tools.up.observers import Observers
from streams.tools.up.programs import MetricsPorts, Options, has_begun
from streams.tools.up.replay import check_replay, replayed


class UpEnd(NamedTuple):
    """How `up` has ended: whether most records of a node were malformed, and which feeders have failed."""

    mostly_malformed: bool = False
    failures: tuple[str, ...] = ()


PERIOD = 0.25
"""Seconds between two updates."""


def run_up(file: MeshFile, options: Options, console: Console, stop: Stop, *, plain: bool) -> UpEnd:
    """Run the whole mesh here until the run is over, or until asked to stop; then end everything.

    A run whose slots had all ended before it began is refused. Raises MeshFileError, UsageError, Differs,
    BusError, BrokerError, JournalError: nothing is left running.
    """

    def fact(name: str, text: str) -> None:
        say(console, f"{name:<10} {text}")

    def loud(text: str) -> None:
        say(console, text, "bold red")

    programs.check(file, options)
    _check_times(file, options)
    served = programs.ports(file, options)
    if options.observing is not None:
        observing.check()
    observing.check_ports(file, served, options.observing)
    with ExitStack() as closing:
        closing.enter_context(alone(options.state))
        fact("state", str(options.state))
        try:
            brokers = ensure_brokers(file, options.state, stop, fact, closing)
        except ProcessStopped:
            return UpEnd()
        _provision(file, fact)
        file, options = _in_time(file, options, fact)
        observers = _observers(options, served, loud, closing)
        poller = StatusPoller(file, closing.enter_context(closed(TopicPoller(file, planning=True))))
        poller.start()
        closing.callback(poller.end)
        mesh = UpMesh(file, options, served, loud, poller)
        closing.callback(mesh.end)
        if observers is not None:
            observers.introduce(fact)
        _introduce(file, options, served, fact)
        _watch(mesh, brokers, observers, file, console, stop, plain=plain)
        over = f"the run is over: round {mesh.course.round:,} was its last"
        if not mesh.over and mesh.starved:
            over = f"no node here has a full slot left after round {mesh.course.round:,}"
        ended = mesh.over or mesh.starved
        if ended and observers is not None and not stop.asked.is_set():
            fact("over", f"{over}; what was observed stays here to be looked at until Ctrl-C")
            observers.stay(stop, PERIOD)
        fact("ending", over if ended else "as asked")
        mesh.end()  # the nodes' last letters are written then
        # a broker of this `up` ends with it
        spends, unread = written(file, file.nodes), unread_records(file, file.nodes)
    say(console, summary(*mesh.course.whole), "bold")
    _conclude(file, options, spends, fact, console)
    for line in mesh.malformed.values():
        say(console, line, "bold yellow")
    # of what a feeder has told of, the node knows only that it cannot be read
    mostly = say_malformed(console, {name: unread[name] for name in unread if name not in mesh.malformed})
    return UpEnd(mostly or mesh.mostly_malformed, tuple(mesh.failures))


def _check_times(file: MeshFile, options: Options) -> None:
    """Raise MeshFileError if no replay is possible, or all slots had ended before the run began."""
    if options.replay:
        check_replay(file)
    elif not has_begun(file, options.state):
        refuse_ended(file, time.time())


def _in_time(file: MeshFile, options: Options, fact: Fact) -> tuple[MeshFile, Options]:
    """Return the mesh file, that of the replay if there is one, and the options.

    They are without feeders if every slot has ended: then the run only ends in order.
    """
    now = time.time()
    if options.replay:
        file = replayed(file, options.state, now)
        fact("replay", f"{file.path}: the time of every record moves by {file.mesh.shift:,.15g} s")
        fact("", f"slot 1 begins {begins(file, now)}")
    return file, replace(options, feed=options.feed and not has_ended(file, now))


@contextmanager
def alone(state: Path) -> Iterator[None]:
    """Hold the state folder's lock. Raises UsageError if another `up` holds it."""
    lock = take(StateFolder(state).up_lock)
    if lock is None:
        raise UsageError(f"{state}: another mirrormesh up runs there")
    try:
        yield
    finally:
        os.close(lock)


def _provision(file: MeshFile, fact: Fact) -> None:
    sides = provision(file)
    created, existing = sum(len(side.created) for side in sides), sum(len(side.existing) for side in sides)
    fact("topics", f"made {created}, found right {existing}")


def _introduce(file: MeshFile, options: Options, served: MetricsPorts | None, fact: Fact) -> None:
    """Print what is started, what is not, and where to look."""
    fed = programs.fed_here(file) if options.feed else []
    hosts = len(programs.hosts(file, options))
    processes = "" if hosts == len(file.nodes) else f" in {hosts} process{'es' if hosts > 1 else ''}"
    kinds = [
        counted(1, "scheduler"),
        f"{counted(len(file.nodes), 'node')}{processes}",
        counted(len(fed), "feeder"),
    ]
    fact("processes", f"{', '.join(kinds)}; logs in {StateFolder(options.state).logs}")
    absent_nodes = [name for name in file.mesh.nodes if name not in file.nodes]
    if absent_nodes:
        fact("elsewhere", f"{listed(absent_nodes)}: their owners have their own part")
    unfed = [name for name in file.nodes if name not in fed]
    if unfed:
        path = f" {file.path}" if file.mesh.shift else ""  # that of the replay, which moves the times
        fact("not fed", f"{listed(unfed)}: by their owners, with mirrormesh feed{path}")
    if served is not None:
        fact("metrics", f"scheduler http://127.0.0.1:{served.scheduler}/metrics")
        for name, port in served.shared.items():
            fact("", f"{name} :{port} (shared), :{served.private[name]} (private)")
    fact("Ctrl-C", "ends everything in order; the same command continues from there")


def _observers(
    options: Options, served: MetricsPorts | None, loud: Say, closing: ExitStack
) -> Observers | None:
    """Return Prometheus and Grafana if requested; `closing` ends them after the mesh."""
    if options.observing is None or served is None:
        return None
    observers = Observers(options.observing, served, options.state, loud)
    closing.callback(observers.end)
    return observers


def _watch(
    mesh: UpMesh,
    kept: list[StartedBroker],
    observers: Observers | None,
    file: MeshFile,
    console: Console,
    stop: Stop,
    *,
    plain: bool,
) -> None:
    title = f"{file.mesh.name}, run {file.mesh.run}"
    with shown(console, title, file.mesh.rounds, plain=plain) as view:
        while not (mesh.over or mesh.starved or stop.asked.is_set()):
            view(mesh.look())
            for broker in kept:
                broker.look()
            if observers is not None:
                observers.look()
            stop.asked.wait(PERIOD)


def _conclude(
    file: MeshFile,
    options: Options,
    spends: Mapping[str, Iterable[Spend] | None],
    fact: Fact,
    console: Console,
) -> None:
    """Print where everything is, and the guarantees. `spends`: the lives on the data brokers, by node."""
    servers = sorted({file.brokers(name).data.servers for name in file.nodes})
    fact("decisions", f"topics decisions.<mesh>.<node> on {listed(servers)}, as JSON: run, round, x, decided")
    folder = StateFolder(Path())
    fact("state", f"{options.state}: {folder.journal('<node>')}, {folder.log('<process>')}")
    say_promises(console, file, known_spends(file, file.nodes, options.state, spends))
