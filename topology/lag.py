"""Measures how long each member delays the others or does not step. It names the members to leave out.

Rules
-----
* Each tick determines the members that hold up the others (`Horizon.holders`). These are H planned rounds
  behind, and at least as many full members have nothing left to step.
* A member that holds up the others and steps is slow. The time between two of its observed steps is added to
  its delay. The first such time counts up to half of the limit, as it may be a pause. Time in which the
  member holds up no other is subtracted. So only a member that holds up the others repeatedly, and for more
  than half of the time, reaches the limit.
* A member that is behind as many others (`Horizon.behind`) and shows no step is stuck: it has stopped, or it
  reports false progress. The time since its last step has a limit of its own.
* Beyond its limit a member is left out for as long as it has held up the others in all. So the others run
  without it at least as long as they have waited. Afterwards it may join as a listener, and its delay starts
  from 0. While it keeps up, its total falls by one second each second. Until the total is 0, half of the
  limit applies to it.
* A scheduler counts only what it has observed itself, so after its start all delays are 0.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf
from statistics import median

ROUNDS = 8
"""The number of median rounds for which a slow member may delay the others, if that is longer than the
limit."""
SHORTEST = 0.02
"""The least time in seconds between two checks."""
SEEN = 32
"""The number of ticks over which the median is computed."""


@dataclass(frozen=True, slots=True)
class LagLimits:
    """Seconds for which a member may delay the others: `stuck` without a step, `slow` while it steps.

    If 8 median rounds take longer than `slow`, they are the limit of a member that steps. If `slow` is
    infinite, such a member has no limit. Raises ValueError for a limit that is not above 0.
    """

    stuck: float
    slow: float = inf

    def __post_init__(self) -> None:
        for limit in (self.stuck, self.slow):
            if not limit > 0:
                raise ValueError(f"lag_limit {limit}: must be above 0 seconds, or none")

    @property
    def period(self) -> float | None:
        """Seconds between two checks for members that hold up others. None: a heartbeat's period suffices."""
        return None if self.slow == inf else max(SHORTEST, self.slow / 10)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A member that is left out for `seconds`, as it has held up the others for `held` seconds."""

    name: str
    held: float
    seconds: float


@dataclass(slots=True)
class _Member:
    """One member's delays, in seconds.

    `stepped` is the last round stepped. `still` is the time for which the member was behind others since that
    step. `total` is the delay for which it was left out.
    """

    stepped: int = 0
    still: float = 0.0
    held: float = 0.0  # since its last step
    slow: float = 0.0
    total: float = 0.0

    def pass_time(self, seconds: float, stepped: int, pause: float, *, behind: bool, holds: bool) -> None:
        steps, self.stepped = stepped > self.stepped, stepped
        self.still = self.still + seconds if behind else 0.0
        self.held += seconds if holds else 0.0
        if steps:
            self.slow += self.held if self.slow else min(self.held, pause)
        if not holds and (steps or not behind):
            self.slow = max(0.0, self.slow - seconds)
            self.total = max(0.0, self.total - seconds)
        if steps:
            self.still = 0.0
        if steps or not holds:
            self.held = 0.0

    def leave(self, held: float) -> float:
        self.still = self.held = self.slow = 0.0
        self.total += held
        return self.total


class Lag:
    """The lag of a run's members, for one scheduler."""

    def __init__(self, limits: LagLimits) -> None:
        self._limits = limits
        self._members: dict[str, _Member] = {}
        self._out: dict[str, float] = {}
        self._rounds: deque[float] = deque(maxlen=SEEN)  # seconds a round, in ticks without a holder
        self._front, self._since = 0, 0.0

    @property
    def out(self) -> frozenset[str]:
        """The nodes left out now."""
        return frozenset(self._out)

    @property
    def slow_limit(self) -> float:
        """Seconds for which a member that steps may hold up the others."""
        return max(self._limits.slow, ROUNDS * median(self._rounds or [0.0]))

    def pass_time(
        self,
        seconds: float,
        progress: Mapping[str, int],
        behind: Collection[str],
        holding: Collection[str],
        most: int,
    ) -> list[LeftOut]:
        """Advance by `seconds`; return the nodes to leave out from now on (at most `most`).

        `progress`: the last round stepped by each member that is waited for. `behind`: those of them that
        others are ahead of. `holding`: those that hold up the others.
        """
        self._out = {
            name: seconds_left - seconds for name, seconds_left in self._out.items() if seconds_left > seconds
        }
        self._see_rounds(seconds, progress, held=bool(holding))
        left_out: list[LeftOut] = []
        half = self.slow_limit / 2
        for name, stepped in progress.items():
            member = self._members.setdefault(name, _Member(stepped))
            member.pass_time(seconds, stepped, half, behind=name in behind, holds=name in holding)
            slow = name in holding and member.slow >= (half if member.total else 2 * half)
            over = member.still >= self._limits.stuck or slow
            if over and len(left_out) < most:
                delay = max(member.still, member.slow)
                self._out[name] = member.leave(delay)
                left_out.append(LeftOut(name, delay, self._out[name]))
        return left_out

    def _see_rounds(self, seconds: float, progress: Mapping[str, int], *, held: bool) -> None:
        """Measure the length of a round by the median member's steps, in ticks without a delay."""
        if held or not progress:
            self._front = 0
            return
        front = sorted(progress.values())[(len(progress) - 1) // 2]
        self._since += seconds
        if not self._front or front > self._front:
            if self._front:
                self._rounds.append(self._since / (front - self._front))
            self._front, self._since = front, 0.0
