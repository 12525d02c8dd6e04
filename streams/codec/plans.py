"""Records of plans in bytes.

version u8, kind u8, digest 16, mark of the plan that the first one continues 16 (zeros: it is the run's
first), plans K u32. Then K times: its bytes u32, the plan. At most 256 KiB, unless it holds one plan alone. A
record is taken whole or not at all. A mark is the first half of the SHA-256 of: round u64, follows u64,
members N u32, edges E u32, named M u32, generation u32; the run, the members' names, their instances
(hexadecimal) and the named names, joined by commas; full u8 (N,), source u32 (E,), target u32 (E,), weight
float64 (E,), count u64 (M,).
"""

from collections.abc import Iterator
from functools import lru_cache
from math import inf
from struct import Struct

from streams.codec.fields import (
    VERSION,
    Kind,
    Reason,
    Refused,
    check_digest,
    checked_digest,
    unpacked,
)
from streams.codec.plan import LONGEST, decode_plan, encode_plan
from topology.plans import NOTHING, Plan, PlanRecord
from topology.slot_clock import SlotClock

HEADER = Struct("<BB16s16sI")
SIZE = Struct("<I")
TOGETHER = 2**18
"""The longest record of several plans, in bytes."""


def encode_plans(last: Plan | None, plans: tuple[Plan, ...], digest: bytes) -> Iterator[bytes]:
    """Yield the records of plans that continue `last`, as few as can be.

    Raises ValueError for a bad id, instance or digest.
    """
    mark, parts, size = NOTHING if last is None else last.mark, list[bytes](), HEADER.size
    for plan in plans:
        data = encode_plan(plan, digest)
        if parts and last is not None and size + SIZE.size + len(data) > TOGETHER:
            yield _record(mark, parts, digest)
            mark, parts, size = last.mark, [], HEADER.size
        parts.append(data)
        last = plan
        size += SIZE.size + len(data)
    yield _record(mark, parts, digest)


def _record(mark: bytes, parts: list[bytes], digest: bytes) -> bytes:
    header = HEADER.pack(VERSION, Kind.PLANS, checked_digest(digest), mark, len(parts))
    return b"".join([header, *[SIZE.pack(len(data)) + data for data in parts]])


@lru_cache(maxsize=8)  # readers in one process share the decoding
def decode_plans(
    data: bytes, run: str, digest: bytes, clock: SlotClock | None = None, appended: float = inf
) -> PlanRecord:
    """Return the record in `data`. Raises Refused unless all of it is of this run.

    `clock`: that of slots by time; refuses a record that was `appended` (Stored) ahead of it.
    """
    message_digest, mark, count = unpacked(data, HEADER, Kind.PLANS, HEADER.size + SIZE.size + LONGEST)
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
    at = HEADER.size
    for _ in range(count):
        if at + SIZE.size > len(data):
            raise Refused(Reason.LENGTH, "a plan is cut off")
        (size,) = SIZE.unpack_from(data, at)
        at += SIZE.size + size
        yield data[at - size : at]
    if at != len(data):
        raise Refused(Reason.LENGTH, f"{len(data)} bytes do not hold what the header says")
