"""The demo: how well its mesh tracks the target, shown live on a terminal or in lines."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nodes.regret import network_regret
from nodes.values import FloatArray
from streams.local.run import LocalRun
from streams.mesh.file import MeshFile
from streams.terminal.report import Fitting, say, table

EXAMPLE = "tracking-moving.yaml"
"""The mesh of the demo."""


@dataclass(frozen=True, slots=True, eq=False)
class Tracked:
    """The result of one run of `T` rounds and `N` nodes.

    `decisions` (T, N, 2), `errors` ||x_t - target_t|| (T, N), and the largest R_t/t of all nodes in each
    round (T,).
    """

    name: str
    decisions: FloatArray
    errors: FloatArray
    regret: FloatArray

    @property
    def last(self) -> FloatArray:
        """The errors of the second half of the rounds. The mesh has found the target long before."""
        return self.errors[len(self.errors) // 2 :]

    @property
    def final_error(self) -> float:
        """The mean error of all nodes over the second half of the rounds."""
        return float(self.last.mean())

    @property
    def final_regret(self) -> float:
        """The largest network regret per round."""
        return float(self.regret[-1])


def distances(decisions: FloatArray, target: FloatArray) -> FloatArray:
    """Return the distances of decisions (..., N, 2) from the target (..., 2), shape (..., N)."""
    offsets = decisions - target[..., None, :]
    lengths: FloatArray = np.sqrt((offsets * offsets).sum(-1))
    return lengths


def tracked(name: str, file: MeshFile, local: LocalRun, target: FloatArray) -> Tracked:
    """Return the run's errors and regrets; `target` (T, 2) is the target's position in each round."""
    mesh, recorder = file.resolved, local.recorder
    decisions = recorder.decisions()
    observations = recorder.observations(file.mesh.slots.size)
    decisions = mesh.algorithm.observed(decisions)
    losses = [mesh.node(name).loss for name in recorder.nodes]
    regret = network_regret(losses, mesh.algorithm.observed_set, decisions, observations)
    rounds = np.arange(1, len(decisions) + 1)
    return Tracked(name, decisions, distances(decisions, target[: len(decisions)]), regret.max(1) / rounds)


def verdict(private: Tracked, open_: Tracked, alone: Tracked) -> tuple[str, str]:
    """Return a line about the cost of privacy, and a line about the use of neighbours."""
    worse = private.final_error > open_.final_error
    price = "Privacy costs accuracy" if worse else "Privacy costs no accuracy here"
    ratio = alone.final_error / private.final_error
    gain = (
        f"Without neighbours nobody finds it: the same private sensors are {ratio:.1f} times as far off."
        if ratio > 1
        else "Neighbours bring nothing here."
    )
    return f"{price}: an error of {private.final_error:.3f}, not {open_.final_error:.3f}.", gain


# What the demo's views show: the state of a run, and the target's path.


class DemoProgress:
    """The state of a run, for both views. `epsilon` is the event-level epsilon in words.

    `sensors` (N, 2) are the positions of the sensors of the recorder's nodes. `target` (T, 2) is the position
    of the target in each round.
    """

    def __init__(self, local: LocalRun, sensors: FloatArray, target: FloatArray, epsilon: str) -> None:
        self.recorder, self.sensors, self.target, self.epsilon = local.recorder, sensors, target, epsilon
        self.rounds = len(target)
        self._observed = next(iter(local.parts.nodes.values())).learner.algorithm.observed
        self._began = time.monotonic()

    @property
    def rate(self) -> float:
        """Rounds per second since the start."""
        return self.recorder.common_rounds / max(time.monotonic() - self._began, 1e-9)

    def decisions(self, done: int) -> FloatArray:
        """Return each node's estimate of the target's position in round `done`, shape (N, 2)."""
        return self._observed(np.array([node.decisions[done - 1] for node in self.recorder.nodes.values()]))

    def errors(self, done: int) -> FloatArray:
        """Return each node's distance from the target in round `done`, shape (N,)."""
        errors: FloatArray = self.errors_after(done - 1, done)[0]
        return errors

    def errors_after(self, round: int, done: int) -> FloatArray:
        """Return each node's distance from the target in rounds `round` + 1 to `done`, shape (T, N)."""
        decisions = [node.decisions[round:done] for node in self.recorder.nodes.values()]
        believed = self._observed(np.stack([np.array(node_decisions) for node_decisions in decisions], 1))
        return distances(believed, self.target[round:done])

    def regrets(self, done: int) -> list[float]:
        """Return each node's local R_t/t."""
        return [node.regrets[done - 1] / done for node in self.recorder.nodes.values()]


