"""Policies of a node that has fallen behind, for waiting records with slots by count.

By their number alone: how many wait is public, and what they hold is never looked at.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class LatePolicy:
    """Begins a slot of `size` records further on where too many wait.

    `drop-oldest`: of more than `most` the newest `most` are left. `sample`: while k times `most` wait, with k
    of 2 or more, each slot is the last of k: about one record in k is learnt from, evenly.

    Raises ValueError unless `most` is at least `size`.
    """

    kind: Literal["drop-oldest", "sample"]
    most: int
    size: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.most:
            raise ValueError(f"most is {self.most}: must be at least {self.size}, the records of a slot")

    def begin(self, first: int, end: int) -> int:
        """Return the number of the record at which a slot begins that could begin with number `first`.

        `end`: the number of the next record to come. Offsets do not count records: a transaction's marker has
        one, and compaction leaves some out.
        """
        waiting = end - first
        if waiting <= self.most:
            return first
        if self.kind == "drop-oldest":
            return end - self.most
        return first + (waiting // self.most - 1) * self.size
