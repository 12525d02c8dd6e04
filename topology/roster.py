"""Who is there: live nodes, their instances, how far they are, and what they ask for."""

from dataclasses import dataclass
from math import inf

from topology.plans import Heartbeat, Member, Plan


@dataclass(frozen=True, slots=True)
class _Entry:
    """How a node came in last: the round it joined in, and the round planned before that one."""

    round: int
    before: int


class Roster:
    """What heartbeats and plans tell about `nodes`. Silence is measured on the clock of `pass_time`.

    The newest process of a node speaks for it: a hello replaces the process before, whose later heartbeats
    count for nothing.
    """

    def __init__(self, nodes: tuple[str, ...], silence: float | None) -> None:
        self._nodes = frozenset(nodes)
        self._silence = inf if silence is None else silence
        self._clock = 0.0
        self._heard: dict[str, float] = {}
        self._last_heard = -inf
        self._beats: dict[str, Heartbeat] = {}
        self._replaced: dict[str, set[str]] = {}  # boots, by node
        self._entries: dict[str, _Entry] = {}

    def knows(self, name: str) -> bool:
        """Return whether the mesh has such a node."""
        return name in self._nodes

    def is_replaced(self, beat: Heartbeat) -> bool:
        """Return whether a newer process of the node has said hello since this one did."""
        return beat.boot in self._replaced.get(beat.node, ())

    def pass_time(self, seconds: float) -> None:
        """Let the clock that silence is measured on go on. Raises ValueError for a negative time."""
        if not seconds >= 0:
            raise ValueError(f"{seconds} seconds have passed: must be 0 or more")
        self._clock += seconds

    def anyone_live(self) -> bool:
        """Return whether any node is live."""
        return self._clock - self._last_heard <= self._silence

    def recall(self, beat: Heartbeat) -> None:
        """Take a heartbeat of unknown age, from the log. It makes live only where nobody is ever silent."""
        if beat.hello and beat.node in self._beats and self._beats[beat.node].boot != beat.boot:
            self._replaced.setdefault(beat.node, set()).add(self._beats[beat.node].boot)
        known = self._beats.get(beat.node)
        if known is None or known.boot != beat.boot or _age(beat) >= _age(known):  # else read a second time
            self._beats[beat.node] = beat
        self._heard.setdefault(beat.node, -inf)

    def hear(self, beat: Heartbeat) -> None:
        """Take a heartbeat read just now."""
        self.recall(beat)
        self._mark(beat.node)

    def count_as_heard(self, plan: Plan) -> None:
        """Take every member of the plan as heard just now."""
        for member in plan.members:
            if member.name in self._nodes:
                self._mark(member.name)

    def note(self, plan: Plan) -> None:
        """Take a valid plan, the next one of the run: who joins in it (in the run's first plan, everyone)."""
        for member in plan.members:
            if not member.full or plan.follows == 0:
                self._entries[member.name] = _Entry(plan.round, plan.follows)

    def is_live(self, name: str) -> bool:
        """Return whether the node was heard within the time of silence."""
        heard = self._heard.get(name)
        return heard is not None and self._clock - heard <= self._silence

    def stepped(self, name: str) -> int:
        """Return the last round that a node says it has stepped (0: none)."""
        beat = self._beats.get(name)
        return beat.stepped if beat else 0

    def candidate(self, name: str, last: Plan | None, round: int) -> Member | None:
        """Return the node as a member of the plan of `round`, after `last`; None where it is not to be one.

        In a run's first plan everyone is full; later who was a member before, under the same instance, and
        does not ask to join. Whoever else is there listens.
        """
        beat = self._beats.get(name)
        named = last.member(name) if last else None
        if beat is None:
            return Member(name, named.instance) if named else None
        if _leaves(beat, round):
            return None
        if last is None:
            return Member(name, beat.instance)
        if self._asks_to_join(beat):
            asked = beat.join_after is None or round > beat.join_after
            return Member(name, beat.instance, full=False) if asked else None
        full = named is not None and named.instance == beat.instance
        return Member(name, beat.instance, full)

    def is_lost(self, member: Member, round: int) -> bool:
        """Return whether a full member can never be one of `round` or later: it is gone, or must join."""
        beat = self._beats.get(member.name)
        if beat is None:
            return False
        return beat.instance != member.instance or self._asks_to_join(beat) or _leaves(beat, round)

    def progress(self, member: Member, oldest: int) -> int | None:
        """Return the round a live member has stepped; None where it holds nobody up.

        Someone who joins counts as if it had stepped the round before its first; who has to join again, or
        leaves in round `oldest` or before, is not waited for.
        """
        if not self.is_live(member.name) or self.is_lost(member, oldest):
            return None
        beat = self._beats.get(member.name)
        entry = self._entries.get(member.name)
        return max(beat.stepped if beat else 0, entry.before if entry else 0)

    def _asks_to_join(self, beat: Heartbeat) -> bool:
        """Whether its wish is still unmet: no plan above the round that it names has let it in."""
        if beat.join_after is None:
            return False
        entry = self._entries.get(beat.node)
        return entry is None or entry.round <= beat.join_after

    def _mark(self, name: str) -> None:
        self._heard[name] = self._last_heard = self._clock


def _age(beat: Heartbeat) -> tuple[int, int]:
    """Grows over the life of a process."""
    return beat.stepped, beat.join_after or 0


def _leaves(beat: Heartbeat, round: int) -> bool:
    return beat.leave_from is not None and beat.leave_from <= round
