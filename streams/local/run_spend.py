"""Accounts for earlier lives over the same data in a run in one process, from its state folder."""

from pathlib import Path

from nodes.accounting.spends import Spend
from nodes.machine.journal import JournalRecord
from streams.ledger import Reuse, data_of, known_spends, stated_apart
from streams.local.mesh import MemoryMesh
from streams.local.recorder import Recorder
from streams.mesh.errors import UsageError, writable_folder
from streams.mesh.file import MeshFile
from streams.state.data_order import check_order, keep_order
from streams.state.spends import all_spends, begin_spend, end_spend, put_aside


class LocalSpends:
    """The spends of all nodes, kept by the same code as for `node`. Create it before journals are opened.

    Journals of another run are put aside. `seed` replaces the file's. `other_data`: the operator states that
    these are other data than those of all earlier runs in the folder. Raises MeshFileError or UsageError if
    the run cannot continue in this folder, JournalError.
    """

    def __init__(
        self, file: MeshFile, state: Path, seed: int | None = None, *, other_data: bool = False
    ) -> None:
        writable_folder(state)
        self._file, self.state = file, state
        self._seed = file.mesh.seed if seed is None else seed
        self._other_data = other_data
        self._own: dict[str, Spend] = {}
        self._last: dict[str, JournalRecord | None] = {}
        lives = [spend for name in file.mesh.nodes for spend in all_spends(state, name)]
        learnt = any(spend.charged for spend in lives if spend.run == file.mesh.run)
        check_order(state, file, self._seed, learnt=learnt)
        for name in file.mesh.nodes:
            put_aside(state, name, file.mesh.run)
            if file.mesh.privacy.budget is not None:
                refuse_unknown(state, name, file.mesh.run)

    def begin(self, mesh: MemoryMesh) -> None:
        """Record that the run continues, before its first record is learnt from.

        Raises JournalError, and UsageError if the nodes are at different rounds.
        """
        refuse_torn(mesh, self.state)
        data = {name: data_of(self._file, name, self._seed) for name in mesh.nodes}
        stated = stated_apart(self._file, self.state, data, other_data=self._other_data)
        for name, node in mesh.nodes.items():
            records = node.journal.records()
            self._last[name] = records[-1] if records else None
            self._own[name] = begin_spend(
                self.state,
                self._file.resolved,
                name,
                self._last[name],
                (),
                data=data[name],
                apart=stated[name],
            )
        keep_order(self.state, self._file, self._seed, self._own)

    def end(self, recorder: Recorder) -> None:
        """Record how far the run has come. Raises JournalError."""
        for name, last in self._last.items():
            stepped = recorder.nodes[name].records
            end_spend(self.state, self._file.resolved, name, stepped[-1] if stepped else last)
            spend = self._own[name]
            stored = (life for life in all_spends(self.state, name) if life.identity == spend.identity)
            self._own[name] = next(stored, spend)

    def reuses(self) -> dict[str, Reuse]:
        """Return what is known of each node's data, for its guarantee."""
        return known_spends(self._file, self._own, self.state, own=self._own)


NEW_RUN = "the mesh needs a new run name (the new run counts what was spent)"


def refuse_unknown(state: Path, node: str, run: str) -> None:
    """Raise UsageError if a life of the run may have unknown charges, so that no budget can hold.

    Its process was killed, and its journal is gone, or that and what was written beside it. Raises
    JournalError.
    """
    if any(spend.run == run and spend.open for spend in all_spends(state, node)):
        raise UsageError(
            f"{state}: run {run} was not ended in order, and a journal of {node} is gone: nobody knows what "
            f"it has spent of its budget, so {NEW_RUN}"
        )


def refuse_torn(mesh: MemoryMesh, state: Path) -> None:
    """Raise UsageError if the journals are at different rounds, as the missing messages are lost.

    Without a broker, plans and releases on their way end with the process.
    """
    at = {name: max(map(_round, node.journal.records()), default=0) for name, node in mesh.nodes.items()}
    first, last = min(at, key=at.__getitem__), max(at, key=at.__getitem__)
    if at[first] != at[last]:
        mesh.close()
        positions = f"{first} is at round {at[first]:,}, {last} at {at[last]:,}"
        raise UsageError(
            f"{state}: the run in it was not ended in order ({positions}), and without a broker it cannot "
            f"go on: {NEW_RUN}"
        )


def _round(record: JournalRecord) -> int:
    return record.round
