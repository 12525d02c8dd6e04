"""The store of spends in a state folder: `<reader>.spends`, a line for each life, and what journals add.

A line is the same here and on the data broker. Each line has a checksum, and the last one gives the number of
lines. So damage is detected; the error names it and ends the process. A file that `feed` reads instead of a
source has a line too.

Lines of lives are written under the journal's lock, when a process starts and when it ends in order. The line
at the start is open, as the life may learn from any new record. After a kill the journal has the numbers, as
long as it exists. A journal of another run in the folder is recorded and put aside. Lines of other folders
that the data broker has are stored too, so that a folder keeps all spends that its processes knew.
"""

import fcntl
import hashlib
import json
import math
import os
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

from nodes.accounting.guarantee import Price
from nodes.accounting.spends import Data, DataReuse, Span, Spend, merged_lives, sum_epsilons
from streams.mesh.file import KINDS
from streams.state.data_order import begun_lines, begun_nodes
from streams.state.folder import JournalError, StateFolder, write_ahead_log, write_private
from streams.state.journal_file import (
    NODE,
    JournalEmpty,
    JournalReader,
    Life,
    application_of,
    explained,
    locked,
)
from streams.state.secret import wipe

_FORMAT = "mirrormesh spends 1"
_SUM = 16
_REUSES = (None, *get_args(DataReuse))
_FED = "fed"
_TICK = 100_000_000
"""Nanoseconds within which two changes of a file may have the same time."""


class Damaged(ValueError):
    """A line differs from what was written."""


def to_line(spend: Spend) -> str:
    """Return the line: a checksum, and JSON without infinities, which are null."""
    row = spend._asdict()
    row |= {"epsilon": None if spend.epsilon is None else str(spend.epsilon)}
    row["stream_epsilon"] = _number(spend.stream_epsilon)
    row["spans"] = [[place, _number(first), _number(end)] for place, first, end in spend.spans]
    return _summed(json.dumps(row))


def from_line(line: str) -> Spend:
    """Return the spend of a line. Raises Damaged."""
    return _spend(_row(line))


def _spend(row: dict[str, Any]) -> Spend:
    try:
        epsilon = None if row["epsilon"] is None else Fraction(row["epsilon"])
        spans = tuple(
            Span(place, -math.inf if first is None else first, math.inf if end is None else end)
            for place, first, end in row["spans"]
        )
        values = row | {
            "epsilon": epsilon,
            "stream_epsilon": math.inf if row["stream_epsilon"] is None else row["stream_epsilon"],
            "spans": spans,
            "settings": tuple((key, value) for key, value in row["settings"]),
            "data": tuple(Data(*names) for names in row["data"]),
            "apart": tuple(row["apart"]),
        }
        spend = Spend(**values)
        _check(spend)
    except (ValueError, TypeError, KeyError, ZeroDivisionError) as error:
        raise Damaged(f"it says what no life can have spent: {error}") from error
    return spend


def _fed_line(data: Data) -> str:
    return _summed(json.dumps({_FED: data}))


def _fed_data(row: dict[str, Any]) -> Data:
    try:
        data = Data(*row[_FED])
    except TypeError as error:
        raise Damaged(f"it says what cannot be fed: {error}") from error
    if not all(type(text) is str for text in data):
        raise Damaged("it says what cannot be fed: a name is not text")
    return data


def _row(line: str) -> dict[str, Any]:
    try:
        row = json.loads(_checked(line))
    except Damaged:
        raise
    except ValueError as error:
        raise Damaged(f"it is no JSON: {error}") from error
    if not isinstance(row, dict):
        raise Damaged("it is no object of JSON")
    return row


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _summed(text: str) -> str:
    return f"{_digest(text)} {text}"


def _digest(text: str) -> str:
    """Return a checksum. Its text has charges and settings, and no record."""
    return hashlib.sha256(f"{_FORMAT}\n{text}".encode()).hexdigest()[:_SUM]


def _checked(line: str) -> str:
    checksum, space, text = line[:_SUM], line[_SUM : _SUM + 1], line[_SUM + 1 :]
    if space != " " or checksum != _digest(text):
        raise Damaged("its checksum does not fit what it says")
    return text


