"""What one run spends on a node's data: written down as its process starts and ends."""

import math
from pathlib import Path

from nodes.journal import DataPosition, JournalRecord
from nodes.privacy.reuse import Reuse
from nodes.privacy.spends import TIME, Span, Spend, Word
from streams.journal.spends import earlier_spends, keep_spend, spends_file
from streams.mesh_file import build
from streams.mesh_file.settings.mesh import MeshSettings
from streams.mesh_file.settings.privacy import TimeSlots


def begin_spend(
    state: Path,
    mesh: MeshSettings,
    node: str,
    record: JournalRecord | None,
    start: DataPosition,
    before: int = 0,
    word: Word | None = None,
    *,
    by_plans: bool = False,
) -> Spend:
    """Write down that the run goes on, or begins at `start`; return what it spends and has spent, open.

    `record` is the journal's last one; `start` counts where it says nothing: () is the beginning of the data,
    and with `--from end` the ends that the partitions have now. `before`, `word` and `by_plans` are of a
    journal that begins (`Spend`). Raises JournalError.
    """
    position = dict(start) if record is None else dict(record.data_position or start)
    spend = _spend(mesh, node, record)._replace(
        spans=_begun(mesh, record, position), open=True, before=before, word=word, by_plans=by_plans
    )
    return keep_spend(spends_file(state, node), spend)


def end_spend(state: Path, mesh: MeshSettings, node: str, record: JournalRecord | None) -> None:
    """Write down how far the run has got, for now. Raises JournalError."""
    if record is None:
        return
    position = record.data_position
    spans: tuple[Span, ...] = ()
    if isinstance(mesh.slots, TimeSlots):
        end = mesh.slots.start + record.stepped * mesh.slots.period
        spans = (Span(TIME, end, end),)
    elif position:
        spans = tuple(Span(str(partition), end, end) for partition, end in position)
    keep_spend(spends_file(state, node), _spend(mesh, node, record)._replace(spans=spans))


def reuse(state: Path, mesh: MeshSettings, node: str, own: Spend) -> Reuse:
    """Return what earlier runs do to the guarantee: its `sentence()` follows that. Raises JournalError."""
    return Reuse(earlier_spends(state, node, mesh.run), own)


def _spend(mesh: MeshSettings, node: str, record: JournalRecord | None) -> Spend:
    ledger = build.ledger(mesh, node)
    promise = build.guarantee(mesh, node)
    charged, spent = (record.charged, record.epsilon_spent) if record else (0, 0.0)
    epsilon = promise.epsilon if promise.protects else None
    return Spend(mesh.run, charged, epsilon, promise.delta, spent if epsilon else math.inf, ledger.delta)


def _begun(mesh: MeshSettings, record: JournalRecord | None, position: dict[int, int]) -> tuple[Span, ...]:
    """Return the spans of a run that learns from `position` on, or from the slot after the record's."""
    if isinstance(mesh.slots, TimeSlots):
        if record is None:
            return (Span(TIME),)
        return (Span(TIME, mesh.slots.start + record.stepped * mesh.slots.period),)
    return tuple(Span(str(partition), offset) for partition, offset in (position or {0: 0}).items())
