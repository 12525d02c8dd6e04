"""Plans in bytes, and the records that contain several of them."""

import re
from collections.abc import Iterator
from functools import lru_cache
from math import inf
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from streams.codec.envelope import (
    LAST_ROUND,
    VERSION,
    Kind,
    Reason,
    Refused,
    check_digest,
    checked_digest,
    checked_ids,
    packed_hex,
    packed_ids,
    unpacked,
)
from streams.codec.topics import ID_PATTERN
from topology.plans import NOTHING, Member, Plan, PlanRecord, SlotClock

HEADER = Struct("<BB16sQQIIIIII")
LONGEST = 2**24
"""The longest plan in bytes: 16 MiB, a million edges."""
_TABLE = re.compile(f"{ID_PATTERN}(,{ID_PATTERN})*".encode())


def encode_plan(plan: Plan, digest: bytes) -> bytes:
    """Return the bytes of a plan. Raises ValueError for a bad id, instance or digest.

    version u8, kind u8, digest 16, round u64, follows u64, bytes of the table u32, members N u32, edges E
    u32, named M u32, generation u32, closing rounds left u32 (0: a round of learning), run (u8 length,
    ASCII). The table: names joined by commas. Members: place in the table u32 (N,), instance 16 bytes
    (N,), full u8 (N,). Edges: source u32 (E,), target u32 (E,), weight float64 (E,). Earlier plans that
    name a node: place in the table u32 (M,), count u64 (M,).
    """
    table, members, named_places = _packed_names(plan.members, tuple([name for name, _ in plan.named]))
    sizes = len(table), len(plan.members), plan.weights.size, len(plan.named)
    numbers = (*sizes, plan.generation, plan.closing)
    parts = (
        HEADER.pack(VERSION, Kind.PLAN, checked_digest(digest), plan.round, plan.follows, *numbers),
        packed_ids(plan.run),
        table,
        members,
        plan.sources.astype("<u4").tobytes(),
        plan.targets.astype("<u4").tobytes(),
        plan.weights.astype("<f8").tobytes(),
        named_places,
        np.array([count for _, count in plan.named], "<u8").tobytes(),
    )
    return b"".join(parts)


@lru_cache(maxsize=16)  # most plans have the names of the plan before
def _packed_names(members: tuple[Member, ...], named: tuple[str, ...]) -> tuple[bytes, bytes, bytes]:
    """Return the table of names, the members' part, and the places of the named nodes in the table."""
    names = sorted({member.name for member in members}.union(named))
    packed_ids(*names)
    place = {name: index for index, name in enumerate(names)}
    parts = (
        np.array([place[member.name] for member in members], "<u4").tobytes(),
        *[packed_hex(member.instance) for member in members],
        bytes(member.full for member in members),
    )
    named_places = np.array([place[name] for name in named], "<u4").tobytes()
    return ",".join(names).encode("ascii"), b"".join(parts), named_places


@lru_cache(maxsize=64)  # readers in one process share the decoding
def decode_plan(data: bytes, run: str, digest: bytes) -> Plan:
    """Return the plan in `data`, its arrays read-only. Raises Refused unless it is one of this run."""
    header = unpacked(data, HEADER, Kind.PLAN, LONGEST)
    message_digest, round_, follows, *sizes, generation, closing = header
    at = checked_ids(data, HEADER.size, ((run, Reason.RUN),))
    check_digest(message_digest, digest)
    table, size, edges, named_count = sizes
    if len(data) != at + table + 21 * size + 16 * edges + 12 * named_count:
        raise Refused(Reason.LENGTH, f"{len(data)} bytes do not hold what the header says")
    if round_ > LAST_ROUND:
        raise Refused(Reason.MALFORMED, f"round {round_}")
    start = at + table
    names, roster, rest = _names(data[at:start]), start + 21 * size, start + 21 * size + 16 * edges
    members = _members(names, data[start:roster])
    places, counts = (
        data[rest : rest + 4 * named_count],
        np.frombuffer(data, "<u8", named_count, rest + 4 * named_count),
    )
    earlier = zip(_named(names, places), counts.tolist(), strict=True)
    edge_arrays = _edges(data[roster:rest])
    try:
        return Plan(run, round_, follows, members, *edge_arrays, tuple(earlier), generation, closing)
    except ValueError as error:
        raise Refused(Reason.MALFORMED, str(error)) from error


@lru_cache(maxsize=16)
def _names(table: bytes) -> tuple[str, ...]:
    if not table:
        return ()
    if _TABLE.fullmatch(table) is None:
        raise Refused(Reason.MALFORMED, "a name that is none")
    return tuple(table.decode("ascii").split(","))


