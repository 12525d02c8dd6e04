"""Accounts for earlier lives over the same data in a run in one process, from its state folder."""

from pathlib import Path

from nodes.accounting.spends import Reuse, Spend
from nodes.machine.journal import JournalRecord
from streams.local.mesh import MemoryMesh
from streams.local.recorder import Recorder
from streams.mesh.errors import UsageError, writable_folder
from streams.mesh.file import MeshFile
from streams.state.data_order import keep_order, runs_in_order
from streams.state.run_spends import begin_spend, end_spend, reuse_beside
from streams.state.spends import all_spends, forget_places, put_aside


class LocalSpends:
    """The spends of all nodes, kept by the same code as for `node`. Create it before journals are opened.

    Journals of another run are put aside. The spending of a run that read the records in another, or an
    unknown, order may be of any record. `seed` replaces the file's. Raises MeshFileError or UsageError if the
    run cannot continue in this folder, JournalError.
    """

    def __init__(self, file: MeshFile, state: Path, seed: int | None = None) -> None:
        writable_folder(state)
        keep_order(state, file, file.mesh.seed if seed is None else seed)
        self._file, self.state = file, state
        self._own: dict[str, Spend] = {}
        self._last: dict[str, JournalRecord | None] = {}
        for name in file.mesh.nodes:
            put_aside(state, name, file.mesh.run)
            forget_places(state, name, runs_in_order(state, file, name))
            if file.mesh.privacy.budget is not None:
                refuse_unknown(state, name, file.mesh.run)

    def begin(self, mesh: MemoryMesh) -> None:
        """Record that the run continues, before its first record is learnt from.

        Raises JournalError, and UsageError if the nodes are at different rounds.
        """
        refuse_torn(mesh, self.state)
        for name, node in mesh.nodes.items():
            records = node.journal.records()
            self._last[name] = records[-1] if records else None
            self._own[name] = begin_spend(self.state, self._file.resolved, name, self._last[name], ())

    def end(self, recorder: Recorder) -> None:
        """Record how far the run has come. Raises JournalError."""
        for name, last in self._last.items():
            stepped = recorder.nodes[name].records
            end_spend(self.state, self._file.resolved, name, stepped[-1] if stepped else last)
            own = self._own[name].identity
            known = (spend for spend in all_spends(self.state, name) if spend.identity == own)
            self._own[name] = next(known, self._own[name])

    def reuse(self, node: str) -> Reuse:
        """Return the reuse of a node's data by lives before this run's, for its guarantee."""
        return reuse_beside(self.state, node, self._own[node])


NEW_RUN = "the mesh needs a new run name (the new run counts what was spent)"


def refuse_unknown(state: Path, node: str, run: str) -> None:
    """Raise UsageError if a life of the run may have unknown charges, so that no budget can hold.

    Its process was killed, and its journal is gone. Raises JournalError.
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
        where = f"{first} is at round {at[first]:,}, {last} at {at[last]:,}"
        raise UsageError(
            f"{state}: the run in it was not ended in order ({where}), and without a broker it cannot go on: "
            f"{NEW_RUN}"
        )


def _round(record: JournalRecord) -> int:
    return record.round
