"""Polls the mesh broker in a thread of its own."""

import time
from threading import Lock, Thread

from streams.bus.bus import BusError, Unreachable
from streams.bus.diagnosis import SILENT, why_silent
from streams.mesh.file import MeshFile
from streams.public.sight import MeshStatus, StatusTracker
from streams.public.watched import News
from streams.runtime.process import Asked

PERIOD = 0.5
"""Seconds between two requests to the broker."""


class Asker(Thread):
    """Polls the broker, so that drawing and keys never wait for it."""

    def __init__(self, file: MeshFile, news: News) -> None:
        super().__init__(name="watch")
        self._file, self._news, self._watched = file, news, StatusTracker(file.resolved)
        self._lock, self._ended = Lock(), Asked()
        self._began = time.monotonic()
        self._answered: float | None = None
        self._why = ""
        self._away, self._failed = False, False
        self._error: BusError | None = None

    def run(self) -> None:
        """Ask until the end, or until an error that waiting cannot fix."""
        try:
            while not self._ended.is_set():
                self._ask()
                self._ended.wait(PERIOD)
        except BusError as error:
            self._error = error
        finally:
            self._failed = True

    def end(self) -> None:
        """Stop asking; takes up to three seconds if the broker is away."""
        self._ended.set()
        self.join()

    @property
    def asked(self) -> bool:
        """Whether there was an answer, or a time-out."""
        return self._answered is not None or self._away

    def sight(self) -> MeshStatus:
        """Return the state of the mesh as far as known. Raises the BusError that ended the polling."""
        if self._error is not None:
            raise self._error
        if self._failed:
            raise BusError("watching has failed")
        with self._lock:
            return self._watched.sight(time.monotonic())

    @property
    def gone(self) -> float | None:
        """The seconds since the broker's last answer, or since the first question; None while it answers."""
        return time.monotonic() - (self._answered or self._began) if self._away else None

    @property
    def planner(self) -> float | None:
        """When a scheduler was last heard, if the news tell; None before."""
        return self._news.planner

    @property
    def trouble(self) -> str:
        """Return a message if the broker is away; empty while it answers."""
        if not self._away:
            return ""
        silent = "" if self._answered is None else f" for {time.monotonic() - self._answered:,.0f} s"
        return (
            f"no answer from the broker {self._file.mesh_broker.servers}{silent}{self._why}: waiting for it"
        )

    def _ask(self) -> None:
        try:
            news = self._news.ask()
        except Unreachable:
            if not self._away:
                reason = why_silent(self._file.mesh_broker)
                self._why = "" if reason == SILENT else f" ({reason})"
            self._away = True
            return
        with self._lock:
            self._watched.take(news)
            self._watched.refused(self._news.refused)
        self._answered, self._away = time.monotonic(), False
