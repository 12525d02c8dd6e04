"""Shows the running demo: a live picture on a terminal, lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nodes.values import FloatArray
from streams.terminal.demo_map import WIDTH, Map
from streams.terminal.demo_watched import Watched
from streams.terminal.report import say
from streams.terminal.tables import Fitting, table

_PERIOD = 0.1
_SHARE = 10  # of the time, to draw in: a tenth
_LINES = 10
_NODES = 40
"""The columns that the table of the nodes takes."""
_PARTS = 44
"""The columns of the errors so far: a line of 80 has them all."""
_TICKS = "▁▂▃▄▅▆▇█"


class View(Protocol):
    """Shows a run. Call it after every round, with the number of rounds done."""

    def __call__(self, done: int) -> None:
        """Show it if there is anything new."""


@contextmanager
def shown(console: Console, watched: Watched, title: str, *, plain: bool) -> Iterator[View]:
    """Give the view that fits the console."""
    if plain or not console.is_terminal:
        yield Lines(console, watched)
        return
    with Live(console=console, auto_refresh=False) as live:
        picture = Picture(live, watched, title)
        yield picture
        picture.draw(watched.recorder.common_rounds)


class Lines:
    """Prints about ten lines in all."""

    def __init__(self, console: Console, watched: Watched) -> None:
        self._console, self._watched = console, watched
        self._every = max(1, watched.rounds // _LINES)

    def __call__(self, done: int) -> None:
        """Print a line if one is due."""
        if done % self._every:
            return
        watched = self._watched
        error, regret = float(watched.errors(done).mean()), float(np.mean(watched.regrets(done)))
        say(
            self._console,
            f"round {done:,} of {watched.rounds:,}: error {error:.3f}, local regret/T {regret:.4f} (means "
            f"over the nodes), epsilon {watched.epsilon}, {watched.rate:,.0f} rounds/s",
        )


class Picture:
    """A map, a table of the nodes, and the error over the rounds so far.

    It takes a tenth of the time at most. A terminal that is too narrow for the map shows none.
    """

    def __init__(self, live: Live, watched: Watched, title: str) -> None:
        self._live, self._watched, self._title = live, watched, title
        self._map = Map(watched.sensors, watched.target)
        self._parts = min(_PARTS, watched.rounds)
        self._sums, self._counts = np.zeros(self._parts), np.zeros(self._parts)
        self._taken = 0  # rounds in the sums
        self._due = float("-inf")

    def __call__(self, done: int) -> None:
        """Draw if it is time to."""
        if time.monotonic() >= self._due:
            self.draw(done)

    def draw(self, done: int) -> None:
        """Draw the state of the run."""
        started = time.monotonic()
        if done:
            self._take(done)
            self._live.update(
                Group(Text(self._title, "bold"), self._head(done), self._scene(done), self._history()),
                refresh=True,
            )
        now = time.monotonic()
        self._due = now + max(_PERIOD, (_SHARE - 1) * (now - started))

    def _take(self, done: int) -> None:
        """Add the errors of the rounds since the last picture."""
        if done > self._taken:
            parts = np.arange(self._taken, done) * self._parts // self._watched.rounds
            np.add.at(self._sums, parts, self._watched.errors_after(self._taken, done).mean(1))
            np.add.at(self._counts, parts, 1)
            self._taken = done

    def _head(self, done: int) -> Table:
        watched = self._watched
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(f"round {done:>6,} of {watched.rounds:,}", "bold"),
            ProgressBar(watched.rounds, done, width=24),
            Text(f"{watched.rate:,.0f} rounds/s"),
            Text(f"epsilon {watched.epsilon}", "cyan"),
        )
        return head

    def _scene(self, done: int) -> RenderableType:
        """Return the map with the nodes beside it."""
        decisions = self._watched.decisions(done)
        nodes = self._nodes(done, decisions)
        if self._live.console.width < WIDTH + _NODES:
            return nodes
        scene = Table.grid(padding=(0, 1))
        scene.add_column(min_width=WIDTH, no_wrap=True)
        scene.add_column()
        scene.add_row(self._map.drawn(done, decisions), nodes)
        return scene

    def _nodes(self, done: int, decisions: FloatArray) -> Fitting:
        watched, errors = self._watched, self._watched.errors(done)
        places = [*decisions.tolist(), decisions.mean(0).tolist(), watched.target[done - 1].tolist()]
        names = [*watched.recorder.nodes, "mean", "target"]
        cells = [*(f"{error:.3f}" for error in errors.tolist()), f"{errors.mean():.3f}", ""]
        rows = [
            (name, f"{x:6.3f} {y:6.3f}", error)
            for name, (x, y), error in zip(names, places, cells, strict=True)
        ]
        return table(("node", "believes", "error"), rows)

    def _history(self) -> Text:
        filled = self._counts > 0
        means = self._sums[filled] / self._counts[filled]
        levels = (means / max(float(means.max()), 1e-12) * (len(_TICKS) - 1)).round().astype(int)
        line = "".join(_TICKS[level] for level in levels.tolist())
        return Text(f"mean error  {line}  from {means[0]:.2f} to {means[-1]:.3f}", "green")
