"""Prints tables, sentences and progress bars. The words on a terminal and in a file are the same."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from nodes.checks import up_to_digits
from streams.ledger import Reuse, promises_of
from streams.local.results import Summary
from streams.local.scoring import Score
from streams.log_events import LogEvent
from streams.mesh.file import AnyFile
from streams.records.decoder import FileLabelCounts
from streams.terminal.text import counted, listed, promises

# Prints tables and sentences. The words on a terminal and in a file are the same.

# Tables that are readable on a narrow terminal.

_UNBOUNDED = 10_000


class Fitting:
    """A table with words on the left and numbers on the right. If it is too wide, each row becomes a list."""

    def __init__(self, headings: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
        self._headings, self._rows, self._title = headings, rows, title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, or the lists if the table does not fit."""
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
    """Return a table that is readable on any terminal."""
    return Fitting(tuple(headings), tuple(rows), title)


def say(console: Console, text: str, style: str = "") -> None:
    """Print a sentence. It is wrapped on a terminal, and one line elsewhere."""
    console.print(Text(text, style), soft_wrap=not console.is_terminal)


def say_facts(console: Console, facts: Iterable[tuple[str, str]]) -> None:
    """Print facts by name. They are aligned on a terminal, and one a line elsewhere."""
    if not console.is_terminal:
        for name, fact in facts:
            say(console, f"{name + ':' if name else '':<12} {fact}")
        return
    grid = Table.grid(padding=(0, 2))
    for name, fact in facts:
        grid.add_row(Text(name, "bold"), Text(fact, "bold red" if fact.isupper() else ""))
    console.print(grid)


def say_promises(console: Console, file: AnyFile, known: Mapping[str, Reuse]) -> None:
    """Print the guarantees of these nodes or owners, given what is known of the reuse of their data."""
    for sentence in promises(promises_of(file, known)):
        say(console, sentence)


SHORT = 8
"""The length of the longest decision that is printed. A longer one is only in the summary's file."""


def say_summary(console: Console, summary: Summary) -> None:
    """Print the result of a run of at least one round."""
    rows = [
        (
            node.name,
            f"{summary.rounds:,}",
            *([f"{node.regret:.4g}"] if summary.minimises else ()),
            node.epsilon or "none",
            "none" if node.stream_epsilon is None else f"{up_to_digits(node.stream_epsilon):,.6g}",
            f"{node.malformed:,}",
        )
        for node in summary.nodes
    ]
    headings = (
        "node",
        "rounds",
        *(["own\nregret/T"] if summary.minimises else ()),
        f"epsilon\nof a {summary.protected}",
        "epsilon\nof the stream",
        "malformed",
    )
    span = f"rounds {summary.first_round:,} to {summary.last_round:,}"
    console.print(table(headings, rows, f"{summary.mesh}, run {summary.run}: {span}"))
    say(
        console,
        f"{'Regret and malformed' if summary.minimises else 'Malformed'} counts are each node's own secret: "
        "they stand here because one party runs all.",
        "dim",
    )
    if summary.network_regret is not None:
        say(
            console,
            f"Network regret/T, the largest of a node: {summary.network_regret:.4g} (over all nodes' losses; "
            "a node's own is over its own alone).",
        )
    if len(summary.decision) <= SHORT:
        learnt = ", ".join(f"{number:.4g}" for number in summary.decision)
        say(console, f"{_mean_of(summary)}: ({learnt}).", "bold")
    elif summary.zeros:
        size = f"{len(summary.decision):,}"
        share = f"{100 * summary.zeros:.1f} % of the {size} numbers are 0"
        say(console, f"{_mean_of(summary)}: {share}.", "bold")
    scores = (
        (summary.score, "last decisions, which predict takes"),
        (summary.average_score, "averages over the rounds"),
    )
    for score, subject in scores:
        if score is not None:
            left_out = f" ({summary.left_out:,} malformed left out)" if summary.left_out else ""
            of = f"Held-out, {counted(score.records, 'record')}{left_out}, mean of the nodes' {subject}"
            say(console, f"{of}: {scored(score)}.", "bold")
    if summary.score is not None and (line := worse_than_one_class(summary.score)):
        say(console, line, "bold yellow")
    say_dropped(console, summary)


def _mean_of(summary: Summary) -> str:
    """Return what the decision is; no word of learning where no node's is better than guessing."""
    verdicts = [node.verdict for node in summary.nodes]
    is_useless = all(verdict is not None and verdict.side in {0, -1} for verdict in verdicts)
    is_empty = all(node.learnt == 0 for node in summary.nodes)
    return (
        "Mean of the nodes' last decisions"
        if is_useless or is_empty
        else "Learnt, mean of the nodes' last decisions"
    )


