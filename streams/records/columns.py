"""Turns a value of a record into features: numbers scaled by public bounds, categories one-hot.

A missing value becomes what its owner's settings give. Nothing is estimated from other records.
"""

import math
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from nodes.values import FloatArray
from streams.mesh.settings.schema import ColumnSettings, LabelSettings, Words, word
from streams.records.notation import FILE, NO_WORDS, Lookup, Notation, is_empty, is_missing, is_missing_label
from streams.records.times import Moment, TimeKeys, moments

Cell = Callable[[object], list[float] | None]
"""Turns a value into features; None for a bad value."""
Absent = Lookup | None
"""The words that stand for a missing value; None: the usual words, for columns with `missing`."""


def absent_words(texts: Words | None, notation: Notation) -> Absent:
    """Return the words of a list in the settings."""
    return None if texts is None else Lookup(texts, notation)


def cell(
    name: str,
    settings: ColumnSettings,
    notation: Notation = FILE,
    timestamp: TimeKeys | None = None,
    absent: Absent = None,
) -> Cell:
    """Return the function that turns a value of that column into features.

    `timestamp`: how times are read, if this is the column of times. `absent`: the schema's `missing`.
    """
    features_of = _value(name, settings, notation, timestamp)
    test = missing_test(settings, notation, absent)
    if test is None:
        return features_of
    return partial(_or_missing, test, _missing_row(name, settings, features_of), _tail(settings), features_of)


def missing_test(
    settings: ColumnSettings, notation: Notation, absent: Absent
) -> Callable[[object], bool] | None:
    """Return the function that tests whether a value is missing; None if missing values need no treatment."""
    if settings.missing is None and absent is None:
        return None
    if settings.missing is not None and settings.missing.texts is not None:
        absent = absent_words(settings.missing.texts, notation)
    return partial(is_missing, absent, Lookup(settings.categories or (), notation))


def _missing_row(name: str, settings: ColumnSettings, features_of: Cell) -> list[float] | None:
    """Return the features of a missing value; None if a missing value makes the record unreadable."""
    substitute = "refuse" if settings.missing is None else settings.missing.as_
    if substitute == "refuse":
        return None
    if substitute == "category" and settings.hashed is not None:
        return _only(_bucket_of(name, "", settings.hashed), settings.hashed)
    words_or_times = settings.timed or settings.categories is not None or settings.hashed is not None
    if isinstance(substitute, str) or words_or_times:
        return [0.0] * settings.value_width + [1.0] * settings.marks_missing
    return features_of(substitute)


def _tail(settings: ColumnSettings) -> list[float]:
    return [0.0] * settings.marks_missing


def _or_missing(
    test: Callable[[object], bool],
    missing_row: list[float] | None,
    tail: list[float],
    features_of: Cell,
    value: object,
) -> list[float] | None:
    if test(value):
        return missing_row
    features = features_of(value)
    return None if features is None else features + tail


def _value(name: str, settings: ColumnSettings, notation: Notation, timestamp: TimeKeys | None) -> Cell:
    if settings.bounds is not None:
        return partial(_scaled, notation, *settings.bounds)
    if settings.log is not None:
        return partial(_log, notation, *settings.log)
    if settings.buckets is not None:
        return partial(_bucket, notation, settings.buckets)
    moment = moments(notation, timestamp or settings)
    if settings.hour is not None:
        return partial(_at, 24, ZoneInfo(settings.hour), attrgetter("hour"), moment)
    if settings.weekday is not None:
        return partial(_at, 7, ZoneInfo(settings.weekday), datetime.weekday, moment)
    if settings.categories is not None:
        places = {category: k for k, category in enumerate(settings.categories)}
        return partial(_one_hot, Lookup(places, notation), places)
    if settings.hashed is not None:
        return partial(_hashed, name, settings.hashed)
    return partial(_plain, notation)


def labelled(
    settings: LabelSettings, notation: Notation = FILE, absent: Absent = None
) -> Callable[[object], float | None]:
    """Return the function that turns a value into a label. The words `absent` give no label."""
    listed = label_words(settings, notation)
    label_of: Callable[[object], float | None]
    if settings.classes is not None:
        label_of = partial(_place, listed, {name: float(k) for k, name in enumerate(settings.classes)})
    elif settings.positive is None:
        label_of = notation.number
    else:
        label_of = partial(_sign, listed, frozenset(settings.positive), settings.negative is None)
    return label_of if absent is None else partial(_unless_missing, absent, listed, label_of)


