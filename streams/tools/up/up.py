"""The steps of `mirrormesh up`: brokers, topics, processes, the view, and the end."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextlib import closing as closed
from dataclasses import replace
from math import inf
from pathlib import Path
from statistics import median_low
from typing import NamedTuple, Protocol

from rich.console import Console

from nodes.accounting.spends import Spend
from streams.bus.bus import BusError
from streams.bus.logs import Logs
from streams.bus.provision import provision
from streams.ledger import known_spends
from streams.live.data.letters import unread_records
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile, begins, has_ended, refuse_ended
from streams.records.lint import afterwards, topic_lines
from streams.runtime.process import ProcessStopped, Stop
from streams.state.folder import JournalError, StateFolder, read_verdict, read_wish
from streams.state.spends_topic import written
from streams.status.mesh_status import Course, MeshStatus, Progress, progress
from streams.status.status_poller import StatusPoller, TopicPoller
from streams.terminal.live_views import ProcessStatus, RunStatus, shown, summary
from streams.terminal.malformed import MALFORMED, say_malformed
from streams.terminal.report import say, say_promises
from streams.terminal.text import counted, listed, spent
from streams.tools.broker.broker import take
from streams.tools.score.score import why_not
from streams.tools.up import programs, services
from streams.tools.up.children import Child, Say, end_all
from streams.tools.up.programs import MetricsPorts, Options, Program, check_replay, has_begun, replayed
from streams.tools.up.services import Fact, Observers, StartedBroker, ensure_brokers

# Runs the processes of a mesh on this machine until the run is over, then ends them. A process is silent if
# it runs and its heartbeats have stopped.

SILENT = 5.0
"""Seconds without a heartbeat after which a node counts as silent. It sends a heartbeat each second."""


class Silence:
    """Tells the state of processes by their last heartbeats.

    Its clock begins anew when the broker is back.
    """

    def __init__(self) -> None:
        self._away = float("-inf")

    def broker_away(self, now: float) -> None:
        """Note that the broker does not answer, so that no heartbeat can arrive."""
        self._away = now

    def state(self, began: float, heard: float | None, now: float) -> str:
        """Return running, starting or `silent for 19 s`. `heard`: when the last heartbeat was sent."""
        if heard is None or heard < began:
            return "starting"
        seconds = now - max(heard, self._away)
        return f"silent for {seconds:,.0f} s" if seconds > SILENT else "running"


class Asks(Protocol):
    """The interface to the poller of plans and heartbeats on the mesh broker."""

    @property
    def gone(self) -> float | None:
        """The seconds since the broker's last answer; None while it answers."""

    @property
    def planner(self) -> float | None:
        """The time of the scheduler's last message, on the monotonic clock; None before the first."""

    def status(self) -> MeshStatus:
        """Return the public state of the mesh."""


