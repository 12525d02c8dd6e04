"""Describes the numbers of malformed records, their faults, and the failures of users' own losses.

These texts are for the owner of the records alone. They show no value of a record.
"""

from collections.abc import Mapping

from rich.console import Console

from streams.records.faults import FaultCounts
from streams.terminal.report import say

MALFORMED = 3
"""The exit code of `run`, `predict`, `feed` and `up` if more than half of a node's records are malformed."""
HEAD = "Malformed records: "
"""The beginning of the line."""
FAILED = "Own losses failed, so that those records have no gradient: "
_SHOWN = 6


def malformed_line(counts: Mapping[str, FaultCounts]) -> str | None:
    """Return a line on all sources with more than 1 % malformed records, the worst first; None if there are
    none.

    `counts` is by the name of the node or file.
    """
    notable = sorted(counts, key=lambda name: -counts[name].share)
    notable = [name for name in notable if counts[name].notable]
    parts = [f"{name} {_said(counts[name])}" for name in notable[:_SHOWN]]
    if len(notable) > _SHOWN:
        parts.append(f"and {len(notable) - _SHOWN:,} more")
    return f"{HEAD}{'; '.join(parts)}." if parts else None


def unread_line(counts: Mapping[str, FaultCounts]) -> str:
    """Return a line for the owner on each node that could not read records, the worst first."""
    worst = sorted(counts, key=lambda name: -counts[name].share)
    parts = [f"{name} {_said(counts[name])}" for name in worst if counts[name].malformed]
    return f"{HEAD}{'; '.join(parts) or 'none that a node here has told of'}."


def failures_line(failures: Mapping[str, Mapping[str, int]]) -> str | None:
    """Return a line on the nodes whose own loss has failed, with the numbers of failed calls; None without
    one.
    """
    names = [name for name, kinds in failures.items() if kinds]
    parts = []
    for name in names[:_SHOWN]:
        common_kinds = sorted(failures[name].items(), key=lambda kind: -kind[1])[:_SHOWN]
        parts.append(f"{name} {', '.join(f'{kind} ({calls:,} calls)' for kind, calls in common_kinds)}")
    if len(names) > _SHOWN:
        parts.append(f"and {len(names) - _SHOWN:,} more")
    return f"{FAILED}{'; '.join(parts)}." if parts else None


_NONE: Mapping[str, Mapping[str, int]] = {}


def say_malformed(
    console: Console,
    counts: Mapping[str, FaultCounts],
    failures: Mapping[str, Mapping[str, int]] = _NONE,
) -> bool:
    """Print `malformed_line` if there is one. Return whether more than half of a source's records are
    malformed.

    If so, the line on malformed records also goes to standard error, even if the console is quiet. `failures`
    are those of own losses. They go to standard output alone, because each one is a bit of a record.
    """
    line, failed = malformed_line(counts), failures_line(failures)
    mostly = any(count.mostly for count in counts.values())
    if line is not None or failed is not None:
        say(console, " ".join(filter(None, [line, failed])), "bold yellow")
    if line is not None and mostly:
        say(Console(highlight=False, stderr=True), line, "bold red")
    return mostly


def most_often(counts: FaultCounts) -> str:
    """Return the commonest fault, as `most often amount: not a number`. `counts` must have one at least."""
    (fault, _), *rest = counts.faults.most_common()
    return f"{'most often ' if rest else ''}{fault}"


def _said(counts: FaultCounts) -> str:
    return f"{counts.malformed:,} of {counts.records:,} ({most_often(counts)})"
