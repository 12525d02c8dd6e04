"""Settings of a record's features and label. Nothing is fitted: bounds and categories are given."""

import math
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, cast
from zoneinfo import ZoneInfo, available_timezones

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from nodes.privacy.features import HEIGHT
from streams.mesh.errors import meant
from streams.mesh.settings.base import Choice, Count, Positive, Settings, Vector, absent, listed, refusal

# Settings of one column: how its value becomes features.

_OF_THE_MACHINE = {"localtime", "posixrules"}


def spelt(value: object) -> str | None:
    """Return a value's text, the same whether it comes from YAML, JSON or CSV; None for a list or mapping."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case _:
            return None


_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")


def word(value: object) -> str | None:
    """Return the text by which a value is looked up among listed words.

    None for a list, a mapping, and a number that is not finite. The spellings 1, 1.0 and "1.0" of a whole
    number give the same word, because a data frame writes integers as 1.0 where a column has gaps. 007 is no
    number in JSON, so 007 and 7 are two words. `records.notation.Lookup` makes further spellings equal.
    """
    match value:
        case str():
            integer = _WHOLE.fullmatch(value) if value[-2:] in {".0", "00"} else None
            if integer is None:
                return value
            return "0" if integer[1] == "-0" else integer[1]
        case float():
            if not math.isfinite(value):
                return None
            return repr(int(value)) if value.is_integer() else repr(value)
        case _:
            return spelt(value)


PLACEHOLDER = "FILL-IN"
"""`mirrormesh schema` writes this in place of a value that only the owner of the records knows."""


def _filled(value: object, allowed: str) -> None:
    """Refuse the placeholder."""
    if value == PLACEHOLDER:
        text = "stands for what must be known without looking at the records"
        raise refusal(f"{text}: must be {allowed}")


def _word(value: object) -> str:
    _filled(value, "values, one or a list")
    text = word(value)
    if text is None:
        raise refusal("must be text or a number")
    return text


Words = Annotated[tuple[str, ...], Field(strict=False, min_length=1), listed(_word)]


def first_repeated(words: tuple[str, ...]) -> str | None:
    """Return the first word that is repeated; None if all are distinct."""
    return next((word for k, word in enumerate(words) if word in words[:k]), None)


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) in {int, float} for number in value)


def as_bounds(value: Any) -> Any:
    """Check the bounds of a column or label."""
    _filled(value, "[lowest, highest]")
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
    """Return whether the scaled bounds' difference, a divisor of features, is finite and above 0."""
    try:
        lowest, highest = (scale(float(bound)) for bound in bounds)
    except OverflowError:  # a whole number beyond all floats
        return False
    return 0 < highest - lowest < math.inf


def _edges(value: Any) -> Any:
    if not value or not _numbers(value) or not all(lower < upper for lower, upper in pairwise(value)):
        raise refusal("must be a list of numbers, each above the one before it")
    return value


def _zone(value: Any) -> Any:
    _filled(value, "the IANA name of a time zone, such as UTC or Europe/Berlin")
    try:
        same_everywhere = ZoneInfo(value).key not in _OF_THE_MACHINE
    except (TypeError, ValueError, OSError, KeyError):  # not text; a path; a folder; unknown
        same_everywhere = False
    if not same_everywhere:
        near = meant(sorted(available_timezones()), value)
        raise refusal(f"must be the IANA name of a time zone, such as UTC or Europe/Berlin{near}")
    return value


Zone = Annotated[str | None, BeforeValidator(_zone)]
Unit = Literal["s", "ms", "us", "ns"]
DIRECTIVES = "YymdbBHIMSfpz%"
"""What may follow a % in a time's format, with the meaning that it has in C and Python."""
_DIRECTIVE = re.compile("%(.?)", re.DOTALL)
_TIME_KEYS = ("format", "zone", "unit")
_DATE = ({"Y", "y"}, {"m", "b", "B"}, {"d"})
"""A format has exactly one directive of each set: the year, the month and the day."""


