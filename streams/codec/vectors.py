"""Numbered vectors of one sender in bytes: the form of releases, and of the vectors of other kinds of mesh.

version u8, kind u8, flags u8, digest 16, instance 16, number u64, run and source (u8 length, ASCII), values
float64 (d,).
"""

from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct

from nodes.machine.journal import ReleaseMessage
from nodes.values import FloatArray, Release
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
    packed_vector,
    unpacked,
    vector,
)

HEADER = Struct("<BBB16s16sQ")
_NUMBERED = {Kind.RELEASE: "round", Kind.QUERY: "query", Kind.RESPONSE: "query"}


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """The messages that a reader of one topic accepts: run, source, settings, d and the public bound.

    `source`: a node, the learner or an owner. `bound` is the largest L2 norm of the values, tolerance
    included. For a release it is (1 + 1e-9) b: b is the reach of the set, plus 64 noise scales if the noise
    is on the parameters. For class sums or moments b is the most that a record adds, plus 64 scales a
    coordinate. Raises ValueError for bad ids.
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


def packed(
    kind: Kind, flags: int, ids: tuple[str, str, str], number: int, values: FloatArray, digest: bytes
) -> bytes:
    """Return the bytes of a message; `ids`: run, source, instance. Raises ValueError for a bad part."""
    run, source, instance = ids
    if not 1 <= number <= LAST_ROUND:
        raise ValueError(f"{_NUMBERED[kind]} {number}: must be from 1 to {LAST_ROUND}")
    header = HEADER.pack(VERSION, kind, flags, checked_digest(digest), packed_hex(instance), number)
    return header + packed_ids(run, source) + packed_vector(values)


def opened(data: bytes, kind: Kind, allowed: int, expected: Expected) -> tuple[int, str, int, FloatArray]:
    """Return (flags, instance, number, values (d,)); `allowed`: the flags that may be set. Raises Refused."""
    flags, digest, instance, number = unpacked(data, HEADER, kind, expected.longest)
    if not data.startswith(expected.ids, HEADER.size):
        checked_ids(data, HEADER.size, ((expected.run, Reason.RUN), (expected.source, Reason.SOURCE)))
    check_digest(digest, expected.digest)
    if len(data) != expected.length:
        raise Refused(Reason.LENGTH, f"{len(data)} bytes, expected {expected.length}")
    if flags & ~allowed:
        raise Refused(Reason.FLAGS, f"{flags}")
    if not 1 <= number <= LAST_ROUND:
        raise Refused(Reason.MALFORMED, f"{_NUMBERED[kind]} {number}")
    return flags, instance.hex(), number, vector(data, expected.start, expected.bound)


EXACT, SIMULATED = 1, 2


def encode_release(message: ReleaseMessage, digest: bytes) -> bytes:
    """Return the bytes of a release. Raises ValueError for a bad round, id or digest.

    version u8, kind u8, flags u8 (1 exact, 2 simulated), digest 16, instance 16, round u64, run and
    source (u8 length, ASCII), q float64 (d,).
    """
    flags = (EXACT if message.exact else 0) | (SIMULATED if message.simulated else 0)
    ids = message.run, message.source, message.instance
    return packed(Kind.RELEASE, flags, ids, message.round, message.release, digest)


@lru_cache(maxsize=64)  # readers in one process with the same `expected` share the decoding
def decode_release(data: bytes, expected: Expected) -> ReleaseMessage:
    """Return the release in `data`, its array read-only. Raises Refused unless it is an expected one."""
    flags, instance, round_, values = opened(data, Kind.RELEASE, EXACT | SIMULATED, expected)
    exact, simulated = bool(flags & EXACT), bool(flags & SIMULATED)
    return ReleaseMessage(expected.run, expected.source, instance, round_, exact, simulated, Release(values))
