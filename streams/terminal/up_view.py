"""Shows a running mesh: a live picture on a terminal, lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streams.terminal.report import say
from streams.terminal.wording import counted, speed

PERIOD = 10.0
"""Seconds between two lines."""


class Row(NamedTuple):
    """One node; `round` None: not known here. `feed` is empty if it is not fed here.

    `warning` is the last one of its two processes, with the time of day.
    """

    name: str
    state: str
    round: int | None
    spent: str
    feed: str
    warning: str


class Sight(NamedTuple):
    """The state of the mesh. `round`: the last one stepped by every node here; `rate`: rounds per second.

    `scheduler` is the state of its process, `planning` its last warning.
    """

    round: int
    rate: float | None
    scheduler: str
    planning: str
    rows: tuple[Row, ...]


class View(Protocol):
    """Shows the mesh. Call it repeatedly."""

    def __call__(self, sight: Sight) -> None:
        """Show it if due."""


@contextmanager
def shown(console: Console, title: str, rounds: int | None, *, plain: bool) -> Iterator[View]:
    """Yield the view that fits the console; `rounds` None: unknown total."""
    if plain or not console.is_terminal:
        yield Lines(console, rounds)
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda sight: live.update(picture(title, rounds, sight), refresh=True)


class Lines:
    """Prints a line every `PERIOD` seconds, and one for each new warning."""

    def __init__(self, console: Console, rounds: int | None) -> None:
        self._console, self._rounds, self._last = console, rounds, time.monotonic()
        self._warnings: dict[str, str] = {}

    def __call__(self, sight: Sight) -> None:
        """Print a line if due."""
        now = time.monotonic()
        if now - self._last < PERIOD:
            return
        self._last = now
        say(self._console, line(self._rounds, sight))
        warnings = {"scheduler": sight.planning} | {f"node {row.name}": row.warning for row in sight.rows}
        for who, warning in warnings.items():
            if warning != self._warnings.get(who, ""):
                say(self._console, f"{who}: {warning}")
        self._warnings = warnings


def line(rounds: int | None, sight: Sight) -> str:
    """Return the state of the mesh in one line."""
    found = [f"scheduler {sight.scheduler}", f"nodes: {_states([row.state for row in sight.rows])}"]
    feeds = [row.feed for row in sight.rows if row.feed]
    if feeds:
        found.append(f"feeders: {_states(feeds)}")
    head = ", ".join(filter(None, (f"round {_progress(rounds, sight)}", speed(sight.rate))))
    return f"{head}; {'; '.join(found)}"


def picture(title: str, rounds: int | None, sight: Sight) -> RenderableType:
    """Return the state of the mesh as a picture for a terminal."""
    head = Table.grid(padding=(0, 2))
    bar = [] if rounds is None else [ProgressBar(rounds, min(sight.round, rounds), width=24)]
    head.add_row(
        Text(f"round {_progress(rounds, sight)}", "bold"),
        *bar,
        Text(speed(sight.rate)),
        Text.assemble("scheduler ", (sight.scheduler, _style(sight.scheduler))),
    )
    parts: list[RenderableType] = [Text(title, "bold"), head, _nodes(sight.rows)]
    if sight.planning:
        parts.append(Text(f"scheduler: {sight.planning}", "yellow", no_wrap=True, overflow="ellipsis"))
    return Group(
        *parts, Text()
    )  # a line for the ^C that a terminal shows: in a full one it tears the picture


def _nodes(rows: tuple[Row, ...]) -> Table:
    made = Table(header_style="bold")
    made.add_column("node", no_wrap=True)
    made.add_column("process", no_wrap=True)
    made.add_column("round", justify="right", no_wrap=True)
    made.add_column("epsilon of\nthe stream", justify="right", no_wrap=True)
    made.add_column("feed", no_wrap=True)
    made.add_column("last warning", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows:
        made.add_row(
            Text(row.name),
            Text(row.state, _style(row.state)),
            Text("" if row.round is None else f"{row.round:,}"),
            Text(row.spent),
            Text(row.feed, _style(row.feed)),
            Text(row.warning, "yellow"),
        )
    return made


def _progress(rounds: int | None, sight: Sight) -> str:
    return f"{sight.round:,}" if rounds is None else f"{sight.round:,} of {rounds:,}"


def _states(states: list[str]) -> str:
    """Return the number of processes in each state."""
    kinds = [state if state in {"running", "done", "elsewhere"} else "failing" for state in states]
    return ", ".join(f"{kinds.count(kind):,} {kind}" for kind in dict.fromkeys(kinds))


def _style(state: str) -> str:
    return {"running": "green", "done": "cyan", "elsewhere": "dim", "": ""}.get(state, "bold red")


def summary(rounds: int, seconds: float) -> str:
    """Return a sentence on the rounds seen."""
    if not rounds:
        return "No round was stepped."
    return f"{counted(rounds, 'round')} in {seconds:.1f} s, {rounds / max(seconds, 1e-3):,.0f} rounds/s."
