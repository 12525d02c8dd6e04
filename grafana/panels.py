"""Panels as values: what each asks, in which unit, and when its colour changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from streams.metrics.catalogue import PREFIX

MESH = '{mesh="$mesh",node=~"$node|"}'
"""Of a whole mesh: what a scheduler shows, whichever nodes are chosen."""
SCHEDULERS = '{mesh="$mesh",node=""}'
"""Of schedulers alone."""
NODES = '{mesh="$mesh",node=~"$node"}'
"""Of the chosen nodes."""
STREAM = '{mesh="$mesh",node=~"$node",adjacency="stream"}'
"""Of the account of the chosen nodes' whole streams."""
NO_MECHANISM = '{mesh="$mesh",node=~"$node",mechanism="none"}'
GREEN, ORANGE, RED, BLUE, GREY = "green", "orange", "red", "blue", "text"
COUNT, SHARE, PER_SECOND, SECONDS, HOURS, BYTES, NUMBER = (
    "locale",
    "percentunit",
    "cps",
    "s",
    "h",
    "bytes",
    "none",
)
"""Units of Grafana."""
AXES = {SHARE: "share", PER_SECOND: "per second", SECONDS: "seconds", HOURS: "hours", BYTES: "bytes"}
"""The word at an axis of such a unit."""

Steps = tuple[tuple[float | None, str], ...]
"""(from, colour): the first from is None."""
Kind = Literal["timeseries", "stat", "states", "map"]
TARGET = "the target"
"""What is on a map beside the nodes: no node can be called so."""


@dataclass(frozen=True)
class Query:
    """An expression, and what its series are called.

    `colour`: theirs, whatever their value; the queries of a panel that have one are alternatives.
    """

    expr: str
    legend: str = "{{node}}"
    colour: str = ""


@dataclass(frozen=True)
class Panel:
    """What one panel answers. `words`: (value, name, colour). `log`: a logarithmic axis; `least`: its end.

    `axis`: the word at the axis, if the unit has none.

    A stat shows values of now, and with `trend` how they became what they are; with `names` it shows the
    names of its series alone; `nothing` is what it says without any.
    """

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: Kind = "timeseries"
    steps: Steps = ((None, GREEN),)
    words: tuple[tuple[str, str, str], ...] = ()
    width: int = 8
    height: int = 8
    log: bool = False
    least: float | None = None
    trend: bool = False
    names: bool = False
    nothing: str = "No data"
    axis: str = ""


@dataclass(frozen=True)
class Row:
    """Panels under one heading. `of`: the meshes that have it, if not all.

    Such a row is closed until somebody opens it, so that no other mesh shows empty panels.
    """

    title: str
    panels: Sequence[Panel]
    of: str = ""

    @property
    def heading(self) -> str:
        """The title, with the meshes that have it."""
        return f"{self.title} ({self.of})" if self.of else self.title


def metric(name: str, selector: str = NODES) -> str:
    """Return a metric of ours with its selector."""
    return f"{PREFIX}_{name}{selector}"


def last(name: str, selector: str = NODES) -> str:
    """Return a metric's last values in the time that is shown: they stay when a process is gone."""
    return f"last_over_time({metric(name, selector)}[$__range])"


def rate(name: str, selector: str = NODES) -> str:
    """Return a counter's rate, a second."""
    return f"rate({metric(name, selector)}[$__rate_interval])"


def quantile(share: float, name: str) -> str:
    """Return a histogram's quantile, by node."""
    return f"histogram_quantile({share}, sum by (mesh, node, le) ({rate(name + '_bucket')}))"


def by_node(expr: str) -> str:
    """Return one series for each node, whoever shows it."""
    return f"max by (mesh, node) ({expr})"
