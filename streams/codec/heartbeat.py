"""Heartbeats in bytes: of constant length for a node, with nothing about data.

version u8, kind u8, flags u8 (1 asks to join, 2 asks to leave, 4 hello), digest 16, instance 16, boot 16,
stepped u64, join_after u64, leave_from u64 (0 where not asked), run and node (u8 length, ASCII).
"""

from struct import Struct

from streams.codec.fields import (
    LAST_ROUND,
    LONGEST_ID,
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
from topology.plans import Heartbeat

HEADER = Struct("<BBB16s16s16sQQQ")
JOIN, LEAVE, HELLO = 1, 2, 4
LONGEST = HEADER.size + 2 * (1 + LONGEST_ID)


def encode_heartbeat(heartbeat: Heartbeat, digest: bytes) -> bytes:
    """Return the bytes of a heartbeat. Raises ValueError for a bad round, id or digest."""
    join, leave = heartbeat.join_after, heartbeat.leave_from
    rounds = (heartbeat.stepped, join or 0, leave or 0)
    if not all(0 <= number <= LAST_ROUND for number in rounds):
        raise ValueError(f"stepped, join_after, leave_from are {rounds}: must be from 0 to {LAST_ROUND}")
    flags = (JOIN if join is not None else 0) | (LEAVE if leave is not None else 0)
    flags |= HELLO if heartbeat.hello else 0
    ids = (packed_hex(heartbeat.instance), packed_hex(heartbeat.boot))
    header = HEADER.pack(VERSION, Kind.HEARTBEAT, flags, checked_digest(digest), *ids, *rounds)
    return header + packed_ids(heartbeat.run, heartbeat.node)


def decode_heartbeat(data: bytes, run: str, node: str, digest: bytes) -> Heartbeat:
    """Return the heartbeat in `data`. Raises Refused unless it is one of this node and run."""
    flags, found, instance, boot, stepped, join, leave = unpacked(data, HEADER, Kind.HEARTBEAT, LONGEST)
    end = checked_ids(data, HEADER.size, ((run, Reason.RUN), (node, Reason.SOURCE)))
    check_digest(found, digest)
    if len(data) != end:
        raise Refused(Reason.LENGTH, f"{len(data)} bytes, expected {end}")
    if flags > JOIN | LEAVE | HELLO:
        raise Refused(Reason.FLAGS, f"{flags}")
    if max(stepped, join, leave) > LAST_ROUND:
        raise Refused(Reason.MALFORMED, f"rounds {stepped}, {join}, {leave}")
    if (join and not flags & JOIN) or (leave and not flags & LEAVE):
        raise Refused(Reason.FLAGS, "a wish without its flag")
    return Heartbeat(
        run,
        node,
        instance.hex(),
        boot.hex(),
        stepped,
        join_after=join if flags & JOIN else None,
        leave_from=leave if flags & LEAVE else None,
        hello=bool(flags & HELLO),
    )
