"""The journals of a collaboration's owners and learner, and the record of an owner's spending.

An owner's journal keeps all answers of the run. Each answer is durable before anybody sees it, so that a
query that is asked again gets the same bytes. The journal also describes the set that the answers were made
of: its settings, where its source ends, and its number of records. It holds no hash of a record.

A record of the learner's journal is durable before query k is sent. It holds theta_k, the model so far, and
the answers that both were made of, each with its weight. The learner's journal is public.
"""

import json
import math
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self

from nodes.accounting.guarantee import Price
from nodes.accounting.spends import Spend
from nodes.collaboration.messages import Answer, QueryRecord, RecordSet, ResponseRecord
from streams.collaboration.file import LEARNER_JOURNAL, OWNER_JOURNAL, CollaborationFile
from streams.ledger import Reuse, price_of
from streams.live.spend import LifeRecord
from streams.state.folder import JournalError, StateFolder, place_of
from streams.state.journal_file import (
    Form,
    JournalEmpty,
    Life,
    OpenJournal,
    explained,
    keep_life,
    locked,
    open_to_read,
    open_to_write,
    snapshot,
    transaction,
)
from streams.state.rows import check_chain, checksum, from_blob, only_row, to_blob, to_text
from streams.state.spends import end_life, read_spends
from streams.state.spends_topic import SpendsTopic


@dataclass(frozen=True, slots=True)
class RunParty:
    """The learner or an owner of one run, and the digest of `agreed`, the settings that all must share.

    `price`: for an owner, the price of all its answers.
    """

    mesh: str
    run: str
    name: str
    digest: bytes
    agreed: str = ""
    price: Price | None = None


