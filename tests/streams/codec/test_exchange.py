"""A collaboration's queries and responses in bytes."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.collaboration.messages import Query, Response
from streams.codec import Expected, Reason, Refused
from streams.codec.envelope import LARGEST
from streams.collaboration.wire import decode_query, decode_response, encode_query, encode_response

DIGEST = bytes(range(16))
INSTANCE = "00112233445566778899aabbccddeeff"
HEAD = f"{DIGEST.hex()} {INSTANCE} 0700000000000000 05 6669727374"
VALUES = "000000000000f83f 00000000000000c0"
QUERY = bytes.fromhex(f"01 04 01 {HEAD} 07 616e616c797374 {VALUES}")
RESPONSE = bytes.fromhex(f"01 05 02 {HEAD} 06 62616e6b2d61 {VALUES}")
LEARNER = Expected("first", "analyst", DIGEST, 2, 5.0)
OWNER = Expected("first", "bank-a", DIGEST, 2, LARGEST)
IDS = 43
PAYLOAD = len(QUERY) - 16


def query(**changes):
    values = {"run": "first", "learner": "analyst", "instance": INSTANCE, "number": 7, "final": True}
    return Query(**(values | {"parameters": np.array([1.5, -2.0])} | changes))


def response(**changes):
    values = {"run": "first", "owner": "bank-a", "instance": INSTANCE, "query": 7, "simulated": True}
    return Response(**(values | {"response": np.array([1.5, -2.0])} | changes))


def same(one, other):
    pairs = zip(one, other, strict=True)
    return type(one) is type(other) and all(
        a.tobytes() == b.tobytes() if isinstance(a, np.ndarray) else a == b for a, b in pairs
    )


def test_the_bytes_are_these():
    assert encode_query(query(), DIGEST) == QUERY
    assert encode_response(response(), DIGEST) == RESPONSE
    assert same(decode_query(QUERY, LEARNER), query())
    assert same(decode_response(RESPONSE, OWNER), response())


def test_a_decoded_vector_is_read_only():
    with pytest.raises(ValueError, match="read-only"):
        decode_query(QUERY, LEARNER).parameters[0] = 0.0
    with pytest.raises(ValueError, match="read-only"):
        decode_response(RESPONSE, OWNER).response[0] = 0.0


names = st.from_regex("[a-z0-9-]{1,40}", fullmatch=True)
numbers = st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=1, max_size=20)
within = numbers.filter(lambda values: math.isfinite(math.hypot(*values)))


@given(names, names, st.binary(min_size=16, max_size=16), st.integers(1, 2**63 - 1), st.booleans(), within)
def test_what_is_encoded_comes_back_bit_for_bit(run, source, instance, number, flag, values):
    expected, vector = Expected(run, source, DIGEST, len(values), LARGEST), np.array(values)
    asked = Query(run, source, instance.hex(), number, vector, flag)
    assert same(decode_query(encode_query(asked, DIGEST), expected), asked)
    said = Response(run, source, instance.hex(), number, flag, vector)
    assert same(decode_response(encode_response(said, DIGEST), expected), said)


def changed(at, new):
    return QUERY[:at] + new + QUERY[at + len(new) :]


def payload(*values):
    return QUERY[:PAYLOAD] + struct.pack(f"<{len(values)}d", *values)


BROKEN = {
    "too long": (QUERY + bytes(1000), Reason.TOO_LONG),
    "nothing": (b"", Reason.UNREADABLE),
    "half a header": (QUERY[:20], Reason.LENGTH),
    "the header alone": (QUERY[:IDS], Reason.LENGTH),
    "cut in the learner": (QUERY[: IDS + 8], Reason.LENGTH),
    "no payload": (QUERY[:PAYLOAD], Reason.LENGTH),
    "three numbers": (payload(1.0, 1.0, 1.0), Reason.LENGTH),
    "a byte short": (QUERY[:-1], Reason.LENGTH),
    "version 2": (changed(0, b"\2"), Reason.VERSION),
    "a pickle": (b"\x80\x04N.", Reason.VERSION),
    "a release": (changed(1, b"\1"), Reason.KIND),
    "a response": (RESPONSE, Reason.KIND),
    "another run": (changed(IDS + 5, b"2"), Reason.RUN),
    "another learner": (changed(IDS + 8, b"x"), Reason.SOURCE),
    "other settings": (changed(3, b"\xff"), Reason.DIGEST),
    "a response's flag": (changed(2, b"\2"), Reason.FLAGS),
    "all flags": (changed(2, b"\xff"), Reason.FLAGS),
    "query 0": (changed(35, bytes(8)), Reason.MALFORMED),
    "a number beyond 63 bits": (changed(35, b"\xff" * 8), Reason.MALFORMED),
    "NaN": (payload(math.nan, 0.0), Reason.NOT_FINITE),
    "infinity": (payload(0.0, -math.inf), Reason.NOT_FINITE),
    "outside": (payload(3.0, -4.0000001), Reason.OUT_OF_BOUND),
    "a norm that overflows": (payload(1.7e308, 1.7e308), Reason.OUT_OF_BOUND),
}


@pytest.mark.parametrize(("data", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_query_is_refused_with_its_reason(data, reason):
    with pytest.raises(Refused) as refusal:
        decode_query(data, LEARNER)
    assert refusal.value.reason is reason


def test_a_response_has_no_bound_but_that_its_norm_is_finite():
    far = RESPONSE[:-16] + struct.pack("<2d", 1e308, -1e308)
    assert decode_response(far, OWNER).response.tolist() == [1e308, -1e308]
    for values, reason in (((1.7e308, 1.7e308), Reason.OUT_OF_BOUND), ((0.0, math.nan), Reason.NOT_FINITE)):
        with pytest.raises(Refused) as refusal:
            decode_response(RESPONSE[:-16] + struct.pack("<2d", *values), OWNER)
        assert refusal.value.reason is reason


def test_a_response_does_not_have_a_querys_flag():
    with pytest.raises(Refused) as refusal:
        decode_response(RESPONSE[:2] + b"\1" + RESPONSE[3:], OWNER)
    assert refusal.value.reason is Reason.FLAGS


@pytest.mark.parametrize(
    ("changes", "digest", "text"),
    [
        ({"number": 0}, DIGEST, "query 0"),
        ({"number": 2**63}, DIGEST, "query 9223372036854775808"),
        ({"run": "Run"}, DIGEST, "'Run' must match"),
        ({"learner": "a" * 256}, DIGEST, "at most 255"),
        ({"instance": "12"}, DIGEST, "32 hexadecimal"),
        ({}, DIGEST[:8], "8 bytes"),
    ],
)
def test_a_query_that_is_none_is_not_encoded(changes, digest, text):
    with pytest.raises(ValueError, match=text):
        encode_query(query(**changes), digest)


@pytest.mark.parametrize("changes", [{"digest": b""}, {"run": "a.b"}, {"source": ""}])
def test_expecting_what_cannot_be_is_an_error(changes):
    values = {"run": "first", "source": "bank-a", "digest": DIGEST, "dimension": 2, "bound": LARGEST}
    with pytest.raises(ValueError, match="must"):
        Expected(**(values | changes))
