"""Settings of a record's features and label. Nothing is fitted: bounds and categories are given."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from streams.mesh.settings.base import Positive, Settings, refusal
from streams.mesh.settings.columns import ColumnSettings, Words, first_repeated


def check_signs(positive: tuple[str | float, ...] | None, negative: tuple[str | float, ...] | None) -> None:
    """Refuse `negative` values without `positive` ones, and a value that is both."""
    if negative is not None and positive is None:
        raise refusal("goes with positive", "negative")
    both = [value for value in negative or () if value in (positive or ())]
    if both:
        first = min(both)
        said = first if isinstance(first, str) else f"{first:g}"
        raise refusal(f"{said} is both positive and negative", "negative")


class LabelSettings(Settings):
    """The label: a number, +1 or -1, or a class."""

    column: str
    """The column."""
    positive: Words | None = None
    """The values whose label is +1, one or a list. Not given: the label is the number in the column, or a
    class."""
    negative: Words | None = None
    """The values whose label is -1; all others make the record unreadable. Not given: all but `positive`
    are -1."""
    classes: Words | None = None
    """For softmax alone, not given for other losses: the label is the value's place in this list, from 0.
    Other values make the record unreadable."""

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


class SchemaSettings(Settings):
    """A record's columns. Columns that it does not name are not read."""

    features: Annotated[dict[str, ColumnSettings], Field(min_length=1)]
    """The columns that become features, in this order."""
    label: LabelSettings
    """The label's column; it must not be a feature."""
    intercept: bool = False
    """Whether the last feature is a 1."""
    norm: Positive | None = None
    """Rows longer than this in L2, intercept included, are scaled down to it. Not given: they stay."""
    timestamp: str | None = None
    """The column of a record's time, which slots by time and `feed --timestamps` need: seconds since 1970,
    or ISO 8601 with a zone, like 2026-01-31T12:00:00Z. It may be a feature too. Not given:
    records have no times."""
    truth: Annotated[tuple[str, ...] | None, Field(strict=False, min_length=1)] = None
    """Columns of numbers, one for each coordinate of a decision, with the right decision. For the owner's
    metrics only, never learnt from. Not given: records do not say."""

    @model_validator(mode="after")
    def _label_apart(self) -> Self:
        if self.label.column in self.features:
            raise refusal("the label must not be one of the features", "label", "column")
        return self

    @model_validator(mode="after")
    def _truth_apart(self) -> Self:
        truth = self.truth or ()
        repeated = first_repeated(truth)
        if repeated is not None:
            raise refusal(f"{repeated} is named twice: a column for each coordinate", "truth")
        used = {**dict.fromkeys(self.features, "a feature"), self.label.column: "the label"}
        used |= {} if self.timestamp is None else {self.timestamp: "the timestamp"}
        both = next((name for name in truth if name in used), None)
        if both is not None:
            raise refusal(f"{both} is {used[both]}, and the truth is never learnt from", "truth")
        return self

    @property
    def width(self) -> int:
        """The dimension of the features, the intercept included."""
        return sum(column.width for column in self.features.values()) + self.intercept

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read."""
        stamp = () if self.timestamp is None else (self.timestamp,)
        return (*self.features, self.label.column, *stamp, *(self.truth or ()))
