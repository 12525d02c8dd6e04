"""Releases in bytes.

version u8, kind u8, flags u8 (1 exact, 2 simulated), digest 16, instance 16, round u64, run and source (u8
length, ASCII), q float64 (d,).
"""

from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct

from nodes.machine.journal import ReleaseMessage
from nodes.values import Release
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
    packed_vector,
    unpacked,
    vector,
)

HEADER = Struct("<BBB16s16sQ")
EXACT, SIMULATED = 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """The releases that a reader of one edge accepts: run, source, settings, d and the public bound.

    `bound` is the largest L2 norm of a release, tolerance included: (the reach of the set, plus 64 noise
    scales if the noise is on the parameters) times 1 + 1e-9. Raises ValueError for bad ids.
    """

    run: str
    source: str
    digest: bytes
    dimension: int
    bound: float
    ids: bytes = field(init=False, repr=False)
    start: int = field(init=False, repr=False)
    length: int = field(init=False, repr=False)
    longest: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checked_digest(self.digest)
        ids = packed_ids(self.run, self.source)
        start = HEADER.size + len(ids)
        payload = 8 * self.dimension
        derived = {"ids": ids, "start": start, "length": start + payload}
        derived["longest"] = HEADER.size + 2 * (1 + LONGEST_ID) + payload
        for name, value in derived.items():
            object.__setattr__(self, name, value)


def encode_release(message: ReleaseMessage, digest: bytes) -> bytes:
    """Return the bytes of a release. Raises ValueError for a bad round, id or digest."""
    if not 1 <= message.round <= LAST_ROUND:
        raise ValueError(f"round {message.round}: must be from 1 to {LAST_ROUND}")
    flags = (EXACT if message.exact else 0) | (SIMULATED if message.simulated else 0)
    instance = packed_hex(message.instance)
    header = HEADER.pack(VERSION, Kind.RELEASE, flags, checked_digest(digest), instance, message.round)
    return header + packed_ids(message.run, message.source) + packed_vector(message.release)


@lru_cache(maxsize=64)  # readers in one process with the same `expected` share the decoding
def decode_release(data: bytes, expected: Expected) -> ReleaseMessage:
    """Return the release in `data`, its array read-only. Raises Refused unless it is an expected one."""
    flags, digest, instance, round_ = unpacked(data, HEADER, Kind.RELEASE, expected.longest)
    if not data.startswith(expected.ids, HEADER.size):
        checked_ids(data, HEADER.size, ((expected.run, Reason.RUN), (expected.source, Reason.SOURCE)))
    check_digest(digest, expected.digest)
    if len(data) != expected.length:
        raise Refused(Reason.LENGTH, f"{len(data)} bytes, expected {expected.length}")
    if flags > EXACT | SIMULATED:
        raise Refused(Reason.FLAGS, f"{flags}")
    if not 1 <= round_ <= LAST_ROUND:
        raise Refused(Reason.MALFORMED, f"round {round_}")
    return ReleaseMessage(
        expected.run,
        expected.source,
        instance.hex(),
        round_,
        bool(flags & EXACT),
        bool(flags & SIMULATED),
        Release(vector(data, expected.start, expected.bound)),
    )
