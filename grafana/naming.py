"""What the lines of a drawn panel are called, under it, where nothing is covered."""

from collections.abc import Sequence
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from grafana.ask import Series
from grafana.panels import Panel

GREY = "#5f6672"
STYLES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")
"""Of a panel's queries, in their order."""
MANY = 8
"""The most names under a panel. Of more series than that, those that are 0 are not named."""
LINE, LETTER = 0.105, 0.052
"""Inches of a line of names under a panel, and of a letter of it."""


def keys(panel: Panel, series: list[Series], whose: list[str]) -> list[Line2D]:
    """Return what names the lines where their own names would be too many; else nothing.

    Where every query has a line for each node: a colour for a node, a style for a query. Of many lines those
    that are 0 are not named.
    """
    whole = [query.legend for query in panel.queries]
    if len(whole) > 1 and all(legend.count("{{") == legend.count("{{node}}") == 1 for legend in whole):
        colours = [Line2D([], [], color=f"C{k % 10}", label=node) for k, node in enumerate(whose)]
        said = [legend.replace("{{node}}", "").strip() for legend in whole]
        styles = zip(STYLES, said, strict=False)
        return colours + [
            Line2D([], [], color=GREY, linestyle=style, label=name) for style, name in styles if name
        ]
    if len(series) > MANY and not any(any(one.values) for one in series):
        return [Line2D([], [], color=GREY, label=f"all {len(series)} are 0")]
    return []


def names_below(axes: Axes, handles: Sequence[Artist]) -> None:
    """Write what the lines are called under the panel, where nothing is covered: it gets as much lower.

    At most by half: beyond that the names are counted.
    """
    if not handles:
        return
    names = [str(one.get_label()) for one in handles]
    place, figure = axes.get_position(), axes.get_figure(root=True)
    width, height = figure.get_size_inches() if figure else (1, 1)
    columns = max(1, int(place.width * width / (0.3 + LETTER * max(map(len, names)))))
    most = min(MANY, columns * max(1, int(place.height * height / LINE / 2)))
    if len(names) > most:
        more = Line2D([], [], linestyle="", label=f"and {len(names) - most + 1} more")
        handles = [*handles[: most - 1], more]
    room = (1.4 + (len(handles) - 1) // columns) * LINE / height
    axes.set_position((place.x0, place.y0 + room, place.width, place.height - room))
    axes.legend(
        handles=handles,
        fontsize=6,
        frameon=False,
        ncols=columns,
        loc="upper left",
        bbox_to_anchor=(place.x0 - 0.005, place.y0 + room - 0.2 / height),
        bbox_transform=figure.transFigure if figure else None,
        handlelength=1.6,
        labelspacing=0.2,
        columnspacing=1,
        borderpad=0,
        borderaxespad=0,
    )
