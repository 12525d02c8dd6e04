"""A collaboration's queries in bytes.

version u8, kind u8, flags u8 (1 final), digest 16, instance 16, number u64, run and learner (u8 length,
ASCII), parameters float64 (d,).
"""

from functools import lru_cache

from nodes.collaboration.messages import Query
from streams.codec.exchange import Expected, opened, packed
from streams.codec.fields import Kind

FINAL = 1


def encode_query(query: Query, digest: bytes) -> bytes:
    """Return the bytes of a query. Raises ValueError for a bad number, id or digest."""
    ids = query.run, query.learner, query.instance
    return packed(Kind.QUERY, FINAL if query.final else 0, ids, query.number, query.parameters, digest)


@lru_cache(maxsize=64)  # the owners of one process share the decoding
def decode_query(data: bytes, expected: Expected) -> Query:
    """Return the query in `data`, its array read-only. Raises Refused unless it is an expected one."""
    flags, instance, number, parameters = opened(data, Kind.QUERY, FINAL, expected)
    return Query(expected.run, expected.source, instance, number, parameters, bool(flags & FINAL))
