"""The state of a mesh at a moment, by plans and heartbeats, and its nodes' speed by their journals.

Pure: times are arguments.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

from nodes.accounting.guarantee import Ledger
from streams.mesh.mesh import Mesh
from streams.state.folder import JournalError, StateFolder
from streams.state.journal_file import JournalReader
from streams.status.account import ChargeCount, charge_counts_by, charged_by, relays, unused
from topology.plans import Heartbeat, Plan
from topology.roster import Roster

# The progress of a mesh's nodes, from their journals, and its speed.

WINDOW = 5.0
"""Seconds over which the speed is measured."""


class Progress(NamedTuple):
    """The last round that a node has stepped, and the stream-level epsilon that it has spent.

    `position`: where its next slot begins on its data topic's first partition.
    """

    round: int
    spent: float
    position: int


def progress(state: Path, node: str) -> Progress | None:
    """Return the progress of a node; None without a readable journal, or a record in it."""
    try:
        with JournalReader(StateFolder(state).journal(node)) as journal:
            records = journal.records(1)
    except JournalError:  # not created yet, or broken, which the node itself reports
        return None
    if not records:
        return None
    last = records[-1]
    return Progress(last.stepped, last.epsilon_spent, dict(last.data_position or ()).get(0, 0))


class Course:
    """Measures the speed of the round that every node has stepped."""

    def __init__(self) -> None:
        self.round = 0
        self._first: tuple[float, int] | None = None
        self._last = (0.0, 0)
        self._recent: deque[tuple[float, int]] = deque()

    def take(self, rounds: Iterable[int], now: float) -> None:
        """Record the nodes' last rounds (at least one) at time `now`."""
        self.round = min(rounds)
        step = (now, self.round)
        if self._first is None or (self._last == self._first and self.round <= self._first[1]):
            self._first = self._last = step  # time counts from the last check before the first step
        elif self.round > self._last[1]:
            self._last = step
        self._recent.append(step)
        while len(self._recent) > 1 and self._recent[1][0] <= now - WINDOW:
            self._recent.popleft()

    @property
    def rate(self) -> float | None:
        """Rounds per second, over the last seconds; None before the first."""
        if len(self._recent) < 2:
            return None
        (first_time, first), (ended, last) = self._recent[0], self._recent[-1]
        return max(0.0, (last - first) / max(ended - first_time, 1e-9))

    @property
    def whole(self) -> tuple[int, float]:
        """The number of rounds seen, and the seconds that they took."""
        if self._first is None:
            return 0, 0.0
        return self._last[1] - self._first[1], self._last[0] - self._first[0]


# The state of a mesh at a moment, from plans and heartbeats. Pure: times are arguments.

KEPT = 4
"""Plans are kept for this many times H: enough for a node that is H rounds behind."""
BETWEEN = 1.5
"""Largest normal distance, in seconds, between two nodes' last heartbeats."""

Entry = tuple[Plan | Heartbeat, float]
"""A plan or heartbeat, and the time at which it was sent."""


class Refusals(NamedTuple):
    """Counts of refusals: `letters` that a node has written, and its own `beats` that the observer refused.

    A node writes a dead letter for a refused message (two for a second value), but at most ten a second.
    """

    letters: int = 0
    beats: int = 0


class NodeStatus(NamedTuple):
    """One node. `hears`: the sources whose edges into it are on, in its current plan.

    `seen`: the age of the node's last heartbeat in seconds. `stepped` and `seen` are None before the first
    heartbeat. `spent`: of the whole stream, as the node's metrics have it at that heartbeat, where plans that
    it has missed count too; infinite if nothing is protected. `budget`: None if there is no budget.
    `learnt_until`: the node's last learning round; `unused`: after it, a lower bound of the rounds of the
    budget that the node has not used.
    """

    name: str
    stepped: int | None
    hears: frozenset[str]
    sources: tuple[str, ...]
    spent: float
    budget: float | None
    seen: float | None
    flags: tuple[str, ...]
    learnt_until: int | None = None
    unused: int = 0


