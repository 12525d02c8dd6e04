"""The history of a simulated mesh: one line for each event, and the events of interest that occurred."""

import hashlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple


class Violation(Exception):
    """An invariant does not hold. The text names the invariant and the process."""


class Reached(StrEnum):
    """Events of interest.

    Each must occur in some history of a search, as otherwise the search missed a place where bugs are.
    """

    LATE = "late correction"
    RELAY = "relay after budget"
    CLOSING = "restart in a closing round"
    JOINED = "join during a partition"
    EVIDENCE = "evidence"
    POISON = "poison"
    FORGED = "forgery refused"
    LEFT_OUT = "slow member left out"
    RENEWED = "old journal found out"
    GIVEN_UP = "source given up"
    GAP = "gap in the plans"
    LEFT = "owner who leaves"
    GENERATION = "newer mesh file"
    APPEND = "death during an append"
    ALONE = "one node of a process ends"
    CUT_OFF = "death inside a journal's write"
    DAMAGED = "damaged journal refused"


class HistoryLine(NamedTuple):
    """One event: its number, its virtual time, whose it is, what happened, and the details."""

    number: int
    time: float
    who: str
    what: str
    detail: str


class SimulatedHistory:
    """The events of one history, and the events of interest. `clock` returns the virtual time in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.lines: list[HistoryLine] = []
        self.reached: set[Reached] = set()
        self.events = 0
        self._clock = clock

    @property
    def now(self) -> float:
        """The virtual time."""
        return self._clock()

    def note(self, who: str, what: str, detail: str = "") -> None:
        """Record an event."""
        self.lines.append(HistoryLine(self.events, self.now, who, what, detail))

    def text(self) -> Iterator[str]:
        """Yield the events as aligned lines."""
        name_width = max((len(line.who) for line in self.lines), default=0)
        event_width = max((len(line.what) for line in self.lines), default=0)
        for line in self.lines:
            names = f"{line.who:<{name_width}}  {line.what:<{event_width}}"
            yield f"{line.number:>6} {line.time:>9.3f} s  {names}  {line.detail}".rstrip()

    def digest(self) -> str:
        """Return 16 hexadecimal digits that are equal for equal histories."""
        return hashlib.sha256("\n".join(self.text()).encode()).hexdigest()[:16]