class UpMesh:
    """A scheduler, the nodes whose own part is here, and a feeder for each node that can be fed from here.

    Nothing runs before the first `look`. `say` prints unusual events. `asks` reads the nodes' heartbeats.
    `scoring`: the nodes for which a process scores a topic.
    """

    def __init__(
        self,
        file: MeshFile,
        options: Options,
        served: MetricsPorts | None,
        say: Say,
        asks: Asks,
        scoring: Sequence[str] = (),
    ) -> None:
        folder = StateFolder(options.state)
        folder.logs.mkdir(exist_ok=True)

        def child(program: Program) -> Child:
            return Child(program, folder.log(program.label), say)

        self._file, self._state = file, options.state
        self._scheduler = child(programs.scheduler(file, served))
        node_programs, fed = programs.nodes(file, options, served), programs.feeders(file, options, served)
        hosts: dict[Program, Child] = {}
        self._nodes = {name: hosts.setdefault(program, child(program)) for name, program in node_programs}
        self._hosts = tuple(hosts.values())
        self._feeders = {name: child(program) for name, program in fed}
        self._scorers = {name: child(program) for name, program in programs.scorers(file, scoring)}
        self._progress = {name: progress(self._state, name) or Progress(0, 0.0, 0) for name in self._nodes}
        self.course, self._middle = Course(), Course()
        self._asks, self._silence = asks, Silence()
        self._gone: float | None = None
        self._deaf = False
        self._ends: dict[str, int] = {}
        self._heard: dict[str, float] = {}

    @property
    def over(self) -> bool:
        """Whether every node here has reached the end of the run."""
        return all(child.done for child in self._hosts)

    @property
    def starved(self) -> bool:
        """Whether the feeders are done and no node here has a full slot of records left, with slots by count.

        If sources are waited for without limit and no slot closes empty, one such node delays all others for
        ever.
        """
        slots = self._file.mesh.slots
        if slots.by != "count" or set(self._feeders) != set(self._nodes):
            return False
        if not all(child.done for child in self._feeders.values()):
            return False
        hungry = {
            name: self._ended(name) or self._left_over(name, reached) < slots.size
            for name, reached in self._progress.items()
        }
        unfed = [name for name, is_hungry in hungry.items() if is_hungry and not self._ended(name)]
        waits_for_ever = slots.timeout is None and self._file.mesh.round_timeout is None
        return bool(unfed) and (waits_for_ever or all(hungry.values()))

    def _ended(self, name: str) -> bool:
        """Return whether a node has stepped all rounds, or has left."""
        rounds, stepped = self._file.mesh.rounds, self._progress[name].round
        return self._has_left(name) or (rounds is not None and stepped >= rounds)

    def _has_left(self, name: str) -> bool:
        """Return whether a node has left on its owner's request."""
        with suppress(JournalError):
            leave_from = read_wish(self._state, name, self._file.mesh.run)
            return leave_from is not None and self._progress[name].round >= leave_from - 1
        return False

    def _staying(self) -> list[str]:
        """Return the nodes whose rounds count. A node that has left steps no more.

        If all have left, all count.
        """
        return [name for name in self._progress if not self._has_left(name)] or list(self._progress)

    @property
    def left_over(self) -> dict[str, int]:
        """The records of nodes here that fill no slot, by node: of those to which all is fed."""
        slots = self._file.mesh.slots
        fed = [name for name in self._nodes if name in self._feeders and self._feeders[name].done]
        counts = {name: self._left_over(name, self._progress[name]) for name in fed if slots.by == "count"}
        return {name: int(count) for name, count in counts.items() if 0 < count < slots.size}

    def _left_over(self, name: str, reached: Progress) -> float:
        """Return the number of records of its topic that a node has not learnt from; infinite while it is
        unknown.
        """
        if name not in self._ends:
            topic = self._file.data_topics(name).records
            with suppress(BusError), closed(Logs(self._file.brokers(name).data)) as logs:
                self._ends[name] = logs.end(topic)  # the feeder is done, so the topic grows no more
        return self._ends.get(name, inf) - reached.position

    @property
    def malformed(self) -> dict[str, str]:
        """The feeders' lines on malformed records, by node. They are for the owner, who reads them here."""
        lines = {name: child.log.malformed for name, child in self._feeders.items()}
        return {name: line for name, line in lines.items() if line}

    @property
    def scored(self) -> list[str]:
        """What each process that scored has said at its end."""
        return [child.log.last for child in self._scorers.values() if child.code == 0]

    @property
    def mostly_malformed(self) -> bool:
        """Whether more than half of the records that a feeder sent were malformed."""
        return any(child.code == MALFORMED for child in self._feeders.values())

    @property
    def failures(self) -> list[str]:
        """The failures of feeders that never finished. Their nodes have not learnt from all records."""
        return [child.failure for child in self._feeders.values() if child.failure]

    def look(self) -> RunStatus:
        """Start the processes that are due, and return the state of the mesh."""
        for child in (self._scheduler, *self._hosts, *self._feeders.values(), *self._scorers.values()):
            child.look()
            child.log.read()
        self._stand()
        self._listen()
        rows = tuple(self._row(name) for name in self._file.mesh.nodes)
        slowest = min(self._staying(), key=lambda name: self._progress[name].round)
        planner = self._scheduler
        return RunStatus(
            self._middle.round,
            (slowest, self.course.round),
            self._middle.rate,
            self._gone,
            self._state_of(planner, self._asks.planner),
            planner.restarts,
            planner.log.warning(),
            rows,
        )

    def end(self) -> None:
        """End all processes: the feeders first, then the nodes, then the scorers, then the scheduler."""
        for children in (self._feeders.values(), self._hosts, self._scorers.values(), (self._scheduler,)):
            end_all(tuple(children))
        for child in (*self._feeders.values(), *self._scorers.values()):
            child.log.read()
        self._stand()

    def _stand(self) -> None:
        for name, before in self._progress.items():
            self._progress[name] = progress(self._state, name) or before
        now = time.monotonic()
        last = self._file.mesh.rounds or inf  # closing rounds do not count
        rounds = [int(min(self._progress[name].round, last)) for name in self._staying()]
        self.course.take(rounds, now)
        self._middle.take([median_low(rounds)], now)

    def _listen(self) -> None:
        """Note when each node sent its last heartbeat. Warnings from an outage of the broker are dropped."""
        now, before, self._gone = time.monotonic(), self._gone, self._asks.gone
        if self._gone is not None:
            self._silence.broker_away(now)
            return
        if before is not None:
            for child in (self._scheduler, *self._hosts, *self._feeders.values()):
                child.log.forget()
        try:
            ages = {row.name: row.seen for row in self._asks.status().rows}
        except BusError:  # without the broker no heartbeat arrives, which is no node's fault
            self._deaf = True
            return
        self._heard = {name: now - age for name, age in ages.items() if age is not None}

    def _state_of(self, child: Child, heard: float | None) -> str:
        """Return the state of a process that sends heartbeats.

        A process without recent ones is silent, not running.
        """
        if child.began is None or child.done or self._gone is not None or self._deaf:
            return child.state
        return self._silence.state(child.began, heard, time.monotonic())

    def _row(self, name: str) -> ProcessStatus:
        if name not in self._nodes:
            return ProcessStatus(name, "elsewhere", None, "", "", "", 0)
        children = [
            child_process
            for child_process in (self._nodes[name], self._feeders.get(name))
            if child_process is not None
        ]
        reached, feed = self._progress[name], self._feeders.get(name)
        warning = max((child_process.log.warning(name) for child_process in children), default="")
        restarts = sum(child_process.restarts for child_process in children)
        fed = "" if feed is None else feed.state
        state = self._state_of(self._nodes[name], self._heard.get(name))
        state = "left" if self._has_left(name) else state
        return ProcessStatus(name, state, reached.round, spent(reached.spent), fed, warning, restarts)


