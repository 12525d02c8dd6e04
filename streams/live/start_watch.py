"""Ends a process whose start hangs, so that whoever keeps it running starts it again.

Nobody else notices: a watchdog and probes begin with the loop, and a start may wait for a broker as long as
it is away. While it waits it looks again and again whether it is to stop.
"""

import faulthandler
import logging
import os
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import Self

from streams.runtime.liveness import Liveness
from streams.runtime.process import Stop

LIMIT = 300.0
"""Seconds that a start may take without a look at its stop: it reads a journal, or a log of the broker."""
_PERIOD = 1.0


def end_hung() -> None:
    """End this process at once, with where each of its threads is in the log."""
    faulthandler.dump_traceback(all_threads=True)
    os._exit(1)


class StartWatch:
    """Watches a start until `stop.asked.looks` rests, or the context ends; calls `end` if it hangs.

    A process that begins again starts again, and is watched again.
    """

    def __init__(
        self, stop: Stop, log: logging.Logger, limit: float = LIMIT, end: Callable[[], None] = end_hung
    ) -> None:
        self._looks, self._end = stop.asked.looks, end
        self._liveness = Liveness(limit, {"the start": self._looks}, {}, log)
        self._over = Event()
        self._thread = Thread(target=self._watch, args=(min(_PERIOD, limit / 4),), name="start-watch")
        self._thread.daemon = True

    def _watch(self, period: float) -> None:
        while not self._looks.rests and not self._over.wait(period):
            if self._liveness.stalled() is not None:
                self._end()
                return

    def __enter__(self) -> Self:
        self._looks.wake()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
