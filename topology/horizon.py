"""The horizon: how far plans run ahead of members, and how far members may fall behind the clock."""

from collections import deque

from topology.plans import Member, Plan
from topology.roster import Roster


class Horizon:
    """Compares the last H planned rounds with the members' progress in the roster."""

    def __init__(self, size: int, roster: Roster) -> None:
        self._size = size
        self._roster = roster
        self._planned: deque[int] = deque(maxlen=size)
        self._place = 0  # of the member last waited for: checked first, most events leave it behind

    def add(self, plan: Plan) -> None:
        """Take the next valid plan."""
        self._planned.append(plan.round)

    def must_wait(self, last: Plan) -> bool:
        """Return whether a live member of the last plan has not yet stepped the oldest of the H rounds."""
        if len(self._planned) < self._size:
            return False
        size = len(last.members)
        for place in range(self._place, self._place + size):
            if self._is_behind(last.members[place % size]):
                self._place = place % size
                return True
        return False

    def skip(self, last: Plan | None, round: int, current: int, furthest: int) -> int:
        """Return the round to plan: `round`, or `current` to drop slots that are long gone.

        Slots are dropped when the slowest member is more than H rounds behind the clock, which is in round
        `current`. Before the first plan the slowest member counts as having stepped `furthest`.
        """
        members = last.members if last else ()
        stepped = [self._roster.progress(member, round) for member in members]
        slowest = min((done for done in stepped if done is not None), default=furthest)
        return max(round, current) if current - slowest > self._size else round

    def _is_behind(self, member: Member) -> bool:
        oldest = self._planned[0]
        stepped = self._roster.progress(member, oldest)
        return stepped is not None and stepped < oldest
