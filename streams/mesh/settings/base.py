"""The base of all settings: their errors and common types."""

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from ipaddress import ip_address
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from nodes.checks import as_text, decimal
from streams.codec.topics import DATA_KINDS, SCORE
from streams.mesh.errors import meant, one_of

T = TypeVar("T")


def refusal(allowed: str, *keys: str) -> PydanticCustomError:
    """Return the error of a wrong value. `keys` lead from the mapping that is checked to the value.

    `allowed` says what is allowed. `streams.mesh.errors` adds the file, the key path and the value.
    """
    return PydanticCustomError("refused", "{text}", {"text": allowed, "keys": keys})


class Settings(BaseModel):
    """Settings in a mesh file: a frozen mapping with known keys. Text is not read as a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        allowed = [field.alias or name for name, field in cls.model_fields.items()]
        if not isinstance(value, Mapping):
            raise refusal(f"must be a mapping with keys among {', '.join(allowed)}")
        unknown = next((key for key in value if key not in allowed), None)
        if unknown is not None:
            # where values are hidden, unknown keys are hidden too: `password:mine` without a blank is a key
            texts = () if cls.model_config.get("hide_input_in_errors") else (str(unknown),)
            raise refusal(f"unknown key: {one_of(allowed, unknown)}", *texts)
        return value


class Choice(Settings):
    """A choice of one of several things: a word alone (`ring`), or a word with its setting (`l1-ball: 3`)."""

    words: ClassVar[tuple[str, ...]] = ()
    """The words that need no setting."""
    either: ClassVar[tuple[str, ...]] = ()
    """The words that may have a setting or none."""
    beside: ClassVar[tuple[str, ...]] = ()
    """The keys that may be given with any choice."""

    @model_validator(mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        names = [
            key for name, field in cls.model_fields.items() if (key := field.alias or name) not in cls.beside
        ]
        settable = [f"{{{name}: ...}}" for name in names if name not in cls.words or name in cls.either]
        allowed = f"must be one of {', '.join([*cls.words, *settable])}"
        if isinstance(value, str) and value in cls.words:
            return {value: True}
        chosen = (
            {key: value[key] for key in value if key not in cls.beside} if isinstance(value, Mapping) else {}
        )
        allowed += meant(
            [*cls.words, *names], next(iter(chosen), None) if isinstance(value, Mapping) else value
        )
        if not isinstance(value, Mapping):
            raise refusal(allowed)
        word, setting = next(iter(chosen.items()), (None, None))
        as_word = word in cls.words and not (word in cls.either and isinstance(setting, Mapping | Settings))
        if len(chosen) != 1 or word not in names or (as_word and setting is not True):
            raise refusal(allowed)
        return value

    @property
    def name(self) -> str:
        """The chosen word."""
        fields = type(self).model_fields
        (chosen,) = {fields[name].alias or name for name in self.model_fields_set}.difference(self.beside)
        return chosen


def tagged(key: str, *allowed: str) -> BeforeValidator:
    """Return a check that `key` of a mapping names one of the allowed kinds."""

    def check(value: Any) -> Any:
        words = " or ".join(allowed)
        if not isinstance(value, Mapping | Settings):
            raise refusal(f"must be a mapping with {key}: {words}")
        if isinstance(value, Mapping) and value.get(key) not in allowed:
            missing = "" if key in value else "missing: "
            raise refusal(f"{missing}must be {words}{meant(allowed, value.get(key))}", key)
        return value

    return BeforeValidator(check)


def absent(value: object) -> bool:
    """Return whether a key was not given.

    It is then left out of digests and files, which so stay as they were before the key existed.
    """
    return value is None


def or_none(value: object) -> object:
    """Read the word `none` as None."""
    return None if value == "none" else value


def listed(convert: Callable[[Any], T]) -> BeforeValidator:
    """Return a validator that reads a list, or a single value, as a tuple."""
    return BeforeValidator(lambda value: tuple(map(convert, value if isinstance(value, list) else [value])))


def exact(value: object) -> Fraction:
    """Read a positive decimal exactly. So 0.1 is one tenth."""
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise refusal("must be a number above 0")
    if isinstance(value, float) and not math.isfinite(value):
        raise refusal("must be finite and above 0")
    fraction = value if isinstance(value, Fraction) else decimal(value)
    if fraction <= 0:
        raise refusal("must be a number above 0")
    try:
        float(fraction)
    except OverflowError:
        raise refusal("must be finite and above 0") from None
    return fraction


CODE = re.compile(r"[\w.-]+(:\w[\w.]*)?")
"""The form of the name of a user's loss or source: an entry point, or package.module:attribute."""


