"""The parts that all messages share: version, kind, ids, and the reasons to refuse one."""

import math
import re
import sys
from collections.abc import Iterable
from enum import Enum, IntEnum
from functools import lru_cache
from struct import Struct
from typing import Any

import numpy as np

from nodes.values import FloatArray
from streams.codec.topics import ID_PATTERN

VERSION = 1
LONGEST_ID = 255
LAST_ROUND = 2**63 - 1
"""The last round: rounds fit the journal's signed 64-bit integers."""
LARGEST = sys.float_info.max
"""The bound of a vector that has no other: its norm is finite."""


class Kind(IntEnum):
    """The second byte of a message."""

    RELEASE = 1
    PLAN = 2
    HEARTBEAT = 3
    QUERY = 4
    RESPONSE = 5
    PLANS = 6
    SIGNED = 7


class Reason(Enum):
    """Why a message is refused: the label it is counted and dead-lettered under."""

    TOO_LONG = "too-long"
    VERSION = "version"
    KIND = "kind"
    LENGTH = "length"
    RUN = "run"
    SOURCE = "source"
    DIGEST = "digest"
    FLAGS = "flags"
    NOT_FINITE = "not-finite"
    OUT_OF_BOUND = "out-of-bound"
    MALFORMED = "malformed"
    SECOND_VALUE = "second-value"
    UNREADABLE = "unreadable"
    SIGNATURE = "signature"
    AHEAD = "ahead"


class Refused(ValueError):
    """A peer sent bytes that are not the expected message."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
        self.reason = reason


def unpacked(data: bytes, header: Struct, kind: Kind, longest: int) -> tuple[Any, ...]:
    """Return the header's fields after version and kind. Raises Refused."""
    if len(data) > longest:
        raise Refused(Reason.TOO_LONG, f"{len(data)} bytes, at most {longest} are allowed")
    check_version(data)
    if len(data) < header.size:
        raise Refused(Reason.LENGTH, f"{len(data)} bytes, the header has {header.size}")
    fields = header.unpack_from(data)
    if fields[1] != kind:
        raise Refused(Reason.KIND, f"{fields[1]}, expected {kind.value}")
    return fields[2:]


def check_version(data: bytes) -> None:
    """Raise Refused unless it begins as a message of this version."""
    if not data:
        raise Refused(Reason.UNREADABLE, "an empty record, or one that no client can read")
    if data[0] != VERSION:
        raise Refused(Reason.VERSION, f"{data[0]}, this program speaks {VERSION}")


@lru_cache(maxsize=16384)
def packed_ids(*ids: str) -> bytes:
    """Return each id as its length (one byte) and its ASCII. Raises ValueError for a bad id."""
    for text in ids:
        if re.fullmatch(ID_PATTERN, text) is None or len(text) > LONGEST_ID:
            raise ValueError(f"the id {text!r} must match {ID_PATTERN}, with at most {LONGEST_ID} characters")
    return b"".join(bytes([len(text)]) + text.encode("ascii") for text in ids)


def checked_ids(data: bytes, at: int, expected: Iterable[tuple[str, Reason]]) -> int:
    """Return the position after the ids that start at `at`. Raises Refused for the first unexpected one."""
    for text, reason in expected:
        end = at + 1 + data[at] if at < len(data) else at + 1
        if end > len(data):
            raise Refused(Reason.LENGTH, "an id is cut off")
        if data[at + 1 : end] != text.encode("ascii"):
            raise Refused(reason, f"expected {text}")
        at = end
    return at


def check_digest(digest: bytes, expected: bytes) -> None:
    """Raise Refused for a message made under other shared settings."""
    if digest != expected:
        raise Refused(Reason.DIGEST, f"settings {digest.hex()}, ours are {expected.hex()}")


def checked_digest(digest: bytes) -> bytes:
    """Return the digest. Raises ValueError unless it has 16 bytes."""
    if len(digest) != 16:
        raise ValueError(f"a digest of {len(digest)} bytes: must have 16")
    return digest


def packed_vector(values: FloatArray) -> bytes:
    """Return a vector (d,) as float64, bit for bit."""
    return values.astype("<f8", copy=False).tobytes()


def vector(data: bytes, start: int, bound: float) -> FloatArray:
    """Return the vector from `start` on, read-only. Raises Refused if its L2 norm is above `bound`."""
    # a copy: numpy would sum the message's unaligned numbers in another order
    values = np.frombuffer(data[start:], "<f8").astype(np.float64, copy=False)
    numbers = values.tolist()
    if math.hypot(*numbers) <= bound:  # neither overflows nor warns
        return values
    finite = all(map(math.isfinite, numbers))
    raise Refused(Reason.OUT_OF_BOUND if finite else Reason.NOT_FINITE)


@lru_cache(maxsize=16384)
def packed_hex(text: str) -> bytes:
    """Return the 16 bytes of an instance or boot. Raises ValueError unless it is 32 hexadecimal digits."""
    if re.fullmatch("[0-9a-f]{32}", text) is None:
        raise ValueError(f"the instance or boot {text!r} must be 32 hexadecimal digits, in lower case")
    return bytes.fromhex(text)
