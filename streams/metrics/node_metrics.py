"""The metrics of a node's process: puts reports of its machine and shell into two registries."""

import time
from collections.abc import Callable, Iterable
from math import inf

from nodes.learner import Learner
from nodes.machine.events import Decided, Report, Scored
from nodes.machine.journal import JournalRecord
from nodes.privacy.private import Private
from nodes.protocol import Noticed, Stepped
from streams.codec import Reason
from streams.metrics.catalogue import PrivateMetric, SharedMetric
from streams.metrics.private import DataCounts, PrivateFigures
from streams.metrics.registry import PrivateRegistry, SharedRegistry
from streams.metrics.shared import SharedFigures, Timing


class NodeMetrics:
    """One node's metrics: serve `shared` to all who run the mesh, and `private` to its owner only.

    Parameters
    ----------
    mesh, node : str
        The labels of every metric.
    learner : Learner
        Its settings, all public.
    sources : iterable of str
        Every provisioned in-edge.
    record : JournalRecord or None
        The journal's last record at the start of the process.
    connected : callable
        Whether the mesh broker answers. Called at each scrape, in the scraper's thread, like the next three.
    lag : callable
        The number of records of the data topic not read yet (DataStream.lag).
    counts : callable
        The counts of records (DataStream.counts).
    journal_bytes : callable
        The size of the journal.
    truth : bool
        Whether records hold the right decision.
    ends : (float, float)
        When the first certificate for the mesh broker ends, and the first for the data broker.
    generation : int
        That of the mesh file.
    clock, steady : callable
        The clock of shared metrics, in seconds since 1970, and that of private ones.
    """

    def __init__(
        self,
        mesh: str,
        node: str,
        learner: Learner,
        sources: Iterable[str],
        record: JournalRecord | None,
        *,
        connected: Callable[[], bool],
        lag: Callable[[], Private[int | None]],
        counts: Callable[[], Private[DataCounts]],
        journal_bytes: Callable[[], int],
        truth: bool = False,
        ends: tuple[float, float] = (inf, inf),
        generation: int = 0,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.shared = SharedRegistry(mesh=mesh, node=node)
        self.private = PrivateRegistry(mesh=mesh, node=node)
        self.timing = Timing(self.shared, self.private, clock, steady)
        self.shared.gauge(SharedMetric.CERTIFICATE, lambda: ends[0])
        self.private.gauge(PrivateMetric.DATA_CERTIFICATE, lambda: ends[1])
        self._newest = generation
        self.shared.gauge(SharedMetric.FILE_GENERATION, lambda: generation)
        self.shared.gauge(SharedMetric.PLAN_GENERATION, lambda: self._newest)
        self._commit = self.private.histogram(PrivateMetric.COMMIT)
        self._shared = SharedFigures(self.shared, learner, sources, record, connected, clock)
        self._private = PrivateFigures(
            self.private, learner, lag, counts, journal_bytes, truth=truth, steady=steady
        )

    def report(self, report: Report) -> None:
        """Handle a report of the machine, in its turn, like all methods but `sent`."""
        match report:
            case Scored():
                self._private.scored(report)
            case Stepped():
                self.timing.stepped(report.record.round)
                self._shared.stepped(report)
            case Decided():
                self.timing.decided()
                self._shared.decided(report)
            case Noticed():  # of a second value too: `Evidence` would count it twice
                self._shared.noticed(report)

    def catch_up(self) -> None:
        """Do the work that reports have put off. Call it now and then, in the machine's turn."""
        self._private.catch_up()

    def missing(self) -> str | None:
        """Return what the node waits for before it can do rounds, or None."""
        return self._shared.missing()

    def sent(self, count: int = 1) -> None:
        """Count releases that the broker has acknowledged, one per topic. From one thread at a time."""
        self._shared.sent(count)

    def received(self, source: str) -> None:
        """Count a release read from the edge from `source`. Raises KeyError if there is no such edge."""
        self._shared.received(source)

    def made_by(self, generation: int) -> None:
        """Record the generation of the newest mesh file that a plan was made by."""
        self._newest = generation

    def committed(self, seconds: float) -> None:
        """Record the seconds that the journal needed to make a record durable."""
        self._commit.observe(seconds)

    def refused(self, reason: Reason) -> None:
        """Count a peer's message that was refused."""
        self._shared.refused(reason)
