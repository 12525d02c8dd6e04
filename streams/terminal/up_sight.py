"""The state of a mesh and of its processes here, as `up` shows it, and the words for it."""

from typing import NamedTuple

from streams.terminal.wording import counted, speed

WELL = {"running": "green", "starting": "yellow", "done": "cyan", "elsewhere": "dim", "": ""}
"""The colours of states that are no trouble."""


class Row(NamedTuple):
    """One node; `round` None: not known here. `feed` is empty if it is not fed here.

    `warning` is the last one of its two processes, with the time of day; `restarts` counts both's.
    """

    name: str
    state: str
    round: int | None
    spent: str
    feed: str
    warning: str
    restarts: int


class Sight(NamedTuple):
    """The state of the mesh. `round`: the last one stepped by half of the nodes here, at `rate` per second.

    `slowest`: the node that is behind all others, and its round. `gone`: seconds since the broker's last
    answer; None while it answers. `scheduler` is the state of its process, `planning` its last warning.
    """

    round: int
    slowest: tuple[str, int]
    rate: float | None
    gone: float | None
    scheduler: str
    restarts: int
    planning: str
    rows: tuple[Row, ...]


def head(rounds: int | None, sight: Sight) -> str:
    """Return the round of the median, its speed, and the slowest node if it is behind."""
    end = "" if rounds is None else f" of {rounds:,}"
    name, behind = sight.slowest
    slowest = f"slowest: {name} at {behind:,}" if behind < sight.round else ""
    return ", ".join(filter(None, (f"round {sight.round:,}{end}", speed(sight.rate), slowest)))


def broker(sight: Sight) -> list[str]:
    """Return a line if the broker is gone."""
    return [] if sight.gone is None else [f"broker gone for {sight.gone:,.0f} s"]


def scheduler(sight: Sight) -> str:
    """Return the state of the scheduler, and how often it began again."""
    return f"{sight.scheduler}, {counted(sight.restarts, 'restart')}" if sight.restarts else sight.scheduler
