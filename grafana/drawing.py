"""One panel of a dashboard, drawn as Grafana would: lines, last values, states over time, a map."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, PercentFormatter

from grafana.ask import Prometheus, Series
from grafana.naming import GREY, STYLES, keys, names_below
from grafana.panels import AXES, TARGET, Panel

COLOURS = {"green": "#4f9d58", "orange": "#e08e2b", "red": "#c8453b", "blue": "#4a7fbf", "text": GREY}
ROOM = 2.5
"""Letters of a stat in full size, for each column of its panel."""
UNITS = {"cps": "/s", "h": " h", "s": " s"}
WAY = 20
"""Places of a node on the map: more is scribble."""


class Span(NamedTuple):
    """From when to when, in seconds since 1970, and how far apart the values are."""

    start: float
    end: float
    step: float


def draw_panel(axes: Axes, panel: Panel, prometheus: Prometheus, span: Span) -> None:
    """Ask for a panel's data, and draw it; without any it says so."""
    axes.set_title(panel.title, size=9, loc="left")
    if panel.kind == "stat" and not panel.trend:
        found = [prometheus.at(query, span.end) for query in panel.queries]
    else:
        found = [prometheus.over(query, *span) for query in panel.queries]
    if not any(found):
        axes.text(0.5, 0.5, panel.nothing, ha="center", va="center", color=GREY, transform=axes.transAxes)
        axes.set_axis_off()
        return
    if panel.kind == "timeseries":
        axes.set_ylabel(panel.axis or AXES[panel.unit], size=7, color=GREY)
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
    nodes = sorted({one.labels["node"] for one in series if "node" in one.labels})  # of one colour everywhere
    whose = [*nodes, *dict.fromkeys(one.name for one in series if "node" not in one.labels)]
    for style, of_query in zip(STYLES, found, strict=False):
        for one in of_query:
            values = np.asarray(one.values)
            shown = np.where(values > 0, values, np.nan) if panel.log else values
            colour = f"C{whose.index(one.labels.get('node', one.name)) % 10}"
            minutes = _minutes(one.times, _origin(found))
            axes.plot(minutes, shown, style, linewidth=0.9, color=colour, label=one.name)
    _scale(axes, panel, series)
    low, high = axes.get_ylim()
    for above, colour in panel.steps[1:]:
        if above is not None and low < above < high:
            axes.axhline(above, color=COLOURS[colour], linestyle="--", linewidth=0.6)
    axes.grid(visible=True, alpha=0.25, linewidth=0.5)
    axes.tick_params(labelsize=6.5)
    names_below(axes, keys(panel, series, whose) or axes.get_legend_handles_labels()[0])


def _scale(axes: Axes, panel: Panel, series: list[Series]) -> None:
    if panel.log:
        axes.set_yscale("log")
    elif not any(any(one.values) for one in series):
        axes.set_ylim(-0.05, 1)  # a line of zeros stands on the ground, and is seen
    elif panel.least is not None:
        axes.set_ylim(bottom=panel.least)
    if panel.unit == "percentunit":
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    elif panel.unit in {"s", "bytes"} and not panel.log:
        axes.yaxis.set_major_formatter(EngFormatter("s" if panel.unit == "s" else "B"))


def _stat(axes: Axes, panel: Panel, found: list[list[Series]]) -> None:
    axes.set_axis_off()
    words = {value: text for value, text, _ in panel.words}
    shown = [
        (query.colour, one) for query, series in zip(panel.queries, found, strict=True) for one in series
    ]
    texts = [
        one.name if panel.names else words.get(f"{one.values[-1]:g}", _written(one.values[-1], panel.unit))
        for _, one in shown
    ]
    whole = len(shown) * max(map(len, texts)) < ROOM * panel.width
    size = 11 if panel.names else 14 if whole else 9
    place: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.transAxes}
    for k, (text, (colour, one)) in enumerate(zip(texts, shown, strict=True)):
        middle, value = (k + 0.5) / len(shown) * (0.5 if panel.trend else 1), one.values[-1]
        drawn = COLOURS[colour] if colour else _colour(panel, value)
        axes.text(middle, 0.6, text, size=size, weight="bold", color=drawn, **place)
        if not panel.names:
            axes.text(middle, 0.2, one.name, size=6.5, color=GREY, **place)
        if panel.trend:
            trend = axes.inset_axes((0.55, 0.1, 0.4, 0.8))
            trend.plot(one.times, one.values, color=drawn, linewidth=0.9)
            trend.set_axis_off()


def _written(value: float, unit: str) -> str:
    """Return a number as Grafana writes it in such a unit."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    text = f"{value:,.3g}" if abs(value) < 1_000 else f"{value:,.0f}"
    return f"{text}{UNITS.get(unit, '')}"


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
    """Draw the end of each node's way in the plane; its last place is a dot, the target's a cross."""
    across, up = (
        {one.labels["node"]: dict(zip(one.times, one.values, strict=True)) for one in series}
        for series in found
    )
    for node, places in across.items():
        both = [(x, up[node][time]) for time, x in places.items() if time in up.get(node, {})][-WAY:]
        if both:
            is_target = node == TARGET
            colour = "black" if is_target else None
            (line,) = axes.plot(*zip(*both, strict=True), linewidth=0.5, alpha=0.6, color=colour)
            mark, size = ("x", 7) if is_target else ("o", 4)
            axes.plot(*both[-1], mark, markersize=size, color=line.get_color(), label=node, zorder=3)
    axes.grid(visible=True, alpha=0.25, linewidth=0.5)
    axes.tick_params(labelsize=6.5)
    names_below(axes, axes.get_legend_handles_labels()[0])
