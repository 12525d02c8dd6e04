"""Keeps a node's wish to leave in its state folder: a restart does not forget it.

`mirrormesh leave` writes it; the node's process reads it at its start, and before each plan and heartbeat.
"""

import json
from pathlib import Path

from streams.state.folder import JournalError, StateFolder, write_private


def write_wish(state: Path, node: str, run: str, leave_from: int) -> None:
    """Keep the wish that no plan of the run names the node from that round on. Raises JournalError."""
    path = StateFolder(state).leaving(node)
    try:
        write_private(path, lambda _: f"{json.dumps({'run': run, 'leave_from': leave_from})}\n")
    except OSError as error:
        raise JournalError(f"{path} cannot be written: {error}") from error


def read_wish(state: Path, node: str, run: str) -> int | None:
    """Return the first round of the run without the node; None: it stays. Raises JournalError."""
    path = StateFolder(state).leaving(node)
    try:
        fields = json.loads(path.read_text())
        wish_run, leave_from = str(fields["run"]), int(fields["leave_from"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise JournalError(
            f"{path} cannot be read: delete it, then run mirrormesh leave again, or not"
        ) from error
    return leave_from if wish_run == run else None


def withdraw_wish(state: Path, node: str) -> None:
    """Forget the wish, if there is one. Raises JournalError."""
    path = StateFolder(state).leaving(node)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise JournalError(f"{path} cannot be deleted: {error}") from error
