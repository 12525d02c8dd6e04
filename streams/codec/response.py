"""An owner's responses to a collaboration's queries in bytes.

version u8, kind u8, flags u8 (2 simulated), digest 16, instance 16, query u64, run and owner (u8 length,
ASCII), response float64 (d,).
"""

from functools import lru_cache

from nodes.collaboration.messages import Response
from streams.codec.exchange import Expected, opened, packed
from streams.codec.fields import Kind
from streams.codec.release import SIMULATED


def encode_response(response: Response, digest: bytes) -> bytes:
    """Return the bytes of a response. Raises ValueError for a bad number, id or digest."""
    ids = response.run, response.owner, response.instance
    flags = SIMULATED if response.simulated else 0
    return packed(Kind.RESPONSE, flags, ids, response.query, response.response, digest)


@lru_cache(maxsize=64)
def decode_response(data: bytes, expected: Expected) -> Response:
    """Return the response in `data`, its array read-only. Raises Refused unless it is an expected one."""
    flags, instance, number, values = opened(data, Kind.RESPONSE, SIMULATED, expected)
    return Response(expected.run, expected.source, instance, number, bool(flags & SIMULATED), values)
