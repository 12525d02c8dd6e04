"""Bounds how long a node waits in all for the few neighbours that are slower than the others."""

from collections.abc import Callable
from typing import Protocol

EACH = 0.02
"""Seconds between looks at what a node waits for."""


class Waiting(Protocol):
    """Tells what a node waits for."""

    @property
    def held(self) -> bool:
        """Whether it waits for nothing but some neighbours, and has heard as many at least."""

    @property
    def done(self) -> bool:
        """Whether it waits for nothing but the next plan."""


class Patience:
    """What is left of `limit`, in seconds. Waiting for slow neighbours uses it up.

    All other time restores it, so a node spends at most half of its time with that; but not the time without
    a plan, in which the same neighbours may hold all others at the end of the plans. `clock` stands still
    while the broker is away. Call `look` each `EACH` seconds.
    """

    def __init__(self, limit: float, clock: Callable[[], float], node: Waiting) -> None:
        self._limit = self._left = limit
        self._clock, self._node, self._looked = clock, node, clock()

    @property
    def ended(self) -> bool:
        """Whether the node must not wait any more for those that it waits for."""
        return self._left == 0 and self._node.held

    def look(self) -> None:
        """Count the time since the last look by what the node waits for now."""
        now = self._clock()
        seconds, self._looked = now - self._looked, now
        if self._node.held:
            self._left = max(0.0, self._left - seconds)
        elif not self._node.done:
            self._left = min(self._limit, self._left + seconds)
