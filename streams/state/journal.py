"""The journal of one node: its releases, durable before they are sent.

It is one SQLite file per node (WAL, `synchronous=FULL`: an append that returned is on the disk). With
`bounds` an append within the durable bound is not synced (`NORMAL`): the kernel has it, and a power cut may
take it (`nodes/machine/journal.py` says why that is enough). SQLite's log is chained, so what is left of
unsynced appends is a prefix of them.

The journal keeps the last H rounds, the newest running average, and the mechanism's secret. A lock file
excludes a second writer; readers can open the journal at any time. Every row has a checksum, and each record
also the checksum of the record before (`streams/state/rows.py`). Opening the journal checks them all.
"""

from collections import deque
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from nodes.accounting.guarantee import Price
from nodes.accounting.spends import Spend, sum_epsilons
from nodes.machine.journal import Bounds, DataPosition, JournalRecord
from nodes.privacy.mechanism import Secret
from streams.mesh.mesh import NodeContext
from streams.state.folder import JournalError, StateFolder, place_of
from streams.state.journal_file import JournalReader, Life, explained, keep_life, open_to_write, transaction
from streams.state.rows import (
    KEPT,
    SELECT,
    Row,
    amend,
    checksum,
    record_checksum,
    to_row,
    to_text,
    write_bound,
    write_inherited,
)
from streams.state.secret import SecretTable
from streams.state.spends import next_life, read_spends, to_line

_INSERT = f"INSERT INTO records VALUES ({', '.join('?' * (KEPT + 4))})"  # noqa: S608 # a constant of ours
_AVERAGE = "INSERT INTO average VALUES (?, ?, ?, ?)"
_ONE = f"{SELECT} WHERE round = ?"
_FORGET = """
    DELETE FROM records WHERE round < (
        SELECT min(round) FROM (SELECT round FROM records ORDER BY round DESC LIMIT ?))
"""


