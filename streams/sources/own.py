"""A user's own source: what it must have, and the same total decoder as for everything else."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from nodes.contained import type_name
from nodes.values import FloatArray
from streams.interrupts import UserCode
from streams.own import SOURCES, made, say_once
from streams.sources.record import TotalDecoder

_END = object()


class OwnSource(Protocol):
    """What the name of an own source stands for, or makes when it is called with the node's name."""

    @property
    def dimension(self) -> int:
        """The number of features."""

    def records(self) -> Iterable[bytes]:
        """Return the records, in an order that never changes."""

    def decode(self, value: bytes) -> tuple[FloatArray, float] | None:
        """Return (features (dimension,), label) of this record alone; None for what is no record."""


def own_source(name: str, node: str) -> tuple[OwnSource, int]:
    """Return the user's own source of a node, and its dimension, asked for once.

    Raises ValueError, which says what is wrong with it.
    """
    source: OwnSource = made(SOURCES, name, ("records", "decode"), (node,))
    raised: list[str] = []
    dimension: Any = None
    with UserCode(raised.append):
        dimension = getattr(source, "dimension", None)
    if raised:
        raise ValueError(f"asking for its dimension raised {raised[0]}")
    if type(dimension) is not int or dimension < 1:
        said = dimension if dimension is None or type(dimension) is int else f"a {type_name(type(dimension))}"
        raise ValueError(f"its dimension is {said}: must be the number of features")
    return source, dimension


class OwnDecoder(TotalDecoder[FloatArray]):
    """Decodes with a user's own source. Total: whatever that does, it returns an observation or None.

    What goes wrong is logged once, by the exception's type alone.
    """

    def __init__(self, name: str, node: str, longest: int | None = None, learnt: int = 0) -> None:
        self._source, dimension = own_source(name, node)
        super().__init__(dimension, longest, learnt)
        self._tell: Callable[[str], None] = say_once(f"own source {name}", node, "cannot be decoded")

    def records(self, refusal: Callable[[str], Exception]) -> Iterator[bytes]:
        """Yield the records. What the source raises may hold data: its type alone is in the refusal."""
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

    def _decoded(self, value: bytes) -> tuple[FloatArray, float] | None:
        with UserCode(self._tell):
            decoded = self._source.decode(value)
            if decoded is None:
                return None
            features, label = np.array(decoded[0], dtype=np.float64), float(decoded[1])
            if features.shape == (self.dimension,):
                return (features, label) if np.isfinite(features).all() and np.isfinite(label) else None
            self._tell("features of another shape")
        return None  # whatever it was, the record is none
