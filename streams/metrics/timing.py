"""Where a node's rounds go: waiting for neighbours, for records, for the next plan; and the step itself."""

import time
from collections.abc import Callable

from streams.metrics.catalogue import PrivateMetric, SharedMetric
from streams.metrics.registry import PrivateRegistry, SharedRegistry


class Timing:
    """Told of each moment as it comes, in the machine's turn. Waiting for records tells about the data."""

    def __init__(
        self, shared: SharedRegistry, private: PrivateRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._neighbours = shared.counter(SharedMetric.NEIGHBOUR_WAIT)
        self._plan = shared.counter(SharedMetric.PLAN_WAIT)
        self._data = private.counter(PrivateMetric.DATA_WAIT)
        self._step = private.histogram(PrivateMetric.STEP)
        self._began = self._entered = self._decided = self._closed = clock()

    def began(self) -> None:
        """The machine begins to handle something."""
        self._began = self._clock()

    def entered(self) -> None:
        """A round is entered: its slot is open, and its releases are awaited."""
        self._entered = self._decided = self._closed = self._clock()

    def closed(self) -> None:
        """The round's slot is there."""
        self._closed = self._clock()

    def decided(self) -> None:
        """Its releases are."""
        self._decided = self._clock()
        self._neighbours.total += self._decided - self._entered

    def stepped(self) -> None:
        """The step is done, and durable."""
        self._step.observe(self._clock() - self._began)
        ready = self._decided
        if self._closed > ready:
            self._data.total += self._closed - ready
            ready = self._closed
        if self._began > ready:
            self._plan.total += self._began - ready
