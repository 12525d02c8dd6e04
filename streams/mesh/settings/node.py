"""One party's own part of a mesh file: its source of records and its brokers. No other party sees it."""

import codecs
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from nodes.machine.slots import LatePolicy
from streams.codec.topics import LONGEST_TOPIC, score_letters
from streams.mesh.settings.base import (
    Address,
    Choice,
    CodeName,
    Count,
    LongTime,
    Positive,
    Settings,
    TopicName,
    absent,
    address_text,
    refusal,
    tagged,
)
from streams.mesh.settings.brokers import BrokerSettings, BrokersSettings, RegistrySettings
from streams.mesh.settings.files import FilePath, KeepBack, RecordBytes, TakeSettings, check_shuffle
from streams.mesh.settings.labels import LaterLabels, joined
from streams.mesh.settings.schema import WHOLE, FieldPath, SchemaSettings, Words
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings

LIVENESS = 30.0
"""Seconds for which a process's loops may make no progress, unless its owner sets another time."""


_NO_TEXT = {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem"}
_SHIFTING = ("iso2022", "hz", "utf-7")
"""The first letters of codecs in which earlier bytes change the meaning of later ones."""
THOUSANDS = frozenset(".,' \u2019\xa0\u202f")
"""The characters that may separate groups of three digits. The last two are spaces that do not break
lines."""


def is_delimiter(value: str) -> bool:
    """Return whether a text can be the delimiter of a CSV file."""
    return len(value) == 1 and not value.isalnum() and value not in '\r\n\0\ufeff"'


def _one_character(value: Any) -> Any:
    if not isinstance(value, str) or not is_delimiter(value):
        raise refusal("must be one character, no letter, digit, quote or end of a line")
    return value


def _encoding(value: Any) -> Any:
    allowed = "must be the name of an encoding, such as utf-8, utf-16, latin-1 or cp1252"
    try:
        codec = codecs.lookup(value)
    except (LookupError, TypeError, ValueError):
        raise refusal(allowed) from None
    # codecs such as Base64 make no text of bytes
    if not codec._is_text_encoding or codec.name in _NO_TEXT:  # noqa: SLF001 # no other way to ask
        raise refusal(allowed)
    if codec.name.startswith(_SHIFTING):
        raise refusal("has shifts, by which one line changes the lines behind it: convert the file to utf-8")
    return value


def is_utf8(encoding: str) -> bool:
    """Return whether this is a name of UTF-8."""
    return codecs.lookup(encoding).name in {"utf-8", "utf-8-sig"}


def is_wide(encoding: str) -> bool:
    """Return whether a character has at least two bytes. An odd byte then shifts all characters after it."""
    return codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))


class DialectSettings(Settings):
    """How a CSV file spells its records. Nothing is detected while reading; `check` proposes a dialect."""

    delimiter: Annotated[str, BeforeValidator(_one_character)] = ","
    """The character between values, such as ; or | or "\\t"."""
    quote: Literal['"', "'", "none"] = '"'
    """The character around values that contain a delimiter. It is doubled where a value contains it. `none`:
    quotes are part of the value."""
    decimal: Literal[".", ","] = "."
    """The mark before a number's decimals."""
    thousands: str | None = None
    """The mark between groups of three digits: a dot, a comma, an apostrophe or a space. Not given: a text
    with such a mark is no number."""
    encoding: Annotated[str, BeforeValidator(_encoding)] = "utf-8"
    """The encoding. A byte order mark may stand before it. Records on a node's data topic are UTF-8."""
    line_breaks: bool = False
    """Whether values in quotes may contain line breaks. The content of lines then decides where records begin
    and end. Not for messages, each of which is one record."""

    @model_validator(mode="after")
    def _marks_apart(self) -> Self:
        if self.thousands is not None and self.thousands not in THOUSANDS:
            raise refusal("must be one of . , ' \u2019 or a space", "thousands")
        if self.thousands == self.decimal:
            raise refusal(f"{self.decimal} is the decimal mark: must be another", "thousands")
        if self.delimiter == self.quote:
            raise refusal("is the quote: must be another character", "delimiter")
        if self.line_breaks and self.quote == "none":
            raise refusal(
                "values hold line breaks within quotes, and there are none: must be false", "line_breaks"
            )
        return self


