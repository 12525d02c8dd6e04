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
    """The label: the number in `column`; or, with `positive`, +1 for those values and -1 for `negative`.

    Without `negative` all other values are -1; with it, they make the record unreadable. With `classes` the
    label is the value's place among them, from 0; other values make the record unreadable.
    """

    column: str
    positive: Words | None = None
    negative: Words | None = None
    classes: Words | None = None

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
    """A record's columns. Features follow the order of `features`; the intercept (a 1) is last.

    `norm`: rows longer than that in L2, intercept included, are scaled down to it. `timestamp`: the column
    for slots by time, in seconds since 1970 or ISO 8601 with a zone. `truth`: columns of numbers, one per
    coordinate, with the right decision; for the owner's metrics only, never learnt from.
    """

    features: Annotated[dict[str, ColumnSettings], Field(min_length=1)]
    label: LabelSettings
    intercept: bool = False
    norm: Positive | None = None
    timestamp: str | None = None
    truth: Annotated[tuple[str, ...] | None, Field(strict=False, min_length=1)] = None

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
