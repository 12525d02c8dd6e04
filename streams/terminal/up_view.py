"""Shows a running mesh: a live picture on a terminal, lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live

from streams.terminal.report import say
from streams.terminal.up_picture import picture
from streams.terminal.up_sight import WELL, Row, Sight, broker, head, scheduler
from streams.terminal.wording import counted

PERIOD = 10.0
"""Seconds between two lines."""


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
        yield lambda sight: live.update(picture(title, rounds, sight, console.width), refresh=True)


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
        for process, warning in warnings.items():
            if warning and warning != self._warnings.get(process, ""):
                say(self._console, f"{process}: {warning}")
        self._warnings = warnings


def line(rounds: int | None, sight: Sight) -> str:
    """Return the state of the mesh in one line."""
    parts = [head(rounds, sight), *broker(sight), f"scheduler {scheduler(sight)}"]
    parts.append(f"nodes: {_states([row.state for row in sight.rows])}{_again(sight.rows)}")
    feeds = [row.feed for row in sight.rows if row.feed]
    if feeds:
        parts.append(f"feeders: {_states(feeds)}")
    return "; ".join(parts)


def _again(rows: tuple[Row, ...]) -> str:
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
