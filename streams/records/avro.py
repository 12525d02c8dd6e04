"""Reads Avro behind a schema registry's frame: each record by the schema that it was written with.

fastavro, an extra, decodes records without logical types. Only the fields that are read become values, of
JSON's types. Neither schemas nor records can be trusted, as anyone with write access to the registry may
store a schema. fastavro crashes on a deep record of a recursive schema, and a few bytes can encode any number
of items of size zero. So such schemas are refused.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from io import BytesIO
from typing import Any, NamedTuple
from uuid import UUID

from streams.bus.bus import BusError
from streams.bus.registry import Definition, SchemaRegistry, need_extra
from streams.mesh.settings.files import SMALL
from streams.records.decoder import Columns, columns_of
from streams.records.faults import Fault
from streams.records.notation import JSON
from streams.records.record import WholeMessage

FRAME = 5
"""The bytes of a registry's frame: 0, and a schema's id."""
UNFRAMED = "without a schema registry's frame"
NOT_GIVEN = "of a schema that the registry does not give"
REMEMBERED = 60.0
"""Seconds after which the registry is asked again for a schema that it has refused."""
_MOST_REFUSED = 10_000
_DEEPEST = 100
"""The deepest nesting of schemas; schemas written by hand have a few levels."""


def is_framed(value: bytes) -> bool:
    """Return whether a message, or a key, begins with a registry's frame, with at least a byte behind it."""
    return len(value) > FRAME and value[0] == 0


# How a value of each type is read: as JSON would hold it. null is a missing value, int and long are whole
# numbers, float and double numbers, string and enum text, boolean is true or false, a record or a map is an
# object, an array is a list. bytes and fixed are no single value. The logical types below are read as given
# here, all others by their underlying type.

_START, _FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
_DAY = 86_400_000_000


def _moment(unit: str, ticks: int) -> str:
    """Read a timestamp as ISO 8601 in UTC."""
    return (_START + timedelta(microseconds=_micros(unit, ticks))).isoformat()


def _local_moment(unit: str, ticks: int) -> str:
    """Read a local timestamp as ISO 8601 without a zone."""
    return (_START + timedelta(microseconds=_micros(unit, ticks))).replace(tzinfo=None).isoformat()


def _time_of_day(unit: str, ticks: int) -> str:
    """Read a time of day as ISO 8601. Raises ValueError for none."""
    if not 0 <= _micros(unit, ticks) < _DAY:
        raise ValueError
    return (_START + timedelta(microseconds=_micros(unit, ticks))).time().isoformat()


