"""Reads the times of records: numbers since 1970, ISO 8601, or text of a given format, by a given zone.

The result does not depend on the machine's zone or language, and nothing is guessed. A text without a zone is
read in the zone that the settings name. A local time that occurs twice, as clocks are put back, means the
first. A local time that does not exist, as clocks are put forward, is moved later by the same amount. RFC
5545, Java and Python's `fold=0` follow the same rules.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import partial
from typing import Protocol
from zoneinfo import ZoneInfo

from streams.mesh.settings.schema import Unit, spelt
from streams.records.notation import Notation

A_SECOND: dict[Unit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
Moment = Callable[[object], float | None]
"""Turns a value into the time in seconds since 1970; None if it is no time."""


class TimeKeys(Protocol):
    """How the values of a column spell times."""

    @property
    def unit(self) -> Unit:
        """What a number counts."""

    @property
    def format(self) -> str | None:
        """How a text spells a time; None: ISO 8601."""

    @property
    def zone(self) -> str | None:
        """The zone of texts without one; None: they are no times."""


def moments(notation: Notation, keys: TimeKeys | None = None) -> Moment:
    """Return the function that turns a value into a time.

    With a format only texts in this format are times.
    """
    zone = None if keys is None or keys.zone is None else ZoneInfo(keys.zone)
    if keys is not None and keys.format is not None:
        return partial(_formatted, _pattern(keys.format), zone)
    return partial(_plain, notation, 1 if keys is None else A_SECOND[keys.unit], zone)


def is_zoneless(value: object, keys: TimeKeys | None = None) -> bool:
    """Return whether a value would be a time if its zone were known."""
    if not isinstance(value, str) or (keys is not None and keys.format is not None):
        return False
    parsed = _iso(value)
    return parsed is not None and parsed.tzinfo is None


def _plain(notation: Notation, second: int, zone: tzinfo | None, value: object) -> float | None:
    ticks = notation.number(value)
    if ticks is not None or not isinstance(value, str):
        return None if ticks is None else ticks / second
    parsed = _iso(value)
    return None if parsed is None else _seconds(parsed, zone)


def _iso(text: str) -> datetime | None:
    """Return the time that a text spells by ISO 8601, with ASCII digits. Blanks may surround it."""
    try:
        return datetime.fromisoformat(text.strip(" \t") if text.isascii() else "")
    except ValueError:
        return None


def _seconds(parsed: datetime, zone: tzinfo | None) -> float | None:
    if parsed.tzinfo is None and zone is None:
        return None
    try:
        return (parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=zone, fold=0)).timestamp()
    except (ValueError, OverflowError):  # its zone puts it beyond the years 1 to 9999
        return None


_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
PARTS = {
    "Y": "(?P<Y>[0-9]{4})",
    "y": "(?P<y>[0-9]{2})",
    "m": "(?P<m>[0-9]{1,2})",
    "d": "(?P<d>[0-9]{1,2})",
    "b": f"(?P<b>{'|'.join(month[:3] for month in _MONTHS)})",
    "B": f"(?P<B>{'|'.join(_MONTHS)})",
    "H": "(?P<H>[0-9]{1,2})",
    "I": "(?P<I>[0-9]{1,2})",
    "M": "(?P<M>[0-9]{1,2})",
    "S": "(?P<S>[0-9]{1,2})",
    "f": "(?P<f>[0-9]{1,9})",
    "p": "(?P<p>am|pm)",
    "z": r"(?P<z>z|[-+][0-9]{2}:?[0-9]{2}(?::?[0-9]{2})?)",
    "%": "%",
}
"""The pattern of each letter behind a % (`settings.schema.DIRECTIVES`)."""


def _pattern(form: str) -> re.Pattern[str]:
    """Return the pattern of texts of a format. Other characters of the format stand for themselves."""
    pieces = re.split("%(.)", form, flags=re.DOTALL)
    texts, letters = pieces[::2], [*pieces[1::2], None]
    pairs = zip(texts, letters, strict=True)
    source = "".join(re.escape(text) + (PARTS[letter] if letter else "") for text, letter in pairs)
    return re.compile(rf"[ \t]*{source}[ \t]*", re.IGNORECASE | re.ASCII)


def _formatted(pattern: re.Pattern[str], zone: tzinfo | None, value: object) -> float | None:
    text = None if isinstance(value, bool) else spelt(value)
    match = None if text is None else pattern.fullmatch(text)
    if match is None:
        return None
    try:
        return _seconds(_time(match.groupdict()), zone)
    except ValueError:  # the 30th of February
        return None


def _time(parts: dict[str, str]) -> datetime:
    """Return the time of the parts of a text. Raises ValueError if there is no such time."""
    hour = int(parts.get("H") or 0)
    if "I" in parts:
        half = int(parts["I"])
        if not 1 <= half <= 12:
            raise ValueError
        hour = half % 12 + 12 * (parts["p"].lower() == "pm")
    return datetime(
        int(parts["Y"]) if "Y" in parts else _of_a_century(int(parts["y"])),
        _month(parts),
        int(parts["d"]),
        hour,
        int(parts.get("M") or 0),
        int(parts.get("S") or 0),
        int(parts.get("f", "0").ljust(6, "0")[:6]),
        tzinfo=_offset(parts["z"]) if "z" in parts else None,
    )


def _of_a_century(year: int) -> int:
    return year + (2000 if year < 69 else 1900)  # as POSIX and Python do


def _month(parts: dict[str, str]) -> int:
    if "m" in parts:
        return int(parts["m"])
    name = (parts.get("b") or parts["B"]).lower()
    return next(number for number, month in enumerate(_MONTHS, 1) if month.startswith(name))


def _offset(text: str) -> tzinfo:
    """Return the zone with this offset from UTC: Z, +0100 or +01:00. Raises ValueError for a day or more."""
    if text in {"Z", "z"}:
        return UTC
    digits = text[1:].replace(":", "")
    hours, minutes, seconds = (int(digits[k : k + 2] or 0) for k in (0, 2, 4))
    distance = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-distance if text[0] == "-" else distance)