def _check(spend: Spend) -> None:
    """Raise ValueError for an impossible spend, which would lower the total."""
    texts = (spend.run, spend.mesh, spend.folder, spend.life, spend.node, *spend.apart)
    texts += tuple(span.where for span in spend.spans)
    texts += tuple(text for setting in (*spend.settings, *spend.data) for text in setting)
    if not all(type(text) is str for text in texts):
        raise ValueError("a name is not text")
    if not all(type(count) is int and count >= 0 for count in (spend.charged, spend.before, spend.turn)):
        raise ValueError("a count is not a whole number of at least 0")
    flags = (spend.open, spend.by_plans)
    if not all(type(flag) is bool for flag in flags) or spend.reuse not in _REUSES:
        raise ValueError("open, by_plans or reuse has a value that is not allowed")
    costs = (spend.epsilon or 0, spend.delta, spend.stream_epsilon, spend.stream_delta)
    if not all(cost >= 0 for cost in costs) or math.isinf(spend.delta) or math.isinf(spend.stream_delta):
        raise ValueError("a cost is not a number of at least 0, or a delta is infinite")


# The file


class _Content(NamedTuple):
    """A file's content: lives, and the data that were fed to the reader's topic instead of its source."""

    lives: tuple[Spend, ...] = ()
    fed: tuple[Data, ...] = ()


def read_spends(path: Path) -> tuple[Spend, ...]:
    """Return the spends in a file, none if it is missing. Raises JournalError, which names a damaged line."""
    return _content(path).lives


def fed_data(state: Path, reader: str) -> tuple[Data, ...]:
    """Return the data that were fed to the reader's topic instead of its source. Raises JournalError."""
    return _content(StateFolder(state).spends(reader)).fed


def _content(path: Path) -> _Content:
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except FileNotFoundError:
        return _Content()
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error}") from error


@lru_cache(maxsize=4096)
def _read(path: Path, changed: int, size: int, inode: int) -> _Content:  # noqa: ARG001 # a key
    """Read the file. The result is cached, as a host asks for the lines of each of its nodes."""
    unknown = "what earlier runs have spent is not known"
    lines = path.read_bytes().decode("ascii", errors="replace").split("\n")
    if lines[0] != _FORMAT:
        raise JournalError(
            f"{path}: line 1 is not {_FORMAT!r}, it is of another version or damaged: {unknown}"
        )
    lives: list[Spend] = []
    fed: list[Data] = []
    for number, line in enumerate(lines[1:-2], 2):
        try:
            row = _row(line)
            if _FED in row:
                fed.append(_fed_data(row))
            else:
                lives.append(_spend(row))
        except Damaged as error:
            raise JournalError(f"{path}: line {number} is damaged, {error}: {unknown}") from error
    if len(lines) < 3 or lines[-1] or lines[-2] != _last_line(lines[1:-2]):
        raise JournalError(
            f"{path}: line {max(2, len(lines) - 1)}, the last one, is missing or damaged, so lines may be "
            f"missing: {unknown}"
        )
    return _Content(tuple(lives), tuple(fed))


def _last_line(lines: list[str]) -> str:
    return _summed(f"{len(lines)} lines, {_digest(''.join(lines))}")


def write_spends(path: Path, spends: Iterable[Spend]) -> None:
    """Replace the file's lives by these; durable when this returns. Raises JournalError."""
    with _alone(path):
        _write(path, _content(path)._replace(lives=tuple(spends)))


def keep_spends(path: Path, *spends: Spend) -> Spend:
    """Merge spends with what is recorded; return the last one merged. Durable when this returns.

    Raises JournalError.
    """
    with _alone(path):
        content = _content(path)
        lives = merged_lives(content.lives, spends)
        _write(path, content._replace(lives=tuple(lives.values())))
    return lives[spends[-1].identity]


