"""The metrics of a scheduler's process: all shared, as it sees nothing private."""

import logging
import time
from collections.abc import Callable, Iterable
from math import inf, nan

from streams.codec import Reason
from streams.log_events import LogEvent
from streams.metrics.catalogue import SharedMetric
from streams.metrics.node_metrics import told
from streams.metrics.registry import NO_BROKER, Counter, ProcessFigures, SharedRegistry
from topology.lag import LeftOut
from topology.plans import Heartbeat, Plan
from topology.scheduler_events import Refusal

LOGGER = logging.getLogger("mirrormesh.scheduler")
_REASONS = {reason: reason.value for reason in Reason} | {
    refusal: refusal.name.lower() for refusal in Refusal
}


class SchedulerMetrics:
    """One scheduler's metrics, to be served from `shared`.

    `nodes`: the mesh file's nodes. `clock` gives the moments of heartbeats, in seconds since 1970. `ends`:
    when the first certificate for the broker expires. `generation`: the mesh file's.
    """

    def __init__(
        self,
        mesh: str,
        nodes: Iterable[str],
        *,
        connected: Callable[[], bool],
        ends: float = inf,
        generation: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.shared = SharedRegistry(mesh=mesh)
        self._connected, self._clock = connected, clock
        self._process = ProcessFigures(self.shared, connected, _REASONS.values())
        self.shared.gauge(SharedMetric.CERTIFICATE, lambda: ends)
        self._published = self.shared.counter(SharedMetric.PUBLISHED)
        self._plan: Plan | None = None
        self._live, self._slowest = 0, 0
        self.shared.gauge(SharedMetric.FILE_GENERATION, lambda: generation)
        self.shared.gauge(SharedMetric.PLAN_GENERATION, lambda: self._plan.generation if self._plan else 0)
        self.shared.gauge(SharedMetric.PLANNED, self._planned)
        self.shared.gauge(SharedMetric.MEMBERS, lambda: len(self._plan.members) if self._plan else 0)
        self.shared.gauge(SharedMetric.LIVE, lambda: self._live)
        self.shared.gauge(SharedMetric.LEAD, self._lead)
        self._nodes = {name: _Node(self.shared, name, lambda: self._plan) for name in nodes}
        self.shared.gauge(SharedMetric.NODES, lambda: len(self._nodes))

    def missing(self) -> str | None:
        """Return what the scheduler waits for before it can plan, or None."""
        if not self._connected():
            return NO_BROKER
        return None if self._plan else "no round is planned yet: too few nodes were heard"

    def published(self, count: int) -> None:
        """Count the plans that this scheduler has published."""
        self._published.total += count

    def planned(self, plan: Plan | None) -> None:
        """Record the last valid plan (SchedulerMachine.last)."""
        self._plan = plan

    def heard(self, live: int, slowest: int) -> None:
        """Record the number of live nodes, and the last step of the slowest."""
        self._live, self._slowest = live, slowest

    def silent(self, nodes: frozenset[str]) -> None:
        """Handle the nodes that are silent now; `live` counts the others."""

    def replayed(self, beat: Heartbeat, at: float) -> None:
        """Handle a heartbeat from the log, and when it was sent (seconds since 1970)."""
        self._nodes[beat.node].take(beat, min(at, self._clock()))  # by the sender's clock, which may be wrong

    def beat(self, beat: Heartbeat) -> None:
        """Handle a heartbeat read just now."""
        node = self._nodes[beat.node]
        if beat.hello and beat.boot != node.boot:
            node.starts.total += 1
        node.take(beat, self._clock())

    def refused(self, reason: Reason | Refusal) -> None:
        """Count a record that was refused."""
        self._process.refused(_REASONS[reason])

    def left_out(self, left: LeftOut) -> None:
        """Count and log a member that plans leave out because it delayed the others."""
        self._nodes[left.name].left_out.total += 1
        text = "%s has held the others for %.1f s: it is planned without for %.1f s, and may join again then"
        event = LogEvent.NODE_LEFT_OUT.of(peer=left.name)
        LOGGER.warning(text, left.name, left.held, left.seconds, extra=event)

    def _planned(self) -> int:
        return self._plan.round if self._plan else 0

    def _lead(self) -> int:
        return max(0, self._planned() - self._slowest) if self._live else 0


class _Node:
    """The content of one node's heartbeats. A node that left in order gives NaN, so it raises no alert."""

    def __init__(self, registry: SharedRegistry, name: str, last: Callable[[], Plan | None]) -> None:
        self._last = last
        self._beat: Heartbeat | None = None
        self.starts: Counter = registry.counter(SharedMetric.STARTS, name)
        self.left_out: Counter = registry.counter(SharedMetric.HELD_OTHERS, name)
        self.boot = ""
        self._seen, self._stepped = 0.0, 0
        registry.gauge(SharedMetric.LAST_SEEN, lambda: self._unless_left(told(self._seen)), name)
        registry.gauge(SharedMetric.NODE_ROUND, lambda: self._unless_left(self._stepped), name)

    def take(self, beat: Heartbeat, at: float) -> None:
        self._beat = beat
        self.boot, self._seen, self._stepped = beat.boot, at, beat.stepped

    def _unless_left(self, value: float) -> float:
        plan = self._last()
        return nan if self._beat is not None and plan is not None and self._beat.has_left(plan) else value
