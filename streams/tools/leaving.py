"""Announces that a node leaves: finds a last round that no plan on its way can pass, and keeps it."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.public.standings import journal_standing
from streams.state.folder import StateFolder
from streams.state.journal_file import JournalLocked, locked
from streams.state.leaving import read_wish, write_wish


class Leaving(NamedTuple):
    """`last`: the last round with the node; `planned`: the newest one planned. `works`: its process does.

    `stepped`: the last round that it has stepped.
    """

    last: int
    planned: int
    stepped: int
    works: bool


def leave(file: MeshFile, node: str, state: Path) -> Leaving:
    """Announce that a node leaves H rounds after the newest plan; asked again, it stays at the first word.

    Its process reads that within a second, and tells the schedulers. Raises UsageError if the node has no
    journal of this run in the folder, or the run is over; JournalError, BusError, MeshFileError.
    """
    standing = journal_standing(state, file, node)
    if standing is None:
        text = f"{state}: holds no journal of {node} in run {file.mesh.run}: must be its state folder"
        raise UsageError(f"--state {text}")
    planned = _planned(file, node)
    leave_from = read_wish(state, node, file.mesh.run)
    if leave_from is None:
        leave_from = planned + file.mesh.horizon + 1
        write_wish(state, node, file.mesh.run, leave_from)
    return Leaving(leave_from - 1, planned, standing.stepped, _works(state, node))


def _planned(file: MeshFile, node: str) -> int:
    """Return the newest planned round (0: none), as the node's own user may read it."""
    with closing(reached(file.brokers(node).mesh)) as logs:
        plans = MeshLog.of(file, logs).valid_plans()
    newest = max(plans, default=0)
    if plans and plans[newest].ended:
        raise UsageError(f"{file.path}: run {file.mesh.run} is over: nobody needs to leave it")
    return newest


def _works(state: Path, node: str) -> bool:
    """Return whether a process has the node's journal open."""
    try:
        with locked(StateFolder(state).journal(node)):
            return False
    except JournalLocked:
        return True
