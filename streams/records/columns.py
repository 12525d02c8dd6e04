"""Turns a value of a record into features: numbers scaled by public bounds, categories one-hot."""

import math
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any, cast
from zoneinfo import ZoneInfo

import numpy as np

from nodes.values import FloatArray
from streams.mesh.settings.schema import ColumnSettings, LabelSettings, spelt

Cell = Callable[[object], list[float] | None]
"""Turns a value into features; None for a bad value."""


def cell(name: str, settings: ColumnSettings) -> Cell:
    """Return the function that turns a value of that column into features."""
    if settings.bounds is not None:
        return partial(_scaled, *settings.bounds)
    if settings.log is not None:
        return partial(_log, *settings.log)
    if settings.buckets is not None:
        return partial(_bucket, settings.buckets)
    if settings.hour is not None:
        return partial(_at, 24, ZoneInfo(settings.hour), attrgetter("hour"))
    if settings.weekday is not None:
        return partial(_at, 7, ZoneInfo(settings.weekday), datetime.weekday)
    if settings.categories is not None:
        return partial(_one_hot, {word: k for k, word in enumerate(settings.categories)})
    if settings.hashed is not None:
        return partial(_hashed, name, settings.hashed)
    return _plain


def labelled(settings: LabelSettings) -> Callable[[object], float | None]:
    """Return the function that turns a value into a label."""
    if settings.classes is not None:
        return partial(_place, {word: float(k) for k, word in enumerate(settings.classes)})
    if settings.positive is None:
        return number
    negative = None if settings.negative is None else frozenset(settings.negative)
    return partial(_sign, frozenset(settings.positive), negative)


# A column of many records at once: the same bits as value by value, or None where a value must be looked at
# alone. Values are as CSV or orjson reads them. Unlike json, orjson reads a whole number beyond 64 bits as a
# float. As a number that is the same; as text it is not.

Block = Callable[[Sequence[object]], FloatArray | None]
"""Turns the values of a column into features (n, width); None: `Cell` must see each alone."""
_NUMBERS = frozenset((int, float, str))
_WHOLE = 2.0**63


def block(name: str, settings: ColumnSettings) -> Block:
    """Return the function that makes of a column's values what `cell` makes of each."""
    if settings.bounds is not None:
        return partial(_numeric, partial(_scaled_all, *settings.bounds))
    if settings.log is not None:
        return partial(_numeric, partial(_log_all, *settings.log))
    if settings.buckets is not None:
        return partial(_numeric, partial(_bucket_all, np.array(settings.buckets)))
    if settings.number:
        return partial(_numeric, partial(np.reshape, shape=(-1, 1)))
    return partial(_by_word, cell(name, settings))


def labels_block(settings: LabelSettings) -> Callable[[Sequence[object]], FloatArray | None]:
    """Return the function that makes labels (n,) of a column's values, as `labelled` does of each."""
    label = labelled(settings)
    return numbers if label is number else partial(_by_word, label)


def numbers(values: Sequence[object]) -> FloatArray | None:
    """Return what `number` reads, (n,); None if it reads none of a value."""
    types = set(map(type, values))
    if not types <= _NUMBERS:
        return None
    spelt_or_not = cast("Sequence[float | str]", values)
    floats = map(float, spelt_or_not) if str in types else cast("Sequence[float]", values)
    parsed = np.fromiter(floats, np.float64, len(values))
    return parsed if np.isfinite(parsed).all() else None


def _numeric(features_of: Callable[[FloatArray], FloatArray], values: Sequence[object]) -> FloatArray | None:
    parsed = numbers(values)
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
    """Return what `cell` makes of the values, each distinct one of which it sees once, as text."""
    words: Sequence[object] = values
    if set(map(type, values)) != {str}:
        if any(type(value) is float and abs(value) >= _WHOLE for value in values):
            return None
        # as text all values are told apart, and 1, 1.0 and True are equal
        words = [spelt(value) for value in values]
    places = {word: place for place, word in enumerate(dict.fromkeys(words))}
    rows = [cell(word) for word in places]
    if None in rows:
        return None
    table = np.array(rows, dtype=np.float64)
    return table[np.fromiter(map(places.__getitem__, words), np.intp, len(words))]


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


def number(value: object) -> float | None:
    """Return the finite number that `value` is or spells; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if math.isfinite(parsed) else None


def moment(value: object) -> float | None:
    """Return the time in seconds since 1970 that `value` is, or spells in ISO 8601 with a zone; else None."""
    seconds = number(value)
    if seconds is not None or not isinstance(value, str):
        return seconds
    try:
        parsed = datetime.fromisoformat(value)
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


def _plain(value: object) -> list[float] | None:
    parsed = number(value)
    return None if parsed is None else [parsed]


def _scaled(lowest: float, highest: float, value: object) -> list[float] | None:
    parsed = number(value)
    if parsed is None:
        return None
    return [(min(max(parsed, lowest), highest) - lowest) / (highest - lowest)]


def _log(lowest: float, highest: float, value: object) -> list[float] | None:
    parsed = number(value)
    if parsed is None:
        return None
    return _scaled(math.log(lowest), math.log(highest), math.log(max(parsed, lowest)))


def _bucket(edges: tuple[float, ...], value: object) -> list[float] | None:
    parsed = number(value)
    return None if parsed is None else _only(bisect_right(edges, parsed), len(edges) + 1)


def _at(width: int, zone: ZoneInfo, place: Callable[[datetime], int], value: object) -> list[float] | None:
    seconds = moment(value)
    try:
        return None if seconds is None else _only(place(datetime.fromtimestamp(seconds, zone)), width)
    except (ValueError, OverflowError, OSError):  # beyond the years 1 to 9999
        return None


def _only(place: int, width: int) -> list[float]:
    features = [0.0] * width
    features[place] = 1.0
    return features


def _one_hot(places: dict[str, int], value: object) -> list[float]:
    features = [0.0] * len(places)
    place = places.get(spelt(value) or "")
    if place is not None:
        features[place] = 1.0
    return features


def _hashed(name: str, buckets: int, value: object) -> list[float]:
    features = [0.0] * buckets
    text = spelt(value)
    if text is not None:
        # CRC-32 is the same in every process; "surrogatepass": JSON may hold half a character.
        features[zlib.crc32(f"{name}={text}".encode(errors="surrogatepass")) % buckets] = 1.0
    return features


def _sign(positive: frozenset[str], negative: frozenset[str] | None, value: object) -> float | None:
    text = spelt(value)
    if text in positive:
        return 1.0
    if text is not None and (negative is None or text in negative):
        return -1.0
    return None


def _place(places: dict[str, float], value: object) -> float | None:
    text = spelt(value)
    return None if text is None else places.get(text)
