"""The roster: which nodes are live, under which instance, how far they are, and what they ask for.

The numbers of rules are those of `scheduler`.
"""

from collections import deque
from dataclasses import dataclass
from math import inf

from topology.plans import Heartbeat, Member, Plan

REPLACED = 64
"""The number of a node's replaced processes that are remembered, so that invented hellos need no more
memory."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A node's last entry: the round it joined in, and the round planned before that one."""

    round: int
    before: int


class Roster:
    """The state of `nodes`, from heartbeats and plans. `pass_time` is the clock of silence.

    Only the newest process of a node counts: after its hello, heartbeats of earlier processes are ignored.
    """

    def __init__(self, nodes: tuple[str, ...], silence: float | None) -> None:
        self._nodes = frozenset(nodes)
        self._silence = inf if silence is None else silence
        self._clock = 0.0
        self._heard: dict[str, float] = {}
        self._spoke: dict[str, float] = {}  # when it was heard itself: nobody is counted as heard here
        self._last_heard = -inf
        self._beats: dict[str, Heartbeat] = {}
        self._replaced: dict[str, deque[str]] = {}  # boots, by node
        self._left_out: frozenset[str] = frozenset()  # they count as silent
        self._doubted: set[str] = set()  # nodes whose reported progress is not believed
        self._entries: dict[str, _Entry] = {}
        self._expected: dict[str, _Entry] = {}  # by plans that are published and not read yet

    def knows(self, name: str) -> bool:
        """Return whether the mesh has a node of this name."""
        return name in self._nodes

    def is_replaced(self, beat: Heartbeat) -> bool:
        """Return whether a newer process of the node has said hello since this one did."""
        return beat.boot in self._replaced.get(beat.node, ())

    def pass_time(self, seconds: float) -> None:
        """Advance the clock of silence. Raises ValueError for a negative time."""
        if not seconds >= 0:
            raise ValueError(f"{seconds} seconds have passed: must be 0 or more")
        self._clock += seconds

    def anyone_live(self) -> bool:
        """Return whether any node is live."""
        return self._clock - self._last_heard <= self._silence

    def replay(self, beat: Heartbeat) -> None:
        """Handle a heartbeat of unknown age, from the log. It makes a node live only if `silence` is None."""
        if beat.hello and beat.node in self._beats and self._beats[beat.node].boot != beat.boot:  # rule 10
            replaced = self._replaced.setdefault(beat.node, deque(maxlen=REPLACED))
            replaced.append(self._beats[beat.node].boot)
        last_beat = self._beats.get(beat.node)
        if (
            last_beat is None or last_beat.boot != beat.boot or _age(beat) >= _age(last_beat)
        ):  # else it was read before
            self._beats[beat.node] = beat
        self._heard.setdefault(beat.node, -inf)

    def hear(self, beat: Heartbeat) -> None:
        """Handle a heartbeat read just now."""
        self.replay(beat)
        self._doubted.discard(beat.node)
        self._mark(beat.node)
        self._spoke[beat.node] = self._clock

    def silent(self) -> frozenset[str]:
        """Return the nodes that were heard, or counted as heard, and not within the time of silence."""
        return frozenset(name for name, at in self._heard.items() if -inf < at < self._clock - self._silence)

    def distrust_progress(self, name: str) -> None:
        """Count the node as having stepped no round since it joined, until its next heartbeat."""
        self._doubted.add(name)

    def leave_out(self, names: frozenset[str]) -> None:
        """Count exactly these nodes as silent, whatever heartbeats come from them."""
        self._left_out = names

    def count_as_heard(self, plan: Plan) -> None:
        """Count every member of the plan as heard just now."""
        for member in plan.members:
            if member.name in self._nodes:
                self._mark(member.name)

    def note(self, plan: Plan) -> None:
        """Add the next valid plan and record which nodes join in it (in the first plan, all)."""
        self._entries |= _joining(plan)

    def expect(self, plan: Plan) -> None:
        """Add a plan that is not read yet. Nodes that join in it count as joined until `forget_expected`."""
        self._expected |= _joining(plan)

    def forget_expected(self) -> None:
        """Forget the plans that were not read."""
        self._expected.clear()

    def learns_no_more(self, name: str, round: int) -> bool:
        """Return whether the node, as it was heard last, learns in no round from that one on."""
        beat = self._beats.get(name)
        return beat is not None and (beat.finished or _leaves(beat, round))

    def is_live(self, name: str) -> bool:
        """Return whether the node was heard within `silence`, and is not left out."""
        heard_at = self._heard.get(name)
        # rules 9 and 8
        return heard_at is not None and self._clock - heard_at <= self._silence and name not in self._left_out

    def stepped(self, name: str) -> int:
        """Return the last round that the node reports as stepped (0: none)."""
        beat = self._beats.get(name)
        return beat.stepped if beat and name not in self._doubted else 0

    def candidate(self, name: str, last: Plan | None, round: int) -> Member | None:
        """Return the node as a member of the plan of `round` after `last`; None if it must not be a member.

        In a run's first plan every node is full. Later a node is full if `last` names it under the same
        instance and it does not ask to join; any other listens.
        """
        beat = self._beats.get(name)
        last_member = last.member(name) if last else None
        if beat is None:
            return Member(name, last_member.instance) if last_member else None
        if _leaves(beat, round):  # rule 12
            return None
        if last is None:  # rule 11
            return Member(name, beat.instance)
        if self._asks_to_join(beat):  # rule 11: it has lost its place
            may_join = beat.join_after is None or round > beat.join_after
            return Member(name, beat.instance, full=False) if may_join else None
        full = last_member is not None and last_member.instance == beat.instance
        return Member(name, beat.instance, full)

    def returning(self, name: str, last: Plan | None, round: int) -> Member | None:
        """Return the node as a listener of a plan in which all listen; None if it may have no journal.

        It continues from its own last release: that of the instance in its heartbeat or, without a heartbeat,
        that of the instance in `last`.
        """
        beat = self._beats.get(name)
        if beat is None:
            last_member = last.member(name) if last else None
            return Member(name, last_member.instance, full=False) if last_member else None
        may_return = not self._asks_to_join(beat) or round > (beat.join_after or 0)
        if not beat.stepped or not may_return or _leaves(beat, round):  # rules 15 and 12
            return None
        return Member(name, beat.instance, full=False)

    def last_round(self, name: str) -> int | None:
        """Return the last round before a live node leaves; None if it asks for none."""
        beat = self._beats.get(name)
        if beat is None or beat.leave_from is None or not self.is_live(name):
            return None
        return beat.leave_from - 1

    def has_lost_its_place(self, member: Member, round: int) -> bool:
        """Return whether the member is live under the instance that the plan names, and has to join again."""
        beat = self._beats.get(member.name)
        if beat is None or not self.is_live(member.name) or beat.instance != member.instance:
            return False
        return self._asks_to_join(beat) and not _leaves(beat, round)

    def has_no_journal(self, name: str, round: int) -> bool:
        """Return whether a former member leaves, or reports by its heartbeat that it has no journal to
        continue from.
        """
        beat = self._beats.get(name)
        if beat is None:
            return False
        # its heartbeat in the log is of unknown age: it may have stepped since, and be cut off
        is_there = self._clock - self._spoke.get(name, -inf) <= self._silence
        return _leaves(beat, round) or (is_there and self.is_live(name) and not beat.stepped)

    def has_begun_anew(self, name: str, last: Plan) -> bool:
        """Return whether the node has come back as another instance than the plan names."""
        beat, member = self._beats.get(name), last.member(name)
        return beat is not None and member is not None and beat.instance != member.instance

    def is_lost(self, member: Member, round: int) -> bool:
        """Return whether a full member cannot be full from `round` on.

        It is another instance now, has asked to join again, or leaves.
        """
        beat = self._beats.get(member.name)
        if beat is None:
            return False
        return beat.instance != member.instance or self._asks_to_join(beat) or _leaves(beat, round)

    def progress(self, member: Member, oldest: int) -> int | None:
        """Return the last round that a live member has stepped, or None if it is not waited for.

        A node that joins counts as having stepped the round before its first. A node that must join again, or
        that leaves in round `oldest` or before, is not waited for.
        """
        if not self.is_live(member.name) or self.is_lost(member, oldest):  # rule 7: nobody waits for it
            return None
        entry = self._entry(member.name)
        return max(self.stepped(member.name), entry.before if entry else 0)

    def _asks_to_join(self, beat: Heartbeat) -> bool:
        """Return whether the node's request to join is open: no plan above `join_after` has it as a joining
        node.
        """
        if beat.join_after is None:
            return False
        entry = self._entry(beat.node)
        return entry is None or entry.round <= beat.join_after

    def _entry(self, name: str) -> _Entry | None:
        return self._expected.get(name) or self._entries.get(name)

    def _mark(self, name: str) -> None:
        self._heard[name] = self._last_heard = self._clock


def _joining(plan: Plan) -> dict[str, _Entry]:
    entry = _Entry(plan.round, plan.follows)
    return {member.name: entry for member in plan.members if not member.full or plan.follows == 0}


def _age(beat: Heartbeat) -> tuple[int, int]:
    """Return a key that grows over the life of a process."""
    return beat.stepped, beat.join_after or 0


def _leaves(beat: Heartbeat, round: int) -> bool:
    return beat.leave_from is not None and beat.leave_from <= round