def keep_fed(state: Path, reader: str, data: Data) -> None:
    """Record that these data go to the reader's topic; durable when this returns. Raises JournalError."""
    path = StateFolder(state).spends(reader)
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JournalError(f"{path} cannot be written: {error}") from error
    with _alone(path):
        content = _content(path)
        if data not in content.fed:
            _write(path, content._replace(fed=(*content.fed, data)))


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """A context in which no other process writes the file.

    `feed` writes it while the node's process may, too.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise JournalError(f"{path} cannot be written: {error}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    except OSError as error:
        raise JournalError(f"{path} cannot be written: {error}") from error
    finally:
        os.close(folder)


def _write(path: Path, content: _Content) -> None:
    lines = [*map(to_line, content.lives), *map(_fed_line, content.fed)]
    text = "\n".join([_FORMAT, *lines, _last_line(lines), ""])
    write_private(path, lambda _: text)


# Lives, by lines and journals


def all_spends(state: Path, node: str, journals: Iterable[Path] | None = None) -> tuple[Spend, ...]:
    """Return the spends of all lives of a node in the folder so far; that of the current journal comes last.

    `journals`: its journals there, if they are known. Raises JournalError if one of them cannot be read.
    """
    folder = StateFolder(state)
    lives = merged_lives(_begun_lives(state, node), read_spends(folder.spends(node)))
    for path in folder.journals(node) if journals is None else journals:
        with suppress(JournalEmpty):
            lives = _with_lives(lives, _of_journal(path, node), folder.known_id())
    return tuple(lives.values())


def readers(state: Path) -> tuple[str, ...]:
    """Return the names of all nodes and owners that have spends, or a journal, in the folder."""
    paths = (path for kind in ("spends", "journal") for path in state.glob(f"*.{kind}"))
    names = {path.name.partition(".")[0] for path in paths}
    return tuple(sorted((names | begun_nodes(state)) - {""}))


def spends_beside(state: Path, nodes: Collection[str]) -> tuple[Spend, ...]:
    """Return the lives of all readers in the folder but `nodes`. Unreadable lives count as unprotected.

    No process of these readers is interrupted.
    """
    journals = StateFolder(state).all_journals()  # for each reader alone it would list all files
    other_readers = (name for name in readers(state) if name not in nodes)
    return tuple(spend for name in other_readers for spend in _beside(state, name, journals.get(name, ())))


def _beside(state: Path, node: str, journals: Iterable[Path]) -> tuple[Spend, ...]:
    try:
        lines = tuple(
            merged_lives(_begun_lives(state, node), read_spends(StateFolder(state).spends(node))).values()
        )
        if lines and not any(spend.open for spend in lines):
            return lines
    except JournalError:
        return (_unknown(node),)
    try:
        return all_spends(state, node, journals)
    except JournalError:
        return lines or (_unknown(node),)


def _begun_lives(state: Path, node: str) -> tuple[Spend, ...]:
    """Return the lives with which a node's runs in the folder began. Raises JournalError."""
    try:
        return tuple(map(from_line, begun_lines(state, node)))
    except Damaged as error:
        path = StateFolder(state).order
        raise JournalError(f"{path}: a line of {node} is damaged, {error}") from error


def _ended(journal: JournalReader, path: Path) -> tuple[Spend, ...]:
    """Return the spends of a journal's earlier lives, oldest first. Raises JournalError."""
    with explained(path):
        return tuple(map(from_line, journal.life.ended.splitlines()))


def _unknown(node: str) -> Spend:
    return Spend("", 0, None, 0.0, math.inf, 0.0, open=True, node=node)


def _of_journal(path: Path, name: str) -> tuple[Spend, ...]:
    """Return the lives in the journal at `path` if it belongs to this node, or process of another kind.

    Raises JournalError, JournalEmpty.
    """
    marks = tuple(map(_mark, (path, write_ahead_log(path))))
    if time.time_ns() - max(changed for changed, *_ in marks) < _TICK:  # it may change again within one tick
        return _lives_in(path, name)
    return _known_lives_in(path, name, marks)


