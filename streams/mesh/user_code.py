"""Interrupts: passes them through a user's code, which could swallow them, and ends a command in order."""

import signal
import threading
from types import FrameType, TracebackType
from typing import NoReturn, Self

from nodes.contained import Contained

# Passes the exceptions of signal handlers through a user's code, which could otherwise swallow them.


class _Raised:
    """The number of exceptions that handlers have raised, and the last one."""

    count = 0
    last: type[BaseException] = KeyboardInterrupt


def interrupt(kind: type[BaseException]) -> NoReturn:
    """Raise an exception of this class from a signal handler. It is raised again after a user's code."""
    _Raised.count += 1
    _Raised.last = kind
    raise kind


def interrupted(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 # a handler's signature
    """Handle SIGINT as Python does, and note the exception."""
    interrupt(KeyboardInterrupt)


class UserCode(Contained):
    """A context for a user's code. It swallows every exception except those that a signal handler raised.

    If Python's own handler is installed, which does not note its exceptions, a KeyboardInterrupt counts as a
    Ctrl-C.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> Self:
        self._before = _Raised.count
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if threading.current_thread() is threading.main_thread():  # Python handles signals in the main thread
            if _Raised.count != self._before:
                raise _Raised.last from None
            unnoted = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            if unnoted and kind is not None and issubclass(kind, KeyboardInterrupt):
                raise KeyboardInterrupt from None
        return super().__exit__(kind, error, trace)


# Ends a command in order at the first Ctrl-C, SIGTERM or SIGHUP, and at once at the second.


class OrderlyEnd:
    """A context that ends a command in order. The first Ctrl-C, SIGTERM or SIGHUP sets `asked`.

    The next raises KeyboardInterrupt, at once and again at the end of the context, because Python drops
    exceptions inside a finalizer. A SIGHUP that is ignored at the beginning stays ignored.
    """

    def __init__(self) -> None:
        self.asked = False
        self._stopped = False

    def __enter__(self) -> Self:
        signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup does that
            signals.remove(signal.SIGHUP)
        self._before = {number: signal.signal(number, self._ask) for number in signals}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # after the second signal the process only writes its results, which a third signal must not interrupt
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._stopped else before)
        if self._stopped and kind is None:
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 # a handler's signature
        if self.asked:
            self._stopped = True
            interrupt(KeyboardInterrupt)
        self.asked = True
