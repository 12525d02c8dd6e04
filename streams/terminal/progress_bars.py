"""Progress bars, on standard error and only on a terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from streams.terminal.text import counted


class Rate(ProgressColumn):
    """Rounds, or other things, a second."""

    def __init__(self, things: str) -> None:
        super().__init__()
        self._things = things

    def render(self, task: Task) -> Text:
        """Return the rate, once there is one."""
        return Text("" if task.speed is None else f"{task.speed:,.0f} {self._things}/s")


@contextmanager
def progress_bar(
    most: int | None, *, hidden: bool = False, thing: str = "round", things: str = "rounds"
) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of things done; `most` None: unknown total."""
    console = Console(stderr=True)
    columns = (TextColumn(thing), MofNCompleteColumn(), BarColumn(), Rate(things))
    visible = console.is_terminal and not hidden
    with Progress(*columns, console=console, transient=True, disable=not visible) as progress:
        task = progress.add_task(things, total=most)

        def advance(done: int) -> None:
            if visible:
                progress.update(task, completed=done)

        yield advance


PERIOD = 10.0
"""Seconds between two lines."""
_REDRAWN = 0.2

Tell = Callable[[int, int], None]
"""A callback (lines in the topic, malformed lines of this feed); it redraws a few times a second."""


@contextmanager
def shown(most: int | None) -> Iterator[Tell]:
    """Yield a function that shows the progress of up to `most` lines; None: unknown total."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _seldom(lambda held, bad: console.print(_line(held, most, bad), soft_wrap=True), PERIOD)
        return
    columns = (TextColumn("line"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task, started, first = progress.add_task("lines", total=most, rate=""), time.monotonic(), [-1]

        def draw(held: int, bad: int) -> None:
            first[0] = held if first[0] < 0 else first[0]
            rate = (held - first[0]) / max(time.monotonic() - started, _REDRAWN)
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
