"""A raw record, and what decodes it: totally, never raising on data, never saying anything about it."""

from typing import NamedTuple, Protocol

from nodes.values import FloatArray, IntArray


class RawRecord(NamedTuple):
    """A record as it stands on a data topic. `timestamp` in seconds; None where slots do not go by time."""

    value: bytes
    timestamp: float | None = None


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
