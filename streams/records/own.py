"""Decodes records with a user's own source."""

from collections.abc import Callable, Iterator

import numpy as np

from nodes.values import FloatArray
from streams.mesh.plugins import OwnSource
from streams.mesh.user_code import UserCode
from streams.records.faults import Fault
from streams.records.record import TotalDecoder

_END = object()


class OwnDecoder(TotalDecoder[FloatArray]):
    """Decodes with a user's own source. Total: it returns an observation or None, whatever the source does.

    What the source raises is a fault of the record, by the exception's type alone, and goes where faults go:
    to the owner.
    """

    def __init__(
        self, source: OwnSource, dimension: int, longest: int | None = None, learnt: int = 0
    ) -> None:
        self._source = source
        super().__init__(dimension, longest, learnt)

    def records(self, refusal: Callable[[str], Exception]) -> Iterator[bytes]:
        """Yield the records. The refusal names only the type of an exception, whose text may hold data."""
        raised: list[str] = []
        with UserCode(raised.append):
            values = iter(self._source.records())
        while not raised:
            record: object = None
            with UserCode(raised.append):
                record = next(values, _END)
            if record is _END:
                return
            if isinstance(record, bytes):
                yield record
            elif not raised:
                raised = ["TypeError"]
        raise refusal(f"reading its records raised {raised[0]}")

    def _fault(self, value: bytes) -> Fault:
        kinds: list[str] = []
        self._attempt(value, kinds)
        return Fault(None, f"its source: {kinds[0]}" if kinds else "not a record, by its source")

    def _decoded(self, value: bytes) -> tuple[FloatArray, float] | None:
        return self._attempt(value, [])

    def _attempt(self, value: bytes, kinds: list[str]) -> tuple[FloatArray, float] | None:
        """Return what the source decodes; None for no record, with the kind of a failure in `kinds`."""
        with UserCode(kinds.append):
            decoded = self._source.decode(value)
            if decoded is None:
                return None
            raw_features, label = np.asarray(decoded[0]), decoded[1]
            if any(isinstance(number, str | bytes) for number in (*raw_features.flat, label)):
                # of text numpy and Python would make numbers, by grammars of their own
                kinds.append("text where a number must be")
                return None
            features, label = raw_features.astype(np.float64), float(label)
            if features.shape == (self.dimension,):
                return (features, label) if np.isfinite(features).all() and np.isfinite(label) else None
            kinds.append("features of another shape")
        return None
