"""The codec: the bytes of all messages, the same on every bus.

Integers and float64 are little-endian; there are no pickles. Each message begins with a version, a kind and
the digest of the shared settings. Decoding any bytes returns a value or raises `Refused` with a `Reason`.
"""

from streams.codec.dead_letter import decode_dead_letter, encode_dead_letter
from streams.codec.exchange import Expected
from streams.codec.fields import Reason, Refused
from streams.codec.heartbeat import accuses, decode_heartbeat, encode_heartbeat
from streams.codec.plan import decode_plan, encode_plan
from streams.codec.plans import decode_plans, encode_plans
from streams.codec.query import decode_query, encode_query
from streams.codec.release import decode_release, encode_release
from streams.codec.response import decode_response, encode_response

__all__ = [
    "Expected",
    "Reason",
    "Refused",
    "accuses",
    "decode_dead_letter",
    "decode_heartbeat",
    "decode_plan",
    "decode_plans",
    "decode_query",
    "decode_release",
    "decode_response",
    "encode_dead_letter",
    "encode_heartbeat",
    "encode_plan",
    "encode_plans",
    "encode_query",
    "encode_release",
    "encode_response",
]
