"""Numbers on [0, 1) with endless bits, held against e^-x in integers alone.

`below` is exact. Some bits of a number are known. More are drawn until the cell that they leave lies on one
side of e^-x, which two integers enclose.
"""

from collections.abc import Callable
from fractions import Fraction

from nodes.values import WordArray

Words = Callable[[int], WordArray]
"""Returns that many words of 64 fair and independent bits, each for one use."""

_WORD = 64
_GUARD = 16


class EndlessNumber:
    """A uniform number on [0, 1). Its first `bits` bits are `number`; the rest is drawn when needed."""

    __slots__ = ("_words", "bits", "number")

    def __init__(self, number: int, bits: int, words: Words) -> None:
        self.number, self.bits, self._words = number, bits, words

    def extend(self) -> None:
        """Draw 64 further bits."""
        self.number = self.number << _WORD | one_word(self._words)
        self.bits += _WORD

    def below(self, x: Fraction) -> bool:
        """Return whether the number is below e^-x, x >= 0."""
        while True:
            least, most = exp_minus(x, self.bits + _GUARD)
            if (self.number + 1) << _GUARD <= least:
                return True
            if self.number << _GUARD >= most:
                return False
            self.extend()


def one_word(words: Words) -> int:
    """Return one word, and overwrite the array that it came in."""
    buffer = words(1)
    word = int(buffer[0])
    buffer.fill(0)
    return word


def exp_minus(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integers around e^-x 2^bits, x >= 0: at most it, and at least it.

    e^-x = (e^-r)^(2^k), r = x/2^k at most 1/2. e^-r is a series, every term rounded outwards.
    """
    squarings = max(0, int(2 * x).bit_length())
    work = bits + 2 * squarings + _GUARD
    r = (x.numerator << work) // (x.denominator << squarings)  # r 2^work is in [r, r + 1]
    least, most = _series(r + 1, work)[0], _series(r, work)[1]
    for _ in range(squarings):
        least, most = least * least >> work, -(-most * most >> work)
    return least >> (work - bits), -(-most >> (work - bits))


def _series(r: int, work: int) -> tuple[int, int]:
    """Return integers around e^-(r/2^work) 2^work, 0 <= r <= 2^work; the terms alternate and fall."""
    least = most = small = large = 1 << work
    count = 0
    while large > 1:
        count += 1
        small, large = small * r // (count << work), -(-large * r // (count << work))
        if count % 2:
            least, most = least - large, most - small
        else:
            least, most = least + small, most + large
    return max(0, least - 1), most + 1  # what is left of the series is at most its next term, below 1
