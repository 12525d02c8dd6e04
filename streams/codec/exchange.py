"""The common form of a collaboration's messages: one numbered vector of one party.

version u8, kind u8, flags u8, digest 16, instance 16, number u64, run and source (u8 length, ASCII), values
float64 (d,).
"""

from dataclasses import dataclass, field
from struct import Struct

from nodes.values import FloatArray
from streams.codec.fields import (
    LARGEST,
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


@dataclass(frozen=True, slots=True)
class ExpectedVector:
    """The messages that a reader of one topic accepts: run, source, settings, d, and bound.

    `source`: the learner or the owner. `bound`: the largest L2 norm of the values, tolerance included.
    Raises ValueError for bad ids.
    """

    run: str
    source: str
    digest: bytes
    dimension: int
    bound: float = LARGEST
    start: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checked_digest(self.digest)
        object.__setattr__(self, "start", HEADER.size + len(packed_ids(self.run, self.source)))

    @property
    def length(self) -> int:
        """The length of a right message, in bytes."""
        return self.start + 8 * self.dimension


def packed(
    kind: Kind, flags: int, ids: tuple[str, str, str], number: int, values: FloatArray, digest: bytes
) -> bytes:
    """Return the bytes of a message; `ids`: run, source, instance. Raises ValueError for a bad part."""
    run, source, instance = ids
    if not 1 <= number <= LAST_ROUND:
        raise ValueError(f"query {number}: must be from 1 to {LAST_ROUND}")
    header = HEADER.pack(VERSION, kind, flags, checked_digest(digest), packed_hex(instance), number)
    return header + packed_ids(run, source) + packed_vector(values)


def opened(
    data: bytes, kind: Kind, allowed: int, expected: ExpectedVector
) -> tuple[int, str, int, FloatArray]:
    """Return (flags, instance, number, values (d,)); `allowed`: the flags there are. Raises Refused."""
    longest = HEADER.size + 2 * (1 + LONGEST_ID) + 8 * expected.dimension
    flags, digest, instance, number = unpacked(data, HEADER, kind, longest)
    checked_ids(data, HEADER.size, ((expected.run, Reason.RUN), (expected.source, Reason.SOURCE)))
    check_digest(digest, expected.digest)
    if len(data) != expected.length:
        raise Refused(Reason.LENGTH, f"{len(data)} bytes, expected {expected.length}")
    if flags & ~allowed:
        raise Refused(Reason.FLAGS, f"{flags}")
    if not 1 <= number <= LAST_ROUND:
        raise Refused(Reason.MALFORMED, f"query {number}")
    return flags, instance.hex(), number, vector(data, expected.start, expected.bound)
