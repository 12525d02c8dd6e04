"""Chooses the plan that a node may act in, and whether it must ask to join.

Plans must name the node's instance, and the node acts in them in order. A full member can act in a plan if it
has the release for that plan, and is at most H plans behind. Otherwise it asks to join in a plan above the
newest known one, and acts only in a plan that names it as a listener.

A broker may lose plans that nodes have acted on. So a node acts in no plan below the round of its newest
release, whatever plans the topology holds now. That release, or one of an earlier round, may have been sent
already.
"""

from collections.abc import Iterator
from enum import Enum, auto

from nodes.machine.journal import JournalRecord
from nodes.protocol import Identity
from topology.plans import Plan


class PlanBook:
    """Valid plans from the current round on, in order. The first valid plan of a round wins."""

    def __init__(self) -> None:
        self._plans: dict[int, tuple[Plan, int]] = {}  # by round, ascending: (plan, its offset)
        self._closing: list[tuple[Plan, int]] = []  # closing rounds go by all before them
        self._last: int | None = None

    def add(self, plan: Plan, offset: int) -> bool:
        """Keep the plan if it follows the last one (any may be the first). Return whether it was kept."""
        if not plan.may_follow(self._last):
            return False
        self._plans[plan.round] = (plan, offset)
        self._last = plan.round
        if plan.closing:
            self._closing.append((plan, offset))
        elif not plan.ended:
            self._closing.clear()
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
        """Return the offset from which to read that round's plan again, and all closing ones before it."""
        offset = self._plans[round][1]
        return min(self._closing[0][1], offset) if self._closing else offset

    def closing(self, round: int) -> tuple[Plan, ...]:
        """Return the plans of closing rounds up to that one, in order."""
        return tuple([plan for plan, _ in self._closing if plan.round <= round])

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

    def instances(self, name: str) -> frozenset[str]:
        """Return the instances under which the known plans name a node."""
        members = (plan.member(name) for plan, _ in self._plans.values())
        return frozenset(member.instance for member in members if member is not None)

    def drop_before(self, round: int) -> None:
        """Forget the plans below that round."""
        while self._plans and (first := next(iter(self._plans))) < round:
            del self._plans[first]


class MembershipChoice(Enum):
    """A node's next action on the known plans."""

    JOIN = auto()
    LISTEN = auto()
    TAKE_PART = auto()
    LEFT = auto()
    OVER = auto()


class Membership:
    """One node's place in the plans of `book`. `join_after`: it asks to join above that round, if any.

    `spent_from`: the first round without the node, as its budget is spent. `asked_from`: the first round
    without it, as its owner asks.
    """

    def __init__(self, identity: Identity, book: PlanBook, horizon: int, spent_from: int | None) -> None:
        self.join_after: int | None = None
        self.asked_from: int | None = None
        self._who, self._book, self._horizon, self._spent_from = identity, book, horizon, spent_from

    @property
    def leave_from(self) -> int | None:
        """The first round without this node; None: it stays."""
        return min(
            (round for round in (self._spent_from, self.asked_from) if round is not None), default=None
        )

    def closes(self, round: int) -> bool:
        """Return whether a round is the last with this node, so that it learns nothing in it."""
        return self.asked_from is not None and round >= self.asked_from - 1

    def choose(self, record: JournalRecord | None) -> tuple[MembershipChoice, Plan] | None:
        """Return the next action and its plan; None: wait. `record` is the journal's newest.

        The node acts in no plan below the round of its release, as these were planned again. But a plan that
        ends the run counts at any round.
        """
        newest = record.round if record else 0
        for plan in self._book.after(0):
            if plan.round >= newest or plan.ended:
                choice = self._choice(plan, record)
                if choice is not None:
                    return choice, plan
        return None

    def ask_to_join(self) -> int:
        """Ask to listen in a plan above the newest known one; return the round of the newest known plan."""
        self.join_after = self._book.last_round
        return self.join_after

    def is_behind(self, reached: int) -> bool:
        """Return whether more than H plans above `reached` are known, and it has not asked to join yet."""
        if self.join_after is not None or len(self._book) <= self._horizon:
            return False
        return self._book.count_after(reached) > self._horizon

    def mesh_has_come(self, round: int) -> bool:
        """Return whether all live members have stepped round - 1, as H - 1 plans above `round` show."""
        return self._book.ended or self._book.count_after(round) >= self._horizon - 1

    def _choice(self, plan: Plan, record: JournalRecord | None) -> MembershipChoice | None:
        if plan.ended:
            return MembershipChoice.OVER
        member = plan.member(self._who.name)
        if member is None or member.instance != self._who.instance:
            leave_from = self.leave_from
            return MembershipChoice.LEFT if leave_from is not None and plan.round >= leave_from else None
        if not member.full:
            return (
                MembershipChoice.LISTEN if self.join_after is None or plan.round > self.join_after else None
            )
        if self.join_after is not None:
            return None
        if record is None:
            return MembershipChoice.TAKE_PART if plan.follows == 0 else MembershipChoice.JOIN
        has_release = record.round == plan.round and not self.is_behind(plan.round)
        return MembershipChoice.TAKE_PART if has_release else MembershipChoice.JOIN