# Draws the target, the nodes' estimates of its position, and the sensors, as a small map of characters.

WIDTH, HEIGHT = 39, 17
"""The size of the map in characters. A character is about twice as high as wide."""
_EDGE = 1.1
"""The map extends to this factor of the outermost sensor's distance."""
_TRAIL = 400
"""The rounds of the target's path that are shown."""
_COLOURS = ("blue", "yellow", "green", "magenta", "red", "bright_cyan")
LEGEND = "◆ target  · way  ● believed  ▲ sensor"


class Map:
    """The part of the plane around 0 that contains the sensors (N, 2) and the target's path (T, 2)."""

    def __init__(self, sensors: FloatArray, path: FloatArray) -> None:
        self._sensors, self._path = sensors, path
        self._reach = _EDGE * float(max(np.abs(sensors).max(), np.abs(path).max()))

    def drawn(self, done: int, decisions: FloatArray) -> Text:
        """Return the map after round `done`, with the decisions (N, 2) of that round."""
        cells: dict[tuple[int, int], tuple[str, str]] = {}
        for row, column in self._cells(self._path[max(0, done - _TRAIL) : done]):
            cells[row, column] = ("·", "dim")
        colours = [_COLOURS[k % len(_COLOURS)] for k in range(len(self._sensors))]
        for mark, places in (("▲", self._sensors), ("●", decisions)):
            for place, colour in zip(self._cells(places), colours, strict=True):
                cells[place] = (mark, colour)
        (target,) = self._cells(self._path[done - 1 : done])
        cells[target] = ("◆", "bold")
        picture = Text(no_wrap=True)
        for row in range(HEIGHT):
            for column in range(WIDTH):
                picture.append(*cells.get((row, column), (" ", "")))
            picture.append("\n")
        return picture.append(LEGEND, "dim")

    def _cells(self, places: FloatArray) -> list[tuple[int, int]]:
        """Return row and column of each of the positions (n, 2).

        Positions outside the map are put at its edge.
        """
        across = (places[:, 0] / self._reach + 1) / 2 * (WIDTH - 1)
        down = (1 - places[:, 1] / self._reach) / 2 * (HEIGHT - 1)
        columns = np.clip(np.rint(across), 0, WIDTH - 1).astype(int).tolist()
        rows = np.clip(np.rint(down), 0, HEIGHT - 1).astype(int).tolist()
        return list(zip(rows, columns, strict=True))


_PERIOD = 0.1
_SHARE = 10  # drawing may use a tenth of the time
_LINES = 10
_NODES = 40
"""The width in columns of the table of nodes."""
_PARTS = 44
"""The width in columns of the table of errors. All fit into a line of 80 columns."""
_TICKS = "▁▂▃▄▅▆▇█"


class DemoView(Protocol):
    """Shows a run. It is called after every round with the number of rounds done."""

    def __call__(self, done: int) -> None:
        """Show the state if it has changed."""


@contextmanager
def shown(console: Console, watched: DemoProgress, title: str, *, plain: bool) -> Iterator[DemoView]:
    """Return the view that the console can show."""
    if plain or not console.is_terminal:
        yield DemoLines(console, watched)
        return
    with Live(console=console, auto_refresh=False) as live:
        picture = DemoPicture(live, watched, title)
        yield picture
        picture.draw(watched.recorder.common_rounds)


class DemoLines:
    """Prints about ten lines in the whole run."""

    def __init__(self, console: Console, watched: DemoProgress) -> None:
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


class DemoPicture:
    """A map, a table of the nodes, and the error over the rounds so far.

    Drawing uses a tenth of the time at most. On a terminal that is too narrow for the map, it is left out.
    """

    def __init__(self, live: Live, watched: DemoProgress, title: str) -> None:
        self._live, self._watched, self._title = live, watched, title
        self._map = Map(watched.sensors, watched.target)
        self._parts = min(_PARTS, watched.rounds)
        self._sums, self._counts = np.zeros(self._parts), np.zeros(self._parts)
        self._taken = 0  # the number of rounds in the sums
        self._due = float("-inf")

    def __call__(self, done: int) -> None:
        """Draw the state if enough time has passed since the last drawing."""
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
