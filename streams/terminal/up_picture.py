"""Draws a mesh and its processes for a terminal: columns of fixed width, and a line for each warning."""

from typing import Literal, NamedTuple

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streams.terminal.up_sight import WELL, Row, Sight, broker, head, scheduler

NAME, STATE, ROUND, GAP = 16, 15, 5, 2
"""Columns of the longest name shown whole, of `silent for 19 s`, of a round at least, and between two."""
BAR = 40


def picture(title: str, rounds: int | None, sight: Sight, width: int) -> RenderableType:
    """Return the state of the mesh as a picture for a terminal; only names' lengths move its columns."""
    parts: list[RenderableType] = [Text(title, "bold"), Text(head(rounds, sight), "bold")]
    if rounds is not None:
        bar = Table.grid()
        bar.add_row(ProgressBar(rounds, min(sight.round, rounds), width=min(width, BAR)))
        parts.append(bar)
    parts += [_one_line(trouble, "bold red") for trouble in broker(sight)]
    parts.append(Text.assemble("scheduler ", (scheduler(sight), _style(sight.scheduler))))
    parts.append(_nodes(sight.rows, rounds, width))
    warnings = [("scheduler", sight.planning), *((row.name, row.warning) for row in sight.rows)]
    parts += [_one_line(f"{process}: {warning}", "yellow") for process, warning in warnings if warning]
    # a line for the ^C that a terminal shows: in a full one it tears the picture
    return Group(*parts, Text())


class _Column(NamedTuple):
    """A column of a fixed width. The last ones go first where there is no room."""

    heading: str
    width: int
    cells: list[Text]
    right: bool = False


def _nodes(rows: tuple[Row, ...], rounds: int | None, width: int) -> Table:
    columns = [
        _Column(
            "node", min(NAME, max(4, *(len(row.name) for row in rows))), [Text(row.name) for row in rows]
        ),
        _Column("process", STATE, [Text(row.state, _style(row.state)) for row in rows]),
        _Column(
            "round", max(ROUND, len(f"{rounds or 0:,}")), [_number(row.round) for row in rows], right=True
        ),
        _Column("feed", STATE, [Text(row.feed, _style(row.feed)) for row in rows]),
        _Column("restarts", 8, [_number(row.restarts or None) for row in rows], right=True),
        _Column("epsilon of\nthe stream", 10, [Text(row.spent) for row in rows], right=True),
    ]
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="bold")
    columns_shown: list[list[Text]] = []
    left = width
    for column in columns:
        left -= column.width + GAP
        if left < 0 and columns_shown:
            break
        justify: Literal["right", "left"] = "right" if column.right else "left"
        table.add_column(
            column.heading, justify=justify, no_wrap=True, width=column.width, overflow="ellipsis"
        )
        columns_shown.append(column.cells)
    for cells in zip(*columns_shown, strict=True):
        table.add_row(*cells)
    return table


def _number(number: int | None) -> Text:
    return Text("" if number is None else f"{number:,}")


def _one_line(text: str, style: str) -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _style(state: str) -> str:
    return WELL.get(state, "bold red")
