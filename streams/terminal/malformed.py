"""Says how many records are malformed, and why. For the owner of the records alone; it shows no value."""

from collections.abc import Mapping

from rich.console import Console

from streams.records.faults import FaultCounts
from streams.terminal.report import say

MALFORMED = 3
"""The exit code of `run`, `predict`, `feed` and `up` if more than half of a node's records are malformed."""
HEAD = "Malformed records: "
"""The beginning of the line."""
_SHOWN = 6


def malformed_line(counts: Mapping[str, FaultCounts]) -> str | None:
    """Return a line on all with more than 1 % malformed, the worst first; None if there are none.

    `counts`: by the name of the node or file.
    """
    notable = sorted(counts, key=lambda name: -counts[name].share)
    notable = [name for name in notable if counts[name].notable]
    parts = [f"{name} {_said(counts[name])}" for name in notable[:_SHOWN]]
    if len(notable) > _SHOWN:
        parts.append(f"and {len(notable) - _SHOWN:,} more")
    return f"{HEAD}{'; '.join(parts)}." if parts else None


def say_malformed(console: Console, counts: Mapping[str, FaultCounts]) -> bool:
    """Print the line, if there is one; return whether more than half of somebody's records are malformed.

    If so, the line also goes to standard error, even if the console is quiet.
    """
    line = malformed_line(counts)
    mostly = any(count.mostly for count in counts.values())
    if line is not None:
        say(console, line, "bold yellow")
    if line is not None and mostly:
        say(Console(highlight=False, stderr=True), line, "bold red")
    return mostly


def most_often(counts: FaultCounts) -> str:
    """Return the commonest fault, `most often amount: not a number`; counts one at least."""
    (fault, _), *rest = counts.faults.most_common()
    return f"{'most often ' if rest else ''}{fault}"


def _said(counts: FaultCounts) -> str:
    return f"{counts.malformed:,} of {counts.records:,} ({most_often(counts)})"
