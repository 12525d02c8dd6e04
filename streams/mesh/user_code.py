"""Passes exceptions of signal handlers through a user's code, which could otherwise swallow them."""

import signal
import threading
from types import FrameType, TracebackType
from typing import NoReturn, Self

from nodes.contained import Contained


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
