"""Plans, heartbeats, the chain of valid plans, and the clock of slots: what the mesh agrees on in each round.

A plan is valid if it is consistent (`Plan.__post_init__`) and its record continues the last valid plan (see
`Chain`). The plan of a round is the first valid one on the topic `topology`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from math import floor, inf
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TOLERANCE = 1e-9
"""The largest difference of the sum of a row or column of weights from 1."""
MOST_TOLD = 8
"""The most instances that one heartbeat accuses."""
MOST_CLOSING = 64
"""The most rounds after a run's last lesson."""


class Member(NamedTuple):
    """A node in a plan: its name, the journal life that may act for it, and whether it is a full member.

    A listener (`full` false) is in its first planned round. It receives releases of full members, and no
    other node mixes its release.
    """

    name: str
    instance: str
    full: bool = True


class Place(NamedTuple):
    """One member's part of a plan.

    `row`: the edges into it as (source, a_ij), in bytes order of the source. `own_weight`: a_ii, which is 1 -
    the row's sum, summed in that order, at least 0. `targets`: the members that mix its release, in bytes
    order.
    """

    member: Member
    row: tuple[tuple[Member, float], ...]
    own_weight: float
    targets: tuple[str, ...]


@lru_cache(maxsize=16)  # most plans repeat the members and edges of an earlier one
def places(members: tuple[Member, ...], sources: bytes, targets: bytes, weights: bytes) -> dict[str, Place]:
    """Check the plan and return the place of each member. The result must only be read. Raises ValueError."""
    names = [member.name for member in members]
    if sorted(set(names)) != names:
        raise ValueError(f"members {names}: must be distinct and in bytes order")
    arrays = np.frombuffer(sources, np.int64), np.frombuffer(targets, np.int64), np.frombuffer(weights)
    _check_edges(*arrays, np.array([member.full for member in members], dtype=np.bool_))
    rows: list[list[tuple[Member, float]]] = [[] for _ in members]
    columns: list[list[str]] = [[] for _ in members]
    for source, target, weight in zip(*(array.tolist() for array in arrays), strict=True):
        rows[target].append((members[source], weight))
        columns[source].append(members[target].name)
    return {
        member.name: Place(member, tuple(row), _own_weight(row), tuple(column))
        for member, row, column in zip(members, rows, columns, strict=True)
    }


def _own_weight(row: list[tuple[Member, float]]) -> float:
    rest = 0.0
    for _, weight in row:  # `sum` does not add in this order in every Python
        rest += weight
    return max(0.0, 1.0 - rest)


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


__all__ = ["TOLERANCE", "FloatArray", "Heartbeat", "IntArray", "Member", "Place", "Plan"]


_SIZES = Struct("<QQIIIII")


