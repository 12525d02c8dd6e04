"""Checks every plan: doubly stochastic, counted right, and not ahead of everybody."""

from collections.abc import Iterable

import numpy as np

from streams.bus.bus import Stored
from streams.codec import Reason, Refused
from streams.simulation.checks.facts import Facts
from streams.simulation.history import Reached, Violation
from topology.plans import TOLERANCE, Chain, Plan, PlanRecord


class PlanChecks:
    """Reads the topology as its readers do."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._chain = Chain()
        self._named: dict[str, int] = {}

    @property
    def last(self) -> Plan | None:
        """The last valid plan that the topology still has."""
        return self._chain.last

    def appended(self, value: bytes) -> None:
        """Take a record of the topology; only schedulers sign there. Raises Violation, Refused."""
        history = self._facts.history
        record = self._record(value, history.now)
        if record is None:
            return
        first, last = record.plans[0].round, record.last.round
        if not self._chain.take(record):
            history.note("topology", "void", f"plans {first} to {last}")
            return
        history.note("topology", "plans", f"{first} to {last}: {_members(record.last)}")
        for plan in record.plans:
            self._check(plan)
            self._facts.plans.setdefault(plan.round, []).append(plan)

    def read_again(self, left: Iterable[Stored]) -> None:
        """Take that the topology has lost its tail: these records are what is left."""
        self._chain, self._named = Chain(), {}
        for stored in left:
            record = self._record(stored.value, stored.appended)
            if record is not None and self._chain.take(record):
                for plan in record.plans:
                    self._count(plan)

    def _record(self, value: bytes, appended: float) -> PlanRecord | None:
        """Return the plans of a record; None if a stranger has forged it, or it is ahead of the clock."""
        if value in self._facts.forged:
            return None
        try:
            return self._facts.record(value, appended)
        except Refused as refused:
            if refused.reason is not Reason.AHEAD:
                raise
            self._facts.history.note("topology", "ahead", str(refused))
            return None

    def _check(self, plan: Plan) -> None:
        facts = self._facts
        if not plan.ended:
            _check_weights(plan)
        if dict(plan.named) != self._named:
            raise Violation(
                f"plan {plan.round} counts {dict(plan.named)}: the plans so far say {self._named}"
            )
        self._count(plan)
        if plan.round > plan.follows + 1 and plan.follows:
            facts.history.reached.add(Reached.GAP)
        horizon, furthest = facts.parts.horizon, max(facts.stepped.values(), default=0)
        clock = facts.parts.clock
        told = facts.ahead if clock is None else clock.round_at(facts.history.now)
        if plan.round > max(furthest + 2 * horizon, plan.follows + horizon, told + horizon) + 1:
            raise Violation(f"plan {plan.round} is far ahead: nobody has stepped more than {furthest}")
        last = facts.parts.scheduler.rounds
        left = set(self._named) - facts.rolled_back - facts.liars - set(facts.clones)
        if plan.ended and last is not None and plan.round <= last and left:
            raise Violation(f"the run ends before round {plan.round}, though {min(left)} has its journal")

    def _count(self, plan: Plan) -> None:
        for member in plan.members:
            self._named[member.name] = self._named.get(member.name, 0) + 1


def _check_weights(plan: Plan) -> None:
    size = len(plan.members)
    full = np.array([member.full for member in plan.members])
    weights = np.zeros((size, size))
    weights[plan.targets, plan.sources] = plan.weights
    weights[np.diag_indices(size)] = 1.0 - weights.sum(1)
    among = weights[np.ix_(full, full)] if full.any() else np.eye(1)
    if weights.min() < -TOLERANCE or weights[:, ~full][full].any():
        raise Violation(f"plan {plan.round} has a weight below 0, or one of a listener")
    if not all(np.allclose(among.sum(axis), 1.0, rtol=0, atol=TOLERANCE) for axis in (0, 1)):
        raise Violation(f"plan {plan.round} is not doubly stochastic among its full members")


def _members(plan: Plan) -> str:
    if plan.ended:
        return "the run ends"
    return " ".join(f"{one.name}{'' if one.full else ' listens'}" for one in plan.members)
