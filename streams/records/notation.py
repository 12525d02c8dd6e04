"""Defines how a format spells numbers as text, and which texts stand for a missing value.

All formats convert text to numbers here, by the format's grammar. Python's own grammar is not used, as it
reads 1_0 as ten and accepts digits of all scripts.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple, cast

import numpy as np

from nodes.values import FloatArray
from streams.mesh.settings.schema import word

_TYPES = frozenset((int, float, str))
_ALL_WHOLE = 2.0**53
"""Below this number, integers and floats correspond one to one."""


class Notation(NamedTuple):
    """How a format spells a number as text. A value that is a number and no text counts in every format."""

    grammar: re.Pattern[str]
    plain: re.Pattern[str] | None = None
    """Finds a character outside the grammar. In text without one Python's grammar is the same."""
    marks: Mapping[int, str | None] = {}
    """Translates a number's marks for Python: a decimal comma becomes a point."""

    def number(self, value: object) -> float | None:
        """Return the finite number that `value` is or spells; None otherwise."""
        if isinstance(value, str):
            if self.grammar.fullmatch(value) is None:
                return None
            value = value.translate(self.marks) if self.marks else value
        elif isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            parsed = float(value)
        except OverflowError:  # a whole number beyond all floats
            return None
        return parsed if math.isfinite(parsed) else None

    def exact(self, value: object) -> float | Decimal | None:
        """Return `number`, exact for integers that a float would round."""
        number = self.number(value)
        if number is None or abs(number) < _ALL_WHOLE:
            return number
        return Decimal(value.translate(self.marks).strip(" \t") if isinstance(value, str) else repr(value))

    def numbers(self, values: Sequence[object] | FloatArray) -> FloatArray | None:
        """Return the numbers that `number` reads, (n,).

        Returns None, or raises ValueError, if a value is no number.
        """
        if isinstance(values, np.ndarray):
            return values if np.isfinite(values).all() else None
        types = set(map(type, values))
        if not types <= _TYPES:
            return None
        if str not in types:
            parsed = np.fromiter(cast("Sequence[float]", values), np.float64, len(values))
        else:
            texts = cast("Sequence[str]", values)
            if types != {str}:
                texts = [value for value in values if type(value) is str]
            if self.plain is None:
                if not all(map(self.grammar.fullmatch, texts)):
                    return None
            elif self.plain.search("".join(texts)) is not None:
                return None
            if self.marks:
                values = [
                    value.translate(self.marks) if isinstance(value, str) else value for value in values
                ]
            parsed = np.fromiter(map(float, cast("Sequence[float | str]", values)), np.float64, len(values))
        return parsed if np.isfinite(parsed).all() else None


FILE = Notation(
    re.compile(r"[ \t]*[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[ \t]*"),
    re.compile(r"[^-+0-9.eE \t]"),
)
"""Numbers in CSV and libsvm."""
JSON = Notation(re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"))
"""Numbers as text in JSON, and so in Parquet: spelt as JSON spells its numbers."""


def csv_notation(decimal: str = ".", thousands: str | None = None) -> Notation:
    """Return the notation of numbers in CSV with these marks, of decimals and of groups of three digits."""
    if (decimal, thousands) == (".", None):
        return FILE
    point, integer_part = re.escape(decimal), "[0-9]+"
    if thousands is not None:
        integer_part = f"(?:[0-9]{{1,3}}(?:{re.escape(thousands)}[0-9]{{3}})+|[0-9]+)"
    grammar = rf"[ \t]*[-+]?(?:{integer_part}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][-+]?[0-9]+)?[ \t]*"
    marks: dict[int, str | None] = {ord(decimal): "."}
    if thousands is not None:
        # Python would read 1,2,3 as 123, so the grammar must see each
        return Notation(re.compile(grammar), None, marks | {ord(thousands): None})
    return Notation(re.compile(grammar), re.compile(rf"[^-+0-9{point}eE \t]"), marks)


class Lookup:
    """Words of a list in the settings, which are compared with values of a column.

    A value matches a word of the same spelling. A value that is a number in the column's notation also
    matches a word that is the same number, in JSON's notation or else in that of the column. Of several such
    words it matches the shortest.
    """

    def __init__(self, words: Iterable[str], notation: Notation = FILE) -> None:
        self._words, self._notation = frozenset(words), notation
        self._numbers = dict[float | Decimal, str]()
        for text in sorted(self._words, key=lambda text: (len(text), text)):
            number = JSON.exact(text)
            number = notation.exact(text) if number is None else number
            if number is not None:
                self._numbers.setdefault(number, text)

    def find(self, value: object) -> str | None:
        """Return the word that the value matches; None if it matches none."""
        if not self._words:
            return None
        text = self._text(value)
        if text is None or text in self._words:
            return text
        number = self._notation.exact(value) if self._numbers else None
        return None if number is None else self._numbers.get(number)

    def spells(self, value: object) -> bool:
        """Return whether the value is spelt as one of the words."""
        return self._text(value) in self._words

    def _text(self, value: object) -> str | None:
        # where a point is no decimal mark, 1.000 may mean a thousand, and its word would be 1
        if self._notation.marks and isinstance(value, str) and self._notation.number(value) is not None:
            return value
        return word(value)


def joined_word(notation: Notation, value: object) -> str | None:
    """Return the word by which a value is joined with equal values; None if it is empty or no single value.

    Equal numbers in the notation give the same word: 1, 1.0 and, with a decimal comma, 1,0. But 007 and 7 are
    two words.
    """
    if is_empty(value):
        return None
    if notation.marks and isinstance(value, str) and notation.number(value) is not None:
        return word(value.translate(notation.marks).strip())
    return word(value)


NO_WORDS = Lookup(())
_ABSENT = re.compile(r"\s*(?:<NA>|#?N/?A|n/a|-?na[nN]|-?Na[nN]|NAN|[Nn]ull|NULL|None)\s*")
"""Texts that stand for a missing value, as data frames, R and databases write it."""


def is_empty(value: object) -> bool:
    """Return whether a value is empty: null, NaN, or text without a visible character."""
    if isinstance(value, str):
        return not value or value.isspace()
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_missing_label(value: object) -> bool:
    """Return whether a value stands for an unknown label, unless the schema lists it as a label."""
    return is_empty(value) or (isinstance(value, str) and _ABSENT.fullmatch(value) is not None)


def is_missing(absent: Lookup | None, listed: Lookup, value: object) -> bool:
    """Return whether a value is missing: empty, or one of the words `absent` (None: the usual ones).

    A value that is `listed`, as a category or a label, is not missing, unless only `absent` has its spelling.
    """
    stripped = value.strip() if isinstance(value, str) else value
    if listed.find(value) is not None:
        return absent is not None and absent.spells(stripped) and not listed.spells(value)
    if absent is None:
        return is_missing_label(value)
    return is_empty(value) or absent.find(stripped) is not None
