"""Where a node's rounds go: waiting for neighbours, for records, for the next plan; and the step itself.

What everyone may see tells of the waits for neighbours and plans alone, never of the own slot's, and gives
moments to `GRAIN` alone: by a finer clock, the time of a step tells of its records.
"""

import math
import time
from collections import deque
from collections.abc import Callable

from streams.metrics.catalogue import PrivateMetric, SharedMetric
from streams.metrics.registry import PrivateRegistry, SharedRegistry

GRAIN = 10
"""So many moments a second are told apart in what everyone may see."""
_PLANS = 4096  # no node is planned further ahead


def told(moment: float) -> float:
    """Return a moment, in seconds, as everyone may see it: rounded down to a tenth of a second."""
    return math.floor(moment * GRAIN) / GRAIN


def told_between(first: float, last: float) -> float:
    """Return the seconds between two moments as everyone may see them: 0 where the clock was set back."""
    return max(0, math.floor(last * GRAIN) - math.floor(first * GRAIN)) / GRAIN


class Timing:
    """Told of each moment as it comes, in the machine's turn. Waiting for records tells about the data.

    `clock` gives the moments that everyone may see, in seconds since 1970: one clock for all of them, since
    two would tell a moment more finely. `steady` is for what the owner alone sees.
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
        self._began_at = self._entered_at = self._decided_at = clock()
        self._began = self._decided = self._closed = steady()
        self._planned = 0
        self._plans = deque[tuple[int, float]](maxlen=_PLANS)  # (up to which round, when that was read)

    def began(self) -> None:
        """The machine begins to handle something."""
        self._began, self._began_at = self._steady(), self._clock()

    def entered(self) -> None:
        """A round is entered: its slot is open, and its releases are awaited."""
        self._entered_at = self._decided_at = self._clock()
        self._decided = self._closed = self._steady()

    def closed(self) -> None:
        """The round's slot is there."""
        self._closed = self._steady()

    def planned(self, round: int) -> None:
        """Plans up to that round are there, those of the start included."""
        if round > self._planned:
            self._planned = round
            self._plans.append((round, self._began_at))

    def decided(self) -> None:
        """The round's releases are there."""
        self._decided, self._decided_at = self._steady(), self._clock()
        self._neighbours.total += told_between(self._entered_at, self._decided_at)

    def stepped(self, next_round: int) -> None:
        """The step is done, and durable; its release is for the next planned round."""
        now = self._steady()
        self._step.observe(now - self._began)
        if self._closed > self._decided:
            self._data.total += self._closed - self._decided
        self._plan.total += told_between(self._decided_at, self._plan_read(next_round))

    def _plan_read(self, round: int) -> float:
        """Return when the round's plan was read: with what is handled now, unless it was noted before."""
        while self._plans and self._plans[0][0] < round:
            self._plans.popleft()
        return self._plans[0][1] if self._plans else self._began_at
