"""Tells systemd, if it has started the process, that it is ready, works, or stops."""

import faulthandler
import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from sdnotify import SystemdNotifier  # type: ignore[import-untyped] # it ships no types

from streams.live.stopping import BEGINS_AGAIN, Stop

PERIOD = 1.0
"""Longest time between two calls of `works`, in seconds."""


class ServiceManager:
    """The service manager of this process; nobody, unless the environment names its socket.

    Call `works` every `period` seconds from the loop that works: the first call says that the process is
    ready. A watchdog that hears nothing for its time kills and restarts the process; the log then shows where
    each thread was.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._notifier = SystemdNotifier() if environment.get("NOTIFY_SOCKET") else None
        watchdog = environment.get("WATCHDOG_USEC", "")
        self.period = min(PERIOD, int(watchdog) / 4e6) if watchdog.isdecimal() else PERIOD
        self._ready = False
        if self._notifier is not None and self._notifier.socket is not None:
            self._notifier.socket.settimeout(0)  # who does not listen must not hold up the loop
        if self._notifier is not None and watchdog:
            faulthandler.enable()  # a watchdog ends it with SIGABRT

    def attend(
        self,
        every: Callable[[float, Callable[[], None]], None],
        stalled: Callable[[], str | None],
        stop: Stop,
    ) -> None:
        """Tell all of a process: `every` repeats an action in its loop, `stalled` says what stands still."""

        def turned() -> None:
            stop.asked.looks.rest()  # the start is over
            self.works(stalled())

        every(self.period, turned)
        stop.then(self.stopping)

    def works(self, stalled: str | None) -> None:
        """Say that the process works, or which part of it stands still, and then nothing else."""
        if stalled is not None:
            self._tell(f"STATUS={stalled}")
            return
        self._tell("WATCHDOG=1" if self._ready else "READY=1\nSTATUS=works\nWATCHDOG=1")
        self._ready = True

    def stopping(self) -> None:
        """Say that the process ends."""
        self._tell("STOPPING=1\nSTATUS=stops")

    def _tell(self, state: str) -> None:
        if self._notifier is not None:
            self._notifier.notify(state)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, BEGINS_AGAIN):  # after which the process begins again
            self.stopping()
        if self._notifier is not None and self._notifier.socket is not None:
            self._notifier.socket.close()
