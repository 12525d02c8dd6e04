"""The plans that a node has read and still needs."""

from collections.abc import Iterator

from topology.plans import Plan


class PlanBook:
    """Valid plans from the current round on, in order. The first valid plan of a round wins."""

    def __init__(self) -> None:
        self._plans: dict[int, tuple[Plan, int]] = {}  # by round, ascending: (plan, its offset)
        self._last: int | None = None

    def add(self, plan: Plan, offset: int) -> bool:
        """Keep the plan if it follows the last one (any plan may be the first). Return whether it does."""
        if not plan.may_follow(self._last):
            return False
        self._plans[plan.round] = (plan, offset)
        self._last = plan.round
        return True

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def last_round(self) -> int:
        """The newest round planned (0: none)."""
        return self._last or 0

    @property
    def ended(self) -> bool:
        """Whether the newest plan ends the run."""
        return bool(self._plans) and self._plans[self.last_round][0].ended

    def offset(self, round: int) -> int:
        """Return the offset of that round's plan on the topology."""
        return self._plans[round][1]

    def first_after(self, round: int) -> Plan | None:
        """Return the first plan above that round, if it is known."""
        for plan, _ in self._plans.values():
            if plan.round > round:
                return plan
        return None

    def after(self, round: int) -> Iterator[Plan]:
        """Yield the known plans above that round, in order."""
        return (plan for plan, _ in self._plans.values() if plan.round > round)

    def count_after(self, round: int) -> int:
        """Return how many plans above that round are known."""
        return sum(1 for _ in self.after(round))

    def drop_before(self, round: int) -> None:
        """Forget the plans below that round."""
        while self._plans and (first := next(iter(self._plans))) < round:
            del self._plans[first]
