"""What a feed's process shows to its owner and to service managers: figures, probes, progress."""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from threading import Event, Thread

from streams.live.serving import warn_of_open
from streams.mesh.settings.base import Address
from streams.metrics.catalogue import PrivateMetric
from streams.metrics.endpoint import Endpoint, LastReads
from streams.metrics.registry import PrivateRegistry
from streams.records.faults import FaultCounts
from streams.runtime.process import Liveness, ServiceManager, Stop
from streams.terminal.report import Tell, logged, shown

LOGGER = logging.getLogger("mirrormesh.feed")
STILL = 300.0
"""Seconds for which a feed may make no progress, except while it waits for a broker or for standard input."""


@dataclass(frozen=True, slots=True)
class FeedServing:
    """Where a feed serves its figures, whether its lines are JSON, and whether it stays when all is fed."""

    endpoint: Address | None = None
    json: bool = False
    stays: bool = False


class FeedProgress:
    """The progress of a feed that the topic has acknowledged. `counts`: what this process has fed.

    `line`: the lines that the topic has; None: not known yet. `others`: the records of others on it.
    `waiting`: the lines that were sent and are not acknowledged.
    """

    def __init__(self) -> None:
        self.line: int | None = None
        self.others: int | None = None
        self.waiting = 0
        self.counts = FaultCounts()


class FeedFigures:
    """Serves a feed's progress. The feed's loop calls `turn`; a scrape, in its own thread, only reads."""

    def __init__(self, stop: Stop, *, json: bool = False, **labels: str) -> None:
        self.progress, self.failure = FeedProgress(), ""
        self.registry = PrivateRegistry(**labels)
        self._stop, self._json = stop, json
        self._manager, self._ended = ServiceManager(), Event()
        self._liveness = Liveness(STILL, {"the feed": stop.asked.looks}, {}, LOGGER)
        counts, registry = self.progress.counts, self.registry
        registry.total(PrivateMetric.FED, lambda: counts.records - counts.malformed, "readable")
        registry.total(PrivateMetric.FED, lambda: counts.malformed, "malformed")
        registry.gauge(PrivateMetric.FEED_LINE, lambda: self.progress.line)
        registry.gauge(PrivateMetric.FEED_OTHERS, lambda: self.progress.others)
        registry.gauge(PrivateMetric.FEED_WAITING, lambda: self.progress.waiting)
        registry.gauge(PrivateMetric.FEED_OVER, lambda: registry.run_over)
        registry.gauge(PrivateMetric.FEED_FAILED, lambda: bool(self.failure))

    def turn(self) -> None:
        """Give a sign of life."""
        self._stop.asked.looks.beat()

    @contextmanager
    def reading(self, *, live: bool) -> Iterator[None]:
        """Expect no sign of life while the source is read, if it is `live` and may wait for its writer."""
        looks = self._stop.asked.looks
        if live:
            looks.rest()
        try:
            yield
        finally:
            looks.wake()

    def shown(self, most: int | None) -> AbstractContextManager[Tell]:
        """Return a context with a function that shows the progress of up to `most` lines."""
        return nullcontext(logged(LOGGER, most)) if self._json else shown(most)

    def missing(self) -> str | None:
        """Return what the feed waits for; None if it feeds."""
        return None if self.progress.line is not None else "waiting for the broker, or for the source"

    @contextmanager
    def serve(self, endpoint: Address | None) -> Iterator[None]:
        """Serve at the endpoint, if any; at the end until the last state was read (LastReads).

        Raises NotServed.
        """
        attending = Thread(target=self._attend, name="service-manager", daemon=True)
        with self._manager, ExitStack() as stack:
            attending.start()
            stack.callback(attending.join)
            stack.callback(self._ended.set)
            reads = LastReads(
                self._is_over, self._stop.asked.wait, stays=self._stop.stays, failure=self._failed
            )
            if endpoint is not None:
                warn_of_open("metrics of a feed", endpoint, LOGGER)
                served = stack.enter_context(Endpoint(*endpoint))
                served.show(self.registry, self.missing, self._liveness.stalled)
                reads.watch(served, [self.registry])
            stack.enter_context(reads)
            yield

    def _attend(self) -> None:
        """Report to the service manager, from a thread, as the feed's loop may wait for long."""
        while not self._ended.wait(self._manager.period):
            if self.missing() is None:
                self._manager.works(self._liveness.stalled())

    def _is_over(self, error: BaseException | None) -> bool:
        return error is None and not self._stop.asked.is_set()

    def _failed(self, error: BaseException | None) -> str | None:
        if isinstance(error, Exception):
            self.failure = f"the feed has failed: {type(error).__name__}"  # its text is in the log
        return self.failure or None
