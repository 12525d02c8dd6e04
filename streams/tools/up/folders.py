"""The default folder of `up`: one for all runs of a mesh, so that it knows what each has spent."""

from contextlib import suppress
from pathlib import Path

from streams.mesh.file import CollaborationFile, MeshFile
from streams.state.folder import JournalError, StateFolder
from streams.state.journal_reader import JournalReader

PARENT = Path("mirrormesh-state")


def default_folder(file: MeshFile | CollaborationFile, parent: Path = PARENT) -> Path:
    """Return the folder of all runs of the mesh."""
    return parent / file.mesh.name


def has_begun(file: MeshFile, state: Path) -> bool:
    """Return whether a node of the run has stepped a round in the folder `state`."""
    for name in file.nodes:
        with suppress(JournalError), JournalReader(StateFolder(state).journal(name)) as journal:
            if journal.life.run == file.mesh.run and journal.records(1):
                return True
    return False
