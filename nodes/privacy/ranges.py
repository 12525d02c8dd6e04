"""Ranges of settings: epsilons where formulas are safe, draws that fit 64 bits, rows that fit memory."""

from fractions import Fraction

from nodes.checks import OutOfRange
from nodes.decimals import as_text

_LEAST, _LARGEST = Fraction(1, 10**8), Fraction(10**5)
RANGE = 1 << 62
"""Bound on noised values and their noise: sums saturate here, so that they fit 64 bits."""
TAIL = 64
"""Number of noise scales that must fit: an exact draw exceeds them once in e^64."""
_MOST_NUMBERS = 1 << 26


def in_range(epsilon: Fraction) -> None:
    """Raise OutOfRange unless 1e-8 < epsilon <= 1e5, where every formula here is safe in floats."""
    if not _LEAST < epsilon <= _LARGEST:
        allowed = f"above {float(_LEAST):g} and at most {as_text(_LARGEST)}"
        raise OutOfRange("epsilon", epsilon, f"must be {allowed}")


def room_for_noise(radius: int, batch_size: int) -> int:
    """Return the room that sums of h values of up to `radius` leave to noise: at least half of the range.

    Raises OutOfRange if they leave less.
    """
    room = RANGE - radius * batch_size
    if room <= RANGE // 2:
        raise OutOfRange("batch_size", batch_size, f"must be at most {RANGE // 2 // radius}")
    return room


def fits_memory(name: str, rows: int, dimension: int) -> None:
    """Raise OutOfRange if the rows hold more than 2^26 numbers: half a GiB in every step."""
    if rows * dimension > _MOST_NUMBERS:
        allowed = f"must be at most {_MOST_NUMBERS // dimension} where the dimension is {dimension}"
        raise OutOfRange(name, rows, allowed)
