"""The metrics of a collaboration's learner, and of an owner."""

from collections.abc import Callable, Iterable
from math import inf

from nodes.checks import rounded_up
from nodes.collaboration.messages import CollaborationNotice, QueryRecord, ResponseRecord
from nodes.privacy.query import QueryMechanism
from nodes.protocol import Noticed
from streams.codec import Reason
from streams.metrics.catalogue import PrivateMetric, SharedMetric
from streams.metrics.registry import NO_BROKER, PrivateRegistry, ProcessFigures, SharedRegistry


class _Party:
    """The metrics that learner and owner share: process and progress.

    `connected`: whether the broker answers.
    """

    def __init__(
        self, mesh: str, name: str, queries: int, done: int, connected: Callable[[], bool], ends: float
    ) -> None:
        self.shared = SharedRegistry(mesh=mesh, node=name)
        self._done, self._connected = done, connected
        self._process = ProcessFigures(self.shared, connected, [reason.value for reason in Reason])
        self.shared.gauge(SharedMetric.CERTIFICATE, lambda: ends)
        self.shared.gauge(SharedMetric.QUERY, lambda: self._done)
        self.shared.gauge(SharedMetric.QUERIES, lambda: queries)

    def missing(self) -> str | None:
        """Return what the process waits for, or None."""
        return None if self._connected() else NO_BROKER

    def refused(self, reason: Reason) -> None:
        """Count a peer's message that was refused."""
        self._process.refused(reason.value)


class LearnerMetrics(_Party):
    """The learner's metrics: all shared, as it sees nothing private. `asked`: the journal's last query."""

    def __init__(
        self,
        mesh: str,
        name: str,
        owners: Iterable[str],
        queries: int,
        asked: int,
        *,
        connected: Callable[[], bool],
        ends: float = inf,
    ) -> None:
        super().__init__(mesh, name, queries, asked, connected, ends)
        self._answered = 0
        self.shared.gauge(SharedMetric.ANSWERED, lambda: self._answered)
        names, counter = tuple(owners), self.shared.counter
        self._counts = {
            CollaborationNotice.LEFT_OUT: {owner: counter(SharedMetric.LEFT_OUT, owner) for owner in names},
            CollaborationNotice.EVIDENCE: {
                owner: counter(SharedMetric.SECOND_RESPONSES, owner) for owner in names
            },
        }

    def stepped(self, record: QueryRecord) -> None:
        """Count the next query, which is durable now."""
        self._done, self._answered = record.number, len(record.answers)

    def noticed(self, noticed: Noticed[CollaborationNotice]) -> None:
        """Count a notice."""
        counted = self._counts.get(noticed.notice)
        if counted is not None:
            counted[noticed.peer].total += 1


class OwnerMetrics(_Party):
    """One owner's metrics: serve `shared` to all, and `private` to the owner only.

    `last`: the journal's last answer. The account is that of one record: adjacency event.
    """

    def __init__(
        self,
        mesh: str,
        name: str,
        mechanism: QueryMechanism,
        last: ResponseRecord | None,
        *,
        connected: Callable[[], bool],
        journal_bytes: Callable[[], int],
        ends: float = inf,
    ) -> None:
        super().__init__(mesh, name, mechanism.queries, last.query if last else 0, connected, ends)
        self.private = PrivateRegistry(mesh=mesh, node=name)
        self._charged = last.charged if last else 0
        total_epsilon = mechanism.spent(mechanism.queries)
        gauge = self.shared.gauge
        gauge(SharedMetric.MECHANISM, lambda: 1, mechanism.name)
        gauge(SharedMetric.SPENT, lambda: self._spent(mechanism), "event")
        gauge(SharedMetric.BUDGET, lambda: -rounded_up(-mechanism.own_epsilon), "event")
        gauge(SharedMetric.LEFT, lambda: max(0.0, total_epsilon - self._spent(mechanism)), "event")
        gauge(SharedMetric.SIMULATED, lambda: mechanism.simulated)
        self._refusals = {
            notice: self.shared.counter(SharedMetric.QUERIES_REFUSED, notice.name.lower())
            for notice in (
                CollaborationNotice.CHANGED,
                CollaborationNotice.SKIPPED,
                CollaborationNotice.BEYOND,
            )
        }
        self._pass = self.private.histogram(PrivateMetric.PASS)
        self.private.gauge(PrivateMetric.JOURNAL, journal_bytes)
        self.private.gauge(PrivateMetric.RUN_OVER, lambda: self.private.run_over)

    def answered(self, record: ResponseRecord) -> None:
        """Count an answer, which is durable now."""
        self._done, self._charged = record.query, record.charged

    def noticed(self, noticed: Noticed[CollaborationNotice]) -> None:
        """Count a notice."""
        if noticed.notice in self._refusals:
            self._refusals[noticed.notice].total += 1

    def read(self, seconds: float) -> None:
        """Record how long a pass took."""
        self._pass.observe(seconds)

    def _spent(self, mechanism: QueryMechanism) -> float:
        return mechanism.spent(self._charged) if self._charged else 0.0
