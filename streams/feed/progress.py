"""How far a feed is: a bar on a terminal, a line now and then elsewhere; both on standard error."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from streams.terminal.wording import counted

PERIOD = 10.0
"""Seconds between two lines."""
_REDRAWN = 0.2

Tell = Callable[[int, int], None]
"""Takes the lines that the topic holds, and how many of this feed were bad. Called often, it tells seldom."""


@contextmanager
def shown(most: int | None) -> Iterator[Tell]:
    """Give what to tell the progress of up to `most` lines; None: nobody knows how many there are."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _seldom(lambda held, bad: console.print(_line(held, most, bad), soft_wrap=True), PERIOD)
        return
    columns = (TextColumn("line"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task, began, first = progress.add_task("lines", total=most, rate=""), time.monotonic(), [-1]

        def draw(held: int, bad: int) -> None:
            first[0] = held if first[0] < 0 else first[0]
            rate = (held - first[0]) / max(time.monotonic() - began, _REDRAWN)
            more = f", {bad:,} bad" if bad else ""
            progress.update(task, completed=held, rate=f"{rate:,.0f} records/s{more}")

        yield _seldom(draw, _REDRAWN)


def _seldom(tell: Tell, period: float) -> Tell:
    last = time.monotonic()

    def maybe(held: int, bad: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= period:
            last = now
            tell(held, bad)

    return maybe


def _line(held: int, most: int | None, bad: int) -> str:
    of = "" if most is None else f" of {most:,}"
    empty = f", {counted(bad, 'bad record')}" if bad else ""
    return f"line {held:,}{of}{empty}"
