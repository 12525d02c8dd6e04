"""What the mesh agrees on, round by round: plans, and the heartbeats that plans are made from.

A plan is valid on its own terms (`Plan.__post_init__`) and in its place: it follows the last valid plan
(`Plan.may_follow`). The plan of a round is the first record of the topology that is both.
"""

from dataclasses import dataclass, field

from topology.places import TOLERANCE, FloatArray, IntArray, Member, Place, places

__all__ = ["TOLERANCE", "FloatArray", "Heartbeat", "IntArray", "Member", "Place", "Plan"]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a node says of itself on `progress.<i>`: fixed fields, nothing about data.

    `stepped` is the last round it has stepped (0: none). `join_after`: it asks to join in a plan above that
    round. `leave_from`: it asks not to be named from that round on. `hello` marks a process start.
    """

    run: str
    node: str
    instance: str
    boot: str
    stepped: int
    join_after: int | None = None
    leave_from: int | None = None
    hello: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """The mesh in one round. Immutable; `members` in the bytes order of their names; none: the run is over.

    Edge k goes from `members[sources[k]]` to `members[targets[k]]` with weight a_ij = `weights[k]` (i the
    target, j the source), shape (E,), sorted by (target, source), no self-loops: a_ii = 1 - the rest.
    `follows` is the round of the plan before (0: none); `named` counts, for every node that ever was a
    member, the earlier plans of the run that name it.
    """

    run: str
    round: int
    follows: int
    members: tuple[Member, ...]
    sources: IntArray
    targets: IntArray
    weights: FloatArray
    named: tuple[tuple[str, int], ...] = ()
    _places: dict[str, Place] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse a plan that no mesh could follow. Raises ValueError with the reason."""
        if not 0 <= self.follows < self.round:
            raise ValueError(f"plan {self.round} follows {self.follows}: must be from 0 to {self.round - 1}")
        counts = [count for _, count in self.named]
        if counts and not 0 <= min(counts) <= max(counts) <= self.follows:
            raise ValueError(f"a node was named in {max(counts)} plans up to {self.follows}")
        edges = self.sources.tobytes(), self.targets.tobytes(), self.weights.tobytes()
        object.__setattr__(self, "_places", places(self.members, *edges))

    @property
    def ended(self) -> bool:
        """Whether this plan ends the run."""
        return not self.members

    def may_follow(self, last_round: int | None) -> bool:
        """Whether this is the plan after the valid plan of `last_round` (None: the first one read)."""
        return last_round is None or self.follows == last_round

    def place(self, name: str) -> Place | None:
        """Return what the plan says to the node of that name, or None where it does not name it."""
        return self._places.get(name)

    def member(self, name: str) -> Member | None:
        """Return the member of that name, or None."""
        place = self._places.get(name)
        return place.member if place else None

    def incoming(self, name: str) -> tuple[tuple[str, float], ...]:
        """Return (source, weight) of the edges into `name`, in bytes order of the source."""
        place = self._places.get(name)
        return tuple((source.name, weight) for source, weight in place.row) if place else ()

    def outgoing(self, name: str) -> tuple[str, ...]:
        """Return the targets of the edges out of `name`, in bytes order."""
        place = self._places.get(name)
        return place.targets if place else ()