def label_words(settings: LabelSettings, notation: Notation) -> Lookup:
    """Return the words that the settings list as labels. They never count as missing."""
    words = (*(settings.classes or ()), *(settings.positive or ()), *(settings.negative or ()))
    return Lookup(words, notation)


def _unless_missing(
    absent: Lookup,
    listed: Lookup,
    label_of: Callable[[object], float | None],
    value: object,
) -> float | None:
    return None if is_missing(absent, listed, value) else label_of(value)


# Converts a column of many records at once: to the same bits as value by value, or to None if a value must be
# converted alone. Values are as CSV or orjson reads them, or an array of floats. Unlike json, orjson reads an
# integer beyond 64 bits as a float. As a number that is the same; as text it is not.

Block = Callable[[Sequence[object]], FloatArray | None]
"""Turns the values of a column into features (n, width); None if `Cell` must convert each value."""
_WHOLE = 2.0**63
_EXACT = 2.0**53
"""In an array of floats larger integers may have been rounded."""


def block(
    name: str,
    settings: ColumnSettings,
    notation: Notation = FILE,
    timestamp: TimeKeys | None = None,
    absent: Absent = None,
) -> Block:
    """Return the function that converts a column's values as `cell` converts each."""
    features_of = _values(name, settings, notation, timestamp)
    test = missing_test(settings, notation, absent)
    if test is None:
        return features_of
    row = _missing_row(name, settings, _value(name, settings, notation, timestamp))
    return partial(_all_or_missing, test, row, settings.width, features_of)


def _all_or_missing(
    test: Callable[[object], bool],
    missing_row: list[float] | None,
    width: int,
    features_of: Block,
    column: Sequence[object] | FloatArray,
) -> FloatArray | None:
    values = _exact(column)
    if values is None:
        return None
    missing = np.fromiter(map(test, values), np.bool_, len(values))
    features, present = np.zeros((len(values), width)), values
    if missing.any():
        if missing_row is None:
            return None
        features[missing] = missing_row
        present = [value for value, absent in zip(values, missing.tolist(), strict=True) if not absent]
    if present:
        rest = features_of(present)
        if rest is None:
            return None
        features[~missing, : rest.shape[1]] = rest
    return features


def _exact(values: Sequence[object] | FloatArray) -> Sequence[object] | None:
    """Return the values if their words are known; None if a value may be a rounded integer."""
    if isinstance(values, np.ndarray):
        numbers: Sequence[object] = values.tolist()
        return None if (np.abs(values) > _EXACT).any() else numbers
    return None if any_beyond(values) else values


def any_beyond(values: Sequence[object]) -> bool:
    """Return whether a value may have been an integer beyond 64 bits, whose text is lost."""
    return any(type(value) is float and abs(value) >= _WHOLE for value in values)


def _values(name: str, settings: ColumnSettings, notation: Notation, timestamp: TimeKeys | None) -> Block:
    if settings.bounds is not None:
        return partial(_numeric, notation, partial(_scaled_all, *settings.bounds))
    if settings.log is not None:
        return partial(_numeric, notation, partial(_log_all, *settings.log))
    if settings.buckets is not None:
        return partial(_numeric, notation, partial(_bucket_all, np.array(settings.buckets)))
    if settings.number:
        return partial(_numeric, notation, partial(np.reshape, shape=(-1, 1)))
    by_each = _by_value if settings.timed else _by_word
    return partial(by_each, _value(name, settings, notation, timestamp))


def labels_block(
    settings: LabelSettings, notation: Notation = FILE, absent: Absent = None
) -> Callable[[Sequence[object]], FloatArray | None]:
    """Return the function that turns a column's values into labels (n,), as `labelled` does each."""
    if settings.classes is not None or settings.positive is not None:
        return partial(_by_word, labelled(settings, notation, absent))
    if absent is None:
        return notation.numbers
    return partial(_numbers_there, notation, partial(is_missing, absent, NO_WORDS))


def _numbers_there(
    notation: Notation, test: Callable[[object], bool], column: Sequence[object] | FloatArray
) -> FloatArray | None:
    values = _exact(column)
    return None if values is None or any(map(test, values)) else notation.numbers(values)


def _numeric(
    notation: Notation, features_of: Callable[[FloatArray], FloatArray], values: Sequence[object]
) -> FloatArray | None:
    parsed = notation.numbers(values)
    return None if parsed is None else features_of(parsed)


