"""Counts the records that predictions and their score leave out, and says why. For the records' owner."""

from dataclasses import dataclass, field

from nodes.values import FloatArray
from streams.records.decoder import SchemaDecoder
from streams.records.faults import EMPTY, MISSING, FaultCounts

_LOOKED_AT = 100
"""The number of records without a label that are looked at twice: a file without labels has many."""


@dataclass(slots=True)
class LeftOut:
    """Counts all records, with the faults of those that cannot be read.

    `unlabelled`: the number of those that can be read without a label. `labels`: the faults of the first of
    these, where there is a label that cannot be read.
    """

    records: FaultCounts = field(default_factory=FaultCounts)
    unlabelled: int = 0
    labels: FaultCounts = field(default_factory=FaultCounts)

    def add(self, line: bytes, parts: tuple[FloatArray | None, float | None], decoder: SchemaDecoder) -> None:
        """Count a record, by what the decoder made of it."""
        features, label = parts
        self.records.add(decoder.fault(line) if features is None else None)
        if features is not None and label is None:
            self.unlabelled += 1
            if self.unlabelled <= _LOOKED_AT and (fault := decoder.fault(line)).kind not in {EMPTY, MISSING}:
                self.labels.add(fault)
