"""Settings of labels that come later than their records, on a topic or in a file of their own."""

import math
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

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
from streams.mesh.settings.brokers import BrokerSettings, RegistrySettings
from streams.mesh.settings.files import FilePath
from streams.mesh.settings.schema import (
    FieldPath,
    LabelSettings,
    SchemaSettings,
    TimestampSettings,
    as_timestamp,
    word,
)


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


def _is_usual(name: str) -> bool:
    return name == "json"


class LabelValueSettings(Choice):
    """How a message on the topic of labels gives the label of its record."""

    constant: Label | None = None
    """This label, whatever the message contains. The message's presence alone gives the label, as on a topic
    of chargebacks."""
    column: FieldPath | None = None
    """The field, or field within a field, with the label. A message without a readable one gives no label."""


class LaterLabelsSettings(Settings):
    """Labels that come later than their records.

    For records on a broker the labels are messages on a topic. For records in a file that one
    process reads whole, they may be in a file too.
    """

    topic: Annotated[TopicName | None, Field(exclude_if=absent)] = None
    """The topic's name. The user on the broker needs the rights to describe and to read it. Not given: `path`
    is."""
    broker: Annotated[BrokerSettings | None, Field(exclude_if=absent)] = None
    """The broker with the topic. The user on it needs the rights to describe and to read the topic. Not
    given: the broker with the records."""
    format: Annotated[Literal["json", "avro"], Field(exclude_if=_is_usual)] = "json"
    """The format of a message's value on the topic: a JSON object, or Avro by a schema registry (which needs
    `pip install 'mirrormesh[registry]'`). A message's key is text, or has the same format."""
    registry: Annotated[RegistrySettings | None, Field(exclude_if=absent)] = None
    """The registry with the schemas of Avro messages. Not given: for another format."""
    path: Annotated[FilePath, Field(exclude_if=absent)] = None
    """The file, of the kind and dialect of the records' file. A CSV file begins with a row that names its
    columns. Not given: `topic` is."""
    came: Annotated[TimestampSettings | None, BeforeValidator(as_timestamp), Field(exclude_if=absent)] = None
    """The file's column of the time at which a label came, written as `schema.timestamp`, which must be given
    too. Not given: all labels in the file count, whenever they came."""
    join: FieldPath
    """The column that a record and its label have in common, in the records and in a file of labels. In a
    label's message it is the field of that name, or else the message's key. Values are compared as listed
    words are: 1 and 1.0 are equal."""
    after: LongTime
    """The time from a record's timestamp until it is learnt from, like `45d`. The newest label until then
    counts."""
    before: Early = 0.0
    """How much older than its record a label may be."""
    value: LabelValueSettings
    """How a message gives the label."""
    otherwise: Label
    """The label of a record for which no label came."""

    @model_validator(mode="after")
    def _in_one_place(self) -> Self:
        if (self.topic is None) == (self.path is None):
            text = "missing: must be a topic or the path of a file"
            raise refusal(text if self.path is None else "labels are on a topic or in a file: must be one")
        for key in ("broker", "registry"):
            if self.path is not None and getattr(self, key) is not None:
                raise refusal("goes with topic: a file is read as the records' file is", key)
        if self.path is not None and self.format != "json":
            raise refusal("goes with topic: a file has the records' kind", "format")
        if (self.format == "avro") != (self.registry is not None):
            text = "missing: format avro needs one" if self.registry is None else "goes with format avro"
            raise refusal(text, "registry")
        if self.path == "-":
            raise refusal("must be the path of a file, not standard input", "path")
        if self.path is None and self.came is not None:
            raise refusal("goes with path: a message has Kafka's own time", "came")
        if self.came is not None and self.came.origin is not None:
            raise refusal("goes with kind topic: a file has its columns under their names", "came", "from")
        if self.path is not None and self.came is None and self.before:
            raise refusal("goes with came: without times all labels count", "before")
        return self

    @property
    def origin(self) -> str:
        """The name of the labels' topic or file."""
        return self.topic or Path(self.path or "").name

    @property
    def window(self) -> float:
        """The age in seconds, from its time on, after which a label is of no use: after + before."""
        return self.after + self.before


LaterLabels = Annotated[LaterLabelsSettings | None, Field(exclude_if=absent)]


def joined(schema: SchemaSettings, labels: LaterLabelsSettings | None) -> None:
    """Let the schema read the column that joins labels in place of the label's column. Raises refusals."""
    if labels is None:
        return
    for keys, text in ((("otherwise",), labels.otherwise), (("value", "constant"), labels.value.constant)):
        if text is not None and not _fits(schema.label, text):
            raise refusal(f"must be a label that {_allowed(schema.label)}", "labels", *keys)
    if labels.came is not None and schema.timestamp is None:
        raise refusal("goes with schema.timestamp, the records' own time", "labels", "came")
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
