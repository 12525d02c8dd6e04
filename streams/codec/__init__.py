"""The codec: the bytes of all messages, the same on every bus.

Integers and float64 are little-endian; there are no pickles. Each message begins with a version, a kind and
the digest of the shared settings. Decoding any bytes returns a value or raises `Refused` with a `Reason`.
"""

from streams.codec.envelope import Reason, Refused, decode_dead_letter, encode_dead_letter
from streams.codec.heartbeat import accuses, decode_heartbeat, encode_heartbeat
from streams.codec.plans import decode_plan, decode_plans, encode_plan, encode_plans
from streams.codec.vectors import (
    Expected,
    decode_release,
    encode_release,
)

__all__ = [
    "Expected",
    "Reason",
    "Refused",
    "accuses",
    "decode_dead_letter",
    "decode_heartbeat",
    "decode_plan",
    "decode_plans",
    "decode_release",
    "encode_dead_letter",
    "encode_heartbeat",
    "encode_plan",
    "encode_plans",
    "encode_release",
]
