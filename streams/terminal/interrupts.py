"""Handles Ctrl-C: the first asks for an orderly end, the second stops at once."""

import signal
from types import FrameType, TracebackType
from typing import Self

from streams.mesh.user_code import interrupt


class OrderlyEnd:
    """The first Ctrl-C sets `asked`; the next raises KeyboardInterrupt, at once and again at the end of the
    context, as Python drops exceptions inside a finalizer.
    """

    def __init__(self) -> None:
        self.asked = False
        self._stopped = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # after two of them the process only writes its results: a third must not interrupt that
        signal.signal(signal.SIGINT, signal.SIG_IGN if self._stopped else self._before)
        if self._stopped and kind is None:
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 # a handler's signature
        if self.asked:
            self._stopped = True
            interrupt(KeyboardInterrupt)
        self.asked = True
