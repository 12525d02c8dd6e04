"""What every run has spent on a node's data: `<node>.spends` in the state folder, beside the journal.

A line of JSON for each run. Written where the journal's lock is held: as a process starts (its run's line
is open: it may learn from whatever comes) and as it ends in order; after a kill the journal tells, for as
long as it is there. A journal of another run that is found in the folder is written down, and put aside.
"""

import math
import os
import sqlite3
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from nodes.privacy.spends import Span, Spend
from streams.journal.file import JournalError, locked
from streams.journal.journal import JournalReader
from streams.journal.secret import wipe
from streams.journal.spend_lines import from_line, to_line


def spends_file(state: Path, node: str) -> Path:
    """Return where a node's spends are kept."""
    return state / f"{node}.spends"


def read_spends(path: Path) -> tuple[Spend, ...]:
    """Return the spends in a file, none where there is none. Raises JournalError where it is broken."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise JournalError(f"{path} cannot be read: {error}") from error
    try:
        return tuple(from_line(line) for line in lines)
    except (ValueError, TypeError, KeyError) as error:
        raise JournalError(f"{path} is broken: what earlier runs have spent is not known") from error


def keep_spend(path: Path, spend: Spend) -> None:
    """Write down what a run has spent, in place of what was known of it; durable when this returns.

    Where it began, and what it had charged, are not forgotten. Raises JournalError.
    """
    known = {one.run: one for one in read_spends(path)}
    _write(path, known | {spend.run: _merged(known.get(spend.run), spend)})


def _write(path: Path, spends: Mapping[str, Spend]) -> None:
    text = "".join(f"{to_line(spend)}\n" for spend in spends.values())
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise JournalError(f"{path} cannot be written: {error}") from error


def put_aside(state: Path, node: str, run: str) -> Path | None:
    """Write down what another run's journal says was spent, and rename it to `<node>.<its run>.journal`.

    Its secret draws are overwritten: that run is over. Returns where it is now; None where no other run's
    journal is there. To be called before the journal of `run` is opened. Raises JournalLocked where another
    process has it open, JournalError where it cannot be read: what was spent would be forgotten.
    """
    path = state / f"{node}.journal"
    if not path.exists():
        return None
    with locked(path):
        return _put_aside(path, node, run) if path.exists() and path.stat().st_size else None


def _put_aside(path: Path, node: str, run: str) -> Path | None:
    with JournalReader(path) as journal:
        life = journal.life
        found = _of_journal(journal)
    if life.run == run or life.node != node:
        return None  # the right one, or no concern of this: opening it will say so
    spends = spends_file(path.parent, node)
    known = {spend.run: spend for spend in read_spends(spends)}
    _write(spends, known | {life.run: _told(known.get(life.run), found)})
    aside = path.with_name(f"{node}.{life.run}.journal")
    if aside.exists():
        raise JournalError(f"{path} is of run {life.run}, and {aside} is there already: move one away")
    try:
        wipe(path)
    except (sqlite3.Error, ValueError) as error:
        raise JournalError(f"the journal {path} cannot be put aside: {error}") from error
    path.rename(aside)
    return aside


def earlier_spends(state: Path, node: str, run: str) -> tuple[Spend, ...]:
    """Return what other runs have spent, by the folder: its spends, and other runs' journals of the node.

    Raises JournalError where one of them cannot be read.
    """
    known = {spend.run: spend for spend in read_spends(spends_file(state, node)) if spend.run != run}
    for path in sorted(state.glob(f"{node}*.journal")):
        with JournalReader(path) as journal:
            life = journal.life
            if life.node == node and life.run != run:
                known[life.run] = _told(known.get(life.run), _of_journal(journal))
    return tuple(known.values())


def _of_journal(journal: JournalReader) -> Spend:
    """Return what a journal tells: a record's epsilon is at most that of the stream that it is in."""
    records = journal.records(1)
    charged, spent = (records[-1].charged, records[-1].epsilon_spent) if records else (0, 0.0)
    position = (records[-1].data_position if records else None) or ()
    spans = tuple(Span(str(partition), -math.inf, end) for partition, end in position)
    epsilon = None if math.isinf(spent) else Fraction(spent)
    return Spend(journal.life.run, charged, epsilon, 0.0, spent, 0.0, spans)


def _merged(known: Spend | None, found: Spend) -> Spend:
    """Return what a run's own process says, and what was known before: an earlier beginning, more charges."""
    if known is None:
        return found
    first = {span.where: span.first for span in known.spans}
    spans = {where: Span(where, begun, begun) for where, begun in first.items()}
    spans |= {
        where: Span(where, min(begun, first.get(where, begun)), end) for where, begun, end in found.spans
    }
    return found._replace(
        charged=max(known.charged, found.charged),
        stream_epsilon=max(known.stream_epsilon, found.stream_epsilon),
        spans=tuple(spans.values()),
    )


def _told(known: Spend | None, journal: Spend) -> Spend:
    """Return what was written down of a run, which knows the price of a record, as far as its journal got."""
    if known is None:
        return journal
    ends = {span.where: span.end for span in journal.spans} if known.open else {}
    return known._replace(
        charged=max(known.charged, journal.charged),
        stream_epsilon=max(known.stream_epsilon, journal.stream_epsilon),
        spans=tuple(span._replace(end=ends.get(span.where, span.end)) for span in known.spans),
        open=False,
    )
