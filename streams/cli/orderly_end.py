"""Ends a command in order at the first Ctrl-C, SIGTERM or SIGHUP, and at once at the second."""

import signal
from types import FrameType, TracebackType
from typing import Self

from streams.mesh.user_code import interrupt


class OrderlyEnd:
    """The first Ctrl-C, SIGTERM or SIGHUP sets `asked`; the next raises KeyboardInterrupt, at once and again
    at the end of the context, as Python drops exceptions inside a finalizer. SIGHUP stays ignored if it is.
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
