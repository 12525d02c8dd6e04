"""The journal of an owner of a collaboration: every answer, durable before anybody sees it.

It keeps all answers of the run, so that a query asked again gets the same bytes, and the set that they were
made of: its settings, where its source ends, and its number of records. It holds no hash of a record.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

from nodes.accounting.guarantee import Price
from nodes.accounting.spends import Spend
from nodes.collaboration.messages import RecordSet, ResponseRecord
from streams.state.checksums import check_chain, checksum, only_row
from streams.state.journal_file import Form, snapshot, transaction
from streams.state.open_journal import explained
from streams.state.party_journal import PartyJournal
from streams.state.rows import from_blob, to_blob

_COLUMNS = "query, asked, response, charged, epsilon_spent"
_TABLES = (
    """responses (query INTEGER PRIMARY KEY, asked BLOB NOT NULL, response BLOB NOT NULL,
        charged INTEGER NOT NULL, epsilon_spent REAL NOT NULL,
        before INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    """record_set (source TEXT NOT NULL, extent TEXT NOT NULL, records INTEGER NOT NULL,
        checksum INTEGER NOT NULL)""",
)
_STORED = f"SELECT {_COLUMNS}, before, checksum FROM responses ORDER BY query"  # noqa: S608 # a constant of ours
_Row = tuple[int, bytes, bytes, int, float]


class OwnerJournal(PartyJournal):
    """All answers of one owner in one run."""

    form = Form(0x6D6D6B6F, "the journal of a collaboration's owner", _TABLES)  # "mmko"
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
        """What its answers have spent: a run that has answered once counts as all of them."""
        price = self.price or Price(None)
        return Spend(
            self._life.run,
            len(self.records),
            price.epsilon,
            price.delta,
            math.inf,  # no answer hides a whole set
            0.0,
            mesh=self._life.mesh,
            life=self._life.instance,
            settings=price.settings,
            node=self._life.node,
        )

    def append(self, record: ResponseRecord) -> None:
        """Keep the answer, durable when this returns. Repeating it is harmless.

        Raises JournalError for another answer to a query, for one of another set, or if writing fails.
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
            self._newest = check_chain(self._connection.execute(_STORED), "the answer to query")
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
