"""How a figure of several turns is told."""

from collections.abc import Sequence
from statistics import median


def spread(values: Sequence[float], digits: int) -> str:
    """Return the median and the range."""
    low, middle, high = min(values), median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"