@lru_cache(maxsize=16)  # most plans have the members of the plan before
def _members(names: tuple[str, ...], part: bytes) -> tuple[Member, ...]:
    size = len(part) // 21
    places, digits, full = (
        np.frombuffer(part, "<u4", size).tolist(),
        part[4 * size :].hex(),
        part[20 * size :],
    )
    _check_places(names, places)
    if max(full, default=0) > 1:
        raise Refused(Reason.FLAGS, "a member is full (1) or a listener (0)")
    lives = [digits[32 * k : 32 * k + 32] for k in range(size)]
    rows = zip(places, lives, full, strict=True)
    return tuple(Member(names[place], life, bool(mark)) for place, life, mark in rows)


@lru_cache(maxsize=16)  # and its edges
def _edges(part: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    count = len(part) // 16
    sources = np.frombuffer(part, "<u4", count).astype(np.int64)
    targets = np.frombuffer(part, "<u4", count, 4 * count).astype(np.int64)
    weights = np.frombuffer(part, "<f8", count, 8 * count).astype(np.float64)
    for array in (sources, targets, weights):
        array.setflags(write=False)  # plans with these edges share them
    return sources, targets, weights


@lru_cache(maxsize=16)
def _named(names: tuple[str, ...], part: bytes) -> tuple[str, ...]:
    places = np.frombuffer(part, "<u4").tolist()
    _check_places(names, places)
    node_names = tuple([names[place] for place in places])
    if len(set(node_names)) < len(node_names):
        raise Refused(Reason.MALFORMED, "the counts of earlier plans")
    return node_names


def _check_places(names: tuple[str, ...], places: list[int]) -> None:
    if max(places, default=-1) >= len(names):
        raise Refused(Reason.MALFORMED, "a name outside the table")


RECORD_HEADER = Struct("<BB16s16sI")
SIZE = Struct("<I")
TOGETHER = 2**18
"""The longest record of several plans, in bytes."""


def encode_plans(last: Plan | None, plans: tuple[Plan, ...], digest: bytes) -> Iterator[bytes]:
    """Yield the records of plans that continue `last`, as few as can be.

    Raises ValueError for a bad id, instance or digest.

    version u8, kind u8, digest 16, mark of the plan that the first one continues 16 (zeros: it is the
    run's first), plans K u32. Then K times: its bytes u32, the plan. At most 256 KiB, unless it holds one
    plan alone. A record is accepted whole or not at all. A mark is the first half of the SHA-256 of: round
    u64, follows u64, members N u32, edges E u32, named M u32, generation u32, closing rounds left u32;
    the run, the members' names, their instances (hexadecimal) and the named names, joined by commas; full
    u8 (N,), source u32 (E,), target u32 (E,), weight float64 (E,), count u64 (M,).
    """
    mark, parts, size = NOTHING if last is None else last.mark, list[bytes](), RECORD_HEADER.size
    for plan in plans:
        data = encode_plan(plan, digest)
        if parts and last is not None and size + SIZE.size + len(data) > TOGETHER:
            yield _record(mark, parts, digest)
            mark, parts, size = last.mark, [], RECORD_HEADER.size
        parts.append(data)
        last = plan
        size += SIZE.size + len(data)
    yield _record(mark, parts, digest)


def _record(mark: bytes, parts: list[bytes], digest: bytes) -> bytes:
    header = RECORD_HEADER.pack(VERSION, Kind.PLANS, checked_digest(digest), mark, len(parts))
    return b"".join([header, *[SIZE.pack(len(data)) + data for data in parts]])


@lru_cache(maxsize=8)  # readers in one process share the decoding
def decode_plans(
    data: bytes, run: str, digest: bytes, clock: SlotClock | None = None, appended: float = inf
) -> PlanRecord:
    """Return the record in `data`. Raises Refused unless all its plans are of this run.

    `clock`: the clock of slots by time. A record that was `appended` (Stored) ahead of it is refused.
    """
    message_digest, mark, count = unpacked(
        data, RECORD_HEADER, Kind.PLANS, RECORD_HEADER.size + SIZE.size + LONGEST
    )
    check_digest(message_digest, digest)
    if count != 1 and len(data) > TOGETHER:
        raise Refused(Reason.TOO_LONG, f"{len(data)} bytes of {count} plans, at most {TOGETHER} are allowed")
    parts = list(_parts(data, count))
    try:
        record = PlanRecord(mark, tuple([decode_plan(part, run, digest) for part in parts]))
    except Refused:
        raise
    except ValueError as error:
        raise Refused(Reason.MALFORMED, str(error)) from error
    if clock is not None and clock.is_ahead(record, appended):
        raise Refused(Reason.AHEAD, f"plan {record.last.round} lies beyond the slot of its append time")
    return record


def _parts(data: bytes, count: int) -> Iterator[bytes]:
    """Yield the bytes of each plan. Raises Refused unless they fill the record."""
    at = RECORD_HEADER.size
    for _ in range(count):
        if at + SIZE.size > len(data):
            raise Refused(Reason.LENGTH, "a plan is cut off")
        (size,) = SIZE.unpack_from(data, at)
        at += SIZE.size + size
        yield data[at - size : at]
    if at != len(data):
        raise Refused(Reason.LENGTH, f"{len(data)} bytes do not hold what the header says")
