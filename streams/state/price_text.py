"""Converts prices to and from the journal's text."""

import json
from fractions import Fraction

from nodes.accounting.price import Price


def to_text(price: Price | None) -> str:
    """Return the price as JSON; "" if unknown."""
    if price is None:
        return ""
    row = price._asdict() | {"epsilon": None if price.epsilon is None else str(price.epsilon)}
    return json.dumps(row)


def from_text(text: str) -> Price | None:
    """Return the price of a text. Raises ValueError for a bad text."""
    if not text:
        return None
    try:
        row = json.loads(text)
        row["epsilon"] = None if row["epsilon"] is None else Fraction(row["epsilon"])
        row["settings"] = tuple((key, value) for key, value in row["settings"])
        return Price(**row)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError("it is broken: its price cannot be read") from error
