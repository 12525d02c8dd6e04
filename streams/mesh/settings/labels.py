"""Settings of labels that come later than their records, on a topic of their own."""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer

from streams.mesh.settings.base import (
    Choice,
    LongTime,
    Settings,
    TopicName,
    absent,
    long_time,
    refusal,
    spelt,
)
from streams.mesh.settings.schema import FieldPath, LabelSettings, SchemaSettings, word


def _label(value: Any) -> str:
    text = word(value)
    if text is None:
        raise refusal("must be text or a number")
    return text


def _early(value: object) -> object:
    """Read a long time, or 0."""
    return 0.0 if value in {0, "0"} and not isinstance(value, bool) else long_time(value)


Label = Annotated[str, BeforeValidator(_label)]
"""A label as records have it."""
Early = Annotated[
    float, BeforeValidator(_early), PlainSerializer(lambda s: spelt(s) if s else 0, when_used="json")
]
"""A time in seconds, written with its unit, or 0."""


class LabelValueSettings(Choice):
    """How a message on the topic of labels gives the label of its record."""

    constant: Label | None = None
    """This label, whatever the message holds. The message's presence alone gives it, as on a topic of
    chargebacks."""
    column: FieldPath | None = None
    """The label in that field, or field within a field. Without one that can be read there is no label."""


class LaterLabelsSettings(Settings):
    """Labels that come later than their records, on a topic of the broker with the records, as JSON objects.

    A user there needs the rights to describe and to read it. It applies on a broker: `run` reads files alone.
    """

    topic: TopicName
    """The topic's name."""
    join: FieldPath
    """The column by which a record and its label belong together; in a label's message that field, or else
    the message's key. Values are compared as listed words are: 1 and 1.0 are one."""
    after: LongTime
    """The time from a record's timestamp until it is learnt from, like `45d`. The newest label until then
    counts."""
    before: Early = 0.0
    """How much older than its record a label may be."""
    value: LabelValueSettings
    """What a label is."""
    otherwise: Label
    """The label of a record without one."""

    @property
    def window(self) -> float:
        """The age in seconds at which a label ends."""
        return self.after + self.before


LaterLabels = Annotated[LaterLabelsSettings | None, Field(exclude_if=absent)]


def joined(schema: SchemaSettings, labels: LaterLabelsSettings | None) -> None:
    """Let the schema read the column that labels are joined by in place of its label's. Raises refusals."""
    if labels is None:
        return
    for keys, text in ((("otherwise",), labels.otherwise), (("value", "constant"), labels.value.constant)):
        if text is not None and not _fits(schema.label, text):
            raise refusal(f"must be a label that {_allowed(schema.label)}", "labels", *keys)
    schema.join(labels.join)


def _fits(label: LabelSettings, text: str) -> bool:
    if label.classes is not None:
        return text in label.classes
    if label.positive is not None:
        return label.negative is None or text in {*label.positive, *label.negative}
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _allowed(label: LabelSettings) -> str:
    if label.classes is not None:
        return "schema.label.classes lists"
    if label.positive is not None:
        return "schema.label.positive or negative lists"
    return "is a number, as schema.label has no words"
