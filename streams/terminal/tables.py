"""Tables that stay readable on a narrow terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_UNBOUNDED = 10_000


class Fitting:
    """A table: words on the left, numbers on the right. Where its words do not fit, a list for each row."""

    def __init__(self, headings: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
        self._headings, self._rows, self._title = headings, rows, title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield whichever form fits."""
        wide = self._wide()
        needed = Measurement.get(console, options.update(max_width=_UNBOUNDED), wide).minimum
        yield wide if needed <= options.max_width else self._lists()

    def _wide(self) -> Table:
        table = Table(
            title=self._title or None, title_justify="left", title_style="bold", header_style="bold"
        )
        for k, heading in enumerate(self._headings):
            table.add_column(heading, justify="right" if k else "left", no_wrap=k == 0)
        for row in self._rows:
            table.add_row(*map(Text, row))
        return table

    def _lists(self) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.title, table.title_justify, table.title_style = self._title or None, "left", "bold"
        for name, *cells in self._rows:
            table.add_row(Text(name, "bold"))
            for heading, cell in zip(self._headings[1:], cells, strict=True):
                table.add_row(Text(f"  {' '.join(heading.split())}"), Text(cell))
        return table


def table(headings: Iterable[str], rows: Iterable[Sequence[str]], title: str = "") -> Fitting:
    """Return a table that fits any terminal."""
    return Fitting(tuple(headings), tuple(rows), title)
