"""The progress bar of a run, on standard error, and on a terminal alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text


class Rate(ProgressColumn):
    """Rounds a second."""

    def render(self, task: Task) -> Text:
        """Return the rate, once there is one."""
        return Text("" if task.speed is None else f"{task.speed:,.0f} rounds/s")


@contextmanager
def progress_bar(rounds: int | None, *, hidden: bool = False) -> Iterator[Callable[[int], None]]:
    """Give what to call with the number of rounds done; `rounds` None: nobody knows how many there are."""
    console = Console(stderr=True)
    columns = (TextColumn("round"), MofNCompleteColumn(), BarColumn(), Rate())
    shown = console.is_terminal and not hidden
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task("rounds", total=rounds)

        def advance(done: int) -> None:
            if shown:
                progress.update(task, completed=done)

        yield advance