def _scaled_all(lowest: float, highest: float, values: FloatArray) -> FloatArray:
    # np.clip is not used, as of two zeros it may return another than min and max do
    raised = np.where(values < lowest, lowest, values)
    scaled: FloatArray = (np.where(raised > highest, highest, raised) - lowest) / (highest - lowest)
    return scaled[:, None]


def _log_all(lowest: float, highest: float, values: FloatArray) -> FloatArray:
    # math.log is used, as numpy's logarithm may differ in the last bit
    raised = np.where(values < lowest, lowest, values).tolist()
    logarithms = np.fromiter(map(math.log, raised), np.float64, len(raised))
    return _scaled_all(math.log(lowest), math.log(highest), logarithms)


def _bucket_all(edges: FloatArray, values: FloatArray) -> FloatArray:
    features = np.zeros((values.size, edges.size + 1))
    features[np.arange(values.size), np.searchsorted(edges, values, side="right")] = 1.0
    return features


def _by_word(cell: Callable[[object], Any], values: Sequence[object]) -> FloatArray | None:
    """Return the result of `cell` for each value. It is called once for each distinct value, as a word."""
    if set(map(type, values)) == {str}:
        return _of_distinct(cell, values, dict.fromkeys(values))
    if any_beyond(values):
        return None
    return _by_value(cell, [word(value) for value in values])


def _by_value(cell: Callable[[object], Any], values: Sequence[object]) -> FloatArray | None:
    """Return the result of `cell` for each value. It is called once for each distinct value."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) > 1 or bool in kinds:  # 1 equals 1.0 and True, and is spelt in another way
        return None
    distinct = dict.fromkeys(values)
    if kinds == {float} and 0.0 in distinct:  # and so does 0.0 equal -0.0
        return None
    return _of_distinct(cell, values, distinct)


def _of_distinct(
    cell: Callable[[object], Any], values: Sequence[object], distinct: Iterable[object]
) -> FloatArray | None:
    places = {value: place for place, value in enumerate(distinct)}
    rows = [cell(value) for value in places]
    if None in rows:
        return None
    table = np.array(rows, dtype=np.float64)
    return table[np.fromiter(map(places.__getitem__, values), np.intp, len(values))]


def bounded_rows(rows: FloatArray, norm: float | None) -> FloatArray:
    """Return rows (n, d), each bit for bit as `bounded` returns it. numpy adds along a row as it adds one
    row.
    """
    if norm is None:
        return rows
    largest = np.abs(rows).max(axis=1, initial=0.0)
    largest[largest == 0.0] = 1.0  # a row of zeros stays as it is
    scaled = rows / largest[:, None]
    lengths = largest * np.sqrt((scaled**2).sum(axis=1))
    short = lengths <= norm
    if short.all():
        return rows
    factors = norm / (lengths / largest)
    return np.where(short[:, None], rows, scaled * factors[:, None])


def bounded(row: FloatArray, norm: float | None) -> FloatArray:
    """Return the features, scaled down to `norm` in L2 if longer; None: unchanged."""
    largest = float(np.abs(row).max(initial=0.0))
    if norm is None or largest == 0.0:
        return row
    # The row is divided by its largest value first, as the square of a huge number overflows.
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
    moment: Moment,
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


def _one_hot(listed: Lookup, places: dict[str, int], value: object) -> list[float] | None:
    category = listed.find(value)
    if category is not None:
        return _only(places[category], len(places))
    return None if word(value) is None or is_empty(value) else [0.0] * len(places)


def _hashed(name: str, buckets: int, value: object) -> list[float] | None:
    text = word(value)
    if text is None or is_empty(value):
        return None
    return _only(_bucket_of(name, text, buckets), buckets)


def _bucket_of(name: str, text: str, buckets: int) -> int:
    # CRC-32 is equal in every process. "surrogatepass" is needed as JSON may contain half of a surrogate
    # pair.
    return zlib.crc32(f"{name}={text}".encode(errors="surrogatepass")) % buckets


def _sign(listed: Lookup, positive: frozenset[str], others: bool, value: object) -> float | None:  # noqa: FBT001 # of a partial
    label = listed.find(value)
    if label is not None:
        return 1.0 if label in positive else -1.0
    return -1.0 if others and word(value) is not None and not is_missing_label(value) else None


def _place(listed: Lookup, places: dict[str, float], value: object) -> float | None:
    label = listed.find(value)
    return None if label is None else places[label]
