"""The default folder of `up`: one for all runs of a mesh, so that it knows what each has spent.

Earlier versions kept one folder per run, `<mesh>.<run>`. A run that began there goes on there, as its broker
may still run in it. Spending in any of these folders counts in all.
"""

from contextlib import suppress
from itertools import chain
from pathlib import Path

from streams.mesh.file import CollaborationFile, MeshFile
from streams.state.folder import JournalError, StateFolder
from streams.state.journal_file import locked
from streams.state.journal_reader import JournalReader
from streams.state.spends import all_spends, keep_spend

PARENT = Path("mirrormesh-state")


def default_folder(file: MeshFile | CollaborationFile, parent: Path = PARENT) -> Path:
    """Return the folder of the mesh file's run."""
    older = parent / f"{file.mesh.name}.{file.mesh.run}"
    return older if older.is_dir() else parent / file.mesh.name


def other_folders(file: MeshFile, folder: Path) -> tuple[Path, ...]:
    """Return the other folders of the mesh beside `folder`: names of meshes and runs have no dots."""
    found = (path for path in sorted(folder.parent.glob("*")) if path.is_dir() and path != folder)
    return tuple(path for path in found if path.name.partition(".")[0] == file.mesh.name)


def has_begun(file: MeshFile, state: Path) -> bool:
    """Return whether a node of the run has stepped a round in the folder `state`."""
    for name in file.nodes:
        with suppress(JournalError), JournalReader(StateFolder(state).journal(name)) as journal:
            if journal.life.run == file.mesh.run and journal.records(1):
                return True
    return False


def bring_spends(file: MeshFile, folder: Path, others: tuple[Path, ...]) -> list[Path]:
    """Copy the spending of the nodes here from `others` to `folder`; return the folders that had any.

    Positions there may mean nothing here, as topics may differ, so a copied spend may be of any record. Call
    it before a node runs in `folder`. Raises JournalError for anything unreadable, which would be forgotten.
    """
    brought: list[Path] = []
    for name in file.nodes:
        found = {other: spends for other in others if (spends := all_spends(other, name))}
        brought += [other for other in found if other not in brought]
        if not found:
            continue
        with locked(StateFolder(folder).journal(name)):
            for spend in chain(*found.values()):
                keep_spend(StateFolder(folder).spends(name), spend._replace(spans=()))
    return brought
