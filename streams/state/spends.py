"""The lives of all readers in a state folder, by their lines and journals, and what one process records.

`<reader>.spends` stands beside the journal, and is written under the journal's lock: when a process starts
(its line is open, as it may learn from any new record) and when it ends in order. After a kill the journal
has the numbers, as long as it exists. A journal of another run in the folder is recorded and put aside. Lines
that the data broker has of other folders are kept too, so that a folder knows what its processes knew.
"""

import json
import math
import sqlite3
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from nodes.accounting.price import Price
from nodes.accounting.spends import TIME, Data, DataReuse, Span, Spend, added, merged_lives, together
from nodes.machine.journal import DataPosition, JournalRecord
from streams.mesh.mesh import Mesh
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import TimeSlotsSettings
from streams.state.data_order import begun_lives, begun_nodes
from streams.state.folder import JournalError, StateFolder, write_private
from streams.state.journal_file import JournalEmpty, Life, application_of, locked
from streams.state.journal_reader import JournalReader
from streams.state.learner_journal import LearnerJournal
from streams.state.owner_journal import OwnerJournal
from streams.state.secret import wipe
from streams.state.spend_file import keep_spends, read_spends, write_spends


def all_spends(state: Path, node: str) -> tuple[Spend, ...]:
    """Return the spends of all lives of a node in the folder so far; that of the current journal comes last.

    Raises JournalError if one of them cannot be read.
    """
    folder = StateFolder(state)
    lives = merged_lives(begun_lives(state, node), read_spends(folder.spends(node)))
    for path in folder.journals(node):
        with suppress(JournalEmpty):
            lives = _with_lives(lives, _of_journal(path, node), folder.known_id())
    return tuple(lives.values())


def keep_fed(state: Path, reader: str, data: Data) -> None:
    """Record that these data go to the reader's topic; durable when this returns. Raises JournalError."""
    files = fed_data(state, reader)
    if data not in files:
        path = StateFolder(state).fed(reader)
        text = "".join(f"{json.dumps(file._asdict())}\n" for file in (*files, data))
        try:
            state.mkdir(parents=True, exist_ok=True)
            write_private(path, lambda _: text)
        except OSError as error:
            raise JournalError(f"{path} cannot be written: {error}") from error


def fed_data(state: Path, reader: str) -> tuple[Data, ...]:
    """Return what was fed to the reader's topic in place of its source. Raises JournalError."""
    path = StateFolder(state).fed(reader)
    try:
        return tuple(Data(**json.loads(line)) for line in path.read_text().splitlines())
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError) as error:
        raise JournalError(f"{path} is broken: what was fed to {reader} is not known") from error


def readers(state: Path) -> tuple[str, ...]:
    """Return the names of all nodes and owners that have spends, or a journal, in the folder."""
    paths = (path for kind in ("spends", "journal") for path in state.glob(f"*.{kind}"))
    names = {path.name.partition(".")[0] for path in paths}
    return tuple(sorted((names | begun_nodes(state)) - {""}))


def spends_beside(state: Path, node: str) -> tuple[Spend, ...]:
    """Return the lives of another reader in the folder; what cannot be read is a life that protects nothing.

    It stops no process of this one.
    """
    try:
        lines = tuple(
            merged_lives(begun_lives(state, node), read_spends(StateFolder(state).spends(node))).values()
        )
        if lines and not any(spend.open for spend in lines):
            return lines
    except JournalError:
        return (_unknown(node),)
    try:
        return all_spends(state, node)
    except JournalError:
        return lines or (_unknown(node),)


def _unknown(node: str) -> Spend:
    return Spend("", 0, None, 0.0, math.inf, 0.0, open=True, node=node)


def _of_journal(path: Path, name: str) -> tuple[Spend, ...]:
    """Return the lives in a node's or an owner's journal, if it is its; a learner's spends nothing.

    Raises JournalError, JournalEmpty.
    """
    application = application_of(path)
    if application == LearnerJournal.form.application:
        return ()
    if application == OwnerJournal.form.application:
        with OwnerJournal.read(path) as journal:
            return (journal.spend,) if journal.life.node == name else ()
    with JournalReader(path) as reader:
        return (*reader.ended, reader.spend) if reader.life.node == name else ()


def _with_lives(lives: dict[str, Spend], journal: tuple[Spend, ...], folder: str) -> dict[str, Spend]:
    """Return the known lives with those of a journal, the newest last."""
    lives = dict(lives)
    for told in journal:
        spend, known = told, lives.pop(told.identity, None)
        if known is not None:
            spend = _up_to(known, spend, folder)
        elif spend.epsilon is None:
            spend = spend._replace(stream_epsilon=math.inf)
        lives[spend.identity] = spend
    return lives


