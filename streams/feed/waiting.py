"""Where a feed waits, for its source or for a moment: SIGTERM and Ctrl-C cut that short."""

import time
from types import TracebackType

from streams.interrupts import interrupt
from streams.live.process import Stopped
from streams.live.stopping import Stop


class Waiting:
    """A context that a signal leaves with Stopped: a read from a pipe would go on for ever.

    Outside of it a signal only sets `stop.asked`, and the next wait ends before it begins.
    """

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._inside = False
        stop.then(self._leave)

    def __enter__(self) -> None:
        self._inside = True
        if self._stop.asked.is_set():
            self._leave()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside = False

    def sleep(self, seconds: float) -> None:
        """Sleep. Raises Stopped."""
        with self:
            time.sleep(seconds)

    def _leave(self) -> None:
        if self._inside:
            self._inside = False
            interrupt(Stopped)
