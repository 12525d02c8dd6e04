"""Reads a node's journal, even while a process writes it."""

import math
from pathlib import Path

from nodes.accounting.spends import Span, Spend, added
from nodes.machine.journal import JournalRecord
from streams.state.checksums import check_chain, check_row
from streams.state.folder import boot_id
from streams.state.journal_file import differing, open_to_read, snapshot
from streams.state.open_journal import OpenJournal, explained
from streams.state.rows import SELECT, STORED, from_row, read_bound, read_inherited
from streams.state.secret import check_draws

_LATEST = "SELECT charged, averaged, draws FROM records ORDER BY round DESC LIMIT 1"
_LAST = f"{SELECT} ORDER BY round DESC LIMIT ?"


class JournalReader(OpenJournal):
    """The records of the journal at `path`, even while a process writes it.

    Raises JournalError if it is missing, broken, damaged or of another version.
    """

    def __init__(self, path: Path) -> None:
        self._start(path, lambda closing: open_to_read(path, closing))

    @property
    def charged(self) -> int:
        """The charged rounds so far, those of earlier lives included."""
        last = self.records(1)
        return last[0].charged if last else self.carried

    @property
    def lost(self) -> bool:
        """Whether its last rounds may be lost, as the machine has started anew since its last bound.

        Its newest record then counts as charged, and read, up to the bound.
        """
        return self._lost

    @property
    def carried(self) -> int:
        """The charged rounds of earlier lives."""
        return self._life.carried

    @property
    def spend(self) -> Spend:
        """The spend of this life by the journal; without a price it counts as unprotected.

        The journal does not tell where its records begin. Raises JournalError.
        """
        life, price, last = self._life, self.price, self.records(1)
        position = (last[0].data_position if last else None) or ()
        spans = tuple(Span(str(partition), -math.inf, end) for partition, end in position)
        charged = last[0].charged - life.carried if last else 0
        return Spend(
            life.run,
            charged,
            price and price.epsilon,
            price.delta if price else 0.0,
            added(life.carried_epsilon, last[0].epsilon_spent) if last else 0.0,
            price.stream_delta if price else 0.0,
            spans,
            mesh=life.mesh,
            life=life.instance,
            settings=price.settings if price else (),
            node=life.node,
        )

    def records(self, limit: int | None = None) -> tuple[JournalRecord, ...]:
        """Return the last `limit` records (None: H), oldest first; the newest has its average.

        Raises JournalError.
        """
        with explained(self._path):
            rows = self._connection.execute(_LAST, (limit or self._life.horizon + 1,)).fetchall()
            records = tuple(from_row(row) for row in reversed(rows))
        if self._lost and self._bound is not None and records:
            return (*records[:-1], self._bound.inherited(records[-1]))
        return records

    def differing(self, agreed: str) -> str:
        """Return which of the mesh's shared settings differ from the journal's; empty if it is not known."""
        with explained(self._path):
            return differing(self._agreed, agreed)

    def _begin(self) -> None:
        with snapshot(self._connection):
            self._newest = check_chain(
                self._connection.execute(STORED), "the record of round", self._life.horizon + 1
            )
            totals = self._connection.execute("SELECT ifnull(max(round), 0), count(*) FROM records")
            self._last, self._kept = totals.fetchone()
            charged, averaged, draws = self._connection.execute(_LATEST).fetchone() or (0, 0, 0)
            averages = self._connection.execute(
                "SELECT round, rounds, mean, checksum FROM average"
            ).fetchall()
            for row in averages:
                check_row(row, f"the average of round {row[0]}")
            if [row[:2] for row in averages] != ([(self._last, averaged)] if averaged else []):
                raise ValueError(f"it is damaged: its average is not that of round {self._last}")
            check_draws(self._connection, charged, draws)
            self._bound, boot = read_bound(self._connection)
            self._inherited = read_inherited(self._connection)
        may_be_behind = self._bound is not None and self._bound.round > self._last
        self._lost = may_be_behind and (not boot or boot != boot_id())
