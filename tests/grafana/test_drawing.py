"""The dashboards as pictures: nothing covers a line, and everything has a name."""

import re

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from grafana import learning, mesh, overview, privacy
from grafana.ask import Series
from grafana.drawing import Span, draw_panel

NODES = ("east", "north-east", "north-west", "west", "south-west", "south-east")
TIMES = tuple(range(0, 100, 2))


class Told:
    """A Prometheus that has a series for each node, or what is given for a query."""

    def __init__(self, value=lambda node, time: 1.0 + time, **given):
        self.value, self.given = value, given

    def over(self, query, *_):
        return [self._series(query, node, TIMES) for node in NODES]

    def at(self, query, _):
        return [] if query.expr in self.given else [self._series(query, node, TIMES[-1:]) for node in NODES]

    def _series(self, query, node, times):
        labels = {
            "node": node,
            "edge_source": "z",
            "reason": "late",
            "outcome": "scored",
            "coordinate": "0",
            "percentile": "95",
            "bound": "value",
            "mechanism": "laplace",
            "owner": "bank-a",
        }
        name = re.sub(r"{{(\w+)}}", lambda label: labels[label[1]], query.legend)
        return Series(name, labels, times, tuple(self.value(NODES.index(node), time) for time in times))


def drawn(module, title, told):
    """The panel's axes, in a picture of the size that it has on a dashboard."""
    (panel,) = [panel for row in module.ROWS for panel in row.panels if panel.title == title]
    figure = Figure(figsize=(3.4, 2.1))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.1, 0.2, 0.8, 0.6))
    draw_panel(axes, panel, told, Span(0, 100, 2))
    figure.canvas.draw()
    return axes


def names(axes):
    """What is written under a panel."""
    return [text.get_text() for text in axes.get_legend().get_texts()]


LINES = [
    pytest.param(module, panel.title, id=f"{module.__name__}-{panel.title}")
    for module in (overview, mesh, privacy, learning)
    for row in module.ROWS
    for panel in row.panels
    if panel.kind == "timeseries"
]


@pytest.mark.parametrize(("module", "title"), LINES)
def test_names_stand_under_the_panel_and_cover_no_line(module, title):
    axes = drawn(module, title, Told())
    under = axes.get_legend().get_window_extent()
    assert under.y1 <= axes.get_window_extent().y0
    assert axes.get_window_extent().height > 30  # half of it is left


def test_the_median_and_the_tail_are_told_apart_and_each_node_is_named_once():
    axes = drawn(mesh, "Time from step to step", Told())
    assert names(axes) == [*sorted(NODES), "p50", "p99"]
    styles = {line.get_linestyle() for line in axes.lines}
    assert {"-", "--"} <= styles


def test_names_that_have_no_room_are_counted():
    (last,) = names(drawn(mesh, "Messages refused", Told()))[-1:]
    assert re.fullmatch(r"and \d+ more", last)


def test_many_lines_of_nothing_have_one_name():
    axes = drawn(learning, "Empty and dropped", Told(lambda *_: 0.0))
    assert names(axes) == ["all 24 are 0"]


def test_a_threshold_is_drawn_where_the_lines_come_near_it():
    def levels(top):
        axes = drawn(mesh, "Since it was heard", Told(lambda _, time: top * time / 100))
        return [line.get_ydata()[0] for line in axes.lines if len(set(line.get_ydata())) == 1]

    assert levels(5.0) == []
    assert levels(50.0) == [10]
