"""`mirrormesh watch`: shows a mesh on a broker. One thread polls the broker, another draws and reads keys."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Thread
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from streams.bus.bus import BusError
from streams.bus.logs import reach
from streams.cli.command_line import MeshArgument, WatchOptions, cautioned
from streams.live.data.letters import unread_records
from streams.mesh.file import MeshFile, load_any
from streams.mesh.kind import dispatch
from streams.runtime.process import Asked, Stop
from streams.status.mesh_status import StatusTracker
from streams.status.one_round import read_round
from streams.status.status_poller import StatusPoller, TopicPoller
from streams.terminal.live_views import (
    explained,
    mesh_line,
    mesh_picture,
    nodes,
    round_lines,
    round_table,
)
from streams.terminal.malformed import unread_line
from streams.terminal.report import say

# Runs `mirrormesh watch`: one thread polls the broker, the main thread draws and reads keys.

PERIOD = 0.5
"""Seconds between two pictures."""
LINES = 10.0
"""Seconds between two lines without a terminal."""
LETTERS = 5.0
"""Seconds between two checks of the dead letters for the owner."""


class OwnerLine:
    """A line for the owner on records that the local nodes could not read, polled from their dead letters."""

    def __init__(self, file: MeshFile, stopped: Asked) -> None:
        self._file, self._stopped = file, stopped
        self.text = ""

    def look(self) -> None:
        """Poll the dead letters once."""
        self.text = unread_line(unread_records(self._file))

    def start(self) -> None:
        """Poll until asked to stop, in a thread of its own, as a broker may answer slowly."""
        Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while not self._stopped.is_set():
            self.look()
            self._stopped.wait(LETTERS)


def show_once(file: MeshFile, console: Console, owner: OwnerLine | None) -> None:
    """Print the state of the mesh once. Raises BusError, MeshFileError."""
    reach(file.mesh_broker)
    with closing(TopicPoller(file)) as topics:
        watched = StatusTracker(file.resolved)
        watched.take(topics.ask())
        watched.refused(topics.refused)
    status = watched.status(time.monotonic())
    say(console, f"{_title(file)}: {mesh_line(status)}")
    console.print(nodes(status, len(status.rows), console.width))
    if owner is not None:
        owner.look()
        say(console, owner.text)


def show_round(file: MeshFile, console: Console, number: int) -> None:
    """Tell one round of the mesh. Raises BusError, UsageError."""
    story = read_round(file, number)
    say(console, _title(file))
    for line in round_lines(story):
        say(console, line)
    console.print(round_table(story))


def watch_mesh(
    file: MeshFile, console: Console, stopped: Asked, owner: OwnerLine | None, *, plain: bool
) -> None:
    """Show the mesh until asked to stop.

    Raises MeshFileError, and BusError if waiting cannot help.
    """
    with closing(TopicPoller(file)) as topics:
        poller = StatusPoller(file, topics)
        poller.start()
        if owner is not None:
            owner.start()
        try:
            if plain or console.is_dumb_terminal or not console.is_terminal:
                _lines(poller, console, stopped, owner)
            else:
                _drawn(poller, console, stopped, _title(file), owner)
        finally:
            poller.end()


def _lines(poller: StatusPoller, console: Console, stopped: Asked, owner: OwnerLine | None) -> None:
    while not stopped.is_set():
        status = poller.status()
        if poller.asked:
            say(console, "; ".join(filter(None, (poller.trouble, mesh_line(status)))))
            if owner is not None and owner.text:
                say(console, owner.text)
            stopped.wait(LINES)
        else:
            stopped.wait(PERIOD / 5)


def _drawn(
    poller: StatusPoller, console: Console, stopped: Asked, title: str, owner: OwnerLine | None
) -> None:
    helping = False
    with keys() as pressed, Live(console=console, auto_refresh=False, screen=True) as live:
        while not stopped.is_set():
            status = poller.status()
            size = console.height, console.width
            unread = "" if owner is None else owner.text
            picture = mesh_picture(title, poller.trouble, status, *size, owner=unread)
            now = explained(title) if helping else picture
            live.update(now, refresh=True)
            key = pressed(PERIOD)
            if key in {"q", "Q"}:
                return
            if key in {"h", "H", "?"}:
                helping = not helping


def _title(file: MeshFile) -> str:
    return f"{file.mesh.name}, run {file.mesh.run}"


Pressed = Callable[[float], str]
"""Waits for up to the given seconds; returns the pressed key, or an empty text."""


@contextmanager
def keys() -> Iterator[Pressed]:
    """Read keys one by one, without echo, and restore the terminal afterwards. Without a terminal: no keys.

    Ctrl-C stays a signal.
    """
    if not sys.stdin.isatty():
        yield _none
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSANOW)
        yield lambda seconds: _pressed(terminal, seconds)
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


def _pressed(terminal: int, seconds: float) -> str:
    ready, _, _ = select.select([terminal], [], [], seconds)
    return os.read(terminal, 1).decode("ascii", "replace") if ready else ""


def _none(seconds: float) -> str:
    time.sleep(seconds)
    return ""


# `mirrormesh watch`: shows a mesh on a broker.


def watch(
    mesh: MeshArgument,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print one table and exit.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Lines, also on a terminal.")] = False,
    owner: Annotated[
        bool, typer.Option("--owner", help="For their owner: also what the nodes here could not read.")
    ] = False,
    round_number: Annotated[
        int | None,
        typer.Option("--round", metavar="T", min=1, help="Print whom each waited for in round T, and exit."),
    ] = None,
) -> None:
    """Watch a mesh that runs on a broker.

    Shows a row for each node: its current in-neighbours, its spending, whether it is missing, and how many
    messages it has refused. Reads plans and heartbeats on the mesh broker, and counts dead letters; writes
    nothing. On a terminal it draws one screen: h or ? for help, q or Ctrl-C to quit. Elsewhere it prints a
    line every 10 s. For a collaboration it prints such a line until the collaboration is over.

    With --owner it also shows how many records the nodes whose own part is here could not read, and why. That
    comes from the dead letters on their own broker.

    With --round it tells one round from plans and releases: who sent when, for whom each node waited, and who
    went on without whom. The topics keep the last four horizons of rounds at least.

    \b
    Examples:
      mirrormesh watch mesh.yaml
      mirrormesh watch mesh.yaml --once
      mirrormesh watch mesh.yaml --round 196
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file, console = cautioned(load_any(mesh)), Console(highlight=False)
    with Stop() as stop:
        try:
            dispatch("watch", file, console, stop.asked, WatchOptions(once, plain, owner, round_number))
        except BusError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
    if stop.asked.is_set():
        raise typer.Exit(stop.exit_code)


def watch_nodes(file: MeshFile, console: Console, stopped: Asked, options: WatchOptions) -> None:
    """Show a mesh of nodes, or one of its rounds. Raises BusError, UsageError."""
    line = OwnerLine(file, stopped) if options.owner else None
    if options.round is not None:
        show_round(file, console, options.round)
    elif options.once:
        show_once(file, console, line)
    else:
        watch_mesh(file, console, stopped, line, plain=options.plain)
