"""The start and orderly end that all processes share: signals, failures, liveness, service manager."""

import faulthandler
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from threading import Event, Thread
from types import FrameType, TracebackType
from typing import Protocol, Self, TypeVar

from sdnotify import SystemdNotifier  # type: ignore[import-untyped] # it ships no types

from streams.bus.bus import BusError, ClientFailed, Denied, OffsetOutOfRange, Unreachable
from streams.bus.connection import LOGGER
from streams.log_events import LogEvent
from streams.mesh.user_code import interrupt

# Checks that the parts of a process still run, independently of its brokers and its data.
#
# Each part gives signs of life in its own thread. Any thread may ask for them.


class Pulse:
    """The signs of life of one part. No sign is expected before the first, or between `rest` and `wake`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None
        self._resting = False

    def beat(self) -> None:
        """Give a sign of life."""
        self._last = self._clock()

    def begin(self) -> None:
        """Expect signs of life from now on, if there has been no sign yet."""
        if self._last is None:
            self.beat()

    def wake(self) -> None:
        """Expect signs of life from now on, as the part begins, also after a rest."""
        self._resting = False
        self.beat()

    def rest(self) -> None:
        """Expect no more signs of life, as the part has ended."""
        self._resting = True

    @property
    def rests(self) -> bool:
        """Whether no more signs are expected."""
        return self._resting

    @property
    def age(self) -> float:
        """The seconds since the last sign; 0 if none is expected."""
        last = self._last
        return 0.0 if last is None or self._resting else self._clock() - last


class Liveness:
    """Finds a part that makes no progress, and logs it once.

    A part makes no progress if its pulse is older than `limit` seconds. Each function in `threads` returns
    whether its thread is alive.
    """

    def __init__(
        self,
        limit: float,
        pulses: Mapping[str, Pulse],
        threads: Mapping[str, Callable[[], bool]],
        log: logging.Logger,
    ) -> None:
        self._limit, self._pulses, self._threads, self._log = limit, pulses, threads, log
        self._said: set[str] = set()

    def stalled(self) -> str | None:
        """Return a sentence on the first part that makes no progress; None while all work."""
        for name, is_alive in self._threads.items():
            if not is_alive():
                return self._say(name, f"{name} is dead")
        for name, pulse in self._pulses.items():
            age = pulse.age
            if age > self._limit:
                return self._say(name, f"{name} has not turned for {age:.0f} s")
            self._said.discard(name)
        return None

    def _say(self, name: str, reason: str) -> str:
        if name not in self._said:
            self._said.add(name)
            self._log.error("%s: the process must be restarted", reason, extra=LogEvent.STALLED.of())
        return reason


# The start and the orderly end that all processes share: signals, failures, the service manager.

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


SLICE = 0.05
"""Polling interval of a wait, in seconds."""


class Asked:
    """An event that a signal handler may set. `threading.Event` needs a lock, which may be held then.

    `looks` beats whenever the event is read, as a start does while it waits.
    """

    def __init__(self) -> None:
        self._set, self.looks = False, Pulse()

    def is_set(self) -> bool:
        """Return whether the event is set."""
        self.looks.beat()
        return self._set

    def set(self) -> None:
        """Set the event."""
        self._set = True

    def wait(self, timeout: float) -> bool:
        """Wait up to this many seconds, and return whether the event is set."""
        end = time.monotonic() + timeout
        while not self._set and (seconds_left := end - time.monotonic()) > 0:
            self.looks.beat()
            time.sleep(min(seconds_left, SLICE))
        return self._set


class Stop:
    """A context in which SIGTERM or SIGINT sets `asked` and does the actions of `then`, in the main thread.

    `exit_code` is that of a process asked to stop. `stays`: at the end of the run the process waits, idle,
    until it is asked to stop.
    """

    def __init__(self, *, stays: bool = False) -> None:
        self.asked = Asked()
        self.stays = stays
        self.exit_code = 0
        self._then: list[Callable[[], object]] = []

    def then(self, action: Callable[[], object]) -> None:
        """Add an `action` for a signal; do it at once if a signal has come already."""
        self._then.append(action)
        if self.asked.is_set():
            action()

    def forget(self) -> None:
        """Drop the actions, as the work that they would end is over.

        A process that begins again adds new ones.
        """
        self._then.clear()

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
    """The process cannot continue."""

    exit_code = 1


class LogCut(Failed):
    """A log has lost its end meanwhile. The process must find its position again, as after a crash."""


class NodeCanStart(Failed):
    """A node that could not start with its process can now: all nodes of the process begin again with it."""


BEGINS_AGAIN = (LogCut, NodeCanStart, ClientFailed)
"""The errors after which a process begins again with new clients, without a new operating-system process."""


class Unmendable(Failed):
    """The process cannot continue, and a new start would fail too, as the settings must change."""

    exit_code = 2


def lacking(newer: int, own: int) -> str:
    """Return the beginning of a line for the operator: the generation of plans, and of the mesh file."""
    return f"plans are made by the mesh file of generation {newer}, which this process lacks (its own: {own})"


T = TypeVar("T")

AGAIN = 0.2
"""Seconds between requests to a broker that is away."""
FLUSH = 1.0
"""Seconds of one wait for acknowledgements."""


class Ask(Protocol):
    """Makes a request to the bus, and repeats it if the bus is unreachable or a log is cut meanwhile."""

    def __call__(self, question: Callable[[], T], /) -> T:
        """Return the answer. Raises the request's other errors."""


