"""Counts of a node's records: private, for the owner's endpoint."""

from dataclasses import dataclass

from nodes.machine.slots import ClosedSlot
from nodes.values import Observations


@dataclass(slots=True)
class DataCounts:
    """Counts since the process started. `lost`: records that had left the log before they were read."""

    records: int = 0
    malformed: int = 0
    empty_slots: int = 0
    late: int = 0
    overfull: int = 0
    lost: int = 0
    early: int = 0

    def close(self, slot: ClosedSlot[bytes], observations: Observations) -> None:
        """Count a slot and its records."""
        self.malformed += len(slot.values) - int(observations.present.sum())
        self.empty_slots += not slot.values
        self.late += slot.late
        self.overfull += slot.overfull
        self.early += slot.early