def _format(value: Any) -> Any:
    if not isinstance(value, str):
        raise refusal("must be text, such as '%d.%m.%Y %H:%M'")
    letters = [letter for letter in _DIRECTIVE.findall(value) if letter != "%"]
    unknown = next((letter for letter in letters if not letter or letter not in DIRECTIVES), None)
    if unknown is not None:
        allowed = " ".join(f"%{letter}" for letter in DIRECTIVES)
        raise refusal(f"%{unknown} is not known: must be made of {allowed} and other characters")
    repeated = first_repeated(tuple(letters))
    if repeated is not None:
        raise refusal(f"%{repeated} stands there twice: must be there once")
    if any(len(choices.intersection(letters)) != 1 for choices in _DATE):
        raise refusal("must have a year (%Y or %y), a month (%m, %b or %B) and a day (%d), each once")
    if ("I" in letters) != ("p" in letters) or {"I", "H"} <= set(letters):
        raise refusal("must have hours of a day (%H), or of its half with its name (%I and %p)")
    return value


TimeFormat = Annotated[str | None, BeforeValidator(_format)]


def check_time(unit: str, form: str | None, zone: str | None) -> None:
    """Refuse a unit, format and zone of a time that do not fit together."""
    if form is not None and unit != "s":
        raise refusal("goes with times that are numbers, and with format they are text", "unit")
    if form is not None and ("z" in _DIRECTIVE.findall(form)) == (zone is not None):
        missing = "missing: times of a format without %z need the time zone that they are of"
        raise refusal(
            missing if zone is None else "goes with times that have none, and format has %z", "zone"
        )


def _is_finite(value: object) -> bool:
    try:
        return type(value) in {int, float} and math.isfinite(float(cast("float", value)))
    except OverflowError:  # a whole number beyond all floats
        return False


_SUBSTITUTES = ("refuse", "indicator", "category")


def _substitute(value: Any) -> Any:
    if value in _SUBSTITUTES or _is_finite(value):
        return value if isinstance(value, str) else float(value)
    raise refusal(f"must be a number, or one of {', '.join(_SUBSTITUTES)}{meant(_SUBSTITUTES, value)}")


class MissingSettings(Settings):
    """What a missing value counts as. A value is missing if it is absent, null, NaN, one of `texts`, or has
    no visible character.
    """

    as_: Annotated[str | float, BeforeValidator(_substitute)] = Field(alias="as")
    """`refuse`: the record is unreadable. A number: the value counts as this number; for words and times only
    0 is allowed, and then all features are 0. `indicator`: the column has an additional feature, which is 1
    where the value is missing; the other features are 0 then. `category`: the missing value is a category of
    its own. It goes with `hashed` and with `categories`, to which it adds a feature."""
    texts: Words | None = None
    """The texts that stand for a missing value. Not given: `missing` of the schema, or else NA, N/A, #N/A,
    n/a, <NA>, NaN, nan, null, NULL and None. What is listed among `categories` is never missing."""


def _as_missing(value: Any) -> Any:
    return {"as": value} if value == "refuse" else value


Missing = Annotated[MissingSettings | None, BeforeValidator(_as_missing)]


def _path(text: str) -> str:
    if not all(text.split(".")):
        raise refusal("must be names with dots between them, like payload.after")
    return text


FieldPath = Annotated[str, AfterValidator(_path)]
"""The place of a value in a message: names of fields, with dots between them."""
WHOLE = "."
"""Denotes the whole key of a message, where the key is a single value and no object."""


def _key_path(text: str) -> str:
    return text if text == WHOLE else _path(text)


class OriginSettings(Choice):
    """Where in the messages of a topic a column's value is."""

    path: FieldPath | None = None
    """A field of the record, or a field within a field; the path may stand alone, like
    `from: customer.address.country`."""
    header: Annotated[str | None, Field(min_length=1)] = None
    """The message's header of that name, as text; the last one, if there are several."""
    key: Annotated[str, AfterValidator(_key_path)] | None = None
    """A field of the message's key, which has the same format as its value; `.` is the whole key: text, or
    with Avro a single value."""

    @model_validator(mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"path": value}
        if isinstance(value, cls) or (isinstance(value, Mapping) and len(value) == 1 and {*value} <= _PLACES):
            return value
        raise refusal("must be a path of fields like customer.country, {header: ...} or {key: ...}")


