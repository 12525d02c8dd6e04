"""Turns a value of a record into features: numbers scaled by public bounds, categories one-hot.

The one reader of values: whatever the format, text becomes a number here, by the format's grammar, and not by
Python's, to which 1_0 is ten and digits of all scripts are digits.
"""

import math
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, cast
from zoneinfo import ZoneInfo

import numpy as np

from nodes.values import FloatArray
from streams.mesh.settings.schema import ColumnSettings, LabelSettings, TimestampSettings, word


class Notation(NamedTuple):
    """How a format spells a number as text. A number that is none of text is one in every format."""

    grammar: re.Pattern[str]
    plain: re.Pattern[str] | None = None
    """Finds a character that the grammar has not: text without one is what Python reads as a number."""

    def number(self, value: object) -> float | None:
        """Return the finite number that `value` is or spells; None otherwise."""
        if isinstance(value, str):
            if self.grammar.fullmatch(value) is None:
                return None
        elif isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            parsed = float(value)
        except OverflowError:  # a whole number beyond all floats
            return None
        return parsed if math.isfinite(parsed) else None

    def numbers(self, values: Sequence[object] | FloatArray) -> FloatArray | None:
        """Return what `number` reads, (n,); None, or ValueError, if it reads none of a value."""
        if isinstance(values, np.ndarray):
            return values if np.isfinite(values).all() else None
        types = set(map(type, values))
        if not types <= _NUMBERS:
            return None
        if str not in types:
            parsed = np.fromiter(cast("Sequence[float]", values), np.float64, len(values))
        else:
            texts = [value for value in values if type(value) is str]
            if self.plain is None:
                if not all(map(self.grammar.fullmatch, texts)):
                    return None
            elif self.plain.search("".join(texts)) is not None:
                return None
            parsed = np.fromiter(map(float, cast("Sequence[float | str]", values)), np.float64, len(values))
        return parsed if np.isfinite(parsed).all() else None


