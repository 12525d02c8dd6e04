"""Handles SIGTERM and Ctrl-C: they ask for an orderly end."""

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

from streams.bus.bus import ClientFailed
from streams.live.liveness import Pulse

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


SLICE = 0.05
"""Polling interval of a wait, in seconds."""


class Asked:
    """An event that a signal handler may set; `threading.Event` takes a lock, which may be held then.

    `looks` beats whenever somebody looks at it, as a start does while it waits.
    """

    def __init__(self) -> None:
        self._set, self.looks = False, Pulse()

    def is_set(self) -> bool:
        """Return whether it is set."""
        self.looks.beat()
        return self._set

    def set(self) -> None:
        """Set the event."""
        self._set = True

    def wait(self, timeout: float) -> bool:
        """Wait up to that many seconds, and return whether it is set."""
        end = time.monotonic() + timeout
        while not self._set and (left := end - time.monotonic()) > 0:
            self.looks.beat()
            time.sleep(min(left, SLICE))
        return self._set


class Stop:
    """A context in which either signal sets `asked` and does the actions of `then`, in the main thread.

    `exit_code` is that of a process asked to stop.
    """

    def __init__(self) -> None:
        self.asked = Asked()
        self.exit_code = 0
        self._then: list[Callable[[], object]] = []

    def then(self, action: Callable[[], object]) -> None:
        """Do `action` too; at once if a signal has come already."""
        self._then.append(action)
        if self.asked.is_set():
            action()

    def __enter__(self) -> Self:
        self._before = {
            number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 # a handler's signature
        if number == signal.SIGINT:
            self.exit_code = INTERRUPTED
        if not self.asked.is_set():
            self.asked.set()
            for action in self._then:
                action()


class ProcessExit(Exception):
    """The process is done; `reason` is a line for its log."""

    exit_code = 0

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Failed(ProcessExit):
    """The process cannot go on."""

    exit_code = 1


class LogCut(Failed):
    """A log has lost its end under the process: it has to find its place again, as after a crash."""


BEGINS_AGAIN = (LogCut, ClientFailed)
"""What a process mends by beginning again, with new clients, and without a new process."""


class Unmendable(Failed):
    """The process cannot go on, and starting it again does not mend that: the settings must change."""

    exit_code = 2