def _micros(unit: str, ticks: int) -> int:
    """Return whole microseconds, rounded down."""
    return {"millis": ticks * 1_000, "micros": ticks}.get(unit, ticks // 1_000)


def _day(days: int) -> str:
    """Read a date as ISO 8601."""
    return (_FIRST_DAY + timedelta(days=days)).isoformat()


def _decimal(scale: int, unscaled: bytes) -> int | float:
    """Read a decimal as the nearest number. Raises OverflowError beyond all floats."""
    number, unit = int.from_bytes(unscaled, "big", signed=True), int(10**scale)
    return number / unit if number % unit else number // unit


def _uuid(value: bytes) -> str:
    return str(UUID(bytes=value))


Reading = Callable[[Any], object]
_PYTHON = {
    "int": int, "long": int, "float": float, "double": float, "boolean": bool, "bytes": bytes, "fixed": bytes,
}  # fmt: skip
"""The Python types that fastavro gives for these types. For others it gives text, an object or a list."""


@cache
def _reading(kind: str, logical: str, scale: object) -> Reading | None:
    """Return the function that reads values of a type's logical type; None if they are read unchanged."""
    match kind, logical.rpartition("-"):
        case "int", ("", "", "date"):
            return _day
        case ("int", ("time", _, "millis" as unit)) | ("long", ("time", _, "micros" as unit)):
            return partial(_time_of_day, unit)
        case "long", ("timestamp", _, ("millis" | "micros" | "nanos") as unit):
            return partial(_moment, unit)
        case "long", ("local-timestamp", _, ("millis" | "micros" | "nanos") as unit):
            return partial(_local_moment, unit)
        case (("bytes" | "fixed"), ("", "", "decimal")) if type(scale) is int and 0 <= scale <= 400:
            return partial(_decimal, scale)
        case "fixed", ("", "", "uuid"):
            return _uuid
    return None


class SchemaRefused(ValueError):
    """A schema is refused; the text gives the reason."""


Path = tuple[str, ...]


class WriterSchema:
    """A schema that records were written with. Raises SchemaRefused for an unsafe or unreadable one.

    `paths`: the fields to read, each as a path of names.
    """

    def __init__(self, definition: Definition, paths: Iterable[Path]) -> None:
        from fastavro.schema import parse_schema  # noqa: PLC0415 # an extra

        if definition.kind != "AVRO":
            raise SchemaRefused("of a schema that is not Avro")
        texts = (*definition.references, definition.text)
        if sum(map(len, texts)) > SMALL:
            raise SchemaRefused("of a schema that is too large")
        full_schemas, bare, tree = dict[str, Any](), dict[str, Any](), None
        try:
            for text in texts:
                tree = parse_schema(json.loads(text), full_schemas)
                self._schema: Any = parse_schema(_bare(json.loads(text)), bare)
            _Checked(full_schemas).check(tree)
            readings = {path: _readings(tree, path, full_schemas) for path in paths}
        except SchemaRefused:
            raise
        except Exception as error:  # fastavro, json, and a schema that they accept may raise anything
            raise SchemaRefused("of a schema that is not valid") from error
        self._readings = {path: by_type for path, by_type in readings.items() if by_type}

    def value(self, message: bytes) -> Any:
        """Return the value behind the frame. Raises fastavro's exceptions, ValueError for bytes left over."""
        from fastavro import schemaless_reader  # noqa: PLC0415 # an extra

        stream = BytesIO(message)
        stream.seek(FRAME)
        value = schemaless_reader(stream, self._schema, None)
        if stream.tell() != len(message):
            raise ValueError
        for path, readings in self._readings.items():
            value = _read(value, path, readings)
        return value


def _bare(tree: Any) -> Any:
    """Return a schema without logical types."""
    if isinstance(tree, list):
        return [_bare(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    return {key: _bare(part) for key, part in tree.items() if key != "logicalType"}


class _Measures(NamedTuple):
    """The fewest bytes of a schema's values, and the depth of its nesting."""

    least: int
    height: int


class _Checked:
    """Checks a parsed schema. `named`: its types by name."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named, self._records = named, dict[str, _Measures]()

    def check(self, schema: Any) -> None:
        """Raise SchemaRefused for a schema that is recursive, too deep, or has lists of zero-size items."""
        self._measure(schema, ())

    def _measure(self, schema: Any, inside: tuple[str, ...], depth: int = 0) -> _Measures:
        """Return the measures of a schema at a depth. `within`: the names of the records around it."""
        within = self._within(schema, inside, depth)
        if isinstance(schema, dict) and schema["type"] == "array" and within[0].least == 0:
            raise SchemaRefused("of a schema with lists of items without a size")
        height = 1 + max((measures.height for measures in within), default=0)
        if depth + height > _DEEPEST:
            raise SchemaRefused("of a schema that is too deep")
        return _Measures(_least(schema, [measures.least for measures in within]), height)

    def _within(self, schema: Any, inside: tuple[str, ...], depth: int) -> list[_Measures]:
        """Return the measures of the schemas of values within this one."""
        if depth > _DEEPEST:
            raise SchemaRefused("of a schema that is too deep")
        if isinstance(schema, list):
            return [self._measure(branch, inside, depth + 1) for branch in schema]
        if isinstance(schema, str):
            if schema in inside:
                raise SchemaRefused("of a schema that holds itself")
            return [self._measure(self._named[schema], inside, depth + 1)] if schema in self._named else []
        if not isinstance(schema["type"], str):
            return [self._measure(schema["type"], inside, depth + 1)]
        if schema["type"] not in {"record", "error"}:
            items = [schema[key] for key in ("items", "values") if key in schema]
            return [self._measure(item, inside, depth + 1) for item in items]
        name = schema["name"]
        if name not in self._records:  # else a type would be walked as often as it is named
            fields = [self._measure(f["type"], (*inside, name), depth + 1) for f in schema["fields"]]
            height = max((field.height for field in fields), default=0)
            self._records[name] = _Measures(sum(field.least for field in fields), height)
        return [self._records[name]]


_SIZES = {"null": 0, "float": 4, "double": 8}
"""The fewest bytes of values of these types. Every other type without inner values has at least 1."""


def _least(schema: Any, within: Sequence[int]) -> int:
    """Return the fewest bytes of a value; `within`: the fewest bytes of the values in it."""
    if isinstance(schema, list):
        return 1 + min(within, default=0)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "fixed":
        return int(schema["size"])
    if kind == "array" or kind == "map":  # noqa: PLR1714 # it may be a mapping, which no set has
        return 1
    return sum(within) if within else _SIZES.get(kind, 1)


def _leaves(schema: Any, path: Path, named: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas that values at a path may have."""
    level = _alternatives([schema], named)
    for name in path:
        level = _alternatives(
            [
                *(part["values"] for part in level if part["type"] == "map"),
                *(f["type"] for part in level for f in part.get("fields", ()) if f["name"] == name),
            ],
            named,
        )
    return level


def _alternatives(schemas: list[Any], named: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas without unions and names, each once: a type may be named any number of times."""
    waiting, leaves = list(schemas), dict[object, Mapping[str, Any]]()
    while waiting:
        schema = waiting.pop()
        if isinstance(schema, list):
            waiting += schema
        elif isinstance(schema, str):
            if schema not in named:
                leaves[schema] = {"type": schema}
            elif id(named[schema]) not in leaves:
                waiting.append(named[schema])
        elif isinstance(schema["type"], str):
            leaves[id(schema)] = schema
        else:
            waiting.append(schema["type"])
    return list(leaves.values())


def _readings(schema: Any, path: Path, named: Mapping[str, Any]) -> dict[type, Reading]:
    """Return the conversions of values at a path, by Python type. Types without a conversion are left out."""
    readings: dict[type, set[Reading | None]] = {}
    for leaf in _leaves(schema, path, named):
        if leaf["type"] in _PYTHON:
            named_type = leaf["type"], str(leaf.get("logicalType")), leaf.get("scale", 0)
            readings.setdefault(_PYTHON[leaf["type"]], set()).add(_reading(*named_type))
    # a union of two branches of one type does not tell which a value is, so it is no single value
    by_type = {kind: next(iter(ways)) if len(ways) == 1 else _ambiguous for kind, ways in readings.items()}
    return {kind: reading for kind, reading in by_type.items() if reading is not None}


def _ambiguous(_: object) -> bytes:
    return b""


def _read(value: Any, path: Path, readings: Mapping[type, Reading]) -> Any:
    """Return a value in which the value at a path has been converted."""
    if not path:
        reading = readings.get(type(value))
        return value if reading is None else reading(value)
    if isinstance(value, dict) and path[0] in value:
        value[path[0]] = _read(value[path[0]], path[1:], readings)
    return value


class Schemaless(WholeMessage):
    """A message, or a key, whose schema was unknown when it arrived. `reason`: why it was."""

    reason: str


class Schemas:
    """Caches the schemas of a registry by their ids. `clock` is monotonic."""

    def __init__(self, paths: Iterable[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._paths, self._clock = tuple(dict.fromkeys(paths)), clock
        self._known: dict[int, WriterSchema] = {}
        self._refused: dict[int, tuple[str, float]] = {}

    def unknown(self, messages: Iterable[bytes]) -> set[int]:
        """Return the ids of schemas in these messages that the registry must be asked for."""
        numbers = {_id(message) for message in messages if is_framed(message)}
        return {number for number in numbers if self.is_unknown(number)}

    def is_unknown(self, number: int) -> bool:
        """Return whether the registry must be asked for an id."""
        if number in self._known:
            return False
        _, until = self._refused.get(number, ("", -math.inf))
        return until <= self._clock()

    def learn(self, number: int, definition: Definition | None) -> None:
        """Store the schema of an id; None: the registry has none."""
        if definition is None:
            self.refuse(number, "of a schema that the registry denies")
            return
        try:
            self._known[number] = WriterSchema(definition, self._paths)
        except SchemaRefused as error:
            self.refuse(number, str(error))

    def refuse(self, number: int, reason: str) -> None:
        """Treat records of an id as unreadable, for `REMEMBERED` seconds."""
        self._refused.pop(number, None)
        if len(self._refused) >= _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]  # without an entry they remain unreadable
        self._refused[number] = reason, self._clock() + REMEMBERED

    def settled(self, message: bytes) -> bytes:
        """Return the message as it is kept.

        If its schema, or its key's, is unknown now, it remains unreadable.
        """
        if isinstance(message, WholeMessage) and message.key is not None:
            key = self._kept(message.key)
            if key is not message.key:
                message = WholeMessage.of(message, key, message.headers.items())
        return self._kept(message)

    def _kept(self, message: bytes) -> bytes:
        if not is_framed(message) or _id(message) in self._known:  # and it remains framed
            return message
        if isinstance(message, WholeMessage):
            unreadable = Schemaless.of(message, message.key, message.headers.items())
        else:
            unreadable = Schemaless.of(message, None, ())
        unreadable.reason = str(self.fault(message))
        return unreadable

    def schema_of(self, message: bytes) -> WriterSchema | None:
        """Return the schema of a message; None if it is not known."""
        if isinstance(message, Schemaless):
            return None
        return self._known.get(_id(message)) if is_framed(message) else None

    def fault(self, message: bytes) -> Fault:
        """Return why a message has no schema."""
        if isinstance(message, Schemaless):
            return Fault(None, message.reason)
        if not is_framed(message):
            return Fault(None, UNFRAMED)
        return Fault(None, self._refused.get(_id(message), ("of a schema that is not known", 0.0))[0])


def _id(message: bytes) -> int:
    return int.from_bytes(message[1:FRAME], "big")


class SchemaLookup:
    """Asks a registry for the schemas of ids, one after the other."""

    def __init__(self, registry: SchemaRegistry, schemas: Schemas) -> None:
        self._registry, self._schemas = registry, schemas

    def ask(self, number: int) -> None:
        """Learn the schema of an id, or treat its records as unreadable for a time.

        If a request for an id fails while a check of the registry succeeds, the id is the cause. Raises
        BusError if the check fails too, as the registry is then away, or refuses these credentials.
        """
        try:
            self._schemas.learn(number, self._registry.schema(number))
        except BusError:
            self._registry.look()
            self._schemas.refuse(number, NOT_GIVEN)

    def ask_all(self, messages: Iterable[bytes]) -> None:
        """Ask for the schemas that messages name, unless they are known. Raises as `ask`."""
        for number in sorted(self._schemas.unknown(messages)):
            self.ask(number)


class AvroFields:
    """Splits Avro records into fields, by their writers' `schemas`. Raises NoRegistryExtra."""

    notation = JSON
    """How text in a record spells numbers."""

    def __init__(self, paths: Iterable[Path]) -> None:
        need_extra()
        self.schemas = Schemas(paths)

    def __call__(self, value: bytes) -> Mapping[str, object] | None:
        """Return a record's fields; None if it has none, or if its schema is unknown."""
        schema = self.schemas.schema_of(value)
        try:
            fields = None if schema is None else schema.value(value)
        except Exception:  # noqa: BLE001 # what fastavro raises may show the record
            return None
        return fields if isinstance(fields, dict) else None

    def columns(self, values: Sequence[bytes], names: Sequence[str]) -> Columns | None:
        """Return the columns of many records; None, or an exception, if a record is odd."""
        objects = [fields for value in values if (fields := self(value)) is not None]
        return columns_of(objects, names) if len(objects) == len(values) else None

    def fault(self, value: bytes, columns: Sequence[str]) -> Fault:  # noqa: ARG002 # as other formats
        """Return why a record has no fields."""
        schema = self.schemas.schema_of(value)
        if schema is None:
            return self.schemas.fault(value)
        try:
            schema.value(value)
        except Exception:  # noqa: BLE001 # as above
            return Fault(None, "not Avro of its schema")
        return Fault(None, "not an Avro record")

    def no_record(self, value: bytes) -> None:
        """Return None: each message is a record."""

    def single(self, value: bytes) -> object:
        """Return the single value behind the frame. Raises as fastavro, and ValueError."""
        schema = self.schemas.schema_of(value)
        if schema is None:
            raise ValueError
        return schema.value(value)
