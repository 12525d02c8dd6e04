"""Where `up` keeps a mesh unless it is told: one folder for all its runs, which knows what others have spent.

Earlier versions kept a folder for each run, `<mesh>.<run>`. A run that was begun there goes on there: its
broker may still run in it. What is spent in one of these folders counts in all.
"""

from itertools import chain
from pathlib import Path

from streams.mesh.file import MeshFile
from streams.state.folder import StateFolder
from streams.state.journal_file import locked
from streams.state.spends import all_spends, keep_spend

PARENT = Path("mirrormesh-state")


def default_folder(file: MeshFile, parent: Path = PARENT) -> Path:
    """Return where the run of the mesh file is kept."""
    older = parent / f"{file.mesh.name}.{file.mesh.run}"
    return older if older.is_dir() else parent / file.mesh.name


def other_folders(file: MeshFile, folder: Path) -> tuple[Path, ...]:
    """Return the other folders of the mesh beside `folder`: names of meshes and runs have no dots."""
    found = (path for path in sorted(folder.parent.glob("*")) if path.is_dir() and path != folder)
    return tuple(path for path in found if path.name.partition(".")[0] == file.mesh.name)


def bring_spends(file: MeshFile, folder: Path, others: tuple[Path, ...]) -> list[Path]:
    """Write down in `folder` what the nodes here have spent by the others; return those that had anything.

    A position there need not be one here, where the topics may be others: such a spend may be of any record.
    To be called before a node runs in `folder`. Raises JournalError where something cannot be read: what was
    spent would be forgotten.
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
