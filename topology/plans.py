"""What the mesh agrees on, round by round: plans, and the heartbeats that plans are made from.

A plan is valid on its own terms (`Plan.__post_init__`) and in its place: it follows the last valid plan
(`Plan.may_follow`). The plan of a round is the first record of the topology that is both.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TOLERANCE = 1e-9
"""How far a row or a column of weights may be from 1."""


@dataclass(frozen=True, slots=True)
class Member:
    """A node in a plan: its name, the journal's life that may act for it, and whether it is a full member.

    A listener (`full` false, its first planned round) hears full members and is in nobody else's row.
    """

    name: str
    instance: str
    full: bool = True


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

    def __post_init__(self) -> None:
        """Refuse a plan that no mesh could follow. Raises ValueError with the reason."""
        if not 0 <= self.follows < self.round:
            raise ValueError(f"plan {self.round} follows {self.follows}: must be from 0 to {self.round - 1}")
        if not all(0 <= count <= self.follows for _, count in self.named):
            raise ValueError(
                f"a node was named in {max(n for _, n in self.named)} plans up to {self.follows}"
            )
        names = [member.name for member in self.members]
        if sorted(set(names)) != names:
            raise ValueError(f"members {names}: must be distinct and in bytes order")
        self._routes  # noqa: B018 # checks the edges

    @property
    def ended(self) -> bool:
        """Whether this plan ends the run."""
        return not self.members

    def may_follow(self, last_round: int | None) -> bool:
        """Whether this is the plan after the valid plan of `last_round` (None: the first one read)."""
        return last_round is None or self.follows == last_round

    def member(self, name: str) -> Member | None:
        """Return the member of that name, or None."""
        return self._by_name.get(name)

    def incoming(self, name: str) -> tuple[tuple[str, float], ...]:
        """Return (source, weight) of the edges into `name`, in bytes order of the source."""
        return self._routes.incoming.get(name, ())

    def outgoing(self, name: str) -> tuple[str, ...]:
        """Return the targets of the edges out of `name`, in bytes order."""
        return self._routes.outgoing.get(name, ())

    @cached_property
    def _by_name(self) -> dict[str, Member]:
        return {member.name: member for member in self.members}

    @cached_property
    def _routes(self) -> "_Routes":
        return _routes(
            tuple((member.name, member.full) for member in self.members),
            self.sources.tobytes(),
            self.targets.tobytes(),
            self.weights.tobytes(),
        )


@dataclass(frozen=True, slots=True)
class _Routes:
    incoming: dict[str, tuple[tuple[str, float], ...]]
    outgoing: dict[str, tuple[str, ...]]


@lru_cache(maxsize=16)  # most plans have the edges of the one before, or of few others
def _routes(members: tuple[tuple[str, bool], ...], sources: bytes, targets: bytes, weights: bytes) -> _Routes:
    """Return the edges of each member, checked. Raises ValueError."""
    arrays = np.frombuffer(sources, np.int64), np.frombuffer(targets, np.int64), np.frombuffer(weights)
    _check_edges(*arrays, np.array([full for _, full in members], dtype=np.bool_))
    incoming: dict[str, list[tuple[str, float]]] = {}
    outgoing: dict[str, list[str]] = {}
    for source, target, weight in zip(*(array.tolist() for array in arrays), strict=True):
        incoming.setdefault(members[target][0], []).append((members[source][0], weight))
        outgoing.setdefault(members[source][0], []).append(members[target][0])
    return _Routes(
        {target: tuple(row) for target, row in incoming.items()},
        {source: tuple(column) for source, column in outgoing.items()},
    )


def _check_edges(sources: IntArray, targets: IntArray, weights: FloatArray, full: NDArray[np.bool_]) -> None:
    size = full.size
    if not sources.shape == targets.shape == weights.shape:
        raise ValueError(f"edges of shapes {sources.shape}, {targets.shape}, {weights.shape}: must be equal")
    if not sources.size:
        return
    if min(sources.min(), targets.min()) < 0 or max(sources.max(), targets.max()) >= size:
        raise ValueError(f"an edge names a member outside 0..{size - 1}")
    keys = targets * size + sources
    if (np.diff(keys) <= 0).any() or (sources == targets).any():
        raise ValueError("edges must be distinct, sorted by (target, source), without self-loops")
    if not ((weights > 0) & (weights <= 1 + TOLERANCE)).all():
        raise ValueError("a weight is outside (0, 1]")
    if not full[sources].all():
        raise ValueError("a listener is the source of an edge")
    rows = np.bincount(targets, weights, size)
    columns = np.bincount(sources, np.where(full[targets], weights, 0.0), size)
    if (rows > 1 + TOLERANCE).any() or (np.abs(rows - columns)[full] > TOLERANCE).any():
        raise ValueError("the weights of the full members are not doubly stochastic")
