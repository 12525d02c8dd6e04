"""Keeps what every life has spent on a node's data: `<node>.spends` in the state folder, beside the journal.

It has a line for each life of each run, written under the journal's lock: when a process starts (its line is
open, as it may learn from any new record) and when it ends in order. After a kill the journal has the
numbers, as long as it exists. A journal of another run in the folder is recorded and put aside.
"""

import math
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nodes.accounting.price import Price
from nodes.accounting.spends import Spend, merged, together
from streams.state.folder import JournalError, StateFolder
from streams.state.journal_file import JournalEmpty, Life, locked
from streams.state.journal_reader import JournalReader
from streams.state.secret import wipe
from streams.state.spend_file import read_spends, write_spends

_Lives = dict[tuple[str, str, str], Spend]


def keep_spend(path: Path, spend: Spend) -> Spend:
    """Record a run's spend, and return it merged with what was known; durable when this returns.

    Its beginning, its charges and the operator's statements are never forgotten. Raises JournalError.
    """
    known = _by_life(read_spends(path))
    kept = _with(known, spend)
    write_spends(path, known.values())
    return kept


def put_aside(state: Path, node: str, run: str) -> Path | None:
    """Record the spend of another run's journal, and rename it to `<node>.<its run>.journal`.

    If that exists, the name is `<node>.<its run>.2.journal`, and so on: no run's name has a dot. Its secret
    draws are overwritten, as that run is over. Returns its new path; None if no other run's journal is there.
    Call it before the journal of `run` is opened. Raises JournalLocked if another process has it open,
    JournalError if it cannot be read, as its spending would be forgotten.
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
        return None  # the right one, or unreadable, which opening it reports
    write_spends(spends, found.values())
    aside = folder.place_aside(node, life.run)
    try:
        wipe(path)
    except (sqlite3.Error, ValueError) as error:
        raise JournalError(f"the journal {path} cannot be put aside: {error}") from error
    path.rename(aside)
    return aside


def earlier_spends(state: Path, node: str, run: str) -> tuple[Spend, ...]:
    """Return the spends of other runs in the folder: from its spends, and other runs' journals of the node.

    Raises JournalError if one of them cannot be read.
    """
    return tuple(spend for spend in all_spends(state, node) if spend.run != run)


def forget_places(state: Path, node: str, runs: Collection[str]) -> None:
    """Drop the spans of all but these runs, as their places meant other records: they may be of any record.

    Raises JournalError.
    """
    path, found = StateFolder(state).spends(node), all_spends(state, node)
    if any(spend.spans and spend.run not in runs for spend in found):
        write_spends(path, [spend if spend.run in runs else spend._replace(spans=()) for spend in found])


def keep_journalled(state: Path, node: str) -> None:
    """Record the lives in the current journal. Raises JournalError."""
    path = StateFolder(state).spends(node)
    with JournalReader(StateFolder(state).journal(node)) as journal:
        write_spends(path, _told(_by_life(read_spends(path)), journal).values())


def all_spends(state: Path, node: str) -> tuple[Spend, ...]:
    """Return the spends of all lives in the folder so far; that of the current journal comes last.

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
    """Merge the spend from a life's own process with what was known: an earlier beginning, more charges."""
    before = known.get(spend.identity)
    kept = spend if before is None else merged(before, spend)
    known[spend.identity] = kept
    return kept


def _told(known: _Lives, journal: JournalReader) -> _Lives:
    """Return the known lives with those of a journal, the newest last."""
    known = _by_life(known.values())
    for found in journal.ended:
        known[found.identity] = _told_of(known.get(found.identity), found, priced=found.epsilon is not None)
    found = journal.spend
    before = known.pop(found.identity, None)
    known[found.identity] = _told_of(before, found, priced=journal.price is not None)
    return known


def _told_of(known: Spend | None, journal: Spend, *, priced: bool) -> Spend:
    """Return the recorded spend of a life, up to where its journal got; not `priced`: it has no price."""
    if known is None:
        return journal if priced else journal._replace(epsilon=None, stream_epsilon=math.inf)
    if not priced:  # the recorded line has the price
        journal = journal._replace(
            epsilon=known.epsilon, delta=known.delta, stream_delta=known.stream_delta, settings=known.settings
        )
    ends = {span.where: span.end for span in journal.spans} if known.open else {}
    spans = tuple(span._replace(end=ends.get(span.where, span.end)) for span in known.spans)
    told = merged(known, journal._replace(spans=()))
    return told._replace(spans=spans)


def next_life(state: Path, life: Life, price: Price | None) -> Life:
    """Return `life` with the charges of other lives of its run that the folder knows, if any.

    Charges that `.spends` missed (after a kill, with the journal deleted) are unknown, and the account says
    so. Raises ValueError if `price` differs from theirs, JournalError.
    """
    lives = run_lives(state, life)
    for other in lives:
        known = other.settings or other.epsilon is not None
        if price is not None and known and (changed := other.price.changed(price)):
            raise ValueError(f"{life.run} has charged in this folder, and its {changed.words}")
    cost = 0.0
    if all(other.settings for other in lives):  # otherwise they may have had different prices
        for other in lives:
            cost = together(cost, other.stream_epsilon)
    return replace(life, carried=sum(other.charged for other in lives), carried_epsilon=cost)


def run_lives(state: Path, life: Life) -> list[Spend]:
    """Return the known lives of the run that have charged, or may have."""
    found = [spend for spend in all_spends(state, life.node) if spend.run == life.run]
    paid = [spend for spend in found if spend.charged or spend.open]
    return [spend for spend in paid if not (spend.mesh and life.mesh) or spend.mesh == life.mesh]
