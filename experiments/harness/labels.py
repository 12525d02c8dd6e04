"""Names of lines, written where they end: none over another, no line hidden under another."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from nodes.values import FloatArray

DASHES: tuple[tuple[float, ...], ...] = ((5, 3), (1.5, 3), (7, 2, 1.5, 2), (2.5, 5))
"""On and off, in line widths: each leaves what is below it to be seen."""
_NEAR = 0.012
"""Of the axes' height: lines closer than that hide one another."""
_SHARE = 0.2
"""Of a line's length: as much of it may be hidden."""
_HEIGHT = 0.065
"""Of the axes' height: from one name to the next."""
_MARGIN = 1.03


def name_lines(axes: Axes) -> None:
    """Dash the lines that lie on others, and write each line's label right of the axes, at its last point."""
    lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    axes.figure.canvas.draw()
    drawn = [_places(axes, line) for line in lines]
    for place, line in enumerate(lines):
        under = sum(_hides(drawn[place], other) for other in drawn[:place])
        if under:
            line.set_dashes(DASHES[(under - 1) % len(DASHES)])
    heights = spread([points[-1, 1] for points in drawn], _HEIGHT)
    for line, points, height in zip(lines, drawn, heights, strict=True):
        axes.annotate(
            str(line.get_label()),
            xy=(points[-1, 0], points[-1, 1]),
            xytext=(_MARGIN, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=line.get_color(),
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line.get_color(),
                "lw": 0.6,
                "shrinkA": 0,
                "shrinkB": 2,
                "relpos": (0.0, 0.5),
            },
        )


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Return heights in the order of `wanted`, at least `gap` apart, as near to them as that allows.

    Heights that are too close become one block around their mean, until no blocks touch.
    """
    order = np.argsort(wanted, kind="stable")
    blocks = [[float(wanted[place])] for place in order]
    while True:
        middles = [float(np.mean(block)) for block in blocks]
        half = [gap * len(block) / 2 for block in blocks]
        ends = zip(pairwise(middles), pairwise(half), strict=True)
        close = [
            place for place, ((a, b), (below, above)) in enumerate(ends) if b - a < below + above - 1e-12
        ]
        if not close:
            break
        blocks[close[0] : close[0] + 2] = [blocks[close[0]] + blocks[close[0] + 1]]
    sorted_heights = [
        middle + gap * (number - (len(block) - 1) / 2)
        for middle, block in zip(middles, blocks, strict=True)
        for number in range(len(block))
    ]
    heights = [0.0] * len(order)
    for place, height in zip(order, sorted_heights, strict=True):
        heights[place] = height
    return heights


def _places(axes: Axes, line: Line2D) -> FloatArray:
    """Return a line's points in parts of the axes, shape (n, 2)."""
    points = axes.transData.transform(np.asarray(line.get_xydata(), np.float64))
    places: FloatArray = axes.transAxes.inverted().transform(points)
    return places


def _hides(upper: FloatArray, lower: FloatArray) -> bool:
    """Return whether more than a share of `upper` lies on `lower`."""
    across = np.linspace(upper[:, 0].min(), upper[:, 0].max(), 200)
    ordered = [line[np.argsort(line[:, 0], kind="stable")] for line in (upper, lower)]
    ys = [np.interp(across, line[:, 0], line[:, 1], left=np.nan, right=np.nan) for line in ordered]
    return bool((np.abs(ys[0] - ys[1]) < _NEAR).mean() > _SHARE)
