"""The faults of a history, drawn from its seed: which kinds, when, at which process, and how strong.

A history has only a few kinds of faults, as some kinds hide others (swarm testing, Groce et al. 2012).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

import numpy as np


class FaultKind(StrEnum):
    """A kind of fault."""

    DISORDER = "disorder"
    DELAY = "delay"
    CUT_OFF = "cut off"
    DEAF = "deaf"
    MUTE = "mute"
    CRASH = "crash"
    PAUSE = "pause"
    SLOW = "slow"
    CLONE = "clone"
    OLD_JOURNAL = "old journal"
    TORN_JOURNAL = "torn journal"
    LOST_JOURNAL = "lost journal"
    FULL_DISK = "full disk"
    LOST_RELEASES = "lost releases"
    LOST_BEATS = "lost heartbeats"
    LOST_PLANS = "lost plans"
    SCHEDULER_CRASH = "scheduler crash"
    SCHEDULER_PAUSE = "scheduler pause"
    SECOND_SCHEDULER = "second scheduler"
    FAST_CLOCK = "fast clock"
    CLOCK_AHEAD = "clock ahead"
    SECOND_VALUE = "second value"
    MALFORMED = "malformed"
    FORGED_BOOT = "forged boot"
    FALSE_PROGRESS = "false progress"
    FALSE_ACCUSATION = "false accusation"
    FALSE_WISH = "false wish"
    STRANGER = "stranger"
    LEAVES = "owner leaves"
    NEW_FILE = "newer mesh file"
    DEAD = "dead for ever"
    MUTE_FOREVER = "mute for ever"
    STUCK_FOREVER = "beats for ever and never steps"
    OLD_FILE = "older mesh file"
    REPLAY = "replay"
    POWER_FAILURE = "power failure"
    DAMAGED_JOURNAL = "damaged journal"
    STOPPED = "asked to end"


K = TypeVar("K", bound=StrEnum)


class ScheduledFault(NamedTuple, Generic[K]):
    """A fault of a kind, after `at` events, at the process `who`.

    `seconds`: the virtual time that the fault lasts, or until a restart. `amount`: the strength of the fault.
    """

    at: int
    kind: K
    who: str
    seconds: float
    amount: int

    def __str__(self) -> str:
        return f"after {self.at:>5} events: {self.kind} of {self.who}, {self.seconds:g} s, {self.amount}"


InjectedFault = ScheduledFault[FaultKind]
"""A fault in a mesh of nodes."""


@dataclass(frozen=True, slots=True)
class Range:
    """How faults of a kind are drawn: the share of histories that have it, its largest number in one history,
    and the ranges of seconds and amounts.
    """

    share: float
    most: int
    seconds: tuple[float, float] = (0.0, 0.0)
    amounts: tuple[int, int] = (0, 0)
    lasting: bool = False


RANGES = {
    FaultKind.DISORDER: Range(0.6, 1, amounts=(0, 30)),
    FaultKind.DELAY: Range(0.4, 3, (0.5, 4.0), (1, 30)),
    FaultKind.CUT_OFF: Range(0.25, 2, (0.3, 6.0)),
    FaultKind.DEAF: Range(0.2, 2, (0.3, 3.0)),
    FaultKind.MUTE: Range(0.25, 2, (0.3, 6.0)),
    FaultKind.CRASH: Range(0.6, 6, (0.0, 3.0), (1, 12)),
    FaultKind.PAUSE: Range(0.25, 2, (0.3, 6.0)),
    FaultKind.SLOW: Range(0.2, 2, (0.4, 1.4), (2, 12)),
    FaultKind.CLONE: Range(0.15, 2, amounts=(0, 1)),
    FaultKind.OLD_JOURNAL: Range(0.15, 2, (0.0, 3.0), (1, 4)),
    FaultKind.TORN_JOURNAL: Range(0.2, 3, (0.0, 2.0), (1, 8)),
    FaultKind.LOST_JOURNAL: Range(0.15, 1, (0.0, 3.0)),
    FaultKind.FULL_DISK: Range(0.2, 2, (0.3, 3.0)),
    FaultKind.LOST_RELEASES: Range(0.15, 2, amounts=(1, 4)),
    FaultKind.LOST_BEATS: Range(0.15, 1, amounts=(1, 6)),
    FaultKind.LOST_PLANS: Range(0.15, 1, amounts=(1, 4)),
    FaultKind.SCHEDULER_CRASH: Range(0.4, 4, (0.0, 3.0)),
    FaultKind.SCHEDULER_PAUSE: Range(0.2, 2, (0.3, 6.0)),
    FaultKind.SECOND_SCHEDULER: Range(0.25, 1, (1.0, 8.0)),
    FaultKind.FAST_CLOCK: Range(0.15, 1, (1.0, 6.0), (2, 5)),
    FaultKind.CLOCK_AHEAD: Range(0.2, 2, (0.5, 2.0), (1, 12)),
    FaultKind.SECOND_VALUE: Range(0.2, 3, amounts=(0, 2)),
    FaultKind.MALFORMED: Range(0.3, 4, amounts=(0, 99)),
    FaultKind.FORGED_BOOT: Range(0.15, 2, amounts=(0, 1)),
    FaultKind.FALSE_PROGRESS: Range(0.2, 2, (0.0, 1.5), (1, 62)),
    FaultKind.FALSE_ACCUSATION: Range(0.15, 2),
    FaultKind.FALSE_WISH: Range(0.15, 3, amounts=(0, 9)),
    FaultKind.STRANGER: Range(0.3, 4, amounts=(0, 5)),
    FaultKind.DEAD: Range(0.15, 1, lasting=True),
    FaultKind.MUTE_FOREVER: Range(0.1, 1, lasting=True),
    FaultKind.STUCK_FOREVER: Range(0.15, 1, lasting=True),
    FaultKind.LEAVES: Range(0.2, 2, (0.5, 4.0), (0, 9)),
    FaultKind.NEW_FILE: Range(0.2, 1, (0.3, 2.0), (0, 15)),
    FaultKind.OLD_FILE: Range(0.8, 5, (0.3, 3.0), (0, 2)),
    FaultKind.REPLAY: Range(0.5, 6, amounts=(0, 99)),
    FaultKind.POWER_FAILURE: Range(0.6, 6, (0.0, 2.0)),
    FaultKind.DAMAGED_JOURNAL: Range(0.3, 3, (0.0, 2.0)),
    FaultKind.STOPPED: Range(0.1, 2, (0.0, 2.0)),
}
"""The kinds of faults that a mesh must survive. After a fault that lasts, the other nodes must continue."""

LIES = {
    FaultKind.SECOND_VALUE,
    FaultKind.MALFORMED,
    FaultKind.FORGED_BOOT,
    FaultKind.FALSE_PROGRESS,
    FaultKind.FALSE_ACCUSATION,
    FaultKind.FALSE_WISH,
}
"""The faults of a member that lies, on its own topics."""

ON_DISKS = {FaultKind.POWER_FAILURE, FaultKind.DAMAGED_JOURNAL}
"""The faults that can only happen if journals are files on simulated disks."""


def drawn_faults(random: np.random.Generator, names: Sequence[str], events: int) -> tuple[InjectedFault, ...]:
    """Return the faults of a history of about that many events, by time.

    At most one node lies, and at most one remains broken.
    """
    liar, broken = (str(name) for name in random.choice(names, 2, replace=False))
    drawn_faults = [
        fault._replace(who=liar if kind in LIES else broken if bounds.lasting else fault.who)
        for kind, bounds in RANGES.items()
        for fault in _of_kind(random, kind, bounds, names, events)
    ]
    lasting = [fault for fault in drawn_faults if RANGES[fault.kind].lasting]
    return tuple(sorted(fault for fault in drawn_faults if fault not in lasting[1:]))


def _of_kind(
    random: np.random.Generator, kind: FaultKind, how: Range, names: Sequence[str], events: int
) -> Iterator[InjectedFault]:
    if random.random() >= how.share:
        return
    for _ in range(int(random.integers(1, how.most + 1))):
        at = 0 if kind is FaultKind.DISORDER else int(random.integers(events))
        name = str(random.choice(names))
        seconds = round(float(random.uniform(*how.seconds)), 2)
        yield InjectedFault(at, kind, name, seconds, int(random.integers(how.amounts[0], how.amounts[1] + 1)))
