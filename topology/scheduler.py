"""The scheduler machine: plans the mesh round by round, sans-I/O. Any number may run on one topology.

Rules
-----
* The topology decides, not the machine: the plan of a round is the first valid one read. A plan is valid iff
  it belongs to this run, follows the last valid one, and that one does not end the run.
* One plan at a time: after `PublishPlan` nothing is published until a plan of that round or above is read.
* The next round is the last one + 1; at a start it is max(last plan, furthest progress) + 1. If members are
  more than H periods behind the clock (slots by time), it is at least the clock's round.
* A plan is at most H planned rounds ahead of the slowest live member of the last plan. A member that joins
  counts as having stepped the round before its first. Nobody waits for silent members or lost ones. A member
  is lost if it came back as another instance, asks to join again, or leaves by then.
* A node is live if it was heard within `silence`. At the start, and when the first node is heard after none
  was live, every member of the last plan counts as heard at that moment.
* In the first plan every live node is full. Later a live node that the last plan names under its instance is
  full; any other listens, and so does a node that asks to join, in a plan above the round that it names. No
  plan names a node from the round on in which it asks to leave.
* Nothing is planned for fewer than `min_members`, nor, after the first plan, without a full member.
* The run ends with a plan without members: after `rounds`, or when every full member of the last plan is
  lost, as then there is nobody left to learn from.

| event         | changes                                  | refused (counted, changes nothing)          |
|---------------|------------------------------------------|---------------------------------------------|
| Started       | everything below; first and once         | its plans and heartbeats, as below          |
| PlanRead      | last plan, who joined, publishes again   | another run; out of its place               |
| HeartbeatRead | who is live, instance, progress, wishes  | another run; unknown node; replaced process |
| Ticked        | who is silent, the clock's round         |                                             |
| SourceEnded   | the last round                           |                                             |

After each event the next plan is published if the rules allow one.
"""

from math import inf

from topology.planning import Horizon, end_plan, make_plan
from topology.plans import Heartbeat, Member, Plan
from topology.roster import Roster
from topology.scheduler_events import (
    HeartbeatRead,
    PlanRead,
    PublishPlan,
    Refusal,
    Refused,
    SchedulerEffect,
    SchedulerEvent,
    SchedulerSettings,
    SourceEnded,
    Started,
    Ticked,
    heartbeat_period,
)

__all__ = [
    "HeartbeatRead",
    "PlanRead",
    "PublishPlan",
    "Refusal",
    "Refused",
    "SchedulerEffect",
    "SchedulerEvent",
    "SchedulerMachine",
    "SchedulerSettings",
    "SourceEnded",
    "Started",
    "Ticked",
    "heartbeat_period",
]


class SchedulerMachine:
    """One scheduler of one run."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings
        self._nodes = settings.schedule.graph.nodes
        self._roster = Roster(self._nodes, settings.silence)
        self._started = False
        self._last: Plan | None = None
        self._horizon = Horizon(settings.horizon, self._roster)
        self._furthest = 0  # progress when this process began: no plan may repeat those rounds
        self._published: int | None = None  # not read yet
        self._current: int | None = None
        self._rounds = inf if settings.rounds is None else settings.rounds

    @property
    def last(self) -> Plan | None:
        """The last valid plan read."""
        return self._last

    @property
    def standing(self) -> tuple[int, int]:
        """The number of live nodes, and the last round that the slowest of them has stepped."""
        live = [name for name in self._nodes if self._roster.is_live(name)]
        return len(live), min(map(self._roster.stepped, live), default=0)

    def handle(self, event: SchedulerEvent) -> tuple[SchedulerEffect, ...]:
        """Take one event and return the effects to carry out, in order.

        Raises ValueError unless `Started` comes first and once, and for a negative time.
        """
        if isinstance(event, Started) is self._started:
            raise ValueError(f"{type(event).__name__}: Started comes first, and once")
        refusals: list[Refusal | None] = []
        match event:
            case HeartbeatRead(heartbeat):
                refusals.append(self._hear(heartbeat))
            case PlanRead(plan):
                refusals.append(self._follow(plan))
            case Ticked(seconds, current):
                self._roster.pass_time(seconds)
                self._current = current
            case SourceEnded(round):
                self._rounds = min(self._rounds, round)
            case Started(plans, heartbeats):
                self._started = True
                refusals += map(self._follow, plans)
                refusals += map(self._recall, heartbeats)
                if self._last is not None:
                    self._roster.count_as_heard(self._last)
        effects: list[SchedulerEffect] = [Refused(reason) for reason in refusals if reason]
        following = self._next()
        if following is not None:
            self._published = following.round
            effects.append(PublishPlan(following))
        return tuple(effects)

    # ------------------------------------------------------------------------------------------- events

    def _follow(self, plan: Plan) -> Refusal | None:
        if plan.run != self.settings.run:
            return Refusal.RUN
        if self._published is not None and plan.round >= self._published:
            self._published = None
        last = self._last
        if not plan.may_follow(last.round if last else None) or (last is not None and last.ended):
            return Refusal.PLACE
        self._last = plan
        self._horizon.add(plan)
        self._roster.note(plan)
        return None

    def _hear(self, beat: Heartbeat) -> Refusal | None:
        refusal = self._refusal(beat)
        if refusal is None:
            if self._last is None:
                self._furthest = max(self._furthest, beat.stepped)
            elif not self._roster.anyone_live():
                self._roster.count_as_heard(self._last)
            self._roster.hear(beat)
        return refusal

    def _recall(self, beat: Heartbeat) -> Refusal | None:
        refusal = self._refusal(beat)
        if refusal is None:
            self._furthest = max(self._furthest, beat.stepped)
            self._roster.recall(beat)
        return refusal

    def _refusal(self, beat: Heartbeat) -> Refusal | None:
        if beat.run != self.settings.run:
            return Refusal.RUN
        if not self._roster.knows(beat.node):
            return Refusal.NODE
        return Refusal.REPLACED if self._roster.is_replaced(beat) else None

    # --------------------------------------------------------------------------------------- next plan

    def _next(self) -> Plan | None:
        """Return the plan to publish now, if any."""
        last, run = self._last, self.settings.run
        if self._published is not None or (last is not None and last.ended):
            return None
        round = max(last.round if last else 0, self._furthest) + 1
        if last is not None and self._is_over(last, round):
            return end_plan(run, round, last)
        if last is not None and self._horizon.must_wait(last):
            return None
        if self._current is not None:
            round = self._horizon.skip(last, round, self._current, self._furthest)
        if round > self._rounds:
            return end_plan(run, round, last)
        members = self._members(last, round)
        return make_plan(run, round, last, members, self.settings.schedule) if members else None

    def _is_over(self, last: Plan, round: int) -> bool:
        return all(self._roster.is_lost(member, round) for member in last.members if member.full)

    def _members(self, last: Plan | None, round: int) -> tuple[Member, ...]:
        """Return the members of the next plan; empty if it must wait."""
        live = filter(self._roster.is_live, self._nodes)
        found = [self._roster.candidate(name, last, round) for name in live]
        members = tuple(member for member in found if member is not None)
        least = self.settings.min_members or (len(self._nodes) if last is None else 1)
        enough = len(members) >= least and any(member.full for member in members)
        return members if enough else ()