def _mark(plan: "Plan") -> bytes:
    """Return the first half of the SHA-256 of the whole plan (docs/reference/wire.md)."""
    members, plan_counts = plan.members, plan.named
    words = (plan.run, *[member.name for member in members], *[member.instance for member in members])
    counts = np.array([count for _, count in plan_counts], "<u8")
    parts = (
        _SIZES.pack(
            plan.round,
            plan.follows,
            len(members),
            plan.weights.size,
            len(plan_counts),
            plan.generation,
            plan.closing,
        ),
        ",".join((*words, *[name for name, _ in plan_counts])).encode(),
        bytes(member.full for member in members),
        plan.sources.astype("<u4").tobytes(),
        plan.targets.astype("<u4").tobytes(),
        plan.weights.astype("<f8").tobytes(),
        counts.tobytes(),
    )
    return sha256(b"".join(parts)).digest()[:16]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A node's report of its progress, on `progress.<i>`. Its fields are fixed; none is about data.

    `stepped`: the last round it has stepped (0: none). `join_after`: it asks to join in a plan after that
    round. `leave_from`: it asks to be in no plan from that round on. `hello`: its process has just started.
    `accused`: instances of its sources that have sent two values for one round; at most `MOST_TOLD`.
    `finished`: it learns in no later round, as its budget is spent.
    """

    run: str
    node: str
    instance: str
    boot: str
    stepped: int
    join_after: int | None = None
    leave_from: int | None = None
    hello: bool = False
    accused: tuple[str, ...] = ()
    finished: bool = False

    def has_left(self, last: "Plan") -> bool:
        """Return whether the node has left as it asked, by the last plan, so it need not send heartbeats."""
        first = self.leave_from
        return first is not None and first <= last.round and last.member(self.node) is None


@dataclass(frozen=True, eq=False)
class Plan:
    """The mesh in one round. Immutable. `members` are in bytes order; without them it ends the run.

    Edge k goes from `members[sources[k]]` to `members[targets[k]]` with weight a_ij = `weights[k]` (i the
    target, j the source), shape (E,), sorted by (target, source), no self-loops: a_ii = 1 - the rest.
    `follows` is the round of the plan before (0: none). `named` holds, for every node that was ever a member,
    the number of earlier plans of the run that name it, closing rounds not counted. `generation`: that of its
    scheduler's mesh file.
    `closing`: the closing rounds that are left, this one included; 0: members learn in this round.
    """

    run: str
    round: int
    follows: int
    members: tuple[Member, ...]
    sources: IntArray
    targets: IntArray
    weights: FloatArray
    named: tuple[tuple[str, int], ...] = ()
    generation: int = 0
    closing: int = 0
    _places: dict[str, Place] = field(init=False, repr=False)
    _mark: bytes = field(init=False, repr=False, default=b"")

    def __post_init__(self) -> None:
        """Raise ValueError, with the reason, for a plan that no mesh could follow."""
        if not 0 <= self.follows < self.round:
            raise ValueError(f"plan {self.round} follows {self.follows}: must be from 0 to {self.round - 1}")
        if not 0 <= self.closing <= MOST_CLOSING + 1 or (self.closing and self.ended):
            raise ValueError(f"plan {self.round} leaves {self.closing} closing rounds")
        counts = [count for _, count in self.named]
        if counts and not 0 <= min(counts) <= max(counts) <= self.follows:
            raise ValueError(f"a node was named in {max(counts)} plans up to {self.follows}")
        edges = self.sources.tobytes(), self.targets.tobytes(), self.weights.tobytes()
        object.__setattr__(self, "_places", places(self.members, *edges))

    @property
    def mark(self) -> bytes:
        """The 16 bytes that name this plan. Different plans have different marks."""
        if not self._mark:
            object.__setattr__(self, "_mark", _mark(self))
        return self._mark

    @property
    def ended(self) -> bool:
        """Whether this plan ends the run."""
        return not self.members

    def may_follow(self, last_round: int | None) -> bool:
        """Whether this is the plan after the valid plan of `last_round` (None: the first one read)."""
        return last_round is None or self.follows == last_round

    def place(self, name: str) -> Place | None:
        """Return the place of the node of that name, or None if the plan does not name it."""
        return self._places.get(name)

    def member(self, name: str) -> Member | None:
        """Return the member of that name, or None if the plan does not name it."""
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


# The chain of valid plans, and the records that carry it.
#
# Rules
# -----
# * A record holds plans that follow one another, and the mark of the plan that its first one continues.
# * A record is valid as a whole if it continues the last valid plan; otherwise it is void as a whole. So of
#   two schedulers' records that continue the same plan the first one read is valid, and the other one is
#   void, with all records that continue it. Round numbers alone could not exclude these.
# * A run's first plan continues nothing. But a log may have lost its beginning, so its first record may be
#   void. Then the longest chain is valid. A void chain ends at its scheduler's horizon, so a reader that
#   begins there knows the valid plans from two horizons on, and the log holds several horizons.

NOTHING = bytes(16)
"""The mark that a run's first plan continues."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanRecord:
    """Consecutive plans that follow the plan with the mark `continues`. Raises ValueError if they do not."""

    continues: bytes
    plans: tuple[Plan, ...]

    def __post_init__(self) -> None:
        """Check that each plan follows the one before it."""
        if not self.plans:
            raise ValueError("a record without plans")
        for before, plan in zip(self.plans, self.plans[1:], strict=False):
            if plan.run != before.run or plan.follows != before.round or before.ended:
                raise ValueError(f"plan {plan.round} does not follow plan {before.round}")
        if len(self.continues) != len(NOTHING) or (self.continues == NOTHING) != (self.plans[0].follows == 0):
            raise ValueError(f"plan {self.plans[0].round} names no plan that it continues")

    @property
    def last(self) -> Plan:
        """The last plan."""
        return self.plans[-1]