# The steps of `mirrormesh up`.


class UpEnd(NamedTuple):
    """How `up` has ended: whether most records of a node were malformed, and which feeders have failed."""

    mostly_malformed: bool = False
    failures: tuple[str, ...] = ()


PERIOD = 0.25
"""Seconds between two updates."""


def run_up(file: MeshFile, options: Options, console: Console, stop: Stop, *, plain: bool) -> UpEnd:
    """Run the whole mesh here until the run is over, or until asked to stop. Then end everything.

    Refuses a run whose slots had all ended before it began. Raises MeshFileError, UsageError, Differs,
    BusError, BrokerError, JournalError. No process is then left running.
    """

    def fact(name: str, text: str) -> None:
        say(console, f"{name:<10} {text}")

    def loud(text: str) -> None:
        say(console, text, "bold red")

    programs.check(file, options)
    _check_times(file, options)
    served = programs.ports(file, options)
    if options.observing is not None:
        services.check()
    services.check_ports(file, served, options.observing)
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
        scorers = _scorers(file)
        mesh = UpMesh(file, options, served, loud, poller, scorers.able)
        closing.callback(mesh.end)
        if observers is not None:
            observers.introduce(fact)
        _introduce(file, options, served, fact, scorers)
        _watch(mesh, brokers, observers, file, console, stop, plain=plain)
        over = f"the run is over: round {mesh.course.round:,} was its last"
        if not mesh.over and mesh.starved:
            over = f"no node here has a full slot left after round {mesh.course.round:,}"
        ended = mesh.over or mesh.starved
        if ended and observers is not None and not stop.asked.is_set():
            fact("over", f"{over}; what was observed stays here to be looked at until Ctrl-C")
            observers.stay(stop, PERIOD)
        fact("ending", over if ended else "as asked")
        _say_left_over(mesh, fact)
        mesh.end()  # the nodes write their last dead letters when they end
        _say_scores(mesh, fact)
        # a broker of this `up` ends with it
        spends, unread = written(file, file.nodes), unread_records(file, file.nodes)
        odd = [*afterwards(file), *topic_lines(file, counted=False).odd]
    say(console, summary(*mesh.course.whole), "bold")
    _conclude(file, options, spends, fact, console)
    for line in odd:
        say(console, f"Warning: {line}", "bold yellow")
    for line in mesh.malformed.values():
        say(console, line, "bold yellow")
    # Of a record that a feeder has reported, the node knows only that it cannot be read.
    mostly = say_malformed(console, {name: unread[name] for name in unread if name not in mesh.malformed})
    return UpEnd(mostly or mesh.mostly_malformed, tuple(mesh.failures))