class ProcessStopped(BaseException):  # like KeyboardInterrupt, so that `except Exception` does not catch it
    """The process was asked to stop before it had begun."""


class Interruptible:
    """A context in which a signal raises ProcessStopped, as a read from a pipe may never return.

    Outside of the context a signal only sets `stop.asked`, and the next wait ends at once.
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
        """Sleep. Raises ProcessStopped."""
        with self:
            time.sleep(seconds)

    def _leave(self) -> None:
        if self._inside:
            self._inside = False
            interrupt(ProcessStopped)


def retry_until_reachable(stop: Stop, ask: Callable[[], T]) -> T:
    """Return the result of `ask`, repeated while its broker is away. Raises ProcessStopped and as `ask`."""
    while not stop.asked.is_set():
        try:
            return ask()
        except (Unreachable, OffsetOutOfRange) as away:  # out of range: a log was cut meanwhile
            text = str(away)  # a kind is a text
            LOGGER.warning("waiting for the broker: %s", text, extra=LogEvent.BROKER_AWAY.of())
            stop.asked.wait(AGAIN)
    raise ProcessStopped


def unreadable(topic: str, error: BusError) -> Failed | ClientFailed:
    """Return the failure of a process whose reader can no longer read a topic."""
    if isinstance(error, ClientFailed):  # it is the producer, which the reader's thread serves
        return error
    if isinstance(error, Denied):  # it names the topic and what gives the right
        return Failed(str(error))
    kind = LogCut if isinstance(error, OffsetOutOfRange) else Failed
    return kind(f"{topic} cannot be read any more: {error}")


PERIOD = 1.0
"""Longest time between two calls of `works`, in seconds."""


class ServiceManager:
    """The service manager of this process; calls have no effect unless the environment names its socket.

    Call `works` every `period` seconds from the working loop. The first call reports that the process is
    ready. A watchdog that gets no call within its time kills and restarts the process; the log then shows the
    place of each thread.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._notifier = SystemdNotifier() if environment.get("NOTIFY_SOCKET") else None
        watchdog = environment.get("WATCHDOG_USEC", "")
        self.period = min(PERIOD, int(watchdog) / 4e6) if watchdog.isdecimal() else PERIOD
        self._ready = False
        if self._notifier is not None and self._notifier.socket is not None:
            self._notifier.socket.settimeout(0)  # a manager that does not listen must not delay the loop
        if self._notifier is not None and watchdog:
            faulthandler.enable()  # a watchdog ends it with SIGABRT

    def attend(
        self,
        every: Callable[[float, Callable[[], None]], None],
        stalled: Callable[[], str | None],
        stop: Stop,
    ) -> None:
        """Report the state, repeated by `every`; `stalled` returns the part that stands still, if any."""

        def turned() -> None:
            stop.asked.looks.rest()  # the start is over
            self.works(stalled())

        every(self.period, turned)
        stop.then(self.stopping)

    def works(self, stalled: str | None) -> None:
        """Report that the process works; if a part stands still, report only that part."""
        if stalled is not None:
            self._tell(f"STATUS={stalled}")
            return
        self._tell("WATCHDOG=1" if self._ready else "READY=1\nSTATUS=works\nWATCHDOG=1")
        self._ready = True

    def stopping(self) -> None:
        """Report that the process ends."""
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


# Ends a process whose start hangs, so that its service manager starts it again.
#
# Nothing else detects a hanging start, as a watchdog and probes begin with the loop. A start may wait for a
# broker for as long as the broker is away. While it waits it checks `stop.asked` again and again.

LIMIT = 300.0
"""Seconds for which a start may not check its stop, because it reads a journal or a log of the broker."""
_PERIOD = 1.0


def end_hung() -> None:
    """End this process at once, and log the place of each of its threads."""
    faulthandler.dump_traceback(all_threads=True)
    os._exit(1)


class StartWatch:
    """Watches the start of a process, in a thread, and calls `end` if the start hangs.

    While it starts, a process looks again and again whether it was asked to stop; a start that has not looked
    for `limit` seconds hangs. The watch ends with the context, or when the process no longer looks. A process
    that begins anew starts again, and is watched again.
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
