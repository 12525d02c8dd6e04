"""Shows a running mesh: a live picture on a terminal, lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streams.terminal.report import say
from streams.terminal.text import counted, speed

# Draws a mesh and its processes for a terminal: columns of fixed width, and a line for each warning.

NAME, STATE, ROUND, GAP = 16, 15, 5, 2
"""Columns of the longest name shown whole, of `silent for 19 s`, of a round at least, and between two."""
BAR = 40


class ProcessStatus(NamedTuple):
    """One node; `round` None: not known here. `feed` is empty if it is not fed here.

    `warning` is the last one of its two processes, with the time of day; `restarts` counts both's.
    """

    name: str
    state: str
    round: int | None
    spent: str
    feed: str
    warning: str
    restarts: int


class RunStatus(NamedTuple):
    """The state of the mesh. `round`: the last one stepped by half of the nodes here, at `rate` per second.

    `slowest`: the node that is behind all others, and its round. `gone`: seconds since the broker's last
    answer; None while it answers. `scheduler` is the state of its process, `planning` its last warning.
    """

    round: int
    slowest: tuple[str, int]
    rate: float | None
    gone: float | None
    scheduler: str
    restarts: int
    planning: str
    rows: tuple[ProcessStatus, ...]


def picture(title: str, rounds: int | None, status: RunStatus, width: int) -> RenderableType:
    """Return the state of the mesh as a picture for a terminal; only names' lengths move its columns."""
    parts: list[RenderableType] = [Text(title, "bold"), Text(head(rounds, status), "bold")]
    if rounds is not None:
        bar = Table.grid()
        bar.add_row(ProgressBar(rounds, min(status.round, rounds), width=min(width, BAR)))
        parts.append(bar)
    parts += [_one_line(trouble, "bold red") for trouble in broker(status)]
    parts.append(Text.assemble("scheduler ", (scheduler(status), _style(status.scheduler))))
    parts.append(_nodes(status.rows, rounds, width))
    warnings = [("scheduler", status.planning), *((row.name, row.warning) for row in status.rows)]
    parts += [_one_line(f"{process}: {warning}", "yellow") for process, warning in warnings if warning]
    # a line for the ^C that a terminal shows: in a full one it tears the picture
    return Group(*parts, Text())


class _Column(NamedTuple):
    """A column of a fixed width. The last ones go first where there is no room."""

    heading: str
    width: int
    cells: list[Text]
    right: bool = False


def _nodes(rows: tuple[ProcessStatus, ...], rounds: int | None, width: int) -> Table:
    columns = [
        _Column(
            "node", min(NAME, max(4, *(len(row.name) for row in rows))), [Text(row.name) for row in rows]
        ),
        _Column("process", STATE, [Text(row.state, _style(row.state)) for row in rows]),
        _Column(
            "round", max(ROUND, len(f"{rounds or 0:,}")), [_number(row.round) for row in rows], right=True
        ),
        _Column("feed", STATE, [Text(row.feed, _style(row.feed)) for row in rows]),
        _Column("restarts", 8, [_number(row.restarts or None) for row in rows], right=True),
        _Column("epsilon of\nthe stream", 10, [Text(row.spent) for row in rows], right=True),
    ]
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="bold")
    columns_shown: list[list[Text]] = []
    left = width
    for column in columns:
        left -= column.width + GAP
        if left < 0 and columns_shown:
            break
        justify: Literal["right", "left"] = "right" if column.right else "left"
        table.add_column(
            column.heading, justify=justify, no_wrap=True, width=column.width, overflow="ellipsis"
        )
        columns_shown.append(column.cells)
    for cells in zip(*columns_shown, strict=True):
        table.add_row(*cells)
    return table


def _number(number: int | None) -> Text:
    return Text("" if number is None else f"{number:,}")


def _one_line(text: str, style: str) -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _style(state: str) -> str:
    return WELL.get(state, "bold red")


# The state of a mesh and of its processes here, as `up` shows it, and the words for it.

WELL = {"running": "green", "starting": "yellow", "done": "cyan", "elsewhere": "dim", "": ""}
"""The colours of states that are no trouble."""


def head(rounds: int | None, status: RunStatus) -> str:
    """Return the round of the median, its speed, and the slowest node if it is behind."""
    end = "" if rounds is None else f" of {rounds:,}"
    name, behind = status.slowest
    slowest = f"slowest: {name} at {behind:,}" if behind < status.round else ""
    return ", ".join(filter(None, (f"round {status.round:,}{end}", speed(status.rate), slowest)))


def broker(status: RunStatus) -> list[str]:
    """Return a line if the broker is gone."""
    return [] if status.gone is None else [f"broker gone for {status.gone:,.0f} s"]


def scheduler(status: RunStatus) -> str:
    """Return the state of the scheduler, and how often it began again."""
    return (
        f"{status.scheduler}, {counted(status.restarts, 'restart')}" if status.restarts else status.scheduler
    )


PERIOD = 10.0
"""Seconds between two lines."""


class RunView(Protocol):
    """Shows the mesh. Call it repeatedly."""

    def __call__(self, status: RunStatus) -> None:
        """Show it if due."""


@contextmanager
def shown(console: Console, title: str, rounds: int | None, *, plain: bool) -> Iterator[RunView]:
    """Yield the view that fits the console; `rounds` None: unknown total."""
    if plain or not console.is_terminal:
        yield RunLines(console, rounds)
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda status: live.update(picture(title, rounds, status, console.width), refresh=True)


class RunLines:
    """Prints a line every `PERIOD` seconds, and one for each new warning."""

    def __init__(self, console: Console, rounds: int | None) -> None:
        self._console, self._rounds, self._last = console, rounds, time.monotonic()
        self._warnings: dict[str, str] = {}

    def __call__(self, status: RunStatus) -> None:
        """Print a line if due."""
        now = time.monotonic()
        if now - self._last < PERIOD:
            return
        self._last = now
        say(self._console, line(self._rounds, status))
        warnings = {"scheduler": status.planning} | {f"node {row.name}": row.warning for row in status.rows}
        for process, warning in warnings.items():
            if warning and warning != self._warnings.get(process, ""):
                say(self._console, f"{process}: {warning}")
        self._warnings = warnings


def line(rounds: int | None, status: RunStatus) -> str:
    """Return the state of the mesh in one line."""
    parts = [head(rounds, status), *broker(status), f"scheduler {scheduler(status)}"]
    parts.append(f"nodes: {_states([row.state for row in status.rows])}{_again(status.rows)}")
    feeds = [row.feed for row in status.rows if row.feed]
    if feeds:
        parts.append(f"feeders: {_states(feeds)}")
    return "; ".join(parts)


def _again(rows: tuple[ProcessStatus, ...]) -> str:
    restarts = sum(row.restarts for row in rows)
    return f" ({counted(restarts, 'restart')})" if restarts else ""


def _states(states: list[str]) -> str:
    """Return the number of processes in each state."""
    kinds = [
        state if state in WELL else "silent" if state.startswith("silent") else "failing" for state in states
    ]
    return ", ".join(f"{kinds.count(kind):,} {kind}" for kind in dict.fromkeys(kinds))


def summary(rounds: int, seconds: float) -> str:
    """Return a sentence on the rounds seen."""
    if not rounds:
        return "No round was stepped."
    return f"{counted(rounds, 'round')} in {seconds:.1f} s, {rounds / max(seconds, 1e-3):,.0f} rounds/s."
