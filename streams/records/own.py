"""Decodes records with a user's own source."""

from collections.abc import Callable, Iterator

import numpy as np

from nodes.values import FloatArray
from streams.mesh.plugins import own_source, say_once
from streams.mesh.user_code import UserCode
from streams.records.faults import Fault
from streams.records.record import TotalDecoder

_END = object()


class OwnDecoder(TotalDecoder[FloatArray]):
    """Decodes with a user's own source. Total: it returns an observation or None, whatever the source does.

    Each kind of failure is logged once, by the exception's type alone.
    """

    def __init__(self, name: str, node: str, longest: int | None = None, learnt: int = 0) -> None:
        self._source, dimension = own_source(name, node)
        super().__init__(dimension, longest, learnt)
        self._tell: Callable[[str], None] = say_once(f"own source {name}", node, "cannot be decoded")

    def records(self, refusal: Callable[[str], Exception]) -> Iterator[bytes]:
        """Yield the records. The refusal names only the type of an exception, whose text may hold data."""
        raised: list[str] = []
        with UserCode(raised.append):
            found = iter(self._source.records())
        while not raised:
            record: object = None
            with UserCode(raised.append):
                record = next(found, _END)
            if record is _END:
                return
            if isinstance(record, bytes):
                yield record
            elif not raised:
                raised = ["TypeError"]
        raise refusal(f"reading its records raised {raised[0]}")

    def _fault(self, value: bytes) -> Fault:  # noqa: ARG002 # the source gives no reason
        return Fault(None, "not a record, by its source")

    def _decoded(self, value: bytes) -> tuple[FloatArray, float] | None:
        with UserCode(self._tell):
            decoded = self._source.decode(value)
            if decoded is None:
                return None
            features, label = np.array(decoded[0], dtype=np.float64), float(decoded[1])
            if features.shape == (self.dimension,):
                return (features, label) if np.isfinite(features).all() and np.isfinite(label) else None
            self._tell("features of another shape")
        return None
