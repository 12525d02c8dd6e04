"""The scheduler machine: plans the mesh round by round, sans-I/O. Any number may run on one topology.

Rules
-----
The number of a rule stands beside each branch that keeps it, here, in `planning` and in `roster`.

 1. The topology decides, not the machine: the plan of a round is the first valid one read. A record of plans
    is valid iff it belongs to this run, it continues the last valid plan, that plan does not end the run, and
    the record is not ahead of the clock (slots by time; rules above `SlotClock`).
 2. A published plan counts as planned before it is read back, so further plans may follow it, up to the
    horizon. If another scheduler's record comes between, the remaining published plans are void, and the
    machine plans again after that record. Plans that are not read back within `silence` (10 s, if none) count
    as lost by the broker, and are planned again (rules above `Unread`). If they arrive after all, the first
    record counts.
 3. The next round is the last one + 1. If members are more than H periods behind the clock (slots by time),
    it is at least the clock's round; but the last round of a member that leaves is dropped for no clock, as
    its last lesson goes out in it.
 4. Progress beyond the last plan means that plans were lost. It counts at a start alone (rules above
    `Claims`). One node's progress counts up to the last plan + H. Progress beyond that counts only as a
    median: of the live members of the last plan that have not begun anew since, if there are at least two;
    otherwise of all its live members, so a lone one is believed; before the first plan, of all live nodes.
    Then the next round is the median + 2H + 1, and the mesh begins again there.
 5. Of a heartbeat that claims more progress, only the progress is refused, and counts as 0.
 6. In one process no plan outlives its run: the first plan follows the furthest progress, and nothing was
    lost.
 7. A plan is at most H planned rounds ahead of the slowest live member of the last plan. A member that joins
    counts as having stepped the round before its first. The scheduler does not wait for silent or lost
    members. A member is lost if it came back as another instance, asks to join again, or leaves by then.
 8. A member that holds up the others for too long is left out, and counts as silent meanwhile (rules in
    `lag`). At least `min_members` of the live members stay.
 9. A node is live if it was heard within `silence`. At the start, and when the first node is heard after none
    was live, every member of the last plan counts as heard at that moment.
10. Only the newest process of a node counts: after its hello, heartbeats of the process before are refused.
11. In the first plan every live node is full. Later a live node that the last plan names under its instance
    is full. Any other live node listens. A node that asks to join also listens, in a plan above the round
    that its request names.
12. No plan names a node from the round on in which it asks to leave.
13. Nothing is planned for fewer than `min_members`. Before the first plan that is all nodes, as a median
    needs the claims of more than a few.
14. Nothing is planned after a plan of a newer generation: its scheduler has a newer mesh file.
15. After the first plan each plan has a full member, with one exception. If plans were lost, or no full
    member of the last plan can go on (all are lost; or some have to join again, and the others are silent),
    the mesh begins again. In one plan all live nodes that may have a journal are listeners without edges, and
    they are full afterwards.
16. The run ends with a plan without members, after which nothing is planned. It ends after its closing
    rounds, or when no journal with a round can be left, as then no release is left to learn from. Then every
    node that was ever a member either leaves, or has begun anew or never stepped, and has said so in a
    heartbeat within `silence` (to be counted as heard is not enough).
17. Closing rounds begin after `rounds`, or once every live node, and every node that was ever a member,
    reports that it learns no more. Their number follows from the schedule and the round before the first
    (`closing_rounds`), and each plan says how many are left. A plan in which no member is full is none of
    them. They have no slots, so the clock (rule 3) does not apply to them. In one process no plan is of a
    closing round: the run ends, and its shell mixes the releases with which its journals end
    (`streams.local.run`).
18. A machine by which an operator `ends` the run begins them at once, and rules 7 and 13 do not hold it up
    then: its first plan is at most H + 1 rounds ahead. With no live node, or after too long a wait, it ends
    the run.

| event            | changes                                  | refused (counted, changes nothing)          |
|------------------|------------------------------------------|---------------------------------------------|
| SchedulerStarted | everything below; first and once         | its plans and heartbeats, as below          |
| PlansRead        | last plan, who joined, what is void      | another run; out of its place; ahead        |
| HeartbeatRead    | who is live, instance, progress, wishes  | another run; unknown node; replaced process |
| Ticked           | who is silent or left out, what is lost  |                                             |
| SourceEnded      | the last round of learning               |                                             |

After each event the next plans are published, as many as the rules allow.
"""

from collections.abc import Iterable, Iterator
from math import inf

