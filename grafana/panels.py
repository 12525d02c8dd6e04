"""Panels as values: what each asks, in which unit, and when its colour changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from streams.metrics.catalogue import PREFIX

MESH = '{mesh="$mesh"}'
"""Of a whole mesh: what a scheduler shows."""
NODES = '{mesh="$mesh",node=~"$node"}'
"""Of the chosen nodes."""
GREEN, ORANGE, RED, BLUE, GREY = "green", "orange", "red", "blue", "text"

Steps = tuple[tuple[float | None, str], ...]
"""(from, colour): the first from is None."""
Kind = Literal["timeseries", "stat", "states", "map"]
TARGET = "the target"
"""What is on a map beside the nodes: no node can be called so."""


@dataclass(frozen=True)
class Query:
    """An expression, and what its series are called."""

    expr: str
    legend: str = "{{node}}"


@dataclass(frozen=True)
class Panel:
    """What one panel answers. `words`: (value, name, colour). `log`: a logarithmic axis; `least`: its end."""

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


@dataclass(frozen=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: Sequence[Panel]


def metric(name: str, selector: str = NODES) -> str:
    """Return a metric of ours with its selector."""
    return f"{PREFIX}_{name}{selector}"


def rate(name: str, selector: str = NODES) -> str:
    """Return a counter's rate, a second."""
    return f"rate({metric(name, selector)}[$__rate_interval])"


def quantile(share: float, name: str) -> str:
    """Return a histogram's quantile, by node."""
    return f"histogram_quantile({share}, sum by (mesh, node, le) ({rate(name + '_bucket')}))"