def _up_to(known: Spend, journal: Spend, folder: str) -> Spend:
    """Return the recorded spend of a life, up to where its journal got; `folder` is this one's id.

    The journal says that a life is over only in the life's own folder: where a copy of it lies, the life may
    go on elsewhere.
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
            ended = (*journal.ended, journal.spend)
            lives = _with_lives(merged_lives(read_spends(spends)), ended, folder.known_id())
    except JournalEmpty:
        return None
    if life.run == run or life.node != node:
        return None  # the right one, or unreadable, which opening it reports
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
    """Return the lives of the run in this folder that have charged, or may have.

    Those that other folders wrote to the broker are counted by the plans.
    """
    folder = StateFolder(state).known_id()
    lives = [spend for spend in all_spends(state, life.node) if spend.run == life.run]
    paid = [spend for spend in lives if spend.charged or spend.open]
    here = [spend for spend in paid if not (spend.folder and folder) or spend.folder == folder]
    return [spend for spend in here if not (spend.mesh and life.mesh) or spend.mesh == life.mesh]


def begin_spend(
    state: Path,
    mesh: Mesh,
    node: str,
    record: JournalRecord | None,
    start: DataPosition,
    before: int = 0,
    reuse: DataReuse | None = None,
    *,
    by_plans: bool = False,
    data: tuple[Data, ...] = (),
    apart: tuple[str, ...] = (),
) -> Spend:
    """Record that the run continues, or begins at `start`; return its spend, open.

    `record` is the journal's last one. If it has no position, `start` counts: () is the data's beginning, and
    with `--from end` it holds the partitions' current ends. `before`, `reuse` and `by_plans` belong to a new
    journal (`Spend`). A journal in the folder gives the life and the spends of earlier lives, which are
    recorded too. Raises JournalError.
    """
    path = StateFolder(state).spends(node)
    position = dict(start) if record is None else dict(record.data_position or start)
    spend = _spend(state, mesh, node, record)
    lives = merged_lives(all_spends(state, node))
    known = lives.get(spend.identity)
    if record is None and known is not None and not known.turn:
        del lives[spend.identity]  # its journal is new, and says nothing of where it reads
        known = None
    write_spends(path, lives.values())
    spend = spend._replace(
        spans=_begun(mesh.settings, record, position),
        open=True,
        before=before,
        reuse=reuse,
        by_plans=by_plans,
        data=data,
        apart=apart,
        turn=1 if known is None else known.turn + 1,
    )
    return keep_spends(path, spend)


def end_spend(state: Path, mesh: Mesh, node: str, record: JournalRecord | None) -> Spend | None:
    """Record how far the run has got so far, and return that. Raises JournalError."""
    if record is None:
        return None
    path, spend = StateFolder(state).spends(node), _spend(state, mesh, node, record)
    known = merged_lives(read_spends(path)).get(spend.identity, spend)
    firsts = {span.where: span.first for span in known.spans}
    ends: dict[str, float] = {}
    slots = mesh.settings.slots
    if isinstance(slots, TimeSlotsSettings):
        ends = {TIME: slots.start + record.stepped * slots.period}
    elif record.data_position:
        ends = {str(partition): end for partition, end in record.data_position}
    spans = tuple(Span(where, firsts.get(where, -math.inf), end) for where, end in ends.items())
    if not ends or not known.spans:
        spans = known.spans  # it has learnt from no record yet, or from any
    return keep_spends(path, spend._replace(spans=spans, turn=known.turn))


def _spend(state: Path, mesh: Mesh, node: str, record: JournalRecord | None) -> Spend:
    """Return the current life's spend by its last record, at its journal's price."""
    path, price = StateFolder(state).journal(node), mesh.node(node).price
    whose = Spend(mesh.settings.run, 0, None, 0.0, 0.0, 0.0, node=node)
    carried, carried_epsilon = 0, 0.0
    if path.exists():
        with JournalReader(path) as journal:
            whose, life = journal.spend, journal.life
            price = journal.price or Price(None)
            carried, carried_epsilon = life.carried, life.carried_epsilon
    charged, spent = (record.charged, record.epsilon_spent) if record else (carried, carried_epsilon)
    return whose._replace(
        charged=charged - carried,
        epsilon=price.epsilon,
        delta=price.delta,
        stream_epsilon=math.inf if price.epsilon is None else added(carried_epsilon, spent),
        stream_delta=price.stream_delta,
        mesh=mesh.settings.name,
        folder=StateFolder(state).id(),
        settings=price.settings,
    )


def _begun(mesh: MeshSettings, record: JournalRecord | None, position: dict[int, int]) -> tuple[Span, ...]:
    """Return the spans of a run that learns from `position` on, or from the slot after the record's."""
    if isinstance(mesh.slots, TimeSlotsSettings):
        if record is None:
            return (Span(TIME),)
        return (Span(TIME, mesh.slots.start + record.stepped * mesh.slots.period),)
    return tuple(Span(str(partition), offset) for partition, offset in (position or {0: 0}).items())
