"""The journal of the learner of a collaboration: every query, durable before anybody sees it.

A record holds theta_k, the model so far, and the answers that made them, each with its weight. All is public.
"""

import json
from itertools import chain
from pathlib import Path
from typing import Any

from nodes.collaboration.messages import Answer, QueryRecord
from streams.mesh.collaboration_file import CollaborationFile
from streams.state.checksums import check_chain, checksum
from streams.state.folder import StateFolder
from streams.state.journal_file import Form, snapshot, transaction
from streams.state.open_journal import explained
from streams.state.party_journal import PartyJournal, RunParty, put_aside
from streams.state.rows import from_blob, to_blob

_TABLES = (
    """queries (number INTEGER PRIMARY KEY, parameters BLOB NOT NULL, average BLOB NOT NULL,
        missing TEXT NOT NULL, before INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    """answers (number INTEGER NOT NULL, place INTEGER NOT NULL, owner TEXT NOT NULL, instance TEXT NOT NULL,
        weight REAL NOT NULL, response BLOB NOT NULL, PRIMARY KEY (number, place))""",
)
_QUERIES = "SELECT number, parameters, average, missing FROM queries ORDER BY number DESC LIMIT ?"
_STORED = "SELECT number, parameters, average, missing, before, checksum FROM queries"
_ROWS = """
    SELECT number, place, owner, instance, weight, response FROM answers WHERE number = ? ORDER BY place
"""
_STRAY = "SELECT number FROM answers WHERE number NOT IN (SELECT number FROM queries)"
_ANSWERS = "SELECT owner, instance, weight, response FROM answers WHERE number = ? ORDER BY place"
_ALL = -1


class LearnerJournal(PartyJournal):
    """All queries of one run."""

    form = Form(0x6D6D6B6C, "the journal of a collaboration's learner", _TABLES)  # "mmkl"
    _newest: int

    def records(self, limit: int | None = None) -> tuple[QueryRecord, ...]:
        """Return the last `limit` records (None: all), oldest first."""
        with explained(self._path):
            rows = self._connection.execute(_QUERIES, (_ALL if limit is None else limit,)).fetchall()
            return tuple(self._from_row(row) for row in reversed(rows))

    def append(self, record: QueryRecord) -> None:
        """Keep the record, durable when this returns. Repeating it is harmless.

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
        """Return whether the record is there. Raises ValueError if another is."""
        stored = self._connection.execute(f"{_STORED} WHERE number = ?", (number,)).fetchone()
        if stored is None:
            return False
        if stored[:-2] != row or self._answers(number) != answers:
            raise ValueError(f"query {number} has another record already")
        return True

    def _answers(self, number: int) -> list[tuple[Any, ...]]:
        return self._connection.execute(_ROWS, (number,)).fetchall()

    def _begin(self) -> None:
        with snapshot(self._connection):
            queries = self._connection.execute(f"{_STORED} ORDER BY number")
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
                for owner, instance, weight, blob in self._connection.execute(_ANSWERS, (number,))
            )
            names = tuple(map(str, json.loads(missing)))
            return QueryRecord(number, from_blob(parameters), from_blob(average), answers, names)
        except (TypeError, ValueError) as error:
            raise ValueError(f"it is broken: query {number} cannot be read") from error


def open_learner_journal(file: CollaborationFile, state: Path, instance: str) -> LearnerJournal:
    """Open the learner's journal in the folder `state`, or create it; that of another run is put aside.

    Raises as `PartyJournal.opened`.
    """
    mesh, path = file.mesh, StateFolder(state).journal(file.mesh.learner)
    party = RunParty(mesh.name, mesh.run, mesh.learner, file.digest(), mesh.agreed_text)
    put_aside(path, LearnerJournal, party)
    return LearnerJournal.opened(path, party, instance)
