"""A node's data topic in a simulated history: all records stay, and every process of the node reads them."""

from collections.abc import Sequence

from streams.records.record import RawRecord
from streams.records.slot_feed import DataLog


class DataTopic(DataLog):
    """The records of one node; the topic's end is behind the furthest record that was read."""

    def __init__(self, records: Sequence[RawRecord]) -> None:
        super().__init__(iter(()))
        self._all, self._end = records, 0

    @property
    def end(self) -> int:
        """The offset after the furthest record read."""
        return self._end

    def read(self, offset: int) -> RawRecord | None:
        """Return the record at `offset`; None if there is none."""
        if offset >= len(self._all):
            return None
        self._end = max(self._end, offset + 1)
        return self._all[offset]

    def trim(self, offset: int) -> None:
        """Keep all: another process of the node may read them again."""