from topology.lag import Lag, LagLimits, LeftOut
from topology.planning import Horizon, chosen_members, end_plan, is_over, make_plan, named_after
from topology.plans import Chain, Heartbeat, Member, Plan, PlanRecord, valid_records
from topology.roster import Roster
from topology.scheduler_events import (
    HeartbeatRead,
    PlansRead,
    PublishPlans,
    RecordsRefused,
    Refusal,
    SchedulerEffect,
    SchedulerEvent,
    SchedulerSettings,
    SchedulerStarted,
    SourceEnded,
    Ticked,
    heartbeat_period,
)
from topology.schedules import closing_rounds

# The progress that the nodes claim when a scheduler starts.
#
# Rules
# -----
# * A node's claim is the last round that it has stepped, as it reports when it is first heard after the
#   start, or at any time before the run's first plan.
# * Nodes step only planned rounds. So if the lower median of the claims of live nodes is beyond the last
#   plan, plans were lost. Nodes that have begun anew since that plan know no plans, and their claims are left
#   out if there are at least two others; that may become known later. A plan is at most H ahead of the
#   slowest live node, so no honest node has acted on a plan beyond the median + 2H.
# * Otherwise a single node's claim counts up to the last plan + H, at the start alone. So one node can make
#   the mesh skip at most H rounds.

MOST = 2**62
"""The largest round that is believed. Sums with a horizon are far below 64 bits."""


