"""Settings of one column: how its value becomes features."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import BeforeValidator, Field, model_validator

from streams.mesh.errors import meant
from streams.mesh.settings.base import Choice, Count, Vector, listed, refusal

_OF_THE_MACHINE = {"localtime", "posixrules"}


def spelt(value: object) -> str | None:
    """Return the same text for a value from YAML, JSON or CSV; None if it is not a single value."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case _:
            return None


def _text(value: object) -> str:
    text = spelt(value)
    if text is None:
        raise refusal("must be text or a number")
    return text


Words = Annotated[tuple[str, ...], Field(strict=False, min_length=1), listed(_text)]


def first_repeated(words: tuple[str, ...]) -> str | None:
    """Return the first word that stands there twice."""
    return next((word for k, word in enumerate(words) if word in words[:k]), None)


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) in {int, float} for one in value)


def _bounds(value: Any) -> Any:
    if not _numbers(value) or len(value) != 2 or not value[0] < value[1]:
        raise refusal("must be [lowest, highest], the first below the second")
    if not _wide(float, value):
        raise refusal("must be [lowest, highest], both finite, and so is their difference")
    return value


def _log_bounds(value: Any) -> Any:
    if not _numbers(value) or len(value) != 2 or not 0 < value[0] < value[1] or not _wide(math.log, value):
        raise refusal(
            "must be [lowest, highest], 0 < lowest < highest, both finite, with different logarithms"
        )
    return value


def _wide(scale: Callable[[float], float], bounds: list[float]) -> bool:
    """Return whether the scaled bounds have a finite difference above 0: features are divided by it."""
    try:
        lowest, highest = (scale(float(bound)) for bound in bounds)
    except OverflowError:  # a whole number beyond all floats
        return False
    return 0 < highest - lowest < math.inf


def _edges(value: Any) -> Any:
    if not value or not _numbers(value) or not all(one < other for one, other in pairwise(value)):
        raise refusal("must be a list of numbers, each above the one before it")
    return value


def _zone(value: Any) -> Any:
    try:
        same_everywhere = ZoneInfo(value).key not in _OF_THE_MACHINE
    except (TypeError, ValueError, OSError, KeyError):  # not text; a path; a folder; unknown
        same_everywhere = False
    if not same_everywhere:
        near = meant(sorted(available_timezones()), value)
        raise refusal(f"must be the IANA name of a time zone, such as UTC or Europe/Berlin{near}")
    return value


Zone = Annotated[str | None, BeforeValidator(_zone)]


class ColumnSettings(Choice):
    """How a column's value becomes features. Nothing is fitted to records: all bounds are given."""

    words: ClassVar[tuple[str, ...]] = ("number",)

    number: bool = False
    """The number itself: one feature."""
    bounds: Annotated[tuple[float, float] | None, Field(strict=False), BeforeValidator(_bounds)] = None
    """`[lowest, highest]`: the number, scaled from there to [0, 1] and clipped: one feature."""
    log: Annotated[tuple[float, float] | None, Field(strict=False), BeforeValidator(_log_bounds)] = None
    """`[lowest, highest]`, 0 < lowest: (log x - log lowest)/(log highest - log lowest), clipped to [0, 1]:
    one feature. A number at or below `lowest`, 0 and negative ones too, gives 0."""
    buckets: Annotated[Vector | None, BeforeValidator(_edges)] = None
    """`[e1, ..., ek]`, ascending: k + 1 features. The number's bucket is 1, all others are 0. The first holds
    numbers below e1, the next those from e1 on and below e2, the last those from ek on."""
    categories: Words | None = None
    """One feature for each of these values: 1 for the record's own. An unknown value is all 0."""
    hashed: Count | None = None
    """That many features: a hash of the value chooses which of them is 1."""
    hour: Zone = None
    """A time zone by its IANA name, such as UTC or Europe/Berlin: 24 features, of which that of the time's
    hour there is 1. Times are read as `timestamp` of the schema reads them."""
    weekday: Zone = None
    """A time zone, as for `hour`: 7 features, Monday first, of which that of the time's day there is 1."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        repeated = first_repeated(self.categories or ())
        if repeated is not None:
            raise refusal(f"{repeated} is named twice: every category once", "categories")
        return self

    @property
    def width(self) -> int:
        """The number of the column's features."""
        if self.categories is not None:
            return len(self.categories)
        if self.buckets is not None:
            return len(self.buckets) + 1
        return {"hour": 24, "weekday": 7}.get(self.name, self.hashed or 1)