Dialect = Annotated[DialectSettings | None, Field(exclude_if=absent)]


class FileSettings(Settings):
    """Records in a file. A file of lines that ends in `.gz` is unpacked; `-` is standard input."""

    kind: Literal["csv", "json-lines", "parquet"]
    """CSV, a JSON object a line, or Parquet (which needs `pip install 'mirrormesh[parquet]'`)."""
    path: FilePath = None
    """The file. Not given: records come from the data broker alone."""
    record: SchemaSettings = Field(alias="schema")
    """The schema of the columns: a mapping, or the path of a YAML file that holds it."""
    columns: Annotated[tuple[str, ...] | None, Field(strict=False, min_length=1)] = None
    """The names of the columns of a CSV file without a header row. Not given: the first row names them."""
    dialect: Dialect = None
    """How a CSV file spells its records. Not given: commas between values, quotes around values that contain
    a comma, decimal points, UTF-8, and each line is a record."""
    labels: LaterLabels = None
    """Labels that come later than their records. Not given: each record has its own."""
    take: TakeSettings | None = None
    """The records to take. Not given: all."""
    shuffle: bool = False
    """Read the records in an order that the seed gives, before `take`. Not for slots by time."""
    keep_back: KeepBack = None
    """The share of the node's records that are kept back, like 0.1: nothing is learnt from them, and the
    closing decision is scored on them, for their owner alone. A kept-back record keeps its place in its slot
    and counts as a gradient of 0. With slots by count a hash of its partition and offset chooses it, with
    slots by time a hash of its own bytes. Not for held-out records or owners. Not given: none."""
    max_record_bytes: RecordBytes = None
    """A longer record is unreadable and not parsed. Not given: max(16 KiB, 64 d), d the larger of the
    mesh's dimension and a record's features, at most 1 MiB."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for key in ("columns", "dialect"):
            if self.kind != "csv" and getattr(self, key) is not None:
                raise refusal("goes with kind csv", key)
        if self.path == "-" and self.kind == "parquet":
            raise refusal("must be the path of a Parquet file, not standard input", "path")
        repeated = [name for k, name in enumerate(self.columns or ()) if name in (self.columns or ())[:k]]
        if repeated:
            raise refusal(f"{repeated[0]} is named twice", "columns")
        for name in self.record.origins:
            raise refusal(
                "goes with kind topic: a file has its columns under their names", *_from(self.record, name)
            )
        check_shuffle(self.path, shuffle=self.shuffle)
        joined(self.record, self.labels)
        return self

    def of_others(self, path: str) -> Self:
        """Return how a file of other records is read. They contain their labels, or have none."""
        changes = {"path": path, "labels": None, "keep_back": None, "record": self.record.with_own_labels()}
        return self.model_copy(update=changes)


class RowsInMemory(Protocol):
    """Rows that a program passes. `key` identifies the data; `name` is what the program calls the data."""

    columns: tuple[str, ...]
    rows: int
    key: str
    name: str | None

    def lines(self, columns: Sequence[str]) -> Iterator[bytes]:
        """Yield each row as a JSON object of these columns."""


class FrameSettings(FileSettings):
    """Records in memory in place of a file. They are read as rows of Parquet are.

    A mesh file cannot set this.
    """

    frame: Annotated[Any, Field(exclude=True, repr=False)]
    """The rows, as `RowsInMemory`."""

    @property
    def in_memory(self) -> RowsInMemory:
        """The rows."""
        rows: RowsInMemory = self.frame
        return rows


def _from(schema: SchemaSettings, name: str) -> tuple[str, ...]:
    """Return the key path of the setting that gives a column's place in a message."""
    if name in schema.features:
        return ("schema", "features", name, "from")
    return ("schema", "label" if name == schema.label.column else "timestamp", "from")


_MOST_PARTITIONS = 1_000


