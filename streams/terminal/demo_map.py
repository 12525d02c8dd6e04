"""Draws a target, the places where nodes believe it to be, and their sensors: a small map of characters."""

import numpy as np
from rich.text import Text

from nodes.values import FloatArray

WIDTH, HEIGHT = 39, 17
"""In characters, which are about twice as high as wide."""
_EDGE = 1.1
"""The map reaches so far beyond the outermost sensor."""
_TRAIL = 400
"""Rounds of the target's way that are shown."""
_COLOURS = ("blue", "yellow", "green", "magenta", "red", "bright_cyan")
LEGEND = "◆ target  · way  ● believed  ▲ sensor"


class Map:
    """The plane around 0, as far as the sensors (N, 2) stand, or the target's path (T, 2) goes."""

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
        """Return row and column of each of the places (n, 2); those outside are at the edge."""
        across = (places[:, 0] / self._reach + 1) / 2 * (WIDTH - 1)
        down = (1 - places[:, 1] / self._reach) / 2 * (HEIGHT - 1)
        columns = np.clip(np.rint(across), 0, WIDTH - 1).astype(int).tolist()
        rows = np.clip(np.rint(down), 0, HEIGHT - 1).astype(int).tolist()
        return list(zip(rows, columns, strict=True))
