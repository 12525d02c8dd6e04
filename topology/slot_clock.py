"""The clock of slots by time, and how far the broker's confirms it.

Rules
-----
* A scheduler's clock counts up to the newest append time that it has read, by the broker's clock: one that is
  ahead plans no further than one that is right.
* A record of plans is void if one of its plans lies more than 2H + 1 rounds beyond both the plan before it
  and the slot in which the broker took the record. All readers have the same append time, so it is void for
  all of them, at any time. Rounds within 2H + 1 of the last plan need no clock: lost plans may skip so many.
  A plan in which nobody is full begins again after lost plans, by the nodes' progress, and may lie anywhere.
* Where a topic has its senders' times instead, no append time is known, and each clock counts as it is.
"""

from dataclasses import dataclass
from math import floor, inf

from topology.plans import Plan, PlanRecord


@dataclass(frozen=True, slots=True)
class SlotClock:
    """Slots of `period` seconds from `start` (seconds since 1970) on, in a mesh with horizon H."""

    start: float
    period: float
    horizon: int

    def round_at(self, seconds: float) -> float:
        """Return the round whose slot is then; 0 before the start, inf at an unknown time (inf)."""
        periods = (seconds - self.start) / self.period
        return floor(periods) + 1 if 0 <= periods < inf else max(0.0, periods)

    def end(self, round: int) -> float:
        """Return when the slot of a round is over."""
        return self.start + round * self.period

    def bounded(self, current: int, confirmed: float) -> int:
        """Return the round that a clock in round `current` counts as, if the broker's says `confirmed`."""
        return int(min(current, self.round_at(confirmed)))

    def is_ahead(self, record: PlanRecord, appended: float) -> bool:
        """Return whether the record is void by its append time (inf: it has none)."""
        confirmed, max_lead = self.round_at(appended), 2 * self.horizon + 1
        return any(
            plan.round > max(plan.follows, confirmed) + max_lead and not _begins_again(plan)
            for plan in record.plans
        )


def _begins_again(plan: Plan) -> bool:
    return not plan.ended and not any(member.full for member in plan.members)