def _partitions(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if any(not 0 <= number < 2**31 for number in numbers):
        raise refusal("must be numbers of partitions, from 0 on")
    repeated = [number for k, number in enumerate(numbers) if number in numbers[:k]]
    if repeated:
        raise refusal(f"{repeated[0]} is named twice: every partition once")
    return tuple(sorted(numbers))


Conditions = Annotated[dict[FieldPath, Words], Field(min_length=1)]
Partitions = Annotated[
    tuple[int, ...],
    Field(strict=False, min_length=1, max_length=_MOST_PARTITIONS),
    AfterValidator(_partitions),
]


class TopicSettings(Settings):
    """An existing topic, of any name. It is only read: never written to, created or altered."""

    kind: Literal["topic"]
    """A topic."""
    topic: TopicName
    """The topic's name."""
    broker: BrokerSettings | None = None
    """The broker with the topic. The user on it needs the rights to describe and to read the topic. Not
    given: the party's data broker."""
    format: Literal["json", "csv", "avro"] = "json"
    """The format of a message's value: a JSON object, a CSV line, or Avro by a schema registry (which needs
    `pip install 'mirrormesh[registry]'`)."""
    registry: RegistrySettings | None = None
    """The registry with the schemas of Avro messages. Not given: for another format."""
    framed: bool = False
    """Whether the JSON of each value, and of each key that is read, begins with a schema registry's frame: a
    zero byte and the four bytes of a schema's id. These bytes are skipped, and a message without them is
    unreadable."""
    record: SchemaSettings = Field(alias="schema")
    """The schema of the columns: a mapping, or the path of a YAML file that holds it. A name with dots, like
    `customer.country`, means a field within a field, unless the record has a field of exactly this name."""
    columns: Annotated[tuple[str, ...] | None, Field(strict=False, min_length=1)] = None
    """The names of the columns of CSV lines. Not given: messages are JSON."""
    dialect: Dialect = None
    """How CSV lines spell records, as for files. Not given: as for files."""
    value: FieldPath | None = None
    """The field that contains the record, as `payload.after` does in a change stream. Not given: the whole
    message is the record."""
    where: Conditions | None = None
    """Fields of the message, each with the values that it may have: one value or a list. Messages with other
    values contain no record. Not given: each message contains a record."""
    where_headers: Annotated[dict[str, Words] | None, Field(min_length=1)] = None
    """Headers of the message, each with the values that it may have: one value or a list, as for `where`. Not
    given: each message contains a record."""
    labels: LaterLabels = None
    """Labels that come later than their records. Not given: each record has its own."""
    partitions: Partitions | None = None
    """The partitions to read. Not given: all."""
    lag: LongTime | None = None
    """The longest time for which a record may wait until the node reads it, like `7d`. The
    `min.compaction.lag.ms` of a compacted topic must be at least as long. Not given: a compacted topic is
    refused."""
    keep_back: KeepBack = None
    """The share of the node's records that are kept back, like 0.1: nothing is learnt from them, and the
    closing decision is scored on them, for their owner alone. A kept-back record keeps its place in its slot
    and counts as a gradient of 0. With slots by count a hash of its partition and offset chooses it, with
    slots by time a hash of its own bytes. Not for held-out records or owners. Not given: none."""
    max_record_bytes: RecordBytes = None
    """A longer message is unreadable and not parsed. Not given: max(16 KiB, 64 d), d the larger of the
    mesh's dimension and a record's features, at most 1 MiB."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.format == "csv") != (self.columns is not None):
            missing = "missing: format csv needs the names of the columns"
            raise refusal(missing if self.columns is None else "goes with format csv", "columns")
        if self.format != "csv" and self.dialect is not None:
            raise refusal("goes with format csv", "dialect")
        if self.dialect is not None and self.dialect.line_breaks:
            raise refusal(
                "a message is one record, whatever it holds: must be false", "dialect", "line_breaks"
            )
        lines, avro = self.format == "csv", self.format == "avro"
        if avro != (self.registry is not None):
            raise refusal("missing: format avro needs one" if avro else "goes with format avro", "registry")
        if self.framed and self.format != "json":
            text = "goes with format json" if lines else "goes with format json: Avro has a frame as it is"
            raise refusal(text, "framed")
        for key in ("value", "where"):
            if lines and getattr(self, key) is not None:
                raise refusal("goes with format json: a CSV line has no fields within fields", key)
        for name, origin in self.record.origins.items():
            if lines and (origin.path is not None or origin.key not in {None, WHOLE}):
                text = "goes with format json: a CSV line, and its key, have no fields within fields"
                raise refusal(text, *_from(self.record, name))
        return self

    @model_validator(mode="after")
    def _labels_fit(self) -> Self:
        if self.labels is not None and self.labels.path is not None:
            raise refusal("goes with records in a file: must be a topic", "labels", "path")
        if self.labels is not None and (self.labels.topic, self.labels.broker) == (self.topic, None):
            raise refusal("is the topic of the records: must be another one", "labels", "topic")
        joined(self.record, self.labels)
        return self

    @property
    def reads_whole(self) -> bool:
        """Whether messages' keys or headers are read too."""
        return self.where_headers is not None or any(
            origin.path is None for origin in self.record.origins.values()
        )


class OutlierSettings(Settings):
    """Simulated measurements that are too large, like the echoes of echoes."""

    share: Annotated[float, Field(gt=0, le=1)]
    """The share of the measurements."""
    excess: Positive
    """The largest error of such a measurement: a uniform draw from 0 to this is added."""


class LocalisationSettings(Settings):
    """A simulated sensor that measures the mesh's target, drawn from the mesh's seed.

    It measures its distance to the target; with the loss `bearing`, the angle; with `range-difference`, its
    distance minus that of the reference.
    """

    kind: Literal["localisation"]
    """The simulated sensor."""
    position: Annotated[tuple[float, float] | None, Field(strict=False)] = None
    """The position of the sensor. Not given: the sensors are placed evenly on a circle of radius 1.5 around
    0."""
    noise: float | None = Field(None, ge=0)
    """The standard deviation of a normal error; angles are in radians. Not given: the error is uniform from
    0 to 0.001."""
    outliers: OutlierSettings | None = None
    """Measurements that are too large. Not given: none."""
    dropouts: float = Field(0.0, ge=0, lt=1)
    """The share of records that are lost. With slots by time they do not come. With slots by count an
    unreadable record comes in place of each, so that the sensors stay in step."""
    reach: Positive | None = None
    """The largest distance that the sensor measures. A record of a target farther away contains no
    measurement. Not given: no limit."""
    first: Count = 1
    """The first round for which the sensor has records. Records of earlier rounds are lost."""
    last: Count | None = None
    """The last round for which the sensor has records. Not given: no last round."""
    truth: bool = False
    """Records also hold the target's position, for the owner's metrics only."""
    max_record_bytes: RecordBytes = None
    """A longer record is unreadable and not parsed. Not given: max(16 KiB, 64 d), d the larger of the
    mesh's dimension and a record's features, at most 1 MiB."""

    @model_validator(mode="after")
    def _first_to_last(self) -> Self:
        if self.last is not None and self.last < self.first:
            raise refusal(f"must be at least {self.first}, the first round", "last")
        return self


class OwnSourceSettings(Settings):
    """Your own code as a source."""

    kind: Literal["own"]
    """Your own source."""
    name: CodeName
    """The name of an entry point, or `package.module:Class`, which the command line allows."""
    take: TakeSettings | None = None
    """The records to take. Not given: all."""
    shuffle: bool = False
    """Read the records in an order that the seed gives, before `take`. Not for slots by time."""
    max_record_bytes: RecordBytes = None
    """A longer record is unreadable and not parsed. Not given: max(16 KiB, 64 d), d the larger of the
    mesh's dimension and a record's features, at most 1 MiB."""


HeldOutSettings = Annotated[
    Annotated[FileSettings | LibsvmSettings | CsrSettings, Field(discriminator="kind")],
    tagged("kind", "csv", "json-lines", "parquet", "libsvm", "csr"),
]
SourceSettings = Annotated[
    Annotated[
        FileSettings
        | LibsvmSettings
        | CsrSettings
        | TopicSettings
        | LocalisationSettings
        | OwnSourceSettings,
        Field(discriminator="kind"),
    ],
    tagged("kind", "csv", "json-lines", "parquet", "libsvm", "csr", "topic", "localisation", "own"),
]


class LatePolicySettings(Choice):
    """What a node on a broker does with waiting records if it has fallen behind, with slots by count."""

    words: ClassVar[tuple[str, ...]] = ("queue",)

    queue: bool = False
    """The node learns from all waiting records, in their order."""
    drop_oldest: Count | None = Field(None, alias="drop-oldest")
    """If more records than this wait, the node skips the oldest."""
    sample: Count | None = None
    """If at least twice as many records as this wait, the node learns from one of every few slots, at even
    distances, until fewer wait."""

    def policy(self, size: int) -> LatePolicy | None:
        """Return the policy for slots of `size` records; None if all records are used."""
        if self.drop_oldest is not None:
            return LatePolicy("drop-oldest", self.drop_oldest, size)
        return None if self.sample is None else LatePolicy("sample", self.sample, size)


_LONGEST_OUTPUT = LONGEST_TOPIC - len(score_letters(""))


class ScoreSettings(Settings):
    """A topic on the party's own broker whose messages `mirrormesh score` scores with the node's decisions.

    Messages are read in the way in which the node reads its source. The topics must exist, as nothing creates
    them.
    """

    input: TopicName
    """The topic of the messages to score."""
    output: TopicName
    """The topic of the scores. Messages that cannot be read go to the topic of this name with `.deadletter`
    appended."""
    vector: Literal["newest", "average"] = "newest"
    """The newest decision, or the average over the rounds."""
    threshold: float | None = None
    """The least probability (logistic) or score (hinge) for which the class is positive. Not given: scores
    have no class."""
    latest: bool = False
    """A new group begins with the messages that come after its start. Not given: with the oldest message."""
    transactions: bool = True
    """Whether scores are written in transactions, so that a reader of committed records sees one score for
    each message. If this is false, scores come sooner, and some come twice after a kill."""
    private_endpoint: Annotated[Address | None, BeforeValidator(address_text)] = None
    """The port that serves the metrics of scores. Not given: they are not served."""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if len(self.output) > _LONGEST_OUTPUT:
            raise refusal(f"must have at most {_LONGEST_OUTPUT} letters, as .deadletter follows", "output")
        if self.input in {self.output, score_letters(self.output)}:
            raise refusal("scores, or their dead letters, would be written into input", "output")
        return self


class NodeSettings(Settings):
    """One party's own part. No other party sees it. It may be the path of a YAML file that holds it."""

    source: SourceSettings | None = None
    """The source of the node's records. Not given: the node cannot be run here."""
    brokers: BrokersSettings | None = None
    """The node's own brokers. Not given: those of the file."""
    private_endpoint: Annotated[Address | None, BeforeValidator(address_text)] = None
    """The port that serves the node's private metrics. Not given: they are not served."""
    liveness: Annotated[float, Field(gt=0)] = LIVENESS
    """Seconds for which the process's loops may make no progress before `/livez` at its private endpoint
    fails and systemd's watchdog is no longer fed. At least ten heartbeats."""
    late_policy: LatePolicySettings = LatePolicySettings.model_validate("queue")
    """The policy for records that wait, because the node was away or because they come faster than rounds. It
    applies on a broker, with slots by count, and depends on the number of waiting records alone."""
    durability: Literal["machine", "process"] = "machine"
    """What each round survives. `machine`: a power cut of the machine, at the cost of a sync of the disk in
    each round. `process`: a kill of the process alone; a power cut then costs up to `horizon` slots. It
    applies on a broker."""
    predictions: bool = False
    """Write a prediction for each record to the party's own broker."""
    score: ScoreSettings | None = None
    """The messages that `mirrormesh score` scores with the node's decisions. Not given: the command's options
    name them."""
