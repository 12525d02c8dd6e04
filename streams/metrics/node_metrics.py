"""The metrics of a node's process: puts reports of its machine and shell into two registries.

A linter contract keeps this module from opening private values, so it shows none of them itself.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from math import inf
from typing import Any

import numpy as np

from nodes.checks import rounded_up
from nodes.learner import Learner
from nodes.machine.events import Decided, Notice, Report, Scored
from nodes.machine.journal import JournalRecord
from nodes.privacy.private import Private
from nodes.protocol import Noticed, Stepped
from streams.codec import Reason
from streams.metrics.catalogue import PrivateMetric, SharedMetric
from streams.metrics.private import DataCounts, LabelCounts, PrivateFigures, show_labels
from streams.metrics.registry import NO_BROKER, PrivateRegistry, ProcessFigures, SharedRegistry
from streams.metrics.verdict import OwnerScore
from topology.plans import Plan


class NodeMetrics:
    """One node's metrics: serve `shared` to all who run the mesh, and `private` to its owner only.

    Parameters
    ----------
    mesh, node : str
        The labels of every metric.
    learner : Learner
        Its settings, all public.
    sources : iterable of str
        Every provisioned in-edge.
    record : JournalRecord or None
        The journal's last record at the start of the process.
    connected : callable
        Whether the mesh broker answers. Called at each scrape, in the scraper's thread, like the next three.
    lag : callable
        The number of records of the data topic not read yet (DataStream.lag).
    counts : callable
        The counts of records (DataStream.counts).
    journal_bytes : callable
        The size of the journal.
    registry : callable or None
        Whether the schema registry answered the last check; None: there is no registry.
    truth : bool
        Whether records hold the right decision.
    score : OwnerScore or None
        What scores the run for its owner.
    ends : (float, float)
        When the first certificate for the mesh broker expires, and the first for the data broker.
    generation : int
        The mesh file's generation.
    nodes : int
        The number of nodes of the mesh file.
    clock, steady : callable
        The clock of shared metrics, in seconds since 1970, and the clock of private ones.
    """

    def __init__(
        self,
        mesh: str,
        node: str,
        learner: Learner,
        sources: Iterable[str],
        record: JournalRecord | None,
        *,
        connected: Callable[[], bool],
        lag: Callable[[], Private[int | None]],
        counts: Callable[[], Private[DataCounts]],
        journal_bytes: Callable[[], int],
        registry: Callable[[], bool] | None = None,
        labels: Callable[[], Private[LabelCounts]] | None = None,
        truth: bool = False,
        score: OwnerScore | None = None,
        ends: tuple[float, float] = (inf, inf),
        generation: int = 0,
        nodes: int = 0,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.shared = SharedRegistry(mesh=mesh, node=node)
        self.private = PrivateRegistry(mesh=mesh, node=node)
        self.timing = Timing(self.shared, self.private, clock, steady)
        self.shared.gauge(SharedMetric.CERTIFICATE, lambda: ends[0])
        self.private.gauge(PrivateMetric.DATA_CERTIFICATE, lambda: ends[1])
        self.private.gauge(PrivateMetric.RUN_OVER, lambda: self.private.run_over)
        if registry is not None:
            self.private.gauge(PrivateMetric.REGISTRY, registry)
        if labels is not None:
            show_labels(self.private, labels)
        self._newest = generation
        self.shared.gauge(SharedMetric.FILE_GENERATION, lambda: generation)
        self.shared.gauge(SharedMetric.PLAN_GENERATION, lambda: self._newest)
        self._commit = self.private.histogram(PrivateMetric.COMMIT)
        self.shared.gauge(SharedMetric.NODES, lambda: nodes)
        self._shared = SharedFigures(self.shared, learner, sources, record, connected, clock)
        self._private = PrivateFigures(
            self.private, learner, lag, counts, journal_bytes, truth=truth, score=score, steady=steady
        )

    def report(self, report: Report) -> None:
        """Handle a report of the machine, in its turn, like all methods but `sent`."""
        match report:
            case Scored():
                self._private.scored(report)
            case Stepped():
                self.timing.stepped(report.record.round)
                self._shared.stepped(report)
            case Decided():
                self.timing.decided()
                self._shared.decided(report)
                self._private.decided(report.decision)
            case Noticed():  # also for a second value, which `Evidence` would count twice
                self._shared.noticed(report)

    def catch_up(self) -> None:
        """Compute the reports that were put off. Call it regularly, in the machine's turn."""
        self._private.catch_up()

    def verdict(self) -> dict[str, Any] | None:
        """Return the verdict on this process's rounds, for a file of the owner's; None: there is none."""
        return self._private.verdict()

    def missing(self) -> str | None:
        """Return what the node waits for before it can do rounds, or None."""
        return self._shared.missing()

    def sent(self, count: int = 1) -> None:
        """Count releases that the broker has acknowledged, one per topic. From one thread at a time."""
        self._shared.sent(count)

    def received(self, source: str) -> None:
        """Count a release read from the edge from `source`. Raises KeyError if there is no such edge."""
        self._shared.received(source)

    def planned(self, last: Plan) -> None:
        """Record the last plan that was read, those read at the start included."""
        self.timing.planned(last.round)
        self._shared.planned(last)

    def made_by(self, generation: int) -> None:
        """Record the generation of the newest mesh file that a plan was made by."""
        self._newest = generation

    def committed(self, seconds: float) -> None:
        """Record the seconds that the journal needed to make a record durable."""
        self._commit.observe(seconds)

    def refused(self, reason: Reason) -> None:
        """Count a peer's message that was refused."""
        self._shared.refused(reason)


