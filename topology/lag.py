"""Counts for how long each member holds the others, or does not step: who is planned without for it.

Rules
-----
* Who holds whom is seen at each tick (`Horizon.holders`): a member is H planned rounds behind, and at least
  as many full members have nothing left to step.
* A member that holds the others and steps is slow: its time counts from one step that was seen to the next.
  The first time counts up to half of the limit, as it may be a pause. Time in which it holds nobody is taken
  off. So only who holds the others for more than half of the time, and again, comes to the limit.
* A member that is behind as many others (`Horizon.behind`) and is not seen to step is stuck: it stands still,
  or it lies. The time since its last step counts, against a limit of its own.
* Beyond its limit a member is left out, for as long as it has held the others in all: so they go ahead at
  least as long as they wait. Then it may listen, and counts anew. What it has held in all is forgotten
  second by second while it keeps up; until then half of the limit holds for it.
* A scheduler knows what it has seen itself: after a start nobody has held anybody.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf
from statistics import median

ROUNDS = 8
"""The median rounds for which a slow member may hold the others, if that is longer than the limit."""
SHORTEST = 0.02
"""The fewest seconds between two looks."""
SEEN = 32
"""The ticks that the median is of."""


@dataclass(frozen=True, slots=True)
class LagLimits:
    """Seconds for which a member may hold the others: `stuck` without a step, `slow` while it steps.

    Or for 8 median rounds, if it steps and they take longer; for ever, if `slow` is infinite. Raises
    ValueError for one that is not above 0.
    """

    stuck: float
    slow: float = inf

    def __post_init__(self) -> None:
        for limit in (self.stuck, self.slow):
            if not limit > 0:
                raise ValueError(f"lag_limit {limit}: must be above 0 seconds, or none")

    @property
    def period(self) -> float | None:
        """Seconds between two looks at who holds whom. None: a heartbeat's period is often enough."""
        return None if self.slow == inf else max(SHORTEST, self.slow / 10)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A member is planned without for `seconds`, as it has held the others for `held` seconds."""

    name: str
    held: float
    seconds: float


@dataclass(slots=True)
class _Member:
    """One member: its last step seen; seconds `still` since then; `total` of what it was left out for."""

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
        """Seconds for which a member that steps may hold the others."""
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

        `progress`: the last round that each member has stepped which is waited for. `behind`: those of them
        that others are ahead of. `holding`: those that hold the others.
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
        """Measure a round by the median member, while nobody is held."""
        if held or not progress:
            self._front = 0
            return
        front = sorted(progress.values())[(len(progress) - 1) // 2]
        self._since += seconds
        if not self._front or front > self._front:
            if self._front:
                self._rounds.append(self._since / (front - self._front))
            self._front, self._since = front, 0.0