def after(last: Plan | None, plans: tuple[Plan, ...]) -> PlanRecord:
    """Return the record of `plans` that continues `last` (None: the first of the run)."""
    return PlanRecord(NOTHING if last is None else last.mark, plans)


class Chain:
    """The valid plans read so far. Unless the log is `whole`, its first record may continue any plan."""

    def __init__(self, *, whole: bool = True) -> None:
        self.last: Plan | None = None
        self._whole = whole

    def take(self, record: PlanRecord) -> bool:
        """Accept the record if it continues the last valid plan. Return whether it does."""
        last = self.last
        if last is None:
            follows = record.continues == NOTHING or not self._whole
        else:
            follows = not last.ended and continues(record, last)
        if follows:
            self.last = record.last
        return follows


def continues(record: PlanRecord, last: Plan) -> bool:
    """Return whether the record names `last` as the plan that it continues."""
    return record.plans[0].follows == last.round and record.continues == last.mark


def valid_records(records: Iterable[PlanRecord], *, whole: bool = True) -> list[PlanRecord]:
    """Return the valid records of a log, in order; `whole`: whether it still has its beginning."""
    if whole:
        full_chain = Chain()
        return [record for record in records if full_chain.take(record)]
    chains: list[list[PlanRecord]] = []
    ends: dict[bytes, list[list[PlanRecord]]] = {}  # of these chains, by the mark of their last plan
    for record in records:
        continued = ends.get(record.continues, [])
        if continued and continues(record, continued[0][-1].last):
            del ends[record.continues]
        else:
            chains.append([])
            continued = [chains[-1]]
        for chain in continued:
            chain.append(record)
        if not record.last.ended:
            ends.setdefault(record.last.mark, []).extend(continued)
    return max(chains, key=_length, default=[])


def _length(chain: list[PlanRecord]) -> int:
    return sum(len(record.plans) for record in chain)


# The clock of slots by time, and its limit by the broker's clock.
#
# Rules
# -----
# * A scheduler's clock counts at most up to the newest append time that it has read, which is by the broker's
#   clock. So a scheduler with a fast clock plans no further than one with a right clock.
# * A record of plans is void if one of its plans lies more than 2H + 1 rounds beyond both the plan before it
#   and the slot in which the broker appended the record. All readers see the same append time, so the record
#   is void for all of them, at any time. Rounds within 2H + 1 of the last plan need no clock: lost plans may
#   skip so many. A plan without full members begins again after lost plans. Its round follows from the nodes'
#   progress, so it has no such limit.
# * Where a topic stores its senders' times instead, no append time is known, and each scheduler's clock has
#   no limit.


@dataclass(frozen=True, slots=True)
class SlotClock:
    """Slots of `period` seconds from `start` (seconds since 1970) on, in a mesh with horizon H."""

    start: float
    period: float
    horizon: int

    def round_at(self, seconds: float) -> float:
        """Return the round of the slot at that time; 0 before the start, inf for an unknown time (inf)."""
        periods = (seconds - self.start) / self.period
        return floor(periods) + 1 if 0 <= periods < inf else max(0.0, periods)

    def end(self, round: int) -> float:
        """Return the time at which the slot of a round ends, in seconds since 1970."""
        return self.start + round * self.period

    def bounded(self, current: int, confirmed: float) -> int:
        """Return the clock's round `current`, at most the round at the broker's time `confirmed`."""
        return int(min(current, self.round_at(confirmed)))

    def is_ahead(self, record: PlanRecord, appended: float) -> bool:
        """Return whether the record is void by its append time (inf: it has none)."""
        confirmed, max_lead = self.round_at(appended), 2 * self.horizon + 1
        return any(
            plan.round > max(plan.follows, confirmed) + max_lead and not _begins_again(plan)
            for plan in record.plans
        )


def _begins_again(plan: Plan) -> bool:
    return not plan.ended and not any(member.full for member in plan.members)
