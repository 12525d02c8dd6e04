"""`mirrormesh watch` of a collaboration: a table, or a line every ten seconds."""

from rich.console import Console

from streams.bus.bus import Unreachable
from streams.bus.logs import reach
from streams.mesh.file import CollaborationFile
from streams.public.star_sight import look
from streams.runtime.process import Asked
from streams.terminal.report import say
from streams.terminal.star_view import line, parties_table

LINES = 10.0
"""Seconds between two lines."""


def once(file: CollaborationFile, console: Console) -> None:
    """Print the state once. Raises BusError, MeshFileError."""
    reach(file.mesh_broker)
    parties = look(file)
    say(console, f"{file.mesh.name}, run {file.mesh.run}: {line(file.mesh, parties)}")
    console.print(parties_table(file.mesh, parties))


def watch(file: CollaborationFile, console: Console, stopped: Asked) -> None:
    """Print a line every ten seconds until asked to stop, or the learner is done. Raises BusError."""
    while not stopped.is_set():
        try:
            parties = look(file)
        except Unreachable as away:
            say(console, str(away))
        else:
            say(console, line(file.mesh, parties))
            if parties[0].query > file.mesh.queries:
                return
        stopped.wait(LINES)
