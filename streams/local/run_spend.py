"""What a run in one process owes to earlier lives over the same data, as its state folder knows them."""

from pathlib import Path

from nodes.accounting.spends import Reuse, Spend
from nodes.machine.journal import JournalRecord
from streams.local.mesh import MemoryMesh
from streams.local.recorder import Recorder
from streams.mesh.file import MeshFile
from streams.state.data_order import runs_in_order
from streams.state.run_spends import begin_spend, end_spend, reuse
from streams.state.spends import all_spends, forget_places, put_aside


class LocalSpends:
    """The spends of all nodes: as `node` keeps them, by the same code. To be made before journals are opened,
    and after the order of the data is kept.

    Journals of another run are put aside. What a run has spent that read the records in another order, or of
    which nobody knows in which, may be of any record. Raises JournalError.
    """

    def __init__(self, file: MeshFile, state: Path) -> None:
        self._file, self._state = file, state
        self._own: dict[str, Spend] = {}
        self._last: dict[str, JournalRecord | None] = {}
        for name in file.mesh.nodes:
            put_aside(state, name, file.mesh.run)
            forget_places(state, name, runs_in_order(state, file, name))

    def begin(self, mesh: MemoryMesh) -> None:
        """Write down that the run goes on, before its first record is learnt from. Raises JournalError."""
        for name, node in mesh.nodes.items():
            records = node.journal.records()
            self._last[name] = records[-1] if records else None
            self._own[name] = begin_spend(self._state, self._file.mesh, name, self._last[name], ())

    def end(self, recorder: Recorder) -> None:
        """Write down how far the run has come. Raises JournalError."""
        for name, last in self._last.items():
            stepped = recorder.nodes[name].records
            end_spend(self._state, self._file.mesh, name, stepped[-1] if stepped else last)
            own = self._own[name].identity
            known = (spend for spend in all_spends(self._state, name) if spend.identity == own)
            self._own[name] = next(known, self._own[name])

    def reuse(self, node: str) -> Reuse:
        """Return what other lives over its data, those before this run's, do to a node's guarantee."""
        return reuse(self._state, self._file.mesh, node, self._own[node])
