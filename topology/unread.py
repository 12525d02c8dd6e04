"""The plans that a scheduler has published and not read back yet. They count as planned meanwhile.

Rules
-----
* If another's record comes between, what was published on top of it is void: all of that is planned again.
* A void record may be followed by what it continues, as a bus may send records again. Where that makes a
  second record void, the broker has lost it: all that is published is planned again.
* What is not read for too long is lost, too: nothing else may follow to show it.
"""

from topology.plans import Plan, PlanRecord
from topology.roster import Roster

UNREAD = 10.0
"""Seconds after which what was published and is not read is lost, where nobody is ever silent."""


class Unread:
    """The plans of one scheduler that it has not read back, oldest first; the roster expects them."""

    def __init__(self, roster: Roster, silence: float | None) -> None:
        self.plans: list[Plan] = []
        self._roster, self._limit = roster, silence or UNREAD
        self._waited = 0.0  # seconds since anything was read while there were some
        self._missing: set[bytes] = (
            set()
        )  # the marks that void records of this one continue, since a valid one

    @property
    def newest(self) -> Plan | None:
        """The last plan published but not yet read back; None if there is none."""
        return self.plans[-1] if self.plans else None

    def publish(self, plan: Plan) -> None:
        """Add a published plan."""
        self.plans.append(plan)
        self._roster.expect(plan)

    def read(self, record: PlanRecord) -> None:
        """Handle a valid record of this scheduler or another."""
        size = len(record.plans)
        self._waited = 0.0
        self._missing.clear()
        is_own = len(self.plans) >= size and self.plans[size - 1].mark == record.last.mark
        self.plans = self.plans[size:] if is_own else []
        if not self.plans:
            self._roster.forget_expected()

    def void(self, record: PlanRecord) -> bool:
        """Handle a void record; return whether this scheduler published it.

        Then it and all on top of it is to be planned again.
        """
        marks = [plan.mark for plan in self.plans]
        if record.last.mark not in marks:
            return False
        follows_missing = record.continues in self._missing
        self._missing.add(record.continues)
        self._keep(0 if follows_missing else max(0, marks.index(record.last.mark) + 1 - len(record.plans)))
        return True

    def pass_time(self, seconds: float) -> None:
        """Advance the time. After too long a wait, all unread plans are to be planned again."""
        self._waited = self._waited + seconds if self.plans else 0.0
        if self._waited > self._limit:
            self._waited = 0.0
            self._keep(0)

    def _keep(self, count: int) -> None:
        del self.plans[count:]
        self._roster.forget_expected()
        for plan in self.plans:
            self._roster.expect(plan)
