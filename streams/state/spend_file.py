"""Converts spends to lines of a file and back."""

import json
import math
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import get_args

from nodes.accounting.spends import DataReuse, Span, Spend
from streams.state.folder import JournalError, write_private

_KNOWN = {*Spend._fields, "word"}
_REUSES = (None, *get_args(DataReuse))


class Newer(ValueError):
    """A newer program has written the line."""


def to_line(spend: Spend) -> str:
    """Return the line, JSON without infinities: they are null. Its key for `reuse` is `word`."""
    row = {"word" if key == "reuse" else key: value for key, value in spend._asdict().items()}
    row |= {"epsilon": None if spend.epsilon is None else str(spend.epsilon)}
    row["stream_epsilon"] = _number(spend.stream_epsilon)
    row["spans"] = [[where, _number(first), _number(end)] for where, first, end in spend.spans]
    return json.dumps(row)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def from_line(line: str) -> Spend:
    """Return the spend of a line. Raises ValueError, TypeError, KeyError for a bad line, Newer."""
    row = json.loads(line)
    new = sorted(row.keys() - _KNOWN) if isinstance(row, dict) else ()
    if new:
        raise Newer(f"{', '.join(new)} is not known here: a newer mirrormesh has written it")
    try:
        row["epsilon"] = None if row["epsilon"] is None else Fraction(row["epsilon"])
    except ZeroDivisionError:
        raise ValueError("epsilon is not a number") from None
    row["stream_epsilon"] = math.inf if row["stream_epsilon"] is None else row["stream_epsilon"]
    row["spans"] = tuple(
        Span(where, -math.inf if first is None else first, math.inf if end is None else end)
        for where, first, end in row["spans"]
    )
    row["settings"] = tuple((key, value) for key, value in row.get("settings", ()))
    spend = Spend(reuse=row.pop("word", None), **row)
    _check(spend)
    return spend


def _check(spend: Spend) -> None:
    """Raise ValueError for an impossible spend, which would lower the total."""
    texts = (spend.run, spend.mesh, spend.folder, spend.life, *(span.where for span in spend.spans))
    texts += tuple(text for setting in spend.settings for text in setting)
    if not all(type(text) is str for text in texts):
        raise ValueError("a name is not text")
    if not all(type(count) is int and count >= 0 for count in (spend.charged, spend.before)):
        raise ValueError("a count is not a whole number of at least 0")
    if not all(type(said) is bool for said in (spend.open, spend.by_plans)) or spend.reuse not in _REUSES:
        raise ValueError("open, by_plans or word has a value that is not allowed")
    costs = (spend.epsilon or 0, spend.delta, spend.stream_epsilon, spend.stream_delta)
    if not all(cost >= 0 for cost in costs) or math.isinf(spend.delta) or math.isinf(spend.stream_delta):
        raise ValueError("a cost is not a number of at least 0, or a delta is infinite")


def read_spends(path: Path) -> tuple[Spend, ...]:
    """Return the spends in a file, none if it is missing. Raises JournalError if it is broken."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise JournalError(f"{path} cannot be read: {error}") from error
    try:
        return tuple(from_line(line) for line in lines)
    except Newer as error:
        raise JournalError(f"{path}: {error}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise JournalError(f"{path} is broken: what earlier runs have spent is not known") from error


def write_spends(path: Path, spends: Iterable[Spend]) -> None:
    """Replace the file by these spends; durable when this returns. Raises JournalError."""
    text = "".join(f"{to_line(spend)}\n" for spend in spends)
    try:
        write_private(path, lambda _: text)
    except OSError as error:
        raise JournalError(f"{path} cannot be written: {error}") from error
