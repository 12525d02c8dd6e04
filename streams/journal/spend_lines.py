"""What one run has spent, as a line of a file, and back."""

import json
import math
from fractions import Fraction

from nodes.privacy.spends import Span, Spend


def to_line(spend: Spend) -> str:
    """Return the line, JSON without infinities: they are null."""
    row = spend._asdict() | {"epsilon": None if spend.epsilon is None else str(spend.epsilon)}
    row["stream_epsilon"] = _number(spend.stream_epsilon)
    row["spans"] = [[where, _number(first), _number(end)] for where, first, end in spend.spans]
    return json.dumps(row)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def from_line(line: str) -> Spend:
    """Return the spend. Raises ValueError, TypeError, KeyError for a line that is none."""
    row = json.loads(line)
    row["epsilon"] = None if row["epsilon"] is None else Fraction(row["epsilon"])
    row["stream_epsilon"] = math.inf if row["stream_epsilon"] is None else row["stream_epsilon"]
    row["spans"] = tuple(
        Span(where, -math.inf if first is None else first, math.inf if end is None else end)
        for where, first, end in row["spans"]
    )
    return Spend(**row)
