"""Records what one life of a node spends on its data, when its process starts and ends."""

import math
from pathlib import Path

from nodes.accounting.price import Price
from nodes.accounting.spends import TIME, DataReuse, Reuse, Span, Spend, added
from nodes.machine.journal import DataPosition, JournalRecord
from streams.mesh.mesh import Mesh
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import TimeSlots
from streams.state.folder import StateFolder
from streams.state.journal_reader import JournalReader
from streams.state.spends import all_spends, keep_journalled, keep_spend


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
) -> Spend:
    """Record that the run continues, or begins at `start`; return its spend, open.

    `record` is the journal's last one. If it has no position, `start` counts: () is the data's beginning, and
    with `--from end` it holds the partitions' current ends. `before`, `reuse` and `by_plans` belong to a new
    journal (`Spend`). A journal in the folder gives the life and the spends of earlier lives, which are
    recorded too. Raises JournalError.
    """
    if StateFolder(state).journal(node).exists():
        keep_journalled(state, node)
    position = dict(start) if record is None else dict(record.data_position or start)
    spend = _spend(state, mesh, node, record)._replace(
        spans=_begun(mesh.settings, record, position),
        open=True,
        before=before,
        reuse=reuse,
        by_plans=by_plans,
    )
    return keep_spend(StateFolder(state).spends(node), spend)


def end_spend(state: Path, mesh: Mesh, node: str, record: JournalRecord | None) -> Spend | None:
    """Record how far the run has got so far, and return that. Raises JournalError."""
    if record is None:
        return None
    position, slots = record.data_position, mesh.settings.slots
    spans: tuple[Span, ...] = ()
    if isinstance(slots, TimeSlots):
        end = slots.start + record.stepped * slots.period
        spans = (Span(TIME, end, end),)
    elif position:
        spans = tuple(Span(str(partition), end, end) for partition, end in position)
    spend = _spend(state, mesh, node, record)._replace(spans=spans)
    return keep_spend(StateFolder(state).spends(node), spend)


def reuse_beside(state: Path, node: str, own: Spend) -> Reuse:
    """Return the earlier lives and runs; its `sentence()` follows the guarantee. Raises JournalError."""
    found = all_spends(state, node)
    return Reuse(tuple(spend for spend in found if spend.identity != own.identity), own)


def _spend(state: Path, mesh: Mesh, node: str, record: JournalRecord | None) -> Spend:
    """Return the current life's spend by its last record, at its journal's price."""
    path, price = StateFolder(state).journal(node), mesh.node(node).price
    whose = Spend(mesh.settings.run, 0, None, 0.0, 0.0, 0.0)
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
    if isinstance(mesh.slots, TimeSlots):
        if record is None:
            return (Span(TIME),)
        return (Span(TIME, mesh.slots.start + record.stepped * mesh.slots.period),)
    return tuple(Span(str(partition), offset) for partition, offset in (position or {0: 0}).items())