class PartyJournal(OpenJournal):
    """An open journal, made by `opened`, or by `read` while another process writes it.

    An append that returned is on the disk (WAL, `synchronous=FULL`). Methods raise JournalError.
    """

    form: ClassVar[Form]

    def __init__(self, path: Path, opener: Callable[[ExitStack], sqlite3.Connection]) -> None:
        self._start(path, opener)

    @classmethod
    def opened(cls, path: Path, party: RunParty, instance: str) -> Self:
        """Open the party's journal at `path`, or create it with `instance`, 32 random hex digits.

        Raises JournalLocked if another process has the journal open, and JournalError if the journal is
        broken, or belongs to another party, run, mesh or digest.
        """
        life = Life(
            party.run, party.name, party.digest, 0, instance, mesh=party.mesh, price=to_text(party.price)
        )
        return cls(
            path,
            lambda closing: open_to_write(path, life, lambda: life, closing, party.agreed, cls.form),
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open it read-only, even while its process writes it. Raises JournalError if it is missing."""
        return cls(path, lambda closing: open_to_read(path, closing, cls.form))

    @property
    def copied(self) -> bool:
        """Whether the file is a copy, or was put back, so that the original may have more records."""
        return self._life.place != place_of(self._path)

    def adopt(self) -> None:
        """Make a copy the original. Call this when the copy is known to have everything that was sent."""
        with explained(self._path):
            self._life = replace(self._life, place=place_of(self._path))
            with transaction(self._connection):
                keep_life(self._connection, self._life)


def put_aside(path: Path, kind: type[PartyJournal], party: RunParty) -> Path | None:
    """Rename the journal at `path` if it is of another run of the party; return its new path, or None.

    The name is that of a node's (`StateFolder.place_aside`). Raises JournalLocked if a process has it open,
    JournalError if it cannot be read.
    """
    if not path.exists():
        return None
    with locked(path):
        try:
            with kind.read(path) as journal:
                life = journal.life
        except JournalEmpty:
            return None
        if life.run == party.run or life.node != party.name:
            return None  # it is of this run, or another party's, which opening it reports
        aside = StateFolder(path.parent).place_aside(party.name, life.run)
        checkpoint(path)
        path.rename(aside)
        return aside


def checkpoint(path: Path) -> None:
    """Move the write-ahead log into its journal, so that one file has everything. The caller has the lock."""
    with explained(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")


_COLUMNS = "query, asked, response, charged, epsilon_spent"
_OWNER_TABLES = (
    """responses (query INTEGER PRIMARY KEY, asked BLOB NOT NULL, response BLOB NOT NULL,
        charged INTEGER NOT NULL, epsilon_spent REAL NOT NULL,
        before INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    """record_set (source TEXT NOT NULL, extent TEXT NOT NULL, records INTEGER NOT NULL,
        checksum INTEGER NOT NULL)""",
)
_STORED_ANSWERS = f"SELECT {_COLUMNS}, before, checksum FROM responses ORDER BY query"  # noqa: S608 # a constant of ours
_Row = tuple[int, bytes, bytes, int, float]


class OwnerJournal(PartyJournal):
    """All answers of one owner in one run."""

    form = Form(OWNER_JOURNAL, "the journal of a collaboration's owner", _OWNER_TABLES)
    _set: RecordSet | None
    _newest: int

    @property
    def records(self) -> tuple[ResponseRecord, ...]:
        """The answers, by their queries' numbers."""
        with explained(self._path):
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM responses ORDER BY query").fetchall()  # noqa: S608 # a constant of ours
            record_set = self._set
            if rows and record_set is None:
                raise ValueError("it is broken: it does not say what was read")
            return () if record_set is None else tuple(_from_row(row, record_set) for row in rows)

    @property
    def spend(self) -> Spend:
        """The spend of the owner's answers. A run with one answer counts as a run with all T answers."""
        price = self.price or Price(None)
        return Spend(
            self._life.run,
            len(self.records),
            price.epsilon,
            price.delta,
            math.inf,  # no answer protects a whole set
            0.0,
            mesh=self._life.mesh,
            life=self._life.instance,
            settings=price.settings,
            node=self._life.node,
        )

    def append(self, record: ResponseRecord) -> None:
        """Append the answer. It is durable when this returns. Repeating it is harmless.

        Raises JournalError for another answer to a query, for an answer of another set, or if writing fails.
        """
        row = _to_row(record)
        with explained(self._path):
            if self._set is not None and self._set != record.set:
                raise ValueError("an answer is of another set of records than the first")
            cursor = self._connection.execute(f"SELECT {_COLUMNS} FROM responses WHERE query = ?", row[:1])  # noqa: S608 # as above
            stored = cursor.fetchone()
            if stored is not None:
                if stored != row:
                    raise ValueError(f"query {record.query} has another answer already")
                return
            chained = (*row, self._newest)
            newest = checksum(*chained)
            with transaction(self._connection):
                if self._set is None:
                    place = record.set.source, json.dumps(record.set.extent), record.set.records
                    self._connection.execute(
                        "INSERT INTO record_set VALUES (?, ?, ?, ?)", (*place, checksum(*place))
                    )
                self._connection.execute(
                    "INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)", (*chained, newest)
                )
            self._set, self._newest = record.set, newest

    def _begin(self) -> None:
        with snapshot(self._connection):
            self._newest = check_chain(self._connection.execute(_STORED_ANSWERS), "the answer to query")
            rows = self._connection.execute(
                "SELECT source, extent, records, checksum FROM record_set"
            ).fetchall()
        row = only_row(rows, "what was read (record_set)")
        self._set = None if row is None else _to_set(row)


def _to_set(row: Sequence[Any]) -> RecordSet:
    source, extent, records = row
    try:
        return RecordSet(
            source, tuple((str(name), int(number)) for name, number in json.loads(extent)), records
        )
    except (TypeError, ValueError) as error:
        raise ValueError("it is broken: what was read cannot be told") from error


def _to_row(record: ResponseRecord) -> _Row:
    return record.query, record.asked, to_blob(record.response), record.charged, float(record.epsilon_spent)


def _from_row(row: Any, known: RecordSet) -> ResponseRecord:
    query, asked_at, response, charged, spent = row
    try:
        return ResponseRecord(query, asked_at, from_blob(response), charged, spent, known)
    except (TypeError, ValueError) as error:
        raise ValueError(f"it is broken: answer {query} cannot be read") from error


_LEARNER_TABLES = (
    """queries (number INTEGER PRIMARY KEY, parameters BLOB NOT NULL, average BLOB NOT NULL,
        missing TEXT NOT NULL, before INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    """answers (number INTEGER NOT NULL, place INTEGER NOT NULL, owner TEXT NOT NULL, instance TEXT NOT NULL,
        weight REAL NOT NULL, response BLOB NOT NULL, PRIMARY KEY (number, place))""",
)
_QUERIES = "SELECT number, parameters, average, missing FROM queries ORDER BY number DESC LIMIT ?"
_STORED_QUERIES = "SELECT number, parameters, average, missing, before, checksum FROM queries"
_ANSWER_ROWS = """
    SELECT number, place, owner, instance, weight, response FROM answers WHERE number = ? ORDER BY place
"""
_STRAY = "SELECT number FROM answers WHERE number NOT IN (SELECT number FROM queries)"
_ANSWERS_OF = "SELECT owner, instance, weight, response FROM answers WHERE number = ? ORDER BY place"
_ALL = -1


class LearnerJournal(PartyJournal):
    """All queries of one run."""

    form = Form(LEARNER_JOURNAL, "the journal of a collaboration's learner", _LEARNER_TABLES)
    _newest: int

    def records(self, limit: int | None = None) -> tuple[QueryRecord, ...]:
        """Return the last `limit` records (None: all), oldest first."""
        with explained(self._path):
            rows = self._connection.execute(_QUERIES, (_ALL if limit is None else limit,)).fetchall()
            return tuple(self._from_row(row) for row in reversed(rows))

    def append(self, record: QueryRecord) -> None:
        """Append the record. It is durable when this returns. Repeating it is harmless.

        Raises JournalError for another record of the same query, or if writing fails.
        """
        row = (
            record.number,
            to_blob(record.parameters),
            to_blob(record.average),
            json.dumps(record.missing),
        )
        answers: list[tuple[Any, ...]] = [
            (
                record.number,
                place,
                answer.owner,
                answer.instance,
                float(answer.weight),
                to_blob(answer.response),
            )
            for place, answer in enumerate(record.answers)
        ]
        with explained(self._path):
            if self._known(record.number, row, answers):
                return
            newest = checksum(*row, *chain.from_iterable(answers), self._newest)
            with transaction(self._connection):
                self._connection.execute(
                    "INSERT INTO queries VALUES (?, ?, ?, ?, ?, ?)", (*row, self._newest, newest)
                )
                self._connection.executemany("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", answers)
            self._newest = newest

    def _known(self, number: int, row: tuple[Any, ...], answers: list[tuple[Any, ...]]) -> bool:
        """Return whether this record is stored. Raises ValueError if another record of the query is."""
        stored = self._connection.execute(f"{_STORED_QUERIES} WHERE number = ?", (number,)).fetchone()
        if stored is None:
            return False
        if stored[:-2] != row or self._answers(number) != answers:
            raise ValueError(f"query {number} has another record already")
        return True

    def _answers(self, number: int) -> list[tuple[Any, ...]]:
        return self._connection.execute(_ANSWER_ROWS, (number,)).fetchall()

    def _begin(self) -> None:
        with snapshot(self._connection):
            queries = self._connection.execute(f"{_STORED_QUERIES} ORDER BY number")
            rows = ((*row[:-2], *chain.from_iterable(self._answers(row[0])), *row[-2:]) for row in queries)
            self._newest = check_chain(rows, "query")
            stray = self._connection.execute(_STRAY).fetchone()
        if stray is not None:
            raise ValueError(f"it is damaged: query {stray[0]} has answers and is not there")

    def _from_row(self, row: tuple[Any, ...]) -> QueryRecord:
        number, parameters, average, missing = row
        try:
            answers = tuple(
                Answer(owner, instance, weight, from_blob(blob))
                for owner, instance, weight, blob in self._connection.execute(_ANSWERS_OF, (number,))
            )
            names = tuple(map(str, json.loads(missing)))
            return QueryRecord(number, from_blob(parameters), from_blob(average), answers, names)
        except (TypeError, ValueError) as error:
            raise ValueError(f"it is broken: query {number} cannot be read") from error


def open_learner_journal(file: CollaborationFile, state: Path, instance: str) -> LearnerJournal:
    """Open the learner's journal in the folder `state`, or create it. A journal of another run is put aside.

    Raises as `PartyJournal.opened`.
    """
    mesh, path = file.mesh, StateFolder(state).journal(file.mesh.learner)
    party = RunParty(mesh.name, mesh.run, mesh.learner, file.digest(), mesh.agreed_text)
    put_aside(path, LearnerJournal, party)
    return LearnerJournal.opened(path, party, instance)


def owner_lives(path: Path, name: str) -> tuple[Spend, ...]:
    """Return the life in a journal, if the journal is the owner's. Raises JournalError."""
    with OwnerJournal.read(path) as journal:
        return (journal.spend,) if journal.life.node == name else ()


def learner_lives(path: Path, name: str) -> tuple[Spend, ...]:  # noqa: ARG001 # as of every journal
    """Return no life, as a learner spends nothing."""
    return ()


class OwnerSpend(LifeRecord):
    """Records an owner's spending: the number of answers, and the price of all T, as the run may continue.

    Create it before the journal is opened.
    """

    def __init__(self, file: CollaborationFile, owner: str, state: Path, *, other_data: bool = False) -> None:
        super().__init__(file, owner, state)
        self._file, self._other_data = file, other_data

    def journal(self, instance: str) -> OwnerJournal:
        """Open the owner's journal, or create it. A journal of another run is put aside.

        Raises JournalError, also if `.spends` has more answers, as an older journal was then restored.
        """
        file, mesh, path = self._file, self._file.mesh, StateFolder(self._state).journal(self._reader)
        price = price_of(file, self._reader)
        party = RunParty(mesh.name, mesh.run, self._reader, file.digest(), mesh.agreed_text, price)
        put_aside(path, OwnerJournal, party)
        journal = OwnerJournal.opened(path, party, instance)
        with ExitStack() as refused:
            refused.callback(journal.close)
            recorded, journalled = recorded_answers(file, self._reader, self._state), len(journal.records)
            if recorded > journalled:
                raise JournalError(
                    f"{path}: {recorded} queries were answered, and it knows of {journalled}: it must be the "
                    f"newest one, or the run a new one"
                )
            refused.pop_all()
        return journal

    def begin(self, journal: OwnerJournal, topic: SpendsTopic | None = None) -> None:
        """Record that the run continues. Raises JournalError, BusError."""
        fresh = not journal.records
        self._begin(journal.spend, topic, fresh=fresh, other_data=self._other_data and fresh)

    def known(self) -> Reuse:
        """Return what is known of the set's spending. Raises JournalError, BusError."""
        return self._known()

    def end(self, journal: OwnerJournal) -> None:
        """Record the charged answers. Raises JournalError."""
        self._send(end_life(self._state, journal.spend))


def recorded_answers(file: CollaborationFile, owner: str, state: Path) -> int:
    """Return the number of this run's answers by the lines in the folder, for any journal."""
    this_run = (file.mesh.name, file.mesh.run)
    lives = read_spends(StateFolder(state).spends(owner))
    return max((life.charged for life in lives if (life.mesh, life.run) == this_run), default=0)
