"""One panel of a dashboard, drawn as Grafana would: lines, last values, states over time, a map."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, PercentFormatter

from grafana.ask import Prometheus, Series
from grafana.panels import TARGET, Panel

GREY = "#5f6672"
COLOURS = {"green": "#4f9d58", "orange": "#e08e2b", "red": "#c8453b", "blue": "#4a7fbf", "text": GREY}
MANY = 8
"""Names of more series do not fit under a panel."""


class Span(NamedTuple):
    """From when to when, in seconds since 1970, and how far apart the values are."""

    start: float
    end: float
    step: float


def draw_panel(axes: Axes, panel: Panel, prometheus: Prometheus, span: Span) -> None:
    """Ask for a panel's data, and draw it; without any it says so."""
    axes.set_title(panel.title, size=9, loc="left")
    if panel.kind == "stat":
        found = [[one] for query in panel.queries for one in prometheus.at(query, span.end)]
    else:
        found = [prometheus.over(query, *span) for query in panel.queries]
    if not any(found):
        axes.text(0.5, 0.5, "No data", ha="center", va="center", color=GREY, transform=axes.transAxes)
        axes.set_axis_off()
        return
    {"stat": _stat, "states": _states, "map": _map, "timeseries": _lines}[panel.kind](axes, panel, found)


def _colour(panel: Panel, value: float) -> str:
    """Return the colour of a value, by the panel's steps."""
    name = panel.steps[0][1]
    for above, colour in panel.steps[1:]:
        if above is not None and value >= above:
            name = colour
    return COLOURS[name]


def _minutes(times: tuple[float, ...], origin: float) -> list[float]:
    return [(time - origin) / 60 for time in times]


def _origin(found: list[list[Series]]) -> float:
    """Return when the first series begins: a picture has no room for what was before."""
    return min(one.times[0] for series in found for one in series)


def _lines(axes: Axes, panel: Panel, found: list[list[Series]]) -> None:
    series = [one for series in found for one in series]
    for one in series:
        values = np.asarray(one.values)
        shown = np.where(values > 0, values, np.nan) if panel.log else values
        axes.plot(_minutes(one.times, _origin(found)), shown, linewidth=0.9, label=one.name)
    if panel.log:
        axes.set_yscale("log")
    elif not any(any(one.values) for one in series):
        axes.set_ylim(-0.05, 1)  # a line of zeros stands on the ground, and is seen
    elif panel.least is not None:
        axes.set_ylim(bottom=panel.least)
    if panel.unit == "percentunit":
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    elif panel.unit in {"s", "bytes"} and not panel.log:
        axes.yaxis.set_major_formatter(EngFormatter("s" if panel.unit == "s" else "B", places=0))
    axes.grid(visible=True, alpha=0.25, linewidth=0.5)
    if len(series) <= MANY:
        axes.legend(fontsize=6, frameon=False, ncols=2, loc="best", handlelength=1)
    axes.tick_params(labelsize=6.5)


def _stat(axes: Axes, panel: Panel, found: list[list[Series]]) -> None:
    axes.set_axis_off()
    words = {value: text for value, text, _ in panel.words}
    for k, (one,) in enumerate(found):
        middle, value = (k + 0.5) / len(found), one.values[-1]
        text = words.get(f"{value:g}", f"{value:,.3g}" if abs(value) < 1_000 else f"{value:,.0f}")
        place: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.transAxes}
        axes.text(middle, 0.6, text, size=14, weight="bold", color=_colour(panel, value), **place)
        axes.text(middle, 0.2, one.name.replace(": ", "\n"), size=6.5, color=GREY, **place)


def _states(axes: Axes, panel: Panel, found: list[list[Series]]) -> None:
    series, origin = [one for series in found for one in series], _origin(found)
    for row, one in enumerate(series):
        minutes = _minutes(one.times, origin)
        step = min(np.diff(minutes), default=0.1)
        values = np.asarray(one.values)
        changes = [0, *(1 + np.flatnonzero(np.diff(values))), len(values)]
        for first, last in pairwise(changes):
            width = minutes[last - 1] - minutes[first] + step
            axes.broken_barh([(minutes[first], width)], (row - 0.4, 0.8), color=_colour(panel, values[first]))
    axes.set_yticks(range(len(series)), [one.name for one in series])
    axes.tick_params(labelsize=6.5)
    place, room = axes.get_position(), 0.0052 * max(len(one.name) for one in series) - 0.035  # for the names
    axes.set_position((place.x0 + room, place.y0, place.width - room, place.height))
    handles = [
        axes.plot([], [], "s", color=COLOURS[colour], label=text)[0] for _, text, colour in panel.words
    ]
    axes.legend(
        handles=handles, fontsize=6.5, frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 1)
    )
    axes.invert_yaxis()


def _map(axes: Axes, _: Panel, found: list[list[Series]]) -> None:
    """Draw each node's way in the plane; its last place is a dot, and that of the target a cross."""
    across, up = (
        {one.labels["node"]: dict(zip(one.times, one.values, strict=True)) for one in series}
        for series in found
    )
    for node, places in across.items():
        both = [(x, up[node][time]) for time, x in places.items() if time in up.get(node, {})]
        if both:
            is_target = node == TARGET
            colour = "black" if is_target else None
            (line,) = axes.plot(*zip(*both, strict=True), linewidth=0.5, alpha=0.6, color=colour)
            mark, size = ("x", 7) if is_target else ("o", 4)
            axes.plot(*both[-1], mark, markersize=size, color=line.get_color(), label=node, zorder=3)
    axes.legend(fontsize=6, frameon=False, ncols=2, handlelength=1)
    axes.grid(visible=True, alpha=0.25, linewidth=0.5)
    axes.tick_params(labelsize=6.5)
