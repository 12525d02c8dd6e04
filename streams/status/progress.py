"""The progress of a mesh's nodes, from their journals, and its speed."""

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from streams.state.folder import JournalError, StateFolder
from streams.state.journal_reader import JournalReader

WINDOW = 5.0
"""Seconds over which the speed is measured."""


class Progress(NamedTuple):
    """The last round that a node has stepped, and the stream-level epsilon that it has spent."""

    round: int
    spent: float


def progress(state: Path, node: str) -> Progress | None:
    """Return the progress of a node; None without a readable journal, or a record in it."""
    try:
        with JournalReader(StateFolder(state).journal(node)) as journal:
            records = journal.records(1)
    except JournalError:  # not created yet, or broken, which the node itself reports
        return None
    return Progress(records[-1].stepped, records[-1].epsilon_spent) if records else None


class Course:
    """Measures the speed of the round that every node has stepped."""

    def __init__(self) -> None:
        self.round = 0
        self._first: tuple[float, int] | None = None
        self._last = (0.0, 0)
        self._recent: deque[tuple[float, int]] = deque()

    def take(self, rounds: Iterable[int], now: float) -> None:
        """Record the nodes' last rounds (at least one) at time `now`."""
        self.round = min(rounds)
        step = (now, self.round)
        if self._first is None or (self._last == self._first and self.round <= self._first[1]):
            self._first = self._last = step  # time counts from the last look before the first step
        elif self.round > self._last[1]:
            self._last = step
        self._recent.append(step)
        while len(self._recent) > 1 and self._recent[1][0] <= now - WINDOW:
            self._recent.popleft()

    @property
    def rate(self) -> float | None:
        """Rounds per second, over the last seconds; None before there were any."""
        if len(self._recent) < 2:
            return None
        (first_time, first), (ended, last) = self._recent[0], self._recent[-1]
        return max(0.0, (last - first) / max(ended - first_time, 1e-9))

    @property
    def whole(self) -> tuple[int, float]:
        """The number of rounds seen, and the seconds that they took."""
        if self._first is None:
            return 0, 0.0
        return self._last[1] - self._first[1], self._last[0] - self._first[0]