_PLACES = {"path", "header", "key"}
Origin = Annotated[OriginSettings | None, Field(alias="from", exclude_if=absent)]


class ColumnSettings(Choice):
    """How a column's value becomes features. Nothing is fitted to records: all bounds are given."""

    words: ClassVar[tuple[str, ...]] = ("number",)
    beside: ClassVar[tuple[str, ...]] = ("missing", "format", "zone", "unit", "from")

    number: bool = False
    """The number itself: one feature."""
    bounds: Annotated[tuple[float, float] | None, Field(strict=False), BeforeValidator(as_bounds)] = None
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
    """The number of features. A hash of the value chooses which of them is 1."""
    hour: Zone = None
    """A time zone by its IANA name, such as UTC or Europe/Berlin: 24 features, of which that of the time's
    hour there is 1. Times are seconds since 1970, or ISO 8601 with a zone; of the column that `timestamp`
    of the schema names, what that says."""
    weekday: Zone = None
    """A time zone, as for `hour`: 7 features, Monday first, of which that of the time's day there is 1."""
    missing: Missing = Field(default=None, exclude_if=absent)
    """What a missing value counts as. Not given: `refuse`, by which the record is unreadable."""
    format: TimeFormat = Field(default=None, exclude_if=absent)
    """How a text of an `hour` or `weekday` spells a time, as `format` of a timestamp. Not given: ISO 8601."""
    zone: Zone = Field(default=None, exclude_if=absent)
    """The time zone of texts of an `hour` or `weekday` without one, as `zone` of a timestamp. Not given: they
    are no times."""
    unit: Unit = Field(default="s", exclude_if=lambda unit: unit == "s")
    """What a number of an `hour` or `weekday` counts since 1970, as `unit` of a timestamp."""
    origin: Origin = None
    """Beside one of these, in a source that is a topic: where in a message the value is. Not given: in the
    record's field of the column's name."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        repeated = first_repeated(self.categories or ())
        if repeated is not None:
            raise refusal(f"{repeated} is named twice: every category once", "categories")
        return self

    @model_validator(mode="after")
    def _of_times(self) -> Self:
        time_keys = self.model_fields_set.intersection(_TIME_KEYS)
        if time_keys and not self.timed:
            raise refusal("goes with hour and weekday", min(time_keys))
        check_time(self.unit, self.format, self.zone)
        return self

    @model_validator(mode="after")
    def _missing_fits(self) -> Self:
        substitute = "refuse" if self.missing is None else self.missing.as_
        worded = self.categories is not None or self.hashed is not None
        if substitute == "category" and not worded:
            raise refusal("category goes with categories and hashed: must be indicator", "missing", "as")
        if not isinstance(substitute, str) and substitute != 0 and (worded or self.timed):
            raise refusal("must be 0, indicator or refuse, as this is no number", "missing", "as")
        return self

    @property
    def timed(self) -> bool:
        """Whether the values are times."""
        return self.hour is not None or self.weekday is not None

    @property
    def width(self) -> int:
        """The number of the column's features."""
        return self.value_width + self.marks_missing

    @property
    def marks_missing(self) -> bool:
        """Whether an additional feature marks that the value is missing."""
        substitute = None if self.missing is None else self.missing.as_
        return substitute == "indicator" or (substitute == "category" and self.categories is not None)

    @property
    def value_width(self) -> int:
        """The number of features that the value itself becomes."""
        if self.categories is not None:
            return len(self.categories)
        if self.buckets is not None:
            return len(self.buckets) + 1
        return {"hour": 24, "weekday": 7}.get(self.name, self.hashed or 1)


def check_signs(positive: tuple[str | float, ...] | None, negative: tuple[str | float, ...] | None) -> None:
    """Refuse `negative` values without `positive` ones, and a value that is both."""
    if negative is not None and positive is None:
        raise refusal("goes with positive", "negative")
    common = [value for value in negative or () if value in (positive or ())]
    if common:
        first = min(common)
        text = first if isinstance(first, str) else f"{first:g}"
        raise refusal(f"{text} is both positive and negative", "negative")


