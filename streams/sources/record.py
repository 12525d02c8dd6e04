"""A raw record, and what decodes it: totally, never raising on data, never saying anything about it."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from nodes.values import FloatArray, IntArray


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


class Decoder(Protocol):
    """Turns the bytes of a record into features and label."""

    @property
    def dimension(self) -> int:
        """The number of features d."""

    def decode(self, value: bytes) -> tuple[FloatArray | SparseRow, float] | None:
        """Return (features (d,), label), both finite; None for a record that is none.

        Sparse decoders are `streams.sources.libsvm.LibsvmDecoder` alone; all others give arrays.
        """