class MeshStatus(NamedTuple):
    """The mesh at a moment. `round`: the last one stepped by all members that are not silent.

    After the run's end it is the last one stepped by any. `planned`: the last planned round (0: none).
    `lead`: the number of planned rounds ahead of `round`. `rate`: rounds per second; None: not known, or
    nobody is live, or the run is over. `live`: the number of nodes that are not silent.
    """

    round: int
    rounds: int | None
    planned: int
    lead: int
    rate: float | None
    live: int
    over: bool
    rows: tuple[NodeStatus, ...]


class StatusTracker:
    """Builds the state of the mesh from plans and heartbeats. Times are seconds of one clock."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh, names = mesh.settings, tuple(mesh.settings.nodes)
        self._sources = {name: mesh.graph.neighbours(name)[0] for name in names}
        self._ledgers: dict[str, Ledger] = {name: mesh.node(name).ledger for name in names}
        self._roster = Roster(names, None)
        self._plans: deque[Plan] = deque(maxlen=KEPT * self._mesh.horizon)
        self._beats: dict[str, Heartbeat] = {}
        self._seen: dict[str, float] = {}
        self._course = Course()
        self._refusals: Mapping[str, Refusals] = {}

    def refused(self, refusals: Mapping[str, Refusals]) -> None:
        """Set the refused counts by node; unknown ones are left out."""
        self._refusals = refusals

    def take(self, news: Iterable[Entry]) -> None:
        """Handle new entries, each topic in its order."""
        for message, at in news:
            if isinstance(message, Plan):
                self._plan(message)
            else:
                self._beat(message, at)

    def _plan(self, plan: Plan) -> None:
        last = self._plans[-1].round if self._plans else None
        if plan.may_follow(last) or (last is not None and plan.follows > last):  # the first may be invalid
            self._plans.append(plan)
            self._roster.note(plan)

    def _beat(self, beat: Heartbeat, at: float) -> None:
        if self._roster.is_replaced(beat):
            return
        self._roster.replay(beat)
        self._beats[beat.node], self._seen[beat.node] = beat, at

    def status(self, now: float) -> MeshStatus:
        """Return the state of the mesh at `now`, which must never go back."""
        last = self._plans[-1] if self._plans else None
        over = last is not None and last.ended
        live = [name for name in self._mesh.nodes if name in self._seen and not self._is_silent(name, now)]
        taking_part = [
            name for name in live if last is None or over or ((m := last.member(name)) is not None and m.full)
        ]
        stepped = [self._beats[name].stepped for name in taking_part or self._beats]
        if stepped:
            self._course.take(stepped, now)
        round, middle = self._course.round, median(stepped or [0])
        if over:  # a node that died before the end delays no other
            round = max(stepped, default=0)
        planned = [plan.round for plan in self._plans if not plan.ended and not plan.closing]
        reported = {
            name: self._beats[name].stepped if name in self._beats else 0 for name in self._mesh.nodes
        }
        charge_counts = charge_counts_by(self._plans, reported)
        rows = tuple(
            self._row(name, charge_count, now, middle) for name, charge_count in charge_counts.items()
        )
        ahead = sum(number > round for number in planned)
        rate, rounds = None if over or not live else self._course.rate, self._mesh.rounds
        round = round if rounds is None else min(round, rounds)  # closing rounds do not count
        return MeshStatus(round, rounds, max(planned, default=0), ahead, rate, len(live), over, rows)

    def _row(self, name: str, charge_count: ChargeCount, now: float, middle: float) -> NodeStatus:
        beat, ledger = self._beats.get(name), self._ledgers[name]
        charged, reached = charged_by(ledger, charge_count), charge_count.reached
        if beat is not None:  # as the node's own metrics have it
            charged, reached = min(charged, self._charged_up_to(name, beat.stepped)), beat.stepped
        relaying = beat is not None and relays(ledger, charge_count)
        at = self._plan_of(name)
        beat_age = now - self._seen[name] if beat else None
        flags = (
            *self._flags(name, now, middle),
            *(("relaying",) if relaying else ()),
            *self._noise(name),
            *self._refused(name),
        )
        return NodeStatus(
            name,
            beat.stepped if beat else None,
            frozenset(source for source, _ in at.incoming(name)) if at else frozenset(),
            self._sources[name],
            ledger.spent(charged, reached),
            None if ledger.budget is None else float(ledger.budget),
            beat_age,
            flags,
            ledger.last_learning_round if relaying else None,
            unused(ledger, charge_count) or 0,
        )

    def _charged_up_to(self, name: str, stepped: int) -> int:
        """Return how many rounds a node has charged up to the one that it reports as stepped, at most."""
        count = 0
        for plan in self._plans:
            count = dict(plan.named).get(name, 0)  # of the plans before this one
            if plan.round > stepped:
                return count
            count += plan.member(name) is not None and not plan.closing
        return count

    def _flags(self, name: str, now: float, middle: float) -> Iterator[str]:
        """Yield the unusual states of a node, the worst first."""
        beat, last = self._beats.get(name), self._plans[-1] if self._plans else None
        if beat is None:
            yield "never seen"
            return
        if last is not None and last.ended:
            return
        if last is not None and beat.has_left(last):
            yield "left"
            yield from self._evidence(beat.instance)
            return
        if self._is_silent(name, now):
            yield "silent"
        elif last is not None:
            yield from self._membership(name, last)
        yield from self._evidence(beat.instance)
        distance = beat.stepped - middle
        if abs(distance) > max(self._mesh.horizon, (self._course.rate or 0.0) * BETWEEN):
            yield f"{abs(distance):,.0f} {'ahead' if distance > 0 else 'behind'}"

    def _membership(self, name: str, last: Plan) -> Iterator[str]:
        next_one = self._roster.candidate(name, last, last.round + 1)
        at = self._plan_of(name)
        place = at.member(name) if at else None
        if next_one is None and self._beats[name].leave_from is not None:
            yield "leaving"
        elif place is not None and not place.full:
            yield "listener"
        elif next_one is None or not next_one.full:
            yield "joining"

    def _evidence(self, instance: str) -> Iterator[str]:
        """Yield the nodes that report evidence that this instance has sent two values for a round."""
        accusers = [beat.node for beat in self._beats.values() if instance in beat.accused]
        if accusers:
            suffix = f" and {len(accusers) - 1} more" if len(accusers) > 1 else ""
            yield f"two values: {min(accusers)}{suffix}"

    def _noise(self, name: str) -> Iterator[str]:
        if self._ledgers[name].epsilon is not None and self._mesh.privacy_of(name).noise == "simulated":
            yield "simulated"

    def _refused(self, name: str) -> Iterator[str]:
        """Yield how many messages the node has refused, and how many of its heartbeats were
        refused, if any.
        """
        letters, beats = self._refusals.get(name, Refusals())
        if letters:
            yield f"{letters:,} dead letter{'' if letters == 1 else 's'}"
        if beats:
            yield f"{beats:,} heartbeat{'' if beats == 1 else 's'} refused"

    def _is_silent(self, name: str, now: float) -> bool:
        silence = self._mesh.silence
        return silence is not None and now - self._seen[name] > silence

    def _plan_of(self, name: str) -> Plan | None:
        """Return the node's current plan: the first that it has not stepped, or the last one."""
        beat = self._beats.get(name)
        stepped = max(beat.stepped, beat.join_after or 0) if beat else 0
        after = (plan for plan in self._plans if plan.round > stepped)
        return next(after, self._plans[-1] if self._plans else None)