class SqliteJournal(JournalReader):
    """The journal of `node` in `run`, opened or created (with `instance`: 32 random hex digits).

    `copied`: the file is a copy of the journal opened last, or was restored over a newer one. It has then
    begun a new life, with `instance` and the charges of the life before. A journal that is created in a
    folder with other lives of this run also begins with their charges. `price`: the price of a release by the
    current settings (None: not given); the first charge fixes it. `agreed`: the settings whose digest is
    `digest`, so that errors can name those that differ. `bounds`: makes the bounds of a journal that is not
    synced each round (None: each round is synced). `was_cut`: a power cut may have destroyed its last rounds,
    so it has begun a new life at the bound. Raises
    JournalLocked if another process has it open, and JournalError if it is broken, or has another run, node,
    mesh, digest, price, horizon or version.
    """

    def __init__(
        self,
        path: Path,
        *,
        run: str,
        node: str,
        digest: bytes,
        instance: str,
        horizon: int,
        mesh: str = "",
        price: Price | None = None,
        agreed: str = "",
        bounds: Bounds | None = None,
    ) -> None:
        life = Life(run, node, digest, horizon, instance, mesh=mesh, price=to_text(price))
        self._asked, self._bounds, self._syncs = price, bounds, True
        make_life = partial(next_life, path.parent, life, price)
        self._start(path, lambda closing: open_to_write(path, life, make_life, closing, agreed))
        with ExitStack() as refused:
            refused.callback(self.close)
            with explained(path):
                self._secret = SecretTable(self._connection, horizon)
                self._settle_price()
                self.copied = self._life.place != place_of(path) or self._told() is not None
            self.was_cut = self.lost
            if self.copied or self.lost:
                self.renew(instance)
            elif bounds is None:
                self.settle()
            elif self._bound is not None:
                self._keep(self._life)  # synced, so that `.spends` records nothing that may be lost
            refused.pop_all()

    def _settle_price(self) -> None:
        """Refuse a price that differs from that of the charged rounds.

        Before the first charge, store the price.
        """
        price, stored = self._asked, self.price
        if price is None or stored == price:
            return
        if self.charged and stored is None:
            return  # the price of rounds charged without one is unknown
        if self.charged and stored is not None and (changed := stored.changed(price)):
            raise ValueError(f"its {changed.words}")
        self._keep(replace(self._life, price=to_text(price)))

    def _told(self) -> Spend | None:
        """Return this life's line of `.spends` if it has charged more rounds than the journal; else None.

        As `.spends` is written after the journal, an older journal was restored in that case.
        """
        spends, spend = read_spends(StateFolder(self._path.parent).spends(self._life.node)), self.spend
        higher_spends = [
            life for life in spends if life.identity == spend.identity and life.charged > spend.charged
        ]
        return max(higher_spends, key=lambda life: life.charged, default=None)

    @property
    def inherited(self) -> int:
        """The round of the record that this life has taken over from the previous one; 0 for none."""
        return self._inherited[0]

    @property
    def floor(self) -> DataPosition:
        """Where this life begins to read if a power cut has ended the previous life.

        A log may end below it.
        """
        return self._inherited[1]

    def settle(self) -> None:
        """Sync all writes and record that; the process ends in order. Raises JournalError."""
        if self._bound is not None:
            with explained(self._path):
                self._sync(whole=True)
                with transaction(self._connection):
                    write_bound(self._connection, None)
            self._bound = None

    def _sync(self, *, whole: bool) -> None:
        """Set whether the next transactions are synced, and with them all earlier ones."""
        if self._syncs is not whole:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if whole else 'NORMAL'}")
            self._syncs = whole

    def _keep(self, life: Life) -> None:
        with transaction(self._connection):
            keep_life(self._connection, life)
        self._life = life

    def secret(self) -> Secret | None:
        """Return the secret of the last record. Raises JournalError."""
        with explained(self._path):
            return self._secret.read(self.charged)

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Store `record`, and replace the secret by `secret`, in one transaction; durable when this returns.

        Repeating it is harmless. Only the newest average is kept. Raises JournalError for a different value
        of a stored round, for a round below the last that is no longer stored, or if writing fails.
        """
        row = to_row(record)
        with explained(self._path):
            if record.round <= self._last:
                self._check_known(row)
                return
            keeps_secret = secret is not None or not self._secret.empty
            draws = 0
            within = self._bounds is not None and self._bound is not None and self._bound.covers(record)
            bound = None if within or self._bounds is None else self._bounds.after(record)
            self._sync(whole=not within)
            with transaction(self._connection):
                if keeps_secret:
                    draws = self._secret.write(record.charged, secret)
                newest = self._insert(row, draws, self._newest)
                if bound is not None:
                    write_bound(self._connection, bound)
            self._bound = bound or self._bound
            if keeps_secret:
                self._secret.cut_log()
            self._last, self._newest = record.round, newest
            self._kept += 1
            if self._kept > 2 * self._life.horizon:
                self._kept -= self._connection.execute(_FORGET, (self._life.horizon + 1,)).rowcount

    def _insert(self, row: Row, draws: int, before: int) -> int:
        """Insert a record's row after the one of checksum `before`, with its average; return its checksum."""
        averaged = row[-2] or 0
        newest = record_checksum(row, averaged, draws, before)
        self._connection.execute(_INSERT, (*row[:KEPT], averaged, draws, before, newest))
        self._connection.execute("DELETE FROM average")
        if averaged:
            average = (row[0], *row[KEPT:])
            self._connection.execute(_AVERAGE, (*average, checksum(*average)))
        return newest

    def renew(self, instance: str, *, data_anew: bool = False) -> None:
        """Begin a new life, as the old one is outdated, another's or cut short. Raises JournalError.

        The new life continues from the charges so far, without records. With a bound it continues from the
        bound, and keeps the newest record unless the data topic was recreated (`data_anew`).
        """
        self._lost = self._bound is not None
        spend, last, life, ahead = self.spend, self.records(1), self._life, self._told()
        if last or ahead:
            ended = f"{life.ended}{to_line(spend)}\n"
            charged, cost = self.charged, last[0].epsilon_spent if last else life.carried_epsilon
            if ahead:
                charged = life.carried + ahead.charged
                cost = max(cost, sum_epsilons(life.carried_epsilon, ahead.stream_epsilon))
            life = replace(life, carried=charged, carried_epsilon=cost, ended=ended)
        inherited = [
            record._replace(charged=life.carried, epsilon_spent=life.carried_epsilon)
            for record in last
            if self._bound is not None and not data_anew
        ]
        with explained(self._path):
            price = to_text(self._asked) or life.price
            life = replace(life, instance=instance, place=place_of(self._path), price=price)
            self._sync(whole=True)
            with transaction(self._connection):
                self._connection.execute("DELETE FROM records")
                self._connection.execute("DELETE FROM average")
                self._secret.write(life.carried, None)
                write_bound(self._connection, None)
                write_inherited(self._connection, inherited[0] if inherited else None)
                keep_life(self._connection, life)
                newest = self._insert(to_row(inherited[0]), 0, 0) if inherited else 0
        self._life, self._bound, self._lost = life, None, False
        self._inherited = (inherited[0].round, inherited[0].read) if inherited else (0, ())
        self._last, self._kept, self._newest = self.inherited, len(inherited), newest
        with explained(self._path):
            self._secret.cut_log()

    def pardon(self, source: str) -> tuple[str, ...]:
        """Let a source that counts as silent be read again. Return its instances that counted as silent.

        Second values that the node may still read again, of up to 2H rounds ahead, no longer count as
        evidence. Raises JournalError.
        """
        last = self.records(1)
        instances = tuple(instance for name, instance in last[0].distrusted if name == source) if last else ()
        if instances:
            until = last[0].round + 2 * self._life.horizon
            record = last[0]._replace(
                distrusted=tuple(entry for entry in last[0].distrusted if entry[0] != source),
                pardoned=(*last[0].pardoned, *((source, instance, until) for instance in instances)),
            )
            with explained(self._path), transaction(self._connection):
                *_, positions, _, _ = to_row(record)
                newest = amend(self._connection, positions=positions)
            self._newest = newest
        return instances

    def forget_secret(self) -> None:
        """Overwrite the secret, as the run is over and no step will need it. Raises JournalError."""
        with explained(self._path):
            with transaction(self._connection):
                self._secret.write(self.charged, None)
                newest = amend(self._connection, draws=0)
            self._newest = newest
            self._secret.cut_log()

    def _check_known(self, row: Row) -> None:
        stored = self._connection.execute(_ONE, row[:1]).fetchone()
        compared = len(row) if row[0] == self._last else KEPT
        if stored is None or stored[:compared] != row[:compared]:
            raise ValueError(
                f"round {row[0]} is neither after {self._last}, the last one, nor the same again"
            )


def open_journal(
    state: Path,
    node: str,
    mesh: NodeContext,
    instance: str,
    price: Price | None = None,
    bounds: Bounds | None = None,
) -> SqliteJournal:
    """Open the node's journal in the folder, or make it, with `instance`. Raises JournalError."""
    return SqliteJournal(
        StateFolder(state).journal(node),
        run=mesh.topics.run,
        node=node,
        digest=mesh.digest,
        instance=instance,
        horizon=mesh.horizon,
        mesh=mesh.topics.mesh,
        price=price,
        agreed=mesh.agreed,
        bounds=bounds,
    )


# The interface of a journal, and a journal in memory for a mesh in one process that keeps no state.


class NodeJournal(Protocol):
    """What a node's process needs of a journal."""

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
        """The round of the record that this life has taken over from the previous one; 0 for none."""

    def secret(self) -> Secret | None:
        """Return the mechanism's secret of the last round."""

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Store `record` and `secret` in one transaction; durable when this returns, or in a bound."""

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
        """Store the record and the secret. Repeating it is harmless.

        Raises JournalError for another value of a round.
        """
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
        """Do nothing, as there is nothing to close."""
