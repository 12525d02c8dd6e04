"""Heartbeats in bytes. Without accusations their length is constant, and nothing in them depends on data."""

from struct import Struct

from streams.codec.envelope import (
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
from topology.plans import MOST_TOLD, Heartbeat

HEADER = Struct("<BBB16s16s16sQQQ")
JOIN, LEAVE, HELLO, ACCUSES, FINISHED = 1, 2, 4, 8, 16
LONGEST = HEADER.size + 2 * (1 + LONGEST_ID)  # names in a mesh file are shorter, so accusations fit
INSTANCE = 16
"""Bytes of an instance."""


def encode_heartbeat(heartbeat: Heartbeat, digest: bytes) -> bytes:
    """Return the bytes of a heartbeat. Raises ValueError for a bad round, id or digest.

    version u8, kind u8, flags u8 (1 asks to join, 2 asks to leave, 4 hello, 8 accuses, 16 learns no
    more), digest 16, instance 16, boot 16, stepped u64, join_after u64, leave_from u64 (0 where not
    asked), run and node (u8 length, ASCII). With flag 8 follow the accused instances: 16 bytes each, at
    most 8.
    """
    join, leave = heartbeat.join_after, heartbeat.leave_from
    rounds = (heartbeat.stepped, join or 0, leave or 0)
    if not all(0 <= number <= LAST_ROUND for number in rounds):
        raise ValueError(f"stepped, join_after, leave_from are {rounds}: must be from 0 to {LAST_ROUND}")
    flags = (JOIN if join is not None else 0) | (LEAVE if leave is not None else 0)
    flags |= HELLO if heartbeat.hello else 0
    flags |= ACCUSES if heartbeat.accused else 0
    flags |= FINISHED if heartbeat.finished else 0
    ids = (packed_hex(heartbeat.instance), packed_hex(heartbeat.boot))
    header = HEADER.pack(VERSION, Kind.HEARTBEAT, flags, checked_digest(digest), *ids, *rounds)
    accused = b"".join(map(packed_hex, heartbeat.accused[:MOST_TOLD]))
    return header + packed_ids(heartbeat.run, heartbeat.node) + accused


def accuses(data: bytes) -> bool:
    """Return whether the bytes may be a heartbeat with accusations, so that a reader should decode it."""
    return len(data) > HEADER.size and bool(data[2] & ACCUSES)


def decode_heartbeat(data: bytes, run: str, node: str, digest: bytes) -> Heartbeat:
    """Return the heartbeat in `data`. Raises Refused unless it is one of this node and run."""
    flags, message_digest, instance, boot, stepped, join, leave = unpacked(
        data, HEADER, Kind.HEARTBEAT, LONGEST
    )
    end = checked_ids(data, HEADER.size, ((run, Reason.RUN), (node, Reason.SOURCE)))
    check_digest(message_digest, digest)
    if flags > JOIN | LEAVE | HELLO | ACCUSES | FINISHED:
        raise Refused(Reason.FLAGS, f"{flags}")
    accused = _accused(data, end) if flags & ACCUSES else ()
    if len(data) != end + INSTANCE * len(accused):
        raise Refused(Reason.LENGTH, f"{len(data)} bytes, expected {end}")
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
        accused=accused,
        finished=bool(flags & FINISHED),
    )


def _accused(data: bytes, start: int) -> tuple[str, ...]:
    """Return all whole instances from `start` on. Raises Refused if there are none, or too many."""
    instances = [data[at : at + INSTANCE].hex() for at in range(start, len(data) - INSTANCE + 1, INSTANCE)]
    if not 1 <= len(instances) <= MOST_TOLD:
        raise Refused(Reason.LENGTH, f"{len(instances)} accused instances, from 1 to {MOST_TOLD} are allowed")
    return tuple(instances)