def code_name(value: str) -> str:
    """Return the name of the user's code. It cannot end a line, or an argument of a command."""
    if CODE.fullmatch(value) and not value.startswith("-"):
        return value
    raise refusal("must be package.module:attribute, or the name of an entry point")


LONGEST_NAME = 60
"""The longest name of a mesh, run or node, in characters, which are one byte each."""
Name = Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9-]*$", max_length=LONGEST_NAME)]
"""The name of a mesh, run, node or party. A name that begins with - would be an option on a command line."""


def _no_kind(value: str) -> str:
    if value in {*DATA_KINDS, SCORE}:
        raise refusal("is a kind of topics or groups, which begin with it: must be another word")
    return value


MeshName = Annotated[Name, AfterValidator(_no_kind)]
"""The name of a mesh or of a collaboration. Names of kinds of topics are not allowed."""
Exact = Annotated[Fraction, PlainValidator(exact), PlainSerializer(as_text, when_used="json")]
"""A positive number, exactly as written."""
CodeName = Annotated[str, AfterValidator(code_name)]
"""The name of the user's code."""
Positive = Annotated[float, Field(gt=0)]
"""A positive finite number."""
LARGEST = 2**63 - 1
"""The largest whole number that a 64-bit integer, and a message, can hold."""
Count = Annotated[int, Field(ge=1, le=LARGEST)]
"""A whole number of at least 1."""
Seconds = Annotated[Positive | None, BeforeValidator(or_none)]
"""A time in seconds, or `none`: no limit."""
Vector = Annotated[tuple[float, ...], Field(strict=False, min_length=1)]
"""A list of numbers."""
Matrix = Annotated[tuple[Vector, ...], Field(strict=False, min_length=1)]
"""A list of rows."""


_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,242}")
"""The prefix `spends.` is put before the name, and Kafka allows 249 characters."""


def _topic(name: str) -> str:
    if _TOPIC.fullmatch(name) is None or name in {".", ".."}:
        raise refusal("must be the name of a topic: up to 242 letters, digits, dots, - and _")
    return name


TopicName = Annotated[str, AfterValidator(_topic)]
"""The name of a topic, as Kafka allows it."""
UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
"""The units of a long time, in seconds."""
_TIME = re.compile(r"([1-9][0-9]{0,8})([dhms])")


def long_time(value: object) -> object:
    """Read 7d, 36h, 90m or 45s as seconds."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise refusal("must be a time with its unit, like 7d, 36h, 90m or 45s")
    return float(match[1]) * UNITS[match[2]]


def spelt(seconds: float) -> str:
    """Return the text of a long time, as a mesh file has it."""
    unit, size = next((unit, size) for unit, size in UNITS.items() if seconds % size == 0 or size == 1)
    return f"{seconds / size:g}{unit}"


LongTime = Annotated[float, BeforeValidator(long_time), PlainSerializer(spelt, when_used="json")]
"""A time in seconds, written with its unit."""


Address = tuple[str, int]

_ALLOWED = "must be a port, or address:port, with a port from 1 to 65535"


def address(text: str) -> Address:
    """Return the (address, port) in `text`; a port alone means 127.0.0.1. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16) or (colon and not host):
        raise ValueError(_ALLOWED)
    return host or "127.0.0.1", int(port)


def address_text(value: object) -> object:
    """Read a port, or `address:port`, of a mesh file as an Address."""
    try:
        return address(str(value)) if isinstance(value, str | int) else address("")
    except ValueError as error:
        raise refusal(str(error)) from None


def is_loopback(address: Address) -> bool:
    """Return whether only this machine can reach the address.

    Names other than `localhost` count as reachable.
    """
    try:
        return ip_address(address[0]).is_loopback
    except ValueError:
        return address[0] == "localhost"
