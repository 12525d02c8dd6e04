"""A raw record, and what decodes it: totally, never raising on data, never saying anything about it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from nodes.values import FloatArray, IntArray
from streams.mesh.settings.files import LONGEST_LINE

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
_LEAST, _EACH = 1 << 14, 64


class RawRecord(NamedTuple):
    """A record as it stands on a data topic. `timestamp` in seconds; None where slots do not go by time."""

    value: bytes
    timestamp: float | None = None


def in_order_of_time(records: Iterable[RawRecord]) -> Iterator[RawRecord]:
    """Yield the records by (time, offset), once all are read; what has no time belongs to no slot: first."""
    yield from sorted(records, key=_time)


def _time(record: RawRecord) -> float:
    return -math.inf if record.timestamp is None else record.timestamp


class SparseRow(NamedTuple):
    """The features that are not 0: `values` (stored,) at the coordinates `indices` (stored,), ascending."""

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
        """The bytes of the longest record: a longer one is none."""

    def decode(self, value: bytes) -> Decoded | None:
        """Return (features (d,), label), both finite; None for a record that is none.

        Sparse decoders are `streams.records.libsvm.LibsvmDecoder` alone; all others give arrays.
        """


class TotalDecoder(ABC, Generic[R_co]):
    """What every decoder is: the one gate between the bytes of a record and what takes them apart.

    A record longer than `longest` bytes is none, and is not parsed: what it costs is known before what it
    holds. One that a decoder raises on, against its own word, is none either, and nothing is said of it.
    `longest` unless given: see `settings.files.RecordBytes`, of which `learnt` is the mesh's dimension.
    """

    def __init__(self, dimension: int, longest: int | None = None, learnt: int = 0) -> None:
        self.dimension = dimension
        self.longest = longest or min(LONGEST_LINE, max(_LEAST, _EACH * max(dimension, learnt)))

    def decode(self, value: bytes) -> tuple[R_co, float] | None:
        """Return (features (d,), label), both finite; None for a record without them."""
        return self._total(self._decoded, value)

    @abstractmethod
    def _decoded(self, value: bytes) -> tuple[R_co, float] | None:
        """Do what `decode` does, for a record that is not too long."""

    def _total(self, read: Callable[[bytes], T | None], value: bytes) -> T | None:
        """Return what `read` makes of a record; None for one that is none."""
        if len(value) > self.longest:
            return None
        try:
            return read(value)
        except Exception:  # noqa: BLE001 # a record halts nothing; what it says may be the record's
            return None
