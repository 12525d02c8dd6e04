"""Shows the running demo: a live picture on a terminal, lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nodes.values import FloatArray
from streams.local.run import LocalRun
from streams.local.tracking import distances
from streams.terminal.report import say
from streams.terminal.tables import Fitting, table

_PERIOD = 0.1
_SHARE = 10  # of the time, to draw in: a tenth
_LINES = 10
_TICKS = "▁▂▃▄▅▆▇█"


class View(Protocol):
    """Shows a run. Call it after every round, with the number of rounds done."""

    def __call__(self, done: int) -> None:
        """Show it if there is anything new."""


class Watched:
    """The state of a run, for both views. `epsilon` is the event-level one, in words."""

    def __init__(self, local: LocalRun, target: FloatArray, epsilon: str) -> None:
        self.recorder, self.target, self.epsilon = local.recorder, target, epsilon
        self.rounds = len(target)
        self._began = time.monotonic()

    @property
    def rate(self) -> float:
        """Rounds a second so far."""
        return self.recorder.common_rounds / max(time.monotonic() - self._began, 1e-9)

    def decisions(self, done: int) -> FloatArray:
        """Return the decisions of round `done`, shape (N, 2)."""
        return np.array([node.decisions[done - 1] for node in self.recorder.nodes.values()])

    def errors(self, done: int) -> FloatArray:
        """Return each node's distance from the target in round `done`, shape (N,)."""
        errors: FloatArray = self.errors_after(done - 1, done)[0]
        return errors

    def errors_after(self, round: int, done: int) -> FloatArray:
        """Return each node's distance from the target in rounds `round` + 1 to `done`, shape (T, N)."""
        made = [node.decisions[round:done] for node in self.recorder.nodes.values()]
        return distances(np.stack([np.array(one) for one in made], 1), self.target[round:done])

    def regrets(self, done: int) -> list[float]:
        """Return each node's local R_t/t."""
        return [node.regrets[done - 1] / done for node in self.recorder.nodes.values()]


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
    """A table of the nodes, and the error over the rounds so far. It takes a tenth of the time at most."""

    def __init__(self, live: Live, watched: Watched, title: str) -> None:
        self._live, self._watched, self._title = live, watched, title
        self._parts = min(60, watched.rounds)
        self._sums, self._counts = np.zeros(self._parts), np.zeros(self._parts)
        self._taken = 0  # rounds in the sums
        self._due = float("-inf")

    def __call__(self, done: int) -> None:
        """Draw if it is time to."""
        if time.monotonic() >= self._due:
            self.draw(done)

    def draw(self, done: int) -> None:
        """Draw the state of the run."""
        began = time.monotonic()
        if done:
            self._take(done)
            self._live.update(
                Group(Text(self._title, "bold"), self._head(done), self._nodes(done), self._history()),
                refresh=True,
            )
        now = time.monotonic()
        self._due = now + max(_PERIOD, (_SHARE - 1) * (now - began))

    def _take(self, done: int) -> None:
        """Add the errors of the rounds since the last picture."""
        if done > self._taken:
            parts = np.arange(self._taken, done) * self._parts // self._watched.rounds
            np.add.at(self._sums, parts, self._watched.errors_after(self._taken, done).mean(1))
            np.add.at(self._counts, parts, 1)
            self._taken = done

    def _head(self, done: int) -> Table:
        watched = self._watched
        x, y = watched.target[done - 1]
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(f"round {done:>6,} of {watched.rounds:,}", "bold"),
            ProgressBar(watched.rounds, done, width=24),
            Text(f"{watched.rate:,.0f} rounds/s"),
            Text(f"target at ({x:.3f}, {y:.3f})", "cyan"),
        )
        return head

    def _nodes(self, done: int) -> Fitting:
        watched = self._watched
        decisions, errors, regrets = watched.decisions(done), watched.errors(done), watched.regrets(done)
        rows = [
            (
                name,
                f"({decision[0]:6.3f}, {decision[1]:6.3f})",
                f"{error:.3f}",
                f"{regret:.4f}",
                watched.epsilon,
            )
            for name, decision, error, regret in zip(
                watched.recorder.nodes, decisions.tolist(), errors.tolist(), regrets, strict=True
            )
        ]
        rows.append(("mean", "", f"{errors.mean():.3f}", f"{np.mean(regrets):.4f}", ""))
        return table(("node", "decision", "error", "local regret/T", "epsilon"), rows)

    def _history(self) -> Text:
        seen = self._counts > 0
        means = self._sums[seen] / self._counts[seen]
        levels = (means / max(float(means.max()), 1e-12) * (len(_TICKS) - 1)).round().astype(int)
        line = "".join(_TICKS[level] for level in levels.tolist())
        return Text(f"mean error  {line}  from {means[0]:.2f} to {means[-1]:.3f}", "green")
