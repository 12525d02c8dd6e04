"""SIGTERM and Ctrl-C: an orderly end, asked for once."""

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


SLICE = 0.05
"""Seconds between two looks of one that waits."""


class Asked:
    """An event that a signal handler may set: `threading.Event` takes a lock, and may hold it just then."""

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._set

    def set(self) -> None:
        """Let it have happened."""
        self._set = True

    def wait(self, timeout: float) -> bool:
        """Wait up to that many seconds for it, and return whether it has happened."""
        end = time.monotonic() + timeout
        while not self._set and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, SLICE))
        return self._set


class Stop:
    """While its context lasts, either signal sets `asked` and does what `then` was told, in the main thread.

    `exit_code` is that of a process which was asked to stop.
    """

    def __init__(self) -> None:
        self.asked = Asked()
        self.exit_code = 0
        self._then: list[Callable[[], object]] = []

    def then(self, action: Callable[[], object]) -> None:
        """Do `action` too: at once where a signal has come already."""
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
