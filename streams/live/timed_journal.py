"""A journal that says how long it takes to make a record durable."""

import time
from collections.abc import Callable

from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from streams.live.node_shell import Appended


class TimedJournal:
    """Another journal, and `took` is told the seconds of each append."""

    def __init__(self, journal: Appended, took: Callable[[float], None]) -> None:
        self._journal, self._took = journal, took

    @property
    def carried(self) -> int:
        """The charged rounds of the journal's earlier lives."""
        return self._journal.carried

    def secret(self) -> Secret | None:
        """Return the journal's secret."""
        return self._journal.secret()

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Append to the journal."""
        began = time.perf_counter()
        self._journal.append(record, secret)
        self._took(time.perf_counter() - began)
