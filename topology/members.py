"""Chooses the members of the next plan, and says when a run has nobody left to learn from.

Usually the next plan has a full member that the last one named. Where it has none, the mesh begins again from
what its journals hold: in one plan all who may have a journal listen, to nobody, so each goes on from its own
last release, and is full in the next one. So silence ends no run.
"""

from collections.abc import Iterable, Sequence

from topology.planning import named_after
from topology.plans import Member, Plan
from topology.roster import Roster


def nobody_is_left(roster: Roster, last: Plan, round: int) -> bool:
    """Return whether all who carry the run on from `last` are lost: its full members, or all if none is."""
    any_full = False
    for member in last.members:
        any_full |= member.full
        if member.full and not roster.is_lost(member, round):
            return False
    return any_full or all(roster.is_lost(member, round) for member in last.members)


def is_over(roster: Roster, last: Plan, round: int) -> bool:
    """Return whether no journal of the run can be left: nobody can go on, and nobody can come back."""
    return nobody_is_left(roster, last, round) and all(
        roster.has_no_journal(name, round) for name, _ in named_after(last)
    )


def chosen_members(
    roster: Roster, live: Sequence[str], last: Plan | None, round: int, least: int, *, again: bool
) -> tuple[Member, ...]:
    """Return the members of the plan of `round` after `last`; none if it must wait for more than `live`.

    `again`: plans were lost, so all begin again.
    """
    if len(live) < least:
        return ()
    if not again:
        members = _found(roster.candidate(name, last, round) for name in live)
        if any(member.full for member in members):
            return members if len(members) >= least else ()
    if again or (last is not None and _begins_again(roster, last, round)):
        return _found(roster.returning(name, last, round) for name in live)
    return ()


def _begins_again(roster: Roster, last: Plan, round: int) -> bool:
    """Return whether nobody is waited for: all are lost, or some must join again and the rest is silent."""
    return nobody_is_left(roster, last, round) or any(
        member.full and roster.has_lost_its_place(member, round) for member in last.members
    )


def _found(members: Iterable[Member | None]) -> tuple[Member, ...]:
    return tuple(member for member in members if member is not None)
