"""The metrics of a scheduler's process: all shared, as it sees nothing private."""

from collections.abc import Callable

from streams.codec import Reason
from streams.metrics.catalogue import SharedMetric
from streams.metrics.registry import NO_BROKER, ProcessFigures, SharedRegistry
from topology.plans import Plan
from topology.scheduler_events import Refusal

_REASONS = {reason: reason.value for reason in Reason} | {
    refusal: refusal.name.lower() for refusal in Refusal
}


class SchedulerMetrics:
    """One scheduler's metrics, to be served from `shared`."""

    def __init__(self, mesh: str, *, connected: Callable[[], bool]) -> None:
        self.shared = SharedRegistry(mesh=mesh)
        self._connected = connected
        self._process = ProcessFigures(self.shared, connected, _REASONS.values())
        self._published = self.shared.counter(SharedMetric.PUBLISHED)
        self._plan: Plan | None = None
        self._live, self._slowest = 0, 0
        self.shared.gauge(SharedMetric.PLANNED, self._planned)
        self.shared.gauge(SharedMetric.MEMBERS, lambda: len(self._plan.members) if self._plan else 0)
        self.shared.gauge(SharedMetric.LIVE, lambda: self._live)
        self.shared.gauge(SharedMetric.LEAD, self._lead)

    def missing(self) -> str | None:
        """Return what it waits for before it can plan, or None."""
        if not self._connected():
            return NO_BROKER
        return None if self._plan else "no round is planned yet: too few nodes were heard"

    def published(self) -> None:
        """Count a plan that this scheduler has published."""
        self._published.total += 1

    def planned(self, plan: Plan | None) -> None:
        """Take the last valid plan (SchedulerMachine.last)."""
        self._plan = plan

    def heard(self, live: int, slowest: int) -> None:
        """Take the number of live nodes, and the last step of the slowest."""
        self._live, self._slowest = live, slowest

    def refused(self, reason: Reason | Refusal) -> None:
        """Count a record that was refused."""
        self._process.refused(_REASONS[reason])

    def _planned(self) -> int:
        return self._plan.round if self._plan else 0

    def _lead(self) -> int:
        return max(0, self._planned() - self._slowest) if self._live else 0
