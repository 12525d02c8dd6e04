"""What every run has spent on a node's data: `<node>.spends` in the state folder, beside the journal.

A line of JSON for each run. Written where the journal's lock is held: as a process starts (its run's line
is open: it may learn from whatever comes) and as it ends in order; after a kill the journal tells, for as
long as it is there. A journal of another run that is found in the folder is written down, and put aside.
"""

import math
import os
import sqlite3
from collections.abc import Mapping
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


def keep_spend(path: Path, spend: Spend) -> Spend:
    """Write down what a run has spent, and return that with what was known of it; durable when this returns.

    Where it began, what it had charged, and what was said of it are not forgotten. Raises JournalError.
    """
    known = {one.run: one for one in read_spends(path)}
    merged = _merged(known.get(spend.run), spend)
    _write(path, known | {spend.run: merged})
    return merged


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
    return tuple(spend for spend in all_spends(state, node) if spend.run != run)


def all_spends(state: Path, node: str) -> tuple[Spend, ...]:
    """Return what every run has spent, so far, by the folder. Raises JournalError, as `earlier_spends`."""
    known = {spend.run: spend for spend in read_spends(spends_file(state, node))}
    for path in sorted(state.glob(f"{node}*.journal")):
        with JournalReader(path) as journal:
            if journal.life.node == node:
                run = journal.life.run
                known[run] = _told(known.get(run), _of_journal(journal))
    return tuple(known.values())


def _of_journal(journal: JournalReader) -> Spend:
    """Return what a journal tells. What a record paid, at which delta, and if by real noise, it does not."""
    records = journal.records(1)
    charged, spent = (records[-1].charged, records[-1].epsilon_spent) if records else (0, 0.0)
    position = (records[-1].data_position if records else None) or ()
    spans = tuple(Span(str(partition), -math.inf, end) for partition, end in position)
    return Spend(journal.life.run, charged, None, 0.0, spent, 0.0, spans)


def _merged(known: Spend | None, found: Spend) -> Spend:
    """Return what a run's own process says, and what was known before: an earlier beginning, more charges."""
    if known is None:
        return found
    spans = {span.where: span for span in known.spans}  # of which a new journal may be silent
    spans |= {
        where: Span(where, min(begun, spans[where].first) if where in spans else begun, end)
        for where, begun, end in found.spans
    }
    return found._replace(
        charged=max(known.charged, found.charged),
        stream_epsilon=max(known.stream_epsilon, found.stream_epsilon),
        spans=tuple(spans.values()),
        before=max(known.before, found.before),
        word="reused" if "reused" in (known.word, found.word) else found.word or known.word,
        by_plans=known.by_plans or found.by_plans,
    )


def _told(known: Spend | None, journal: Spend) -> Spend:
    """Return what was written down of a run, which knows the price of a record, as far as its journal got."""
    if known is None:
        return journal._replace(stream_epsilon=math.inf)  # nobody knows at which delta
    ends = {span.where: span.end for span in journal.spans} if known.open else {}
    return known._replace(
        charged=max(known.charged, journal.charged),
        stream_epsilon=max(known.stream_epsilon, journal.stream_epsilon),
        spans=tuple(span._replace(end=ends.get(span.where, span.end)) for span in known.spans),
        open=False,
    )
