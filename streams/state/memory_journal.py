"""The interface of a journal, and a journal in memory for a mesh in one process that keeps no state."""

from collections import deque
from typing import Protocol

from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from streams.state.folder import JournalError
from streams.state.rows import to_row


class NodeJournal(Protocol):
    """The part of a journal that a node's process needs."""

    @property
    def instance(self) -> str:
        """The journal's life."""

    @property
    def charged(self) -> int:
        """The charged rounds so far, those of earlier lives included."""

    @property
    def carried(self) -> int:
        """The charged rounds of earlier lives."""

    @property
    def inherited(self) -> int:
        """The round of the record that this life has from the one before; 0: none."""

    def secret(self) -> Secret | None:
        """Return the mechanism's secret of the last round."""

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Keep `record` and `secret`, both or neither; durable when this returns, or in a bound."""

    def records(self) -> tuple[JournalRecord, ...]:
        """Return the last rounds, oldest first."""

    def renew(self, instance: str) -> None:
        """Begin a new life, which continues from the charges so far, or from the bound and newest record."""

    def forget_secret(self) -> None:
        """Forget the mechanism's secret, as the run is over."""

    def close(self) -> None:
        """Close it."""


class MemoryJournal:
    """The last H + 1 rounds of one node's life, the newest with its average, as `SqliteJournal` has."""

    def __init__(self, instance: str, horizon: int) -> None:
        self.instance = instance
        self.carried = self.inherited = 0
        self._records: deque[JournalRecord] = deque(maxlen=horizon + 1)
        self._secret: Secret | None = None

    @property
    def charged(self) -> int:
        """The charged rounds so far, those of earlier lives included."""
        return self._records[-1].charged if self._records else self.carried

    def records(self) -> tuple[JournalRecord, ...]:
        """Return the records, oldest first."""
        *older, newest = self._records or (None,)
        return () if newest is None else (*[record._replace(average=None) for record in older], newest)

    def secret(self) -> Secret | None:
        """Return the secret of the last record."""
        return self._secret

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Keep both; repeating it is harmless. Raises JournalError for a different value of a round."""
        if self._records and record.round <= self._records[-1].round:
            stored = record if record.round == self._records[-1].round else record._replace(average=None)
            if to_row(stored) not in map(to_row, self.records()):
                raise JournalError(f"round {record.round} is neither a new round, nor the same again")
            return
        self._records.append(record)
        self._secret = secret

    def renew(self, instance: str) -> None:
        """Begin a new life without records, which continues from the charges so far."""
        self.instance, self.carried = instance, self.charged
        self._records.clear()
        self._secret = None

    def forget_secret(self) -> None:
        """Forget the secret, as the run is over."""
        self._secret = None

    def close(self) -> None:
        """Nothing to close."""
