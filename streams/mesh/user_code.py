"""Interrupts: through a user's code, which could swallow them, and as an orderly end of a command."""

import signal
import threading
from types import FrameType, TracebackType
from typing import NoReturn, Self

from nodes.contained import Contained

# Passes exceptions of signal handlers through a user's code, which could otherwise swallow them.


class _Raised:
    """The number of exceptions that handlers have raised, and the last one."""

    count = 0
    last: type[BaseException] = KeyboardInterrupt


def interrupt(kind: type[BaseException]) -> NoReturn:
    """Raise it from a signal handler; after a user's code it is raised again."""
    _Raised.count += 1
    _Raised.last = kind
    raise kind


def interrupted(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 # a handler's signature
    """Handle SIGINT as Python does, and note it."""
    interrupt(KeyboardInterrupt)


class UserCode(Contained):
    """A context that swallows everything except what a signal handler raised meanwhile.

    If Python's own handler is in place, which notes nothing, a KeyboardInterrupt counts as a Ctrl-C.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> Self:
        self._before = _Raised.count
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if threading.current_thread() is threading.main_thread():  # Python handles signals there
            if _Raised.count != self._before:
                raise _Raised.last from None
            unnoted = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            if unnoted and kind is not None and issubclass(kind, KeyboardInterrupt):
                raise KeyboardInterrupt from None
        return super().__exit__(kind, error, trace)


# Ends a command in order at the first Ctrl-C, SIGTERM or SIGHUP, and at once at the second.


class OrderlyEnd:
    """The first Ctrl-C, SIGTERM or SIGHUP sets `asked`. The next raises KeyboardInterrupt, at once and again
    at the end of the context, as Python drops exceptions inside a finalizer. If SIGHUP is ignored, it stays
    ignored.
    """

    def __init__(self) -> None:
        self.asked = False
        self._stopped = False

    def __enter__(self) -> Self:
        signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # by nohup
            signals.remove(signal.SIGHUP)
        self._before = {number: signal.signal(number, self._ask) for number in signals}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # after two of them the process only writes its results: a third must not interrupt that
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._stopped else before)
        if self._stopped and kind is None:
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 # a handler's signature
        if self.asked:
            self._stopped = True
            interrupt(KeyboardInterrupt)
        self.asked = True