class Claims:
    """The claims of progress that one scheduler with horizon H has read."""

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon
        self._claims: dict[str, int] = {}
        self._heard: set[str] = set()
        self._median = 0  # if it is beyond the last plan, plans were lost
        self._alone = 0  # what a single node's claim at the start has counted

    def replay(self, node: str, stepped: int) -> None:
        """Store a claim from the log. The node's newest claim counts; one beyond `MOST` counts as 0."""
        self._claims[node] = stepped if stepped <= MOST else 0

    def hear(self, node: str, stepped: int, *, begun: bool) -> bool:
        """Handle a claim that was read just now; return whether it counts. `begun`: there is a plan."""
        if begun and node in self._heard:
            return False
        self._heard.add(node)
        self.replay(node, stepped)
        return True

    def median(self, names: Iterable[str]) -> int:
        """Return the lower median of these nodes' claims; the claim of a node is 0 if none is known."""
        claims = sorted(self._of(names))
        return claims[(len(claims) - 1) // 2] if claims else 0

    def look(self, names: Iterable[str]) -> None:
        """Store the median of these nodes' claims: beyond the last plan, it shows that plans were lost."""
        self._median = self.median(names)

    def start(self, names: Iterable[str], last: int) -> None:
        """Accept a claim of one of these nodes, after the plan of round `last`, at the start alone."""
        self._alone = self.alone(names, last)

    def following(self, last: int, current: int | None) -> tuple[int, bool]:
        """Return the round after the plan of round `last`, and whether the nodes begin again there.

        `current` as in `beyond`.
        """
        if last < self._median:
            return self.beyond(self._median, current), True
        return max(last, self._alone) + 1, last < self._alone

    def first(self, live: list[str], current: int | None) -> tuple[int, bool]:
        """Return the round of the first plan, and whether nodes begin again, as others were lost."""
        median = self.median(live)
        return (self.beyond(median, current), True) if median else (self.alone(live, 0) + 1, False)

    def believed(self, last: int, current: int | None) -> int:
        """Return the most progress that a node may have after the plan of round `last`."""
        return max(self.limit(last), self.following(last, current)[0])

    def largest(self, names: Iterable[str]) -> int:
        """Return the largest claim of these nodes."""
        return max(self._of(names), default=0)

    def alone(self, names: Iterable[str], last: int) -> int:
        """Return the largest claim of one of these nodes up to `last` + H, at least `last`."""
        return max([last, *[claim for claim in self._of(names) if claim <= self.limit(last)]])

    def limit(self, last: int) -> int:
        """Return the largest claim of one node that is believed after the plan of round `last`."""
        return last + self._horizon

    def beyond(self, median: int, current: int | None) -> int:
        """Return a round that no honest node has acted on or beyond, if plans were lost.

        `current`: the clock's round, where slots are periods of time: no honest node steps one before its
        end.
        """
        safe = median + 2 * self._horizon + 1
        return safe if current is None else min(safe, max(median, current) + 2)

    def _of(self, names: Iterable[str]) -> list[int]:
        return [self._claims.get(name, 0) for name in names]


# The plans that a scheduler has published and not read back yet. Until then they count as planned.
#
# Rules
# -----
# * If another scheduler's record comes between, all unread plans of this one are void and are planned again.
# * The record that a void record continues may arrive after it, as a bus may send records again. If a second
#   record that continues the same missing record is void, the broker has lost the missing record, and all
#   published plans are planned again.
# * Plans that are not read back for too long are lost, too, as no later record may come to show the loss.

UNREAD = 10.0
"""Seconds after which a published plan that is not read back counts as lost, if no node is ever silent."""


class Unread:
    """The plans of one scheduler that it has not read back, oldest first; the roster expects them."""

    def __init__(self, roster: Roster, silence: float | None) -> None:
        self.plans: list[Plan] = []
        self._roster, self._limit = roster, silence or UNREAD
        self._waited = 0.0  # seconds since a record was last read while some plans were unread
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

        If so, this record and all plans after it are to be planned again.
        """
        marks = [plan.mark for plan in self.plans]
        if record.last.mark not in marks:
            return False
        follows_missing = record.continues in self._missing
        self._missing.add(record.continues)
        self._keep(0 if follows_missing else max(0, marks.index(record.last.mark) + 1 - len(record.plans)))
        return True

    def pass_time(self, seconds: float) -> None:
        """Advance the time. If it waited too long, all unread plans are planned again."""
        self._waited = self._waited + seconds if self.plans else 0.0
        if self._waited > self._limit:
            self._waited = 0.0
            self._keep(0)

    def _keep(self, count: int) -> None:
        del self.plans[count:]
        self._roster.forget_expected()
        for plan in self.plans:
            self._roster.expect(plan)


__all__ = [
    "HeartbeatRead",
    "LagLimits",
    "LeftOut",
    "PlansRead",
    "PublishPlans",
    "RecordsRefused",
    "Refusal",
    "SchedulerEffect",
    "SchedulerEvent",
    "SchedulerMachine",
    "SchedulerSettings",
    "SchedulerStarted",
    "SourceEnded",
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
        self._chain = Chain()
        self._unread = Unread(self._roster, settings.silence)  # the first of them follows `last`
        self._horizon = Horizon(settings.horizon, self._roster)
        self._lag = None if settings.lag is None else Lag(settings.lag)
        self._claims = Claims(settings.horizon)
        self._current: int | None = None
        self._resting = False  # until the next tick, as what it plans is void
        self._rounds: float = inf if settings.rounds is None else settings.rounds
        self._ends, self._waited = settings.ends is not None, 0.0
        if self._ends:  # rule 18
            self._rounds = 0

    @property
    def last(self) -> Plan | None:
        """The last valid plan read."""
        return self._chain.last

    @property
    def superseded(self) -> int | None:
        """The generation of the newer mesh file that the last valid plan was made by; None: it was not."""
        last = self.last
        return last.generation if last is not None and last.generation > self.settings.generation else None

    @property
    def silent(self) -> frozenset[str]:
        """The nodes that were heard and have fallen silent."""
        return self._roster.silent()

    @property
    def standing(self) -> tuple[int, int]:
        """The number of live nodes, and the last round that the slowest live node has stepped."""
        live = [name for name in self._nodes if self._roster.is_live(name)]
        return len(live), min(map(self._roster.stepped, live), default=0)

    def handle(self, event: SchedulerEvent) -> tuple[SchedulerEffect, ...]:
        """Handle one event and return the effects to carry out, in order.

        Raises ValueError unless `SchedulerStarted` comes first and once, and for a negative time.
        """
        if isinstance(event, SchedulerStarted) is self._started:
            raise ValueError(f"{type(event).__name__}: SchedulerStarted comes first, and once")
        refusals: list[Refusal | None] = []
        left_out: list[LeftOut] = []
        match event:
            case HeartbeatRead(heartbeat):
                refusals.append(self._hear(heartbeat))
            case PlansRead(record, ahead):
                refusals.append(self._skip_ahead(record) if ahead else self._follow(record))
            case Ticked(seconds, current):
                self._roster.pass_time(seconds)  # rule 9
                self._current, self._resting = current, False
                left_out = self._leave_out(seconds)  # rule 8
                self._unread.pass_time(seconds)  # rule 2: what is not read in time is lost
                self._waited += seconds
            case SourceEnded(round):
                self._rounds = min(self._rounds, round)
            case SchedulerStarted(records, heartbeats, whole, current):
                self._started, self._current = True, current
                refusals += self._begin(records, whole=whole)
                refusals += map(self._replay, heartbeats)
                if self.last is not None:
                    self._roster.count_as_heard(self.last)  # rule 9: no heartbeat could be read before
                    self._look_for_lost_plans(self.last)  # rule 4
                    self._claims.start(self._live_of(self.last), self.last.round)
                    refusals += self._distrust_progress(self.last)
        effects: list[SchedulerEffect] = [
            *left_out,
            *[RecordsRefused(reason) for reason in refusals if reason],
        ]
        last, plans = self._head, tuple(self._planned())
        if plans:
            effects.append(PublishPlans(last, plans))
        return tuple(effects)

    # ------------------------------------------------------------------------------------------- events

    def _begin(self, records: tuple[PlanRecord, ...], *, whole: bool) -> list[Refusal | None]:
        """Handle the stored records, of which some may be void."""
        own_records = [record for record in records if record.plans[0].run == self.settings.run]
        self._chain, valid = Chain(whole=whole), valid_records(own_records, whole=whole)
        for record in valid:
            self._follow(record)
        foreign, void = len(records) - len(own_records), len(own_records) - len(valid)
        return [*[Refusal.RUN] * foreign, *[Refusal.PLACE] * void]

    def _follow(self, record: PlanRecord) -> Refusal | None:
        if record.plans[0].run != self.settings.run:
            return Refusal.RUN
        first = self.last is None
        if not self._chain.take(record):  # rule 1
            self._unread.void(record)  # rule 2: an own one is planned again, on top of what came between
            return Refusal.PLACE
        if first:
            self._distrust_progress(record.plans[0])
        for plan in record.plans:
            self._horizon.add(plan)
            self._roster.note(plan)
        self._unread.read(record)  # rule 2
        return None

    def _skip_ahead(self, record: PlanRecord) -> Refusal:
        """Refuse a record ahead of the clock. If this scheduler published it, plan again without the clock.

        If that record is void too, wait for the next tick, as each attempt is a record on the topology.
        """
        self._resting = self._unread.void(record) and self._current is None  # rules 1 and 2
        self._current = None  # until the next tick
        return Refusal.AHEAD

    def _hear(self, beat: Heartbeat) -> Refusal | None:
        refusal = self._refusal(beat)
        if refusal is not None:
            return refusal
        last = self._head
        if self.last is not None and not self._roster.anyone_live():
            self._roster.count_as_heard(self.last)  # rule 9: an outage alone makes no member silent
        self._roster.hear(beat)
        counts = self._claims.hear(beat.node, beat.stepped, begun=last is not None)
        if last is None:
            return None
        anew = self._roster.has_begun_anew(beat.node, last)
        if anew or (counts and beat.stepped > last.round):  # rule 4
            self._look_for_lost_plans(last, of_two=not counts)
        if beat.stepped <= last.round or beat.stepped <= self._believed(last):
            return None
        self._roster.distrust_progress(beat.node)  # rule 5
        return Refusal.PROGRESS

    def _replay(self, beat: Heartbeat) -> Refusal | None:
        refusal = self._refusal(beat)
        if refusal is None:
            self._roster.replay(beat)
            self._claims.replay(beat.node, self._roster.stepped(beat.node))
        return refusal

    def _leave_out(self, seconds: float) -> list[LeftOut]:
        """Count each member's delay of the others, and leave out the members that exceed their limit."""
        last = self.last
        if self._lag is None or last is None:
            return []
        progress = self._horizon.progress(last)
        holding = [] if self._unread.plans else self._horizon.holders(last, progress)
        live = [name for name in self._nodes if self._roster.is_live(name)]
        outside = sum(name not in progress for name in live)
        behind = self._horizon.behind(last, progress, outside)
        max_left_out = len(live) - (self.settings.min_members or 1)  # rule 8: at least this many stay
        left_out = self._lag.pass_time(seconds, progress, behind, holding, max_left_out)
        self._roster.leave_out(self._lag.out)
        return left_out

    def _look_for_lost_plans(self, last: Plan, *, of_two: bool = False) -> None:
        """Find out from the claims of the nodes whether plans after `last` were lost.

        Nodes that have begun anew since `last` know no plans. `of_two`: only if at least two others are live,
        as further ones were heard before, and may be silent now.
        """
        live = self._live_of(last)
        know = [name for name in live if not self._roster.has_begun_anew(name, last)]
        if len(know) > 1 or not of_two:
            self._claims.look(know if len(know) > 1 else live)

    def _live_of(self, plan: Plan) -> list[str]:
        return [member.name for member in plan.members if self._roster.is_live(member.name)]

    def _distrust_progress(self, last: Plan) -> list[Refusal]:
        """Count impossible progress as 0, once there is a plan. Return a refusal for each such node."""
        believed = self._believed(last)
        doubted = [name for name in self._nodes if self._roster.stepped(name) > believed]
        for name in doubted:
            self._roster.distrust_progress(name)  # rule 5
        return [Refusal.PROGRESS] * len(doubted)

    def _believed(self, last: Plan) -> int:
        return self._claims.believed(last.round, self._current)

    def _refusal(self, beat: Heartbeat) -> Refusal | None:
        if beat.run != self.settings.run:
            return Refusal.RUN
        if not self._roster.knows(beat.node):
            return Refusal.NODE
        return Refusal.REPLACED if self._roster.is_replaced(beat) else None  # rule 10

    # --------------------------------------------------------------------------------------- next plan

    @property
    def _head(self) -> Plan | None:
        """The newest plan, read or published (rule 2)."""
        return self._unread.newest or self.last

    def _planned(self) -> Iterator[Plan]:
        """Yield the plans to publish now, at most H."""
        for _ in range(0 if self._resting else self.settings.horizon):
            plan = self._next(self._head)
            if plan is None:
                return
            self._unread.publish(plan)
            self._waited = 0.0
            yield plan

    def _next(self, last: Plan | None) -> Plan | None:
        """Return the plan to publish after `last`, if any."""
        if last is None:
            return self._first_plan()
        settings, generation = self.settings, self.settings.generation
        round, begins_again = self._claims.following(last.round, self._current)  # rules 3 and 4
        if last.ended or last.generation > generation:  # rules 16 and 14
            return None
        if is_over(self._roster, last, round) or self._gives_up():  # rules 16 and 18
            return end_plan(settings.run, round, last, generation)
        at_once = self._ends and not last.closing  # rule 18
        if not at_once and self._horizon.must_wait(last, self._unread.plans):  # rule 7
            return None
        closes = self._closes(last, round)  # rule 17
        if self._current is not None and not closes:
            round = self._horizon.skip(last, round, self._current)  # rule 3
            if round > self._rounds:
                round, closes = int(self._rounds) + 1, True
        if last.closing == 1 or (closes and settings.one_process):  # rules 16 and 17
            return end_plan(settings.run, round, last, generation)
        least = 1 if self._ends else settings.min_members or 1
        return self._plan(round, last, least, again=begins_again, closes=closes)

    def _first_plan(self) -> Plan | None:
        """Return the run's first plan, if it can be made."""
        live = self._live
        least = self.settings.min_members or len(self._nodes)
        if self._ends or len(live) < least:  # rules 18 and 13: the claims of a few are no median
            return None
        round, begins_again = self._first(live)
        if self._current is not None:
            round = self._horizon.skip(None, round, self._current)  # rule 3
        if round > self._rounds:  # rule 16
            return end_plan(self.settings.run, round, None, self.settings.generation)
        return self._plan(round, None, least, again=begins_again, closes=False)

    def _plan(self, round: int, last: Plan | None, least: int, *, again: bool, closes: bool) -> Plan | None:
        """Return the plan of `round` with all who can be members, if they are enough."""
        settings = self.settings
        members = chosen_members(self._roster, self._live, last, round, least, again=again)
        if not members:
            return None
        closing = self._closing_left(last, members) if last is not None and closes else 0
        return make_plan(settings.run, round, last, members, settings.schedule, settings.generation, closing)

    @property
    def _live(self) -> list[str]:
        return list(filter(self._roster.is_live, self._nodes))

    def _gives_up(self) -> bool:
        """Return whether an operator ends the run without the rest of its closing rounds."""
        limit = self.settings.ends
        return limit is not None and (self._waited > limit or not self._live)

    def _closes(self, last: Plan, round: int) -> bool:
        """Return whether the round after `last` is a closing one."""
        if last.closing or round > self._rounds:
            return True
        names = {name for name, _ in named_after(last)}.union(self._live)
        return all(self._roster.learns_no_more(name, round) for name in names)

    def _closing_left(self, last: Plan, members: tuple[Member, ...]) -> int:
        """Return how many closing rounds are left in a plan after `last`, with that one."""
        before = last.closing or closing_rounds(self.settings.schedule, last.round) + 1
        return before - any(member.full for member in members)

    def _first(self, live: list[str]) -> tuple[int, bool]:
        """Return the round of the first plan, and whether nodes begin again, as others were lost."""
        if self.settings.one_process:  # rule 6
            return self._claims.largest(live) + 1, False
        return self._claims.first(live, self._current)
