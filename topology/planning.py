"""Chooses the members of the next plan, and builds it: full members get their weights, listeners equal
weights.

The numbers of rules are those of `scheduler`.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from topology.graph import Graph
from topology.plans import FloatArray, IntArray, Member, Plan
from topology.roster import Roster
from topology.schedules import Schedule


class Horizon:
    """Compares the last H planned rounds with the members' progress in the roster."""

    def __init__(self, size: int, roster: Roster) -> None:
        self._size = size
        self._roster = roster
        self._planned: deque[int] = deque(maxlen=size)
        self._place = 0  # of the member last waited for; it is checked first, as most events leave it behind

    def add(self, plan: Plan) -> None:
        """Add the next valid plan."""
        self._planned.append(plan.round)

    def must_wait(self, last: Plan, ahead: Sequence[Plan]) -> bool:
        """Return whether a live member of `last` has not yet stepped the oldest of the H rounds.

        The last of these rounds are those of `ahead`, which ends with `last` unless it is empty.
        """
        before = self._size - len(ahead)
        if before > len(self._planned):
            return False
        oldest = self._planned[-before] if before > 0 else ahead[-self._size].round
        size = len(last.members)
        for place in range(self._place, self._place + size):
            if self._is_behind(last.members[place % size], oldest):
                self._place = place % size
                return True
        return False

    def progress(self, last: Plan) -> dict[str, int]:
        """Return the last round stepped of each member of `last` that is waited for."""
        # as in `must_wait`: a member that leaves in a later round is waited for until then
        oldest = self._planned[0] if len(self._planned) == self._size else last.round
        progress = {member.name: self._roster.progress(member, oldest) for member in last.members}
        return {name: stepped for name, stepped in progress.items() if stepped is not None}

    def holders(self, last: Plan, progress: Mapping[str, int]) -> list[str]:
        """Return the members that hold up the others at the end of the plans, `last`; usually none.

        They have not stepped the oldest of the H planned rounds. They count only if at least as many full
        members have stepped all planned rounds but about the newest quarter. Heartbeats report the steps, one
        after each (H/4)-th step.
        """
        if len(self._planned) < self._size:
            return []
        oldest, end = self._planned[0], self._planned[-1 - max(1, self._size // 4)]
        behind = [name for name, stepped in progress.items() if stepped < oldest]
        ahead = sum(member.full and progress.get(member.name, 0) >= end for member in last.members)
        return behind if ahead >= len(behind) else []

    def behind(self, last: Plan, progress: Mapping[str, int], outside: int) -> list[str]:
        """Return the slowest members, if at least as many others are ahead of them; otherwise none.

        Ahead are full members that have stepped more, and the `outside` live nodes that have no place in
        `last`.
        """
        full = [progress[member.name] for member in last.members if member.full and member.name in progress]
        slowest = min(progress.values(), default=0)
        behind = [name for name, stepped in progress.items() if stepped == slowest]
        faster = outside + sum(stepped > slowest for stepped in full)
        return behind if faster >= len(behind) else []

    def skip(self, last: Plan | None, round: int, current: int) -> int:
        """Return the round to plan: `round`, or `current` if slots are dropped.

        Slots are dropped if the slowest member is more than H rounds behind the clock, which is in round
        `current`. If no member is waited for, all count as having stepped the round before `round`. The last
        round of a live member before it leaves is not dropped.
        """
        members = last.members if last else ()
        stepped = [self._roster.progress(member, round) for member in members]
        slowest = min((last_round for last_round in stepped if last_round is not None), default=round - 1)
        if current - slowest <= self._size:
            return round
        last_rounds = [self._roster.last_round(member.name) for member in members]
        # rule 3: a leaver's last lesson goes out in its last round, and the others may have no other source
        ends = [end for end in last_rounds if end is not None and round <= end < current]
        return min(ends, default=max(round, current))

    def _is_behind(self, member: Member, oldest: int) -> bool:
        stepped = self._roster.progress(member, oldest)
        return stepped is not None and stepped < oldest


Edges = tuple[IntArray, IntArray, FloatArray]


def make_plan(
    run: str,
    round: int,
    last: Plan | None,
    members: tuple[Member, ...],
    schedule: Schedule,
    generation: int,
    closing: int = 0,
) -> Plan:
    """Return the plan of `round` after `last`, for `members` in bytes order, over provisioned edges only.

    Full members get the schedule's weights of the round. A listener receives from all n full members that it
    has a provisioned edge from, each with weight 1/n, whichever edges are on in the round. Without full
    members there are no edges. `closing`: the closing rounds that are left, this one included; 0: a round of
    learning.
    """
    full = tuple(member.name for member in members if member.full)
    if not full:
        return _without_edges(run, round, last, members, generation, closing)
    weights = schedule.weights(round, full)
    edges: Edges = weights.sources, weights.targets, weights.values
    if len(full) < len(members):
        edges = _with_listeners(edges, members, schedule.graph)
    follows = last.round if last else 0
    return Plan(run, round, follows, members, *edges, named_after(last), generation, closing)


def end_plan(run: str, round: int, last: Plan | None, generation: int) -> Plan:
    """Return the plan without members that ends the run."""
    return _without_edges(run, round, last, (), generation)


def _without_edges(
    run: str,
    round: int,
    last: Plan | None,
    members: tuple[Member, ...],
    generation: int,
    closing: int = 0,
) -> Plan:
    no_edges = np.empty(0, np.int64)
    place = run, round, last.round if last else 0, members
    return Plan(*place, no_edges, no_edges, np.empty(0), named_after(last), generation, closing)


def named_after(last: Plan | None) -> tuple[tuple[str, int], ...]:
    """Return, for each node that was ever a member, the number of plans up to `last` that name it.

    Closing rounds do not count: nothing is charged in them.
    """
    if last is None:
        return ()
    counts = dict(last.named)
    for member in last.members:
        counts[member.name] = counts.get(member.name, 0) + (not last.closing)
    return tuple(sorted(counts.items()))


def _with_listeners(edges: Edges, members: tuple[Member, ...], graph: Graph) -> Edges:
    """Return the edges between full members, as indices into all members, and those into listeners."""
    place = {member.name: k for k, member in enumerate(members)}
    full = {member.name for member in members if member.full}
    places = np.array([place[name] for name in sorted(full)], np.int64)
    sources, targets, values = [places[edges[0]]], [places[edges[1]]], [edges[2]]
    for member in members:
        if member.full:
            continue
        sources_of_member = [place[name] for name in graph.into[graph.index[member.name]] if name in full]
        sources.append(np.array(sources_of_member, np.int64))
        targets.append(np.full(len(sources_of_member), place[member.name], np.int64))
        values.append(np.full(len(sources_of_member), 1 / max(len(sources_of_member), 1)))
    joined = np.concatenate(sources), np.concatenate(targets), np.concatenate(values)
    order = np.lexsort((joined[0], joined[1]))
    return joined[0][order], joined[1][order], joined[2][order]


# Chooses the members of the next plan, and decides when a run is over.
#
# Usually the next plan has a full member that the last plan named. Without such a member the mesh begins
# again from the releases in its journals. In one plan all nodes that may have a journal are listeners without
# edges, so each continues from its own last release. They are full members of the next plan. So the silence
# of nodes does not end a run.


def nobody_is_left(roster: Roster, last: Plan, round: int) -> bool:
    """Return whether all full members of `last` are lost; if none is full, whether all members are."""
    any_full = False
    for member in last.members:
        any_full |= member.full
        if member.full and not roster.is_lost(member, round):
            return False
    return any_full or all(roster.is_lost(member, round) for member in last.members)


def is_over(roster: Roster, last: Plan, round: int) -> bool:
    """Return whether no journal of the run can be left, as no member can continue and none can come back."""
    return nobody_is_left(roster, last, round) and all(  # rule 16: silence ends no run
        roster.has_no_journal(name, round) for name, _ in named_after(last)
    )


def chosen_members(
    roster: Roster, live: Sequence[str], last: Plan | None, round: int, least: int, *, again: bool
) -> tuple[Member, ...]:
    """Return the members of the plan of `round` after `last`; none if the plan must wait for further nodes.

    `again`: plans were lost, so all begin again.
    """
    if len(live) < least:  # rule 13
        return ()
    if not again:  # rule 11
        members = _found(roster.candidate(name, last, round) for name in live)
        if any(member.full for member in members):
            return members if len(members) >= least else ()
    if again or (last is not None and _begins_again(roster, last, round)):  # rule 15
        return _found(roster.returning(name, last, round) for name in live)
    return ()


def _begins_again(roster: Roster, last: Plan, round: int) -> bool:
    """Return whether no member can continue: all are lost, or some must join again and the others
    are silent.
    """
    return nobody_is_left(roster, last, round) or any(
        member.full and roster.has_lost_its_place(member, round) for member in last.members
    )


def _found(members: Iterable[Member | None]) -> tuple[Member, ...]:
    return tuple(member for member in members if member is not None)