class LabelSettings(Settings):
    """The label: a number, +1 or -1, or a class."""

    column: str
    """The column."""
    positive: Words | None = None
    """The values whose label is +1, one or a list. Not given: the label is the number in the column, or a
    class."""
    negative: Words | None = None
    """The values whose label is -1; all others make the record unreadable. Not given: all but `positive`
    are -1, and a missing label (nothing, null, NaN, or text that stands for it, such as NA) makes the record
    unreadable."""
    classes: Words | None = None
    """The classes, for softmax; not given for other losses. The label is the value's place in this list, from
    0. Other values make the record unreadable."""
    origin: Origin = None
    """In a source that is a topic: where in a message the label is. Not given: in the record's field of the
    column's name."""

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """The possible labels; None: any number."""
        if self.classes is not None:
            return tuple(map(float, range(len(self.classes))))
        return (-1.0, 1.0) if self.positive is not None else None

    @model_validator(mode="after")
    def _classes_are_distinct(self) -> Self:
        if self.classes is not None and self.positive is not None:
            raise refusal("must not be given with positive", "classes")
        repeated = first_repeated(self.classes or ())
        if repeated is not None:
            raise refusal(f"{repeated} is named twice: every class once", "classes")
        return self

    @model_validator(mode="after")
    def _negative_beside_positive(self) -> Self:
        check_signs(self.positive, self.negative)
        return self


class TimestampSettings(Settings):
    """The column of a record's time, and how it is read."""

    column: str
    """The column. It may be a feature too."""
    unit: Unit = "s"
    """What a number counts since 1970: seconds, or thousandths, millionths or billionths of one."""
    format: TimeFormat = Field(default=None, exclude_if=absent)
    """How a text spells a time: `"%d.%m.%Y %H:%M"`, with what these letters mean in C and Python, months in
    English. Not given: ISO 8601."""
    zone: Zone = Field(default=None, exclude_if=absent)
    """The time zone of texts without one, by its IANA name. A local time that occurs twice, as clocks are put
    back, means the first of the two. One that does not occur, as clocks are put forward, is moved later by
    the same step. Not given: a text without a zone is no time."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        check_time(self.unit, self.format, self.zone)
        return self

    origin: Origin = None
    """In a source that is a topic: where in a message the time is. Not given: in the record's field of the
    column's name."""

    @model_serializer(mode="wrap")
    def _column_alone(self, whole: SerializerFunctionWrapHandler) -> Any:
        """Write only the column's name if all other keys have their defaults.

        Files of earlier runs have it in this form, and digests of the settings must not change.
        """
        return self.column if self == TimestampSettings(column=self.column) else whole(self)


def as_timestamp(value: Any) -> Any:
    """Read a column's name alone as that column."""
    return {"column": value} if isinstance(value, str) else value


class UnitBound(NamedTuple):
    """The column that names the units of records, and the rounds between two seats of a unit."""

    column: str
    apart: int