def _mark(path: Path) -> tuple[int, int, int]:
    """Return values that change with a file: its time of change, size and inode; zeros if it is missing."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino


@lru_cache(maxsize=4096)
def _known_lives_in(path: Path, name: str, marks: tuple[tuple[int, int, int], ...]) -> tuple[Spend, ...]:  # noqa: ARG001 # a key
    """Read the journal. The result is cached, as a host asks for the journals of each of its nodes."""
    return _lives_in(path, name)


def _lives_in(path: Path, name: str) -> tuple[Spend, ...]:
    application = application_of(path)
    if application not in {0, NODE.application}:  # 0: the file is empty
        for kind in (lazy.kind for lazy in KINDS):
            if application in kind.journals:
                lives: tuple[Spend, ...] = kind.journals[application](path, name)
                return lives
    with JournalReader(path) as reader:
        return (*_ended(reader, path), reader.spend) if reader.life.node == name else ()


def _with_lives(lives: dict[str, Spend], journal: tuple[Spend, ...], folder: str) -> dict[str, Spend]:
    """Return the known lives with those of a journal, the newest last."""
    lives = dict(lives)
    for journal_spend in journal:
        spend, recorded = journal_spend, lives.pop(journal_spend.identity, None)
        if recorded is not None:
            spend = _up_to(recorded, spend, folder)
        elif spend.epsilon is None:
            spend = spend._replace(stream_epsilon=math.inf)
        lives[spend.identity] = spend
    return lives


def _up_to(known: Spend, journal: Spend, folder: str) -> Spend:
    """Return the recorded spend of a life, with its journal's progress. `folder`: the id of this folder.

    The journal shows that a life has ended only in the life's own folder. In a copy of the folder it does
    not, as the life may continue elsewhere.
    """
    over = known.folder in {"", folder}
    ends = {span.where: span.end for span in journal.spans} if known.open and over else {}
    bare = known.epsilon is None or (journal.epsilon is None and journal.settings)
    return known._replace(
        charged=max(known.charged, journal.charged),
        epsilon=None if bare else max(known.epsilon or Fraction(0), journal.epsilon or Fraction(0)),
        delta=max(known.delta, journal.delta),
        stream_epsilon=max(known.stream_epsilon, journal.stream_epsilon),
        stream_delta=max(known.stream_delta, journal.stream_delta),
        spans=tuple(span._replace(end=ends.get(span.where, span.end)) for span in known.spans),
        open=known.open and not over,
        mesh=known.mesh or journal.mesh,
        settings=journal.settings or known.settings,
    )


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
            life = journal.life
            ended = (*_ended(journal, path), journal.spend)
            lives = _with_lives(merged_lives(read_spends(spends)), ended, folder.known_id())
    except JournalEmpty:
        return None
    if life.run == run or life.node != node:
        return None  # it is of this run, or unreadable, which opening it reports
    write_spends(spends, lives.values())
    aside = folder.place_aside(node, life.run)
    try:
        wipe(path)
    except (sqlite3.Error, ValueError) as error:
        raise JournalError(f"the journal {path} cannot be put aside: {error}") from error
    path.rename(aside)
    return aside


def next_life(state: Path, life: Life, price: Price | None) -> Life:
    """Return `life` with the charges of other lives of its run that the folder knows, if any.

    Charges that `.spends` missed (after a kill, with the journal deleted) are unknown, and the account states
    this. Raises ValueError if `price` differs from theirs, JournalError.
    """
    lives = run_lives(state, life)
    for earlier in lives:
        priced = earlier.settings or earlier.epsilon is not None
        if price is not None and priced and (changed := earlier.price.changed(price)):
            raise ValueError(f"{life.run} has charged in this folder, and its {changed.words}")
    cost = 0.0
    if all(earlier.settings for earlier in lives):  # otherwise they may have had different prices
        for earlier in lives:
            cost = sum_epsilons(cost, earlier.stream_epsilon)
    return replace(life, carried=sum(earlier.charged for earlier in lives), carried_epsilon=cost)


def run_lives(state: Path, life: Life) -> list[Spend]:
    """Return the lives of the run in this folder that have charged rounds, or may have.

    Lives that other folders wrote to the broker are counted by the plans.
    """
    folder = StateFolder(state).known_id()
    lives = [spend for spend in all_spends(state, life.node) if spend.run == life.run]
    paid = [spend for spend in lives if spend.charged or spend.open]
    in_folder = [spend for spend in paid if not (spend.folder and folder) or spend.folder == folder]
    return [spend for spend in in_folder if not (spend.mesh and life.mesh) or spend.mesh == life.mesh]


def begin_life(state: Path, life: Spend, *, fresh: bool) -> Spend:
    """Record that a life begins or continues, and all lives in journals. Return the life, which is open.

    `fresh`: its journal has no record yet, so it does not show where the life reads. Raises JournalError.
    """
    folder = StateFolder(state)
    life, path = life._replace(folder=folder.id()), folder.spends(life.node)
    lives = merged_lives(all_spends(state, life.node))
    recorded = lives.get(life.identity)
    if fresh and recorded is not None and not recorded.turn:
        del lives[life.identity]
        recorded = None
    opened_life = life._replace(open=True, turn=1 if recorded is None else recorded.turn + 1)
    lives = merged_lives(lives.values(), (opened_life,))
    write_spends(path, lives.values())
    return lives[opened_life.identity]


def end_life(state: Path, life: Spend, ends: Mapping[str, float] | None = None) -> Spend:
    """Record the final spend of a life at its orderly end, and return it.

    `ends`: where its records end, by partition or time (none: it has learnt from no record, or from any).
    Raises JournalError.
    """
    folder = StateFolder(state)
    life, path = life._replace(folder=folder.id()), folder.spends(life.node)
    recorded = merged_lives(read_spends(path)).get(life.identity, life)
    firsts = {span.where: span.first for span in recorded.spans}
    spans = tuple(Span(place, firsts.get(place, -math.inf), end) for place, end in (ends or {}).items())
    return keep_spends(
        path, life._replace(spans=spans if firsts and ends else recorded.spans, turn=recorded.turn)
    )