def worse_than_one_class(score: Score) -> str:
    """Return a line if the predicted class is right less often than the most frequent one; empty if not.

    With few records noise moves the cut more than it moves the ranking.
    """
    if score.accuracy is None or score.majority is None or score.accuracy >= score.majority:
        return ""
    advice = "its classes are no help"
    if score.auc is not None:
        advice = "rank records by score, or choose another cut"
    rates = f"{score.accuracy:.4f} of {score.majority:.4f}"
    return f"At its cut the model is right less often than the most frequent class alone, {rates}: {advice}."


def say_dropped(console: Console, summary: Summary) -> None:
    """Print which nodes had no record to learn from, and how many records slots by time left out."""
    by_node = []
    for node in summary.nodes:
        reasons = (
            (node.untimed, "without a time"),
            (node.late, "before the first slot"),
            (node.overfull, "more than a slot holds"),
        )
        parts = [f"{number:,} {reason}" for number, reason in reasons if number]
        by_node += [f"{node.name} {', '.join(parts)}"] if parts else []
    idle = [node.name for node in summary.nodes if node.learnt == 0]
    if idle:
        say(
            console,
            f"Nothing was learnt from records of {listed(idle)}: none that can be read lies in a slot.",
        )
    if by_node:
        say(console, f"Records that entered no slot, each node's own secret too: {'; '.join(by_node)}.")


def say_labels(console: Console, counts: Mapping[str, FileLabelCounts]) -> None:
    """Print how many labels of each node's file came, were unreadable, came too late, or had no record."""
    by_node = [
        f"{name} {of.came:,} came, {of.unreadable:,} unreadable, {of.late:,} too late, "
        f"{of.unmatched:,} without a record"
        for name, of in counts.items()
    ]
    if by_node:
        say(console, f"Labels that come later, each node's own secret too: {'; '.join(by_node)}.")


def _digits(loss: float) -> str:
    """Return a loss with four decimals, or with three digits if it is small."""
    return f"{loss:.4f}" if loss >= 0.1 else f"{loss:.3g}"


def scored(score: Score) -> str:
    """Return how well records were predicted, in the measures of the task."""
    mean = "undefined" if score.loss is None else _digits(score.loss)
    if score.accuracy is None:
        rmse = "" if score.rmse is None else f", RMSE {_digits(score.rmse)}"
        return f"mean loss {mean}{rmse}"
    accuracy = f"accuracy {score.accuracy:.4f} (the most frequent class alone: {score.majority:.4f})"
    if score.task == "classes":
        return f"{accuracy}, mean cross-entropy {mean}"
    if score.auc is None:
        return f"{accuracy}, AUC undefined (one class only)"
    top = f"recall in the top 1 % {score.recall_at_top:.4f} (at best {score.best_recall_at_top:.4f})"
    return f"{accuracy}, AUC {score.auc:.4f}, AUPRC {score.auprc:.4f}, {top}"


# Progress bars, on standard error and only on a terminal.


class Rate(ProgressColumn):
    """A rich column with rounds, or other units, per second."""

    def __init__(self, things: str) -> None:
        super().__init__()
        self._things = things

    def render(self, task: Task) -> Text:
        """Return the rate; empty until it is known."""
        return Text("" if task.speed is None else f"{task.speed:,.0f} {self._things}/s")


@contextmanager
def progress_bar(
    most: int | None, *, hidden: bool = False, thing: str = "round", things: str = "rounds"
) -> Iterator[Callable[[int], None]]:
    """Yield a function that is called with the number of things done.

    `most` is None if the total is unknown.
    """
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
"""Seconds from one line to the next."""
_REDRAWN = 0.2

Tell = Callable[[int, int], None]
"""A callback with (lines in the topic, malformed lines of this feed). It redraws a few times a second."""


@contextmanager
def shown(most: int | None) -> Iterator[Tell]:
    """Yield a function that shows the progress of up to `most` lines; None: the total is unknown."""
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
            suffix = f", {bad:,} bad" if bad else ""
            progress.update(task, completed=held, rate=f"{rate:,.0f} records/s{suffix}")

        yield _seldom(draw, _REDRAWN)


def logged(log: logging.Logger, most: int | None) -> Tell:
    """Return a function that logs the progress of up to `most` lines, every `PERIOD` seconds."""
    return _seldom(lambda held, bad: log.info("%s", _line(held, most, bad), extra=LogEvent.FED.of()), PERIOD)


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