class SchemaSettings(Settings):
    """A record's columns. Columns that it does not name are not read."""

    features: dict[str, ColumnSettings]
    """The columns that become features, in this order. `{}` where `algorithm.curvature` is `public`, and
    nowhere else."""
    label: LabelSettings
    """The label's column; it must not be a feature."""
    intercept: bool | Literal["outside"] = False
    """`true`: add a last feature that is 1, and is scaled with its row by `norm`. `outside`: add one that is
    always 1/3, beside the norm, so that a weight on it moves all rows alike."""
    norm: Positive | None = None
    """Rows longer than this in L2, with an intercept that is not outside, are scaled down to it. Not given:
    they stay."""
    timestamp: Annotated[TimestampSettings | None, BeforeValidator(as_timestamp)] = None
    """The column of a record's time, which slots by time and `feed --timestamps` need: seconds since 1970,
    or ISO 8601 with a zone, like 2026-01-31T12:00:00Z. A mapping says how else it is read. Not given:
    records have no times."""
    missing: Words | None = Field(default=None, exclude_if=absent)
    """The texts that stand for a missing value in every column, the label's too. Not given: those that
    `missing` of a column lists by default, where a column has it."""
    truth: Annotated[tuple[str, ...] | None, Field(strict=False, min_length=1)] = None
    """Columns of numbers, one for each coordinate of a decision, with the right decision. For the owner's
    metrics only, never learnt from. Not given: records do not contain it."""
    _joined: str | None = PrivateAttr(None)
    _bound: UnitBound | None = PrivateAttr(None)

    def join(self, column: str) -> None:
        """Read this column in place of the label's. Labels come later, and this column joins them."""
        self._joined = column

    def with_own_labels(self) -> Self:
        """Return the schema for records that contain their labels."""
        schema = self.model_copy()
        schema._joined = None  # noqa: SLF001 # its own class
        return schema

    def with_units(self, column: str, apart: int) -> Self:
        """Return the schema for records whose units this column names, with seats so many rounds apart."""
        schema = self.model_copy()
        schema._bound = UnitBound(column, apart)  # noqa: SLF001 # its own class
        return schema

    @property
    def bound(self) -> UnitBound | None:
        """The bound on the units of records; None: each record is protected by itself."""
        return self._bound

    @property
    def joined(self) -> str | None:
        """The column that joins records with labels that come later; None if records contain their labels."""
        return self._joined

    @model_validator(mode="after")
    def _label_apart(self) -> Self:
        if self.label.column in self.features:
            raise refusal("the label must not be one of the features", "label", "column")
        return self

    @model_validator(mode="after")
    def _times_in_one_place(self) -> Self:
        stamp = None if self.timestamp is None else self.features.get(self.timestamp.column)
        keys = set[str]() if stamp is None else stamp.model_fields_set.intersection(_TIME_KEYS)
        if keys and self.timestamp is not None:
            raise refusal("must be given in timestamp alone", "features", self.timestamp.column, min(keys))
        return self

    @model_validator(mode="after")
    def _truth_apart(self) -> Self:
        truth = self.truth or ()
        repeated = first_repeated(truth)
        if repeated is not None:
            raise refusal(f"{repeated} is named twice: a column for each coordinate", "truth")
        used = {**dict.fromkeys(self.features, "a feature"), self.label.column: "the label"}
        used |= {} if self.timestamp is None else {self.timestamp.column: "the timestamp"}
        common = next((name for name in truth if name in used), None)
        if common is not None:
            raise refusal(f"{common} is {used[common]}, and the truth is never learnt from", "truth")
        return self

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        feature = None if self.timestamp is None else self.features.get(self.timestamp.column)
        if feature is not None and self.timestamp and self.timestamp.origin is not None:
            raise refusal(
                f"{self.timestamp.column} is a feature too: must be given there", "timestamp", "from"
            )
        return self

    @property
    def origins(self) -> dict[str, OriginSettings]:
        """The place in a message of each column that has the key `from`, by column."""
        columns = {name: column.origin for name, column in self.features.items()}
        columns[self.label.column] = self.label.origin
        if self.timestamp is not None:
            columns.setdefault(self.timestamp.column, self.timestamp.origin)
        return {name: origin for name, origin in columns.items() if origin is not None}

    @property
    def of_keys(self) -> tuple[str, ...]:
        """The columns whose values are in messages' keys."""
        return tuple(name for name, origin in self.origins.items() if origin.key is not None)

    @property
    def height(self) -> float:
        """The value of the intercept before any scaling; 0 if there is no intercept."""
        return HEIGHT if self.intercept == "outside" else float(self.intercept)

    @property
    def longest(self) -> float | None:
        """The largest L2 norm of a record's features, the intercept included; None without `norm`."""
        if self.norm is None or self.intercept != "outside":
            return self.norm
        return math.hypot(self.norm, self.height)

    @property
    def width(self) -> int:
        """The dimension of the features, the intercept included."""
        return sum(column.width for column in self.features.values()) + bool(self.intercept)

    @property
    def recipe(self) -> tuple[tuple[str, str, object, int], ...]:
        """How each column becomes features, in order: (name, word, its setting, number of features)."""
        return tuple(
            (name, column.name, column.model_dump(by_alias=True)[column.name], column.width)
            for name, column in self.features.items()
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read."""
        stamp = () if self.timestamp is None else (self.timestamp.column,)
        unit = () if self._bound is None else (self._bound.column,)
        return (*self.features, self.joined or self.label.column, *stamp, *(self.truth or ()), *unit)