# A node's shared figures: functions of releases, plans, settings and peers' messages.

# Measures a node's rounds: waits for neighbours, records and the next plan, and the step itself.
#
# Shared metrics show only the waits for neighbours and plans, never those for the node's own slot. They show
# moments only as fine as `GRAIN`, because with a finer clock the time of a step would reveal something of its
# records.

GRAIN = 10
"""The number of moments per second that shared metrics tell apart."""
_PLANS = 4096  # no node is planned further ahead


def told(moment: float) -> float:
    """Return a moment, in seconds, as shared metrics show it: rounded down to a tenth of a second."""
    return math.floor(moment * GRAIN) / GRAIN


def told_between(first: float, last: float) -> float:
    """Return the seconds between two moments as shared metrics show them; 0 if the clock was set back."""
    return max(0, math.floor(last * GRAIN) - math.floor(first * GRAIN)) / GRAIN


class Timing:
    """Records the moments of a round, in the machine's turn. Waits for records reveal something of them.

    `clock` gives the moments of all shared metrics, in seconds since 1970: two clocks would together show a
    moment more finely. `steady` is the clock of private metrics.
    """

    def __init__(
        self,
        shared: SharedRegistry,
        private: PrivateRegistry,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._steady = clock, steady
        self._neighbours = shared.counter(SharedMetric.NEIGHBOUR_WAIT)
        self._plan = shared.counter(SharedMetric.PLAN_WAIT)
        self._data = private.counter(PrivateMetric.DATA_WAIT)
        self._step = private.histogram(PrivateMetric.STEP)
        self._latency = private.histogram(PrivateMetric.LATENCY)
        self._learnt: float | None = None  # when the slot of the last step was closed
        self._began_at = self._entered_at = self._decided_at = clock()
        self._began = self._decided = self._closed = steady()
        self._planned = 0
        self._plans = deque[tuple[int, float]](maxlen=_PLANS)  # (last planned round, when that plan was read)

    def began(self) -> None:
        """Note that the machine begins to handle an event."""
        self._began, self._began_at = self._steady(), self._clock()

    def entered(self) -> None:
        """Note that a round is entered: its slot is open, and its releases are awaited."""
        self._entered_at = self._decided_at = self._clock()
        self._decided = self._closed = self._steady()

    def closed(self) -> None:
        """Note that the round's slot is closed."""
        self._closed = self._steady()

    def planned(self, round: int) -> None:
        """Note that plans up to this round are known, those read at the start included."""
        if round > self._planned:
            self._planned = round
            self._plans.append((round, self._began_at))

    def decided(self) -> None:
        """Note that the round's releases have arrived."""
        self._decided, self._decided_at = self._steady(), self._clock()
        if self._learnt is not None:
            self._latency.observe(self._decided - self._learnt)
            self._learnt = None
        self._neighbours.total += told_between(self._entered_at, self._decided_at)

    def stepped(self, next_round: int) -> None:
        """Note that the step is done and durable; its release is for the next planned round."""
        now = self._steady()
        self._step.observe(now - self._began)
        self._learnt = self._closed
        if self._closed > self._decided:
            self._data.total += self._closed - self._decided
        self._plan.total += told_between(self._decided_at, self._plan_read(next_round))
        self._entered_at = self._decided_at = self._clock()  # a closing round opens no slot
        self._decided = self._closed = now

    def _plan_read(self, round: int) -> float:
        """Return when the round's plan was read: by the current event, unless noted before."""
        while self._plans and self._plans[0][0] < round:
            self._plans.popleft()
        return self._plans[0][1] if self._plans else self._began_at


_OF_A_SOURCE = {
    Notice.GIVEN_UP: SharedMetric.GIVEN_UP,
    Notice.CORRECTED: SharedMetric.CORRECTED,
    Notice.EVIDENCE: SharedMetric.EVIDENCE,
    Notice.DUPLICATE: SharedMetric.IGNORED,
    Notice.STALE: SharedMetric.IGNORED,
    Notice.OVERFULL: SharedMetric.IGNORED,
}
_OF_THE_NODE = {
    Notice.PLAN_IGNORED: SharedMetric.PLANS_IGNORED,
    Notice.JOINING: SharedMetric.JOINS,
    Notice.ACCUSED: SharedMetric.ACCUSED,
}


class SharedFigures:
    """The shared figures of one node; `record` is the journal's last one at the start of the process.

    `clock` gives the moments of steps, in seconds since 1970. Gauges are computed at a scrape, so that a
    report costs a round next to nothing.
    """

    def __init__(
        self,
        registry: SharedRegistry,
        learner: Learner,
        sources: Iterable[str],
        record: JournalRecord | None,
        connected: Callable[[], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        sources = tuple(sources)
        self._record, self._connected, self._clock = record, connected, clock
        self._decided: Decided | None = None
        self._edges: tuple[str, ...] = ()
        self._stepped_at = 0.0
        self._process = ProcessFigures(registry, connected, [reason.value for reason in Reason])
        self._sent = registry.counter(SharedMetric.SENT)
        self._received = {source: registry.counter(SharedMetric.RECEIVED, source) for source in sources}
        of_a_source = {
            (metric, source): registry.counter(metric, source)
            for metric in dict.fromkeys(_OF_A_SOURCE.values())
            for source in sources
        }
        self._noticed = {
            (notice, source): of_a_source[metric, source]
            for notice, metric in _OF_A_SOURCE.items()
            for source in sources
        }
        self._own = {notice: registry.counter(metric) for notice, metric in _OF_THE_NODE.items()}
        self._rounds = registry.counter(SharedMetric.ROUNDS)
        self._interval = registry.histogram(SharedMetric.INTERVAL)
        registry.gauge(SharedMetric.ROUND, lambda: self._record.stepped if self._record else 0)
        registry.gauge(SharedMetric.LAST_ROUND, lambda: told(self._stepped_at))
        registry.gauge(SharedMetric.EDGES_ON, lambda: len(self._edges))
        self._last: Plan | None = None
        registry.gauge(SharedMetric.PLANNED, lambda: self._last.round if self._last else 0)
        registry.gauge(SharedMetric.MEMBERS, lambda: len(self._last.members) if self._last else 0)
        registry.gauge(SharedMetric.LEAD, self._lead)
        self._heard_at = dict.fromkeys(sources, 0.0)
        for source in sources:
            registry.gauge(SharedMetric.EDGE_ON, partial(self._is_on, source), source)
            registry.gauge(SharedMetric.LAST_HEARD, partial(self._heard, source), source)
        registry.gauge(SharedMetric.GAP, lambda: _gap(self._decided))
        show_account(registry, learner, lambda: self._record)

    def missing(self) -> str | None:
        """Return what the node waits for before it can do rounds, or None; independent of its data."""
        if not self._connected():
            return NO_BROKER
        return "no plan that names this node is acted on yet" if self._decided is None else None

    def noticed(self, report: Noticed[Notice]) -> None:
        """Count an event that the node has noticed."""
        counter = self._noticed.get((report.notice, report.peer)) or self._own.get(report.notice)
        if counter is not None:
            counter.total += 1

    def decided(self, report: Decided) -> None:
        """Record a round's releases."""
        self._edges = report.edges
        self._decided = report

    def stepped(self, report: Stepped[JournalRecord]) -> None:
        """Record the result of a round's step."""
        now, before = self._clock(), self._stepped_at
        self._rounds.total += 1
        if before:
            self._interval.observe(max(0.0, now - before), told_between(before, now))
        self._record, self._stepped_at = report.record, now

    def sent(self, count: int) -> None:
        """Count releases that went out."""
        self._sent.total += count

    def received(self, source: str) -> None:
        """Count a release that came in."""
        self._received[source].total += 1
        self._heard_at[source] = self._clock()

    def refused(self, reason: Reason) -> None:
        """Count a peer's message that was refused."""
        self._process.refused(reason.value)

    def planned(self, last: Plan) -> None:
        """Record the last plan."""
        self._last = last

    def _lead(self) -> int:
        stepped = self._record.stepped if self._record else 0
        return max(0, self._last.round - stepped) if self._last else 0

    def _heard(self, source: str) -> float:
        return told(self._heard_at[source])

    def _is_on(self, source: str) -> int:
        return source in self._edges


def _gap(decided: Decided | None) -> float:
    if decided is None or not decided.heard:
        return 0.0
    with np.errstate(all="ignore"):  # releases may be large
        return max(float(np.sqrt(((release - decided.own) ** 2).sum())) for release in decided.heard)


def show_account(
    registry: SharedRegistry, learner: Learner, record: Callable[[], JournalRecord | None]
) -> None:
    """Show a node's account after the record.

    At event level the stream costs no more than one release, and of a unit no more than its rounds, so there
    is no budget.
    """
    ledger, gauge = learner.ledger, registry.gauge
    of_release = inf if ledger.epsilon is None else rounded_up(ledger.epsilon)
    promised = of_release if ledger.unit_epsilon is None else rounded_up(ledger.unit_epsilon)
    protected = "event" if ledger.unit_epsilon is None else "unit"
    last = ledger.last_learning_round

    def charged() -> tuple[int, int]:
        now = record()
        return (now.charged, now.stepped) if now else (0, 0)

    def relaying() -> bool:
        now = record()
        return now is not None and not ledger.may_learn(now.round, now.charged)

    gauge(SharedMetric.MECHANISM, lambda: 1, learner.mechanism.name)
    if ledger.unit_epsilon is None:
        gauge(SharedMetric.OF_RELEASE, lambda: of_release, "event")
    gauge(SharedMetric.OF_RELEASE, lambda: ledger.spent(1, 1), "stream")
    gauge(SharedMetric.SPENT, lambda: promised if charged()[0] or promised == inf else 0.0, protected)
    gauge(SharedMetric.SPENT, lambda: ledger.spent(*charged()), "stream")
    gauge(
        SharedMetric.BUDGET, lambda: inf if ledger.budget is None else _rounded_down(ledger.budget), "stream"
    )
    gauge(SharedMetric.LEFT, lambda: ledger.left(*charged()), "stream")
    gauge(SharedMetric.LAST_LEARNING, lambda: inf if last is None else last)
    gauge(SharedMetric.RELAYING, relaying)
    gauge(SharedMetric.UNUSED, lambda: max(0, (last or 0) - charged()[0]) if relaying() else 0)
    gauge(SharedMetric.SIMULATED, lambda: learner.mechanism.simulated)


def _rounded_down(value: Fraction) -> float:
    return -rounded_up(-value)
