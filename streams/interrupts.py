"""Ctrl-C, twice: the first asks for an orderly end, the second stops at once."""

import signal
from types import FrameType, TracebackType
from typing import Self


class OrderlyEnd:
    """A context in which the first Ctrl-C sets `asked`; the next raises KeyboardInterrupt as ever."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 # a handler's signature
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
