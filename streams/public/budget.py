"""The budgets of nodes, from a journal if it is here, otherwise from the mesh broker."""

from collections.abc import Iterable
from pathlib import Path

from streams.mesh.file import MeshFile
from streams.public.account import Account, Standing, account
from streams.public.standings import journal_standing, public_standings


def budget(file: MeshFile, node: str, state: Path | None = None) -> Account:
    """Return the privacy that a node has spent in the mesh file's run, and the rest.

    The numbers are exact if the folder `state` holds the node's journal. Otherwise they are upper bounds from
    the mesh broker. Raises JournalError, BusError, MeshFileError.
    """
    return account(file, node, standings(file, [node], state)[node])


def standings(file: MeshFile, names: Iterable[str], state: Path | None) -> dict[str, Standing]:
    """Return the standing of the nodes, in order. Raises as `budget`."""
    found = {name: None if state is None else journal_standing(state, file, name) for name in names}
    missing = [name for name, standing in found.items() if standing is None]
    public = public_standings(file, missing) if missing else {}
    return {name: standing or public[name] for name, standing in found.items()}