def _say_left_over(mesh: UpMesh, fact: Fact) -> None:
    if left_over := mesh.left_over:
        counts = listed([f"{name} {count:,}" for name, count in left_over.items()])
        fact("left over", f"records that fill no slot, as a topic has no end: {counts}")


def _check_times(file: MeshFile, options: Options) -> None:
    """Raise MeshFileError if no replay is possible, or if all slots had ended before the run began."""
    if options.replay:
        check_replay(file)
    elif not has_begun(file, options.state):
        refuse_ended(file, time.time())


def _in_time(file: MeshFile, options: Options, fact: Fact) -> tuple[MeshFile, Options]:
    """Return the mesh file, or that of the replay if there is one, and the options.

    The options have no feeders if every slot has ended, as the run then only ends in order.
    """
    now = time.time()
    if options.replay:
        file = replayed(file, options.state, now)
        fact("replay", f"{file.path}: the time of every record moves by {file.mesh.shift:,.15g} s")
        fact("", f"slot 1 begins {begins(file, now)}")
    return file, replace(options, feed=options.feed and not has_ended(file, now))


@contextmanager
def alone(state: Path) -> Iterator[None]:
    """A context that holds the lock of the state folder. Raises UsageError if another `up` holds it."""
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


class Scorers(NamedTuple):
    """The nodes here for which a process scores; and those for which none can, each with the reason."""

    able: list[str]
    unable: dict[str, str]


def _scorers(file: MeshFile) -> Scorers:
    """Look at the topics of nodes whose own part says which one is scored."""
    parts = file.nodes.items()
    reasons = {name: why_not(file, name, part.score) for name, part in parts if part.score is not None}
    unable = {name: reason for name, reason in reasons.items() if reason is not None}
    return Scorers([name for name in reasons if name not in unable], unable)


def _say_scores(mesh: UpMesh, fact: Fact) -> None:
    for line in mesh.scored:
        fact("scored", line)


def _introduce(
    file: MeshFile, options: Options, served: MetricsPorts | None, fact: Fact, scorers: Scorers
) -> None:
    """Print what is started, what is not started, and where to look."""
    fed = programs.fed_here(file) if options.feed else []
    hosts = len(programs.hosts(file, options))
    processes = "" if hosts == len(file.nodes) else f" in {hosts} process{'es' if hosts > 1 else ''}"
    kinds = [
        counted(1, "scheduler"),
        f"{counted(len(file.nodes), 'node')}{processes}",
        counted(len(fed), "feeder"),
        *([counted(len(scorers.able), "scorer")] if scorers.able else []),
    ]
    fact("processes", f"{', '.join(kinds)}; logs in {StateFolder(options.state).logs}")
    absent_nodes = [name for name in file.mesh.nodes if name not in file.nodes]
    if absent_nodes:
        fact("elsewhere", f"{listed(absent_nodes)}: their owners have their own part")
    unfed = [name for name in file.nodes if name not in fed and file.existing_topic(name) is None]
    if unfed:
        path = f" {file.path}" if file.mesh.shift else ""  # the replay's file has the moved times
        fact("not fed", f"{listed(unfed)}: by their owners, with mirrormesh feed{path}")
    for name, reason in scorers.unable.items():
        fact("not scored", f"for {name}: {reason}")
    if served is not None:
        fact("metrics", f"scheduler http://127.0.0.1:{served.scheduler}/metrics")
        for name, port in served.shared.items():
            fact("", f"{name} :{port} (shared), :{served.private[name]} (private)")
        for name, port in served.feeds.items():
            fact("", f"feed {name} :{port} (private)")
    fact("Ctrl-C", "ends everything in order; the same command continues from there")


def _observers(
    options: Options, served: MetricsPorts | None, loud: Say, closing: ExitStack
) -> Observers | None:
    """Return Prometheus and Grafana if they were requested. `closing` ends them after the mesh."""
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
    """Print where the results are, and the guarantees. `spends`: the lives on the data brokers, by node."""
    servers = sorted({file.brokers(name).data.servers for name in file.nodes})
    fact("decisions", f"topics decisions.<mesh>.<node> on {listed(servers)}, as JSON: run, round, x, decided")
    folder = StateFolder(Path())
    fact("state", f"{options.state}: {folder.journal('<node>')}, {folder.log('<process>')}")
    say_promises(console, file, known_spends(file, file.nodes, options.state, spends))
    for name in file.nodes:  # the owner's, who sees them here; no log has them
        if (verdict := read_verdict(options.state, name, file.mesh.run)) is not None:
            say(console, f"Verdict of {name}: {verdict.get('judgement')}.", "bold")
