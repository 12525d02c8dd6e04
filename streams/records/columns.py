"""Turns a value of a record into features: numbers scaled by public bounds, categories one-hot."""

import math
import zlib
from bisect import bisect_right
from collections.abc import Callable
from datetime import datetime
from functools import partial
from operator import attrgetter
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
