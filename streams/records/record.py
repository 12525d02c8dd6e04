"""Raw records, and total decoders: they never raise on data and never show it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from nodes.machine.slots import ClosedSlot
from nodes.values import BoolArray, FloatArray, IntArray
from streams.mesh.settings.files import LONGEST_LINE
from streams.records.faults import UNKNOWN, Fault

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
_LEAST, _EACH = 1 << 14, 64
CHUNK = 256
"""The number of records of a file that are decoded together. More would not be faster."""


class RawRecord(NamedTuple):
    """A record as on a data topic. `timestamp` is in seconds; None for slots by count."""

    value: bytes
    timestamp: float | None = None


class WholeMessage(bytes):
    """The value of a message of a topic, with its key and headers.

    Of headers with one name it has the last.
    """

    key: bytes | None
    headers: Mapping[str, bytes | None]

    @classmethod
    def of(cls, value: bytes | None, key: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> Self:
        """Return the message; a message without a value is empty."""
        message = cls(value or b"")
        message.key, message.headers = key, dict(headers)
        return message


def message_headers(message: Any) -> list[tuple[str, bytes | None]]:
    """Return the headers of a client's message; none if a name is no text, which no client could write again.

    The client gives them as a list, as a mapping, or not at all.
    """
    try:
        headers = message.headers()
    except UnicodeDecodeError:
        return []
    if not headers:
        return []
    # a list is asked for first: to ask for a mapping takes longer than all the rest
    pairs = headers if isinstance(headers, list) else headers.items()
    return [(str(name), as_bytes(content)) for name, content in pairs]


def as_bytes(content: str | bytes | None) -> bytes | None:
    """Return a text in UTF-8, and other values unchanged."""
    return content.encode() if isinstance(content, str) else content


def in_order_of_time(records: Iterable[RawRecord]) -> Iterator[RawRecord]:
    """Yield the records by (time, offset), after all are read. Those without a time come first."""
    yield from sorted(records, key=_time)


def moved(time: float | None, shift: float) -> float | None:
    """Return a record's time moved later by `shift` seconds."""
    return None if time is None else time + shift


def _time(record: RawRecord) -> float:
    return -math.inf if record.timestamp is None else record.timestamp


class SparseRow(NamedTuple):
    """The nonzero features: `values` (stored,) at the coordinates `indices` (stored,), ascending."""

    indices: IntArray
    values: FloatArray


Decoded = tuple[FloatArray | SparseRow, float]
"""A record's features (d,) and its label, all finite."""


class Decoder(Protocol):
    """Turns the bytes of a record into features and label."""

    @property
    def dimension(self) -> int:
        """The number of features d."""

    @property
    def longest(self) -> int:
        """The length limit of a record in bytes: a longer one decodes to None."""

    def decode(self, value: bytes) -> Decoded | None:
        """Return (features (d,), label), both finite; None for a bad record.

        Only `streams.records.sparse.LibsvmDecoder` gives sparse features; all others give arrays.
        """

    def decode_each(self, values: Sequence[bytes]) -> Sequence[Decoded | None]:
        """Return `decode` of each record."""

    def fault(self, value: bytes) -> Fault:
        """Return why a record does not decode.

        It examines again a record for which `decode` has given None.
        """


def longest_record(dimension: int, longest: int | None, learnt: int) -> int:
    """Return the most bytes of a record: `longest`, or the default of `settings.files.RecordBytes`."""
    return longest or min(LONGEST_LINE, max(_LEAST, _EACH * max(dimension, learnt)))


class KeptBack:
    """Chooses the records of a node that are never learnt from; their owner scores a decision on them.

    Guarantees: whether a record is kept back moves no other record and decides of no other one. With slots by
    count its partition and offset choose, which are public; with slots by time (`by_content`) its own bytes.
    """

    def __init__(self, share: float, *, by_content: bool) -> None:
        self._limit, self._by_content = share * 2.0**64, by_content

    def of(self, slot: ClosedSlot[bytes]) -> BoolArray:
        """Return which records of a slot are kept back, shape (n,)."""
        texts = slot.values if self._by_content else [b"%d %d" % place for place in slot.places]
        return np.array([_hash(text) < self._limit for text in texts], dtype=np.bool_)


def _hash(text: bytes) -> int:
    # another key than that of parts: records of one part differ in this hash
    return int.from_bytes(blake2b(text, key=b"mirrormesh: kept back", digest_size=8).digest(), "little")


class TotalDecoder(ABC, Generic[R_co]):
    """The base of all decoders. It checks a record's length, and catches exceptions of the decoding.

    A record longer than `longest` bytes is bad and never parsed. A record on which the decoder raises is bad
    too, and never shown. `settings.files.RecordBytes` describes the default of `longest`; `learnt` is the
    mesh's d. `kept_back` chooses the node's records that are not learnt from; None: none.
    """

    def __init__(self, dimension: int, longest: int | None = None, learnt: int = 0) -> None:
        self.dimension = dimension
        self.longest = longest_record(dimension, longest, learnt)
        self.kept_back: KeptBack | None = None

    def decode(self, value: bytes) -> tuple[R_co, float] | None:
        """Return (features (d,), label), both finite; None for a record without them."""
        return self._total(self._decoded, value)

    def decode_each(self, values: Sequence[bytes]) -> Sequence[tuple[R_co, float] | None]:
        """Return `decode` of each record."""
        return [self.decode(value) for value in values]

    def fault(self, value: bytes) -> Fault:
        """Return why a record does not decode.

        It examines again a record for which `decode` has given None.
        """
        if len(value) > self.longest:
            return Fault(None, f"longer than {self.longest:,} bytes, the source's max_record_bytes")
        if not value:
            return Fault(None, "empty, or longer than a record may be")
        return self._total(self._fault, value) or Fault(None, UNKNOWN)

    @abstractmethod
    def _decoded(self, value: bytes) -> tuple[R_co, float] | None:
        """Decode a record that is not too long."""

    def _fault(self, value: bytes) -> Fault | None:  # noqa: ARG002 # for those that can tell
        """Return why a record of an allowed length does not decode; None: the reason is unknown."""
        return None

    def _total(self, read: Callable[[bytes], T | None], value: bytes) -> T | None:
        """Return the result of `read` for a record; None for a bad one."""
        if len(value) > self.longest:
            return None
        try:
            return read(value)
        except Exception:  # noqa: BLE001 # a record stops nothing; the exception may show it
            return None