FILE = Notation(
    re.compile(r"[ \t]*[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[ \t]*"),
    re.compile(r"[^-+0-9.eE \t]"),
)
"""Numbers in CSV and libsvm."""
JSON = Notation(re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"))
"""Numbers as text in JSON, and so in Parquet: as JSON spells those that are no text."""

_ABSENT = re.compile(r"\s*(?:<NA>|#?N/?A|n/a|-?na[nN]|-?Na[nN]|NAN|[Nn]ull|NULL|None)\s*")
"""Texts that stand for a missing label, as data frames, R and databases write it."""


def is_empty(value: object) -> bool:
    """Return whether a record holds nothing there: null, NaN, or text without a character that is seen."""
    if isinstance(value, str):
        return not value or value.isspace()
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_missing_label(value: object) -> bool:
    """Return whether a value stands for a label that is not known, unless the schema lists it as one."""
    return is_empty(value) or (isinstance(value, str) and _ABSENT.fullmatch(value) is not None)


Cell = Callable[[object], list[float] | None]
"""Turns a value into features; None for a bad value."""


def cell(
    name: str,
    settings: ColumnSettings,
    notation: Notation = FILE,
    timestamp: TimestampSettings | None = None,
) -> Cell:
    """Return the function that turns a value of that column into features.

    `timestamp`: how times are read, if this is their column.
    """
    if settings.bounds is not None:
        return partial(_scaled, notation, *settings.bounds)
    if settings.log is not None:
        return partial(_log, notation, *settings.log)
    if settings.buckets is not None:
        return partial(_bucket, notation, settings.buckets)
    if settings.hour is not None:
        return partial(_at, 24, ZoneInfo(settings.hour), attrgetter("hour"), moments(notation, timestamp))
    if settings.weekday is not None:
        return partial(_at, 7, ZoneInfo(settings.weekday), datetime.weekday, moments(notation, timestamp))
    if settings.categories is not None:
        return partial(_one_hot, {category: k for k, category in enumerate(settings.categories)})
    if settings.hashed is not None:
        return partial(_hashed, name, settings.hashed)
    return partial(_plain, notation)


def labelled(settings: LabelSettings, notation: Notation = FILE) -> Callable[[object], float | None]:
    """Return the function that turns a value into a label."""
    if settings.classes is not None:
        return partial(_place, {name: float(k) for k, name in enumerate(settings.classes)})
    if settings.positive is None:
        return notation.number
    negative = None if settings.negative is None else frozenset(settings.negative)
    return partial(_sign, frozenset(settings.positive), negative)


# A column of many records at once: the same bits as value by value, or None where a value must be looked at
# alone. Values are as CSV or orjson reads them, or an array of floats. Unlike json, orjson reads a whole
# number beyond 64 bits as a float. As a number that is the same; as text it is not.

Block = Callable[[Sequence[object]], FloatArray | None]
"""Turns the values of a column into features (n, width); None: `Cell` must see each alone."""
_NUMBERS = frozenset((int, float, str))
_WHOLE = 2.0**63


def block(
    name: str,
    settings: ColumnSettings,
    notation: Notation = FILE,
    timestamp: TimestampSettings | None = None,
) -> Block:
    """Return the function that makes of a column's values what `cell` makes of each."""
    if settings.bounds is not None:
        return partial(_numeric, notation, partial(_scaled_all, *settings.bounds))
    if settings.log is not None:
        return partial(_numeric, notation, partial(_log_all, *settings.log))
    if settings.buckets is not None:
        return partial(_numeric, notation, partial(_bucket_all, np.array(settings.buckets)))
    if settings.number:
        return partial(_numeric, notation, partial(np.reshape, shape=(-1, 1)))
    times = settings.hour is not None or settings.weekday is not None
    return partial(_by_value if times else _by_word, cell(name, settings, notation, timestamp))


def labels_block(
    settings: LabelSettings, notation: Notation = FILE
) -> Callable[[Sequence[object]], FloatArray | None]:
    """Return the function that makes labels (n,) of a column's values, as `labelled` does of each."""
    if settings.classes is None and settings.positive is None:
        return notation.numbers
    return partial(_by_word, labelled(settings, notation))


def _numeric(
    notation: Notation, features_of: Callable[[FloatArray], FloatArray], values: Sequence[object]
) -> FloatArray | None:
    parsed = notation.numbers(values)
    return None if parsed is None else features_of(parsed)


def _scaled_all(lowest: float, highest: float, values: FloatArray) -> FloatArray:
    # not np.clip: which of two zeros it returns is not what min and max return
    raised = np.where(values < lowest, lowest, values)
    scaled: FloatArray = (np.where(raised > highest, highest, raised) - lowest) / (highest - lowest)
    return scaled[:, None]


def _log_all(lowest: float, highest: float, values: FloatArray) -> FloatArray:
    # math.log, as numpy's may differ in the last bit
    raised = np.where(values < lowest, lowest, values).tolist()
    logarithms = np.fromiter(map(math.log, raised), np.float64, len(raised))
    return _scaled_all(math.log(lowest), math.log(highest), logarithms)


def _bucket_all(edges: FloatArray, values: FloatArray) -> FloatArray:
    features = np.zeros((values.size, edges.size + 1))
    features[np.arange(values.size), np.searchsorted(edges, values, side="right")] = 1.0
    return features


def _by_word(cell: Callable[[object], Any], values: Sequence[object]) -> FloatArray | None:
    """Return what `cell` makes of the values, each distinct one of which it sees once, as a word."""
    if set(map(type, values)) == {str}:
        return _by_value(cell, values)
    if any(type(value) is float and abs(value) >= _WHOLE for value in values):
        return None
    return _by_value(cell, [word(value) for value in values])


def _by_value(cell: Callable[[object], Any], values: Sequence[object]) -> FloatArray | None:
    """Return what `cell` makes of the values, each distinct one of which it sees once."""
    if bool in set(map(type, values)):  # True equals 1
        return None
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    rows = [cell(value) for value in places]
    if None in rows:
        return None
    table = np.array(rows, dtype=np.float64)
    return table[np.fromiter(map(places.__getitem__, values), np.intp, len(values))]


def bounded_rows(rows: FloatArray, norm: float | None) -> FloatArray:
    """Return rows (n, d), each as `bounded` returns it: numpy adds along a row as it adds a row alone."""
    if norm is None:
        return rows
    largest = np.abs(rows).max(axis=1, initial=0.0)
    largest[largest == 0.0] = 1.0  # a row of zeros stays as it is
    scaled = rows / largest[:, None]
    lengths = largest * np.sqrt((scaled**2).sum(axis=1))
    factors = norm / (lengths / largest)
    return np.where((lengths <= norm)[:, None], rows, scaled * factors[:, None])


A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def moments(
    notation: Notation = FILE, settings: TimestampSettings | None = None
) -> Callable[[object], float | None]:
    """Return the function that turns a value into the time in seconds since 1970; None for what is no time.

    A number counts in the unit of the settings; other text is ISO 8601 with a zone.
    """
    return partial(_moment, notation, 1 if settings is None else A_SECOND[settings.unit])


def _moment(notation: Notation, second: int, value: object) -> float | None:
    ticks = notation.number(value)
    if ticks is not None or not isinstance(value, str):
        return None if ticks is None else ticks / second
    try:
        parsed = datetime.fromisoformat(value if value.isascii() else "")
        return None if parsed.tzinfo is None else parsed.timestamp()
    except (ValueError, OverflowError):
        return None


def bounded(row: FloatArray, norm: float | None) -> FloatArray:
    """Return the features, scaled down to `norm` in L2 if longer; None: unchanged."""
    largest = float(np.abs(row).max(initial=0.0))
    if norm is None or largest == 0.0:
        return row
    # Scaled by the largest first, as the square of a huge number overflows.
    length = largest * float(np.sqrt(((row / largest) ** 2).sum()))
    if length <= norm:
        return row
    scaled: FloatArray = row / largest * (norm / (length / largest))
    return scaled


def _plain(notation: Notation, value: object) -> list[float] | None:
    parsed = notation.number(value)
    return None if parsed is None else [parsed]


def _scaled(notation: Notation, lowest: float, highest: float, value: object) -> list[float] | None:
    parsed = notation.number(value)
    if parsed is None:
        return None
    return [(min(max(parsed, lowest), highest) - lowest) / (highest - lowest)]


def _log(notation: Notation, lowest: float, highest: float, value: object) -> list[float] | None:
    parsed = notation.number(value)
    if parsed is None:
        return None
    return _scaled(notation, math.log(lowest), math.log(highest), math.log(max(parsed, lowest)))


def _bucket(notation: Notation, edges: tuple[float, ...], value: object) -> list[float] | None:
    parsed = notation.number(value)
    return None if parsed is None else _only(bisect_right(edges, parsed), len(edges) + 1)


def _at(
    width: int,
    zone: ZoneInfo,
    place: Callable[[datetime], int],
    moment: Callable[[object], float | None],
    value: object,
) -> list[float] | None:
    seconds = moment(value)
    try:
        return None if seconds is None else _only(place(datetime.fromtimestamp(seconds, zone)), width)
    except (ValueError, OverflowError, OSError):  # beyond the years 1 to 9999
        return None


def _only(place: int, width: int) -> list[float]:
    features = [0.0] * width
    features[place] = 1.0
    return features


def _one_hot(places: dict[str, int], value: object) -> list[float] | None:
    text = word(value)
    if text is None or (is_empty(value) and text not in places):
        return None
    features = [0.0] * len(places)
    place = places.get(text)
    if place is not None:
        features[place] = 1.0
    return features


def _hashed(name: str, buckets: int, value: object) -> list[float] | None:
    text = word(value)
    if text is None or is_empty(value):
        return None
    # CRC-32 is the same in every process; "surrogatepass": JSON may hold half a character.
    return _only(zlib.crc32(f"{name}={text}".encode(errors="surrogatepass")) % buckets, buckets)


def _sign(positive: frozenset[str], negative: frozenset[str] | None, value: object) -> float | None:
    text = word(value)
    if text in positive:
        return 1.0
    if text is None or (is_missing_label(value) if negative is None else text not in negative):
        return None
    return -1.0


def _place(places: dict[str, float], value: object) -> float | None:
    text = word(value)
    return None if text is None else places.get(text)
