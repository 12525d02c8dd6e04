"""What every life has spent on a node's data: `<node>.spends` in the state folder, beside the journal.

A line for each life of each run. Written where the journal's lock is held: as a process starts (its line is
open: it may learn from whatever comes) and as it ends in order; after a kill the journal tells, for as long
as it is there. A journal of another run that is found in the folder is written down, and put aside.
"""

import math
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from nodes.accounting.spends import Spend, merged
from streams.state.folder import JournalError, StateFolder
from streams.state.journal_file import JournalEmpty, locked
from streams.state.journal_reader import JournalReader, adopted
from streams.state.secret import wipe
from streams.state.spend_file import read_spends, write_spends

__all__ = [
    "all_spends",
    "earlier_spends",
    "forget_places",
    "keep_spend",
    "keep_told",
    "put_aside",
    "read_spends",
]

_Lives = dict[tuple[str, str, str], Spend]


def keep_spend(path: Path, spend: Spend) -> Spend:
    """Write down what a run has spent, and return that with what was known of it; durable when this returns.

    Where it began, what it had charged, and what was said of it are not forgotten. Raises JournalError.
    """
    known = _by_life(read_spends(path))
    kept = _with(known, spend)
    write_spends(path, known.values())
    return kept


def put_aside(state: Path, node: str, run: str) -> Path | None:
    """Write down what another run's journal says was spent, and rename it to `<node>.<its run>.journal`.

    Where that is there already it is `<node>.<its run>.2.journal`, and so on: no name of a run has a dot.
    Its secret draws are overwritten: that run is over. Returns where it is now; None where no other run's
    journal is there. To be called before the journal of `run` is opened. Raises JournalLocked where another
    process has it open, JournalError where it cannot be read: what was spent would be forgotten.
    """
    folder = StateFolder(state)
    path = folder.journal(node)
    if not path.exists():
        return None
    with locked(path):
        return _put_aside(folder, node, run) if path.exists() else None


def _put_aside(folder: StateFolder, node: str, run: str) -> Path | None:
    path, spends = folder.journal(node), folder.spends(node)
    try:
        with JournalReader(path) as journal:
            life, found = journal.life, _told(_by_life(read_spends(spends)), journal)
    except JournalEmpty:
        return None
    if life.run == run or life.node != node:
        return None  # the right one, or no concern of this: opening it will say so
    write_spends(spends, found.values())
    aside = folder.place_aside(node, life.run)
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


def forget_places(state: Path, node: str, runs: Collection[str]) -> None:
    """Write down that what all but these runs have spent may be of any record: places meant others in them.

    Raises JournalError.
    """
    path, found = StateFolder(state).spends(node), all_spends(state, node)
    if any(spend.spans and spend.run not in runs for spend in found):
        write_spends(path, [spend if spend.run in runs else spend._replace(spans=()) for spend in found])


def keep_told(state: Path, node: str) -> None:
    """Write down what the journal at hand tells of its lives. Raises JournalError."""
    path = StateFolder(state).spends(node)
    with JournalReader(StateFolder(state).journal(node)) as journal:
        write_spends(path, _told(_by_life(read_spends(path)), journal).values())


def all_spends(state: Path, node: str) -> tuple[Spend, ...]:
    """Return what every life has spent, so far, by the folder; that of the journal at hand comes last.

    Raises JournalError, as `earlier_spends`.
    """
    known = _by_life(read_spends(StateFolder(state).spends(node)))
    for path in StateFolder(state).journals(node):
        with suppress(JournalEmpty), JournalReader(path) as journal:
            if journal.life.node == node:
                known = _told(known, journal)
    return tuple(known.values())


def _by_life(spends: Iterable[Spend]) -> _Lives:
    known: _Lives = {}
    for spend in spends:
        _with(known, spend)
    return known


def _with(known: _Lives, spend: Spend) -> Spend:
    """Put in what a life's own process says, and what was known of it: an earlier beginning, more charges."""
    before = known.get(spend.identity)
    kept = spend if before is None else merged(before, spend)
    known[spend.identity] = kept
    return kept


def _told(known: _Lives, journal: JournalReader) -> _Lives:
    """Return what is known with what a journal tells of its lives, the newest last."""
    known = _by_life(adopted(tuple(known.values()), journal.life))
    for found in journal.ended:
        known[found.identity] = _told_of(known.get(found.identity), found, priced=found.epsilon is not None)
    found = journal.spend
    before = known.pop(found.identity, None)
    known[found.identity] = _told_of(before, found, priced=journal.price is not None)
    return known


def _told_of(known: Spend | None, journal: Spend, *, priced: bool) -> Spend:
    """Return what was written down of a life, as far as its journal got; not `priced`: it knows no price."""
    if known is None:
        return journal if priced else journal._replace(epsilon=None, stream_epsilon=math.inf)
    if not priced:  # what was written down knows
        journal = journal._replace(
            epsilon=known.epsilon, delta=known.delta, stream_delta=known.stream_delta, settings=known.settings
        )
    ends = {span.where: span.end for span in journal.spans} if known.open else {}
    spans = tuple(span._replace(end=ends.get(span.where, span.end)) for span in known.spans)
    told = merged(known, journal._replace(spans=()))
    return told._replace(spans=spans)
