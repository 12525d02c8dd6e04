"""Runs the processes of a mesh on this machine until the run is over, then ends them."""

import time
from contextlib import closing, suppress
from math import inf
from statistics import median_low
from typing import Protocol

from streams.bus.bus import BusError
from streams.bus.logs import Logs
from streams.mesh.file import MeshFile
from streams.state.folder import JournalError, StateFolder, read_wish
from streams.status.mesh_status import Course, MeshStatus, Progress, progress
from streams.terminal.live_views import ProcessStatus, RunStatus
from streams.terminal.malformed import MALFORMED
from streams.terminal.text import spent
from streams.tools.up import programs
from streams.tools.up.children import Child, Say, end_all
from streams.tools.up.programs import MetricsPorts, Options, Program

# Detects processes that run but whose heartbeats have stopped.

SILENT = 5.0
"""Seconds without a heartbeat, of which one is sent a second, until a node counts as silent."""


class Silence:
    """Judges processes by their last heartbeats, on a clock that begins anew when the broker is back."""

    def __init__(self) -> None:
        self._away = float("-inf")

    def broker_away(self, now: float) -> None:
        """Note that the broker does not answer: nobody can be heard."""
        self._away = now

    def state(self, began: float, heard: float | None, now: float) -> str:
        """Return running, starting or `silent for 19 s`; `heard`: when its last heartbeat was sent."""
        if heard is None or heard < began:
            return "starting"
        seconds = now - max(heard, self._away)
        return f"silent for {seconds:,.0f} s" if seconds > SILENT else "running"


class Asks(Protocol):
    """Polls the mesh broker for plans and heartbeats."""

    @property
    def gone(self) -> float | None:
        """The seconds for which the broker has not answered; None while it does."""

    @property
    def planner(self) -> float | None:
        """When a scheduler was last heard, on the monotonic clock; None before."""

    def status(self) -> MeshStatus:
        """Return the state of the mesh as far as it is public."""


class UpMesh:
    """A scheduler, the nodes whose own part is here, and a feeder for each one that can be fed from here.

    Nothing runs before the first `look`. `say` prints anything unusual; `asks` hears the nodes.
    """

    def __init__(
        self, file: MeshFile, options: Options, served: MetricsPorts | None, say: Say, asks: Asks
    ) -> None:
        folder = StateFolder(options.state)
        folder.logs.mkdir(exist_ok=True)

        def child(program: Program) -> Child:
            return Child(program, folder.log(program.label), say)

        self._file, self._state = file, options.state
        self._scheduler = child(programs.scheduler(file, served))
        node_programs, fed = programs.nodes(file, options, served), programs.feeders(file, options)
        hosts: dict[Program, Child] = {}
        self._nodes = {name: hosts.setdefault(program, child(program)) for name, program in node_programs}
        self._hosts = tuple(hosts.values())
        self._feeders = {name: child(program) for name, program in fed}
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
        """Whether all that was to be fed is fed, and no node here has a full slot left, with slots by count.

        Where nobody is given up and no slot closes empty, one such node holds all others for ever.
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
        """Return whether a node has left, as its owner has asked."""
        with suppress(JournalError):
            leave_from = read_wish(self._state, name, self._file.mesh.run)
            return leave_from is not None and self._progress[name].round >= leave_from - 1
        return False

    def _staying(self) -> list[str]:
        """Return the nodes whose rounds count: one that has left steps no more. All, if all have."""
        return [name for name in self._progress if not self._has_left(name)] or list(self._progress)

    def _left_over(self, name: str, reached: Progress) -> float:
        """Return how many records of its topic a node has not learnt from; infinite while nobody knows."""
        if name not in self._ends:
            topic = self._file.data_topics(name).records
            with suppress(BusError), closing(Logs(self._file.brokers(name).data)) as logs:
                self._ends[name] = logs.end(topic)  # it is fed, and grows no more
        return self._ends.get(name, inf) - reached.position

    @property
    def malformed(self) -> dict[str, str]:
        """The feeders' lines on malformed records, by node: for the owner, who sees them here."""
        lines = {name: child.log.malformed for name, child in self._feeders.items()}
        return {name: line for name, line in lines.items() if line}

    @property
    def mostly_malformed(self) -> bool:
        """Whether more than half of what a feeder fed was malformed."""
        return any(child.code == MALFORMED for child in self._feeders.values())

    @property
    def failures(self) -> list[str]:
        """How feeders have failed that were never done: their nodes have not learnt from all records."""
        return [child.failure for child in self._feeders.values() if child.failure]

    def look(self) -> RunStatus:
        """Start the processes that are due, and return the state of the mesh."""
        for child in (self._scheduler, *self._hosts, *self._feeders.values()):
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
        """End all processes: feeders first, then nodes, then the scheduler."""
        for children in (self._feeders.values(), self._hosts, (self._scheduler,)):
            end_all(tuple(children))
        for child in self._feeders.values():
            child.log.read()
        self._stand()

    def _stand(self) -> None:
        for name, before in self._progress.items():
            self._progress[name] = progress(self._state, name) or before
        now = time.monotonic()
        rounds = [self._progress[name].round for name in self._staying()]
        self.course.take(rounds, now)
        self._middle.take([median_low(rounds)], now)

    def _listen(self) -> None:
        """Note when each node was heard. What was logged while the broker was away was about that."""
        now, before, self._gone = time.monotonic(), self._gone, self._asks.gone
        if self._gone is not None:
            self._silence.broker_away(now)
            return
        if before is not None:
            for child in (self._scheduler, *self._hosts, *self._feeders.values()):
                child.log.forget()
        try:
            ages = {row.name: row.seen for row in self._asks.status().rows}
        except BusError:  # then nobody can be heard, which is no node's fault
            self._deaf = True
            return
        self._heard = {name: now - age for name, age in ages.items() if age is not None}

    def _state_of(self, child: Child, heard: float | None) -> str:
        """Return the state of a process that beats: one that is not heard does not just run."""
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
