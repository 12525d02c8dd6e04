"""The metrics of a node's process: what its machine and its shell report, into two registries."""

import time
from collections.abc import Callable, Iterable

from nodes.learner import Learner
from nodes.machine.events import Decided, Noticed, Report, Scored, Stepped
from nodes.machine.journal import JournalRecord
from nodes.privacy.private import Private
from streams.codec import Reason
from streams.metrics.catalogue import PrivateMetric
from streams.metrics.data_counts import DataCounts
from streams.metrics.private import PrivateFigures
from streams.metrics.registry import PrivateRegistry, SharedRegistry
from streams.metrics.shared import SharedFigures
from streams.metrics.timing import Timing


class NodeMetrics:
    """One node's metrics. Serve `shared` to all who run the mesh, and `private` to its owner.

    Parameters
    ----------
    mesh, node : str
        The labels of every metric.
    learner : Learner
        Its settings, all public.
    sources : iterable of str
        Every provisioned in-edge.
    record : JournalRecord or None
        The journal's last one at the start of the process.
    connected : callable
        Whether the mesh broker answers. Asked at a scrape, in the scraper's thread, as are the next three.
    lag : callable
        How many records of the data topic are not read yet (DataStream.lag).
    counts : callable
        What became of the records (DataStream.counts).
    journal_bytes : callable
        How large the journal is.
    truth : bool
        Whether the data says where the decisions should be.
    clock : callable
        Gives the moments of which everyone may see something, in seconds since 1970.
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
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.shared = SharedRegistry(mesh=mesh, node=node)
        self.private = PrivateRegistry(mesh=mesh, node=node)
        self.timing = Timing(self.shared, self.private, clock)
        self._commit = self.private.histogram(PrivateMetric.COMMIT)
        self._shared = SharedFigures(self.shared, learner, sources, record, connected, clock)
        self._private = PrivateFigures(self.private, learner, lag, counts, journal_bytes, truth=truth)

    def report(self, report: Report) -> None:
        """Take what the machine reports: its `Ports.report`, in its turn, as is all else but `sent`."""
        match report:
            case Scored():
                self._private.scored(report)
            case Stepped():
                self.timing.stepped(report.record.round)
                self._shared.stepped(report)
            case Decided():
                self.timing.decided()
                self._shared.decided(report)
            case Noticed():  # a second value, too: `Evidence` is the same once more
                self._shared.noticed(report)

    def catch_up(self) -> None:
        """Do what reports have left for later: now and then, in the machine's turn."""
        self._private.catch_up()

    def missing(self) -> str | None:
        """Return what keeps the node from its rounds, or None."""
        return self._shared.missing()

    def sent(self, count: int = 1) -> None:
        """Count releases that the broker has acknowledged, one for each edge. From one thread at a time."""
        self._shared.sent(count)

    def received(self, source: str) -> None:
        """Count a release that was read from the edge from `source`. Raises KeyError for no in-edge."""
        self._shared.received(source)

    def committed(self, seconds: float) -> None:
        """Take how long the journal took to make a record durable."""
        self._commit.observe(seconds)

    def refused(self, reason: Reason) -> None:
        """Count a peer's message that was refused."""
        self._shared.refused(reason)
