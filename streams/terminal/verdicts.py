"""Prints how well a run has learnt: for each owner's records, the scores before learning, and a judgement."""

from collections.abc import Iterator, Mapping

from rich.console import Console

from nodes.intervals import Interval
from nodes.prequential import LAST, Figures
from streams.metrics.judgement import judged
from streams.metrics.verdict import Verdict
from streams.terminal.report import say, table
from streams.terminal.text import listed

FEW = 6
"""The most nodes of which each has a sentence of its own."""


def say_verdicts(console: Console, verdicts: Mapping[str, Verdict]) -> None:
    """Print a table of the nodes' scores, and the judgements; print nothing without verdicts."""
    rows = [_row(name, verdict.before, verdict.last) for name, verdict in verdicts.items() if verdict.before]
    columns = [k for k in range(len(_HEADINGS)) if any(row[k] for row in rows)]
    if rows:
        headings = [_HEADINGS[k] for k in columns]
        title = "Predicted before learning; each node's own secret"
        console.print(table(headings, [[row[k] for k in columns] for row in rows], title))
    for line in sentences(verdicts):
        say(console, line, "bold")


def sentences(verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    """Yield each node's judgement; of more than `FEW` nodes, which ones are better than guessing."""
    if len(verdicts) <= FEW:
        for name, verdict in verdicts.items():
            yield f"Verdict of {name}: {judged(verdict)}."
        return
    words = {
        1: "better than guessing",
        0: "no better than guessing",
        -1: "worse than guessing",
        None: "not known",
    }
    for side, text in words.items():
        names = [name for name, verdict in verdicts.items() if verdict.side == side]
        if names:
            yield f"Verdict of {len(names):,} nodes: {text} ({listed(names)})."


_HEADINGS = (
    "node",
    "records",
    "accuracy\n(guessing)",
    f"of the last\n{LAST:,}",
    "AUC",
    "AUPRC\n(chance)",
    "log loss\n(guessing)",
    "error\n(guessing)",
)


def _row(name: str, figures: Figures | None, last: Figures | None) -> list[str]:
    if figures is None:
        return [name, *[""] * (len(_HEADINGS) - 1)]
    losses = _beside(figures.loss, figures.loss_gain, -1.0)
    recent = None if last is None else (last.accuracy or last.loss)
    return [
        name,
        f"{figures.records:,}",
        _beside(figures.accuracy, figures.accuracy_gain, 1.0),
        "" if recent is None else f"{recent.value:.4g}",
        "" if figures.auc is None else _ranged(figures.auc),
        "" if figures.auprc is None else f"{figures.auprc.value:.4g} ({figures.auprc_chance:.4g})",
        losses if figures.accuracy is not None else "",
        losses if figures.accuracy is None else "",
    ]


def _beside(value: Interval | None, gain: Interval | None, sign: float) -> str:
    if value is None or gain is None:
        return ""
    return f"{value.value:.4g} ({value.value - sign * gain.value:.4g})"


def _ranged(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return f"{interval.value:.3f}"
    return f"{interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})"
