"""One queue and its timers, worked off by one thread: what a machine's process does, it does here."""

import heapq
import itertools
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

Action = Callable[[], None]


def _nothing() -> None:
    pass


class Loop:
    """Does what was put, in order, one at a time, and `before` before each; `idle` when nothing waits.

    `put` from any thread; all else from the one that runs.
    """

    def __init__(self, before: Action = _nothing, idle: Action = _nothing) -> None:
        self._before, self._idle = before, idle
        self._queue: SimpleQueue[Action] = SimpleQueue()
        self._timers: list[tuple[float, int, Action]] = []
        self._order = itertools.count()
        self._running = True

    def put(self, action: Action) -> None:
        """Do `action` when those before it are done."""
        self._queue.put(action)

    @property
    def waiting(self) -> int:
        """How many actions were put, and are not begun. From any thread."""
        return self._queue.qsize()

    def fail(self, error: Exception) -> None:
        """Let `run` raise it, when what was put before is done. From any thread."""

        def raise_it() -> None:
            raise error

        self.put(raise_it)

    def after(self, seconds: float, action: Action) -> None:
        """Do `action` once, that many seconds from now."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), action))

    def every(self, seconds: float, action: Action) -> None:
        """Do `action` again and again, `seconds` apart; the first time after as many."""

        def again() -> None:
            self.every(seconds, action)
            action()

        self.after(seconds, again)

    def stop(self) -> None:
        """Do nothing more after what is being done. From any thread."""
        self._running = False
        self._queue.put(lambda: None)  # wakes it

    def run(self) -> None:
        """Work until `stop`. What an action raises comes out here."""
        while self._running:
            if self._queue.empty():
                self._idle()
            action = self._next()
            if action is not None and self._running:
                self._before()
                action()

    def _next(self) -> Action | None:
        if not self._timers:
            return self._queue.get()
        left = self._timers[0][0] - time.monotonic()
        if left <= 0:
            return heapq.heappop(self._timers)[2]
        try:
            return self._queue.get(timeout=left)
        except Empty:
            return None
