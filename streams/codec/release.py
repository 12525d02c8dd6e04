"""Releases in bytes.

version u8, kind u8, flags u8 (1 exact, 2 simulated), digest 16, instance 16, round u64, run and source (u8
length, ASCII), q float64 (d,).
"""

from functools import lru_cache

from nodes.machine.journal import ReleaseMessage
from nodes.values import Release
from streams.codec.exchange import Expected, opened, packed
from streams.codec.fields import Kind

EXACT, SIMULATED = 1, 2


def encode_release(message: ReleaseMessage, digest: bytes) -> bytes:
    """Return the bytes of a release. Raises ValueError for a bad round, id or digest."""
    flags = (EXACT if message.exact else 0) | (SIMULATED if message.simulated else 0)
    ids = message.run, message.source, message.instance
    return packed(Kind.RELEASE, flags, ids, message.round, message.release, digest)


@lru_cache(maxsize=64)  # readers in one process with the same `expected` share the decoding
def decode_release(data: bytes, expected: Expected) -> ReleaseMessage:
    """Return the release in `data`, its array read-only. Raises Refused unless it is an expected one."""
    flags, instance, round_, values = opened(data, Kind.RELEASE, EXACT | SIMULATED, expected)
    exact, simulated = bool(flags & EXACT), bool(flags & SIMULATED)
    return ReleaseMessage(expected.run, expected.source, instance, round_, exact, simulated, Release(values))
