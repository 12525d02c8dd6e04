"""Measures a schedule: how many rounds in a row connect all nodes, and how much disagreement they leave."""

import math
from typing import NamedTuple

from topology.schedules import CycleSchedule, Schedule, SwitchingSchedule, least_weight, mixing_rate, window

_LOOKED_AT = 1_000  # rounds, of a run without end
_MOST = 5_000
_WIDEST = 100
_DRAWS = 4_000_000
_PRODUCTS = 200_000_000  # of numbers, in the products of windows


class Windows(NamedTuple):
    """The windows of a schedule, all nodes present.

    Any `width` rounds in a row connect all nodes, of those that begin in rounds 1 to `starts`; None: some
    `limit` rounds do not. They leave at most `rate` of the disagreement, of those that begin in rounds 1 to
    `measured`; None: not measured. `drawn`: each round's edges are drawn anew. `whole`: no other window
    exists in the run.
    """

    drawn: bool
    starts: int
    limit: int
    width: int | None
    rate: float | None
    measured: int
    whole: bool


class Least(NamedTuple):
    """The smallest positive weight, and whether every node has one on itself in every round."""

    weight: float
    lazy: bool


def windows(schedule: Schedule, rounds: int | None) -> Windows:
    """Return what can be afforded to be seen of a schedule's windows; `rounds` None: without end."""
    random = isinstance(schedule, SwitchingSchedule)
    starts, limit = _looked_at(schedule, rounds)
    width = window(schedule, limit, starts)
    measured = min(starts, max(1, _PRODUCTS // len(schedule.graph.nodes) ** 3))
    rate = None if width is None else mixing_rate(schedule, width, measured)
    whole = measured >= (rounds or math.inf) if random else measured == starts
    return Windows(random, starts, limit, width, rate, measured, whole)


def least(schedule: Schedule, seen: Windows) -> Least:
    """Return the least weight of the rounds that were looked at."""
    return Least(*least_weight(schedule, seen.starts))


def _looked_at(schedule: Schedule, rounds: int | None) -> tuple[int, int]:
    """Return the number of window starts to check, and the widest window."""
    if isinstance(schedule, SwitchingSchedule):
        affordable = max(1, _DRAWS // max(1, schedule.graph.sources.size) - _WIDEST)
        return min(rounds or _LOOKED_AT, _MOST, affordable), _WIDEST
    size = len(schedule.parts) if isinstance(schedule, CycleSchedule) else 1
    return size, size
