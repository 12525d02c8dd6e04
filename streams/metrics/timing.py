"""Measures a node's rounds: waits for neighbours, records and the next plan, and the step itself.

Shared metrics show only the waits for neighbours and plans, never those for the node's own slot, and moments
only as fine as `GRAIN`: with a finer clock, the time of a step would reveal something of its records.
"""

import math
import time
from collections import deque
from collections.abc import Callable

from streams.metrics.catalogue import PrivateMetric, SharedMetric
from streams.metrics.registry import PrivateRegistry, SharedRegistry

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
    """Records each moment in the machine's turn. Waiting for records reveals something of them.

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
        """Note that plans up to that round are there, those of the start included."""
        if round > self._planned:
            self._planned = round
            self._plans.append((round, self._began_at))

    def decided(self) -> None:
        """Note that the round's releases are there."""
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

    def _plan_read(self, round: int) -> float:
        """Return when the round's plan was read: by the current event, unless noted before."""
        while self._plans and self._plans[0][0] < round:
            self._plans.popleft()
        return self._plans[0][1] if self._plans else self._began_at
