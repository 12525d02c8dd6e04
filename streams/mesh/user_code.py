"""Signals that raise: a user's code may be what they come into, and must not keep what they raise."""

import signal
import threading
from types import FrameType, TracebackType
from typing import NoReturn, Self

from nodes.contained import Contained


class _Raised:
    """What handlers have raised so far: how often, and what last."""

    count = 0
    last: type[BaseException] = KeyboardInterrupt


def interrupt(kind: type[BaseException]) -> NoReturn:
    """Raise it, from a signal's handler: behind a user's code it is raised again."""
    _Raised.count += 1
    _Raised.last = kind
    raise kind


def interrupted(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 # a handler's signature
    """Handle SIGINT as Python does, noted."""
    interrupt(KeyboardInterrupt)


class UserCode(Contained):
    """A context that nothing comes out of but what a signal's handler has raised meanwhile.

    Where Python's own handler is in place, which notes nothing, a KeyboardInterrupt is taken for a Ctrl-C.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> Self:
        self._before = _Raised.count
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if threading.current_thread() is threading.main_thread():  # where Python's signals are handled
            if _Raised.count != self._before:
                raise _Raised.last from None
            unnoted = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            if unnoted and kind is not None and issubclass(kind, KeyboardInterrupt):
                raise KeyboardInterrupt from None
        return super().__exit__(kind, error, trace)
