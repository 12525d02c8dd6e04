import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.journal import ReleaseMessage
from streams.codec import Expected, Reason, Refused, decode_release, encode_release

DIGEST = bytes(range(16))
INSTANCE = "00112233445566778899aabbccddeeff"
EXPECTED = Expected("run-1", "east", DIGEST, 2, 5.0)
GOLDEN = bytes.fromhex(
    "01 01 02"
    "000102030405060708090a0b0c0d0e0f"
    "00112233445566778899aabbccddeeff"
    "0700000000000000"
    "05 72756e2d31"
    "04 65617374"
    "000000000000f83f"
    "00000000000000c0"
)
IDS = 43
PAYLOAD = len(GOLDEN) - 16


def message(**changes):
    values = {"run": "run-1", "source": "east", "instance": INSTANCE, "round": 7, "exact": False}
    values |= {"simulated": True, "release": np.array([1.5, -2.0])}
    return ReleaseMessage(**(values | changes))


def changed(at, new, golden=GOLDEN):
    return golden[:at] + new + golden[at + len(new) :]


def payload(*values):
    return GOLDEN[:PAYLOAD] + struct.pack(f"<{len(values)}d", *values)


def ids(run, source):
    return GOLDEN[:IDS] + bytes([len(run)]) + run + bytes([len(source)]) + source + GOLDEN[PAYLOAD:]


def same(one, other):
    fields = ("run", "source", "instance", "round", "exact", "simulated")
    return (
        all(getattr(one, name) == getattr(other, name) for name in fields)
        and one.release.dtype == other.release.dtype
        and one.release.tobytes() == other.release.tobytes()
    )


def test_the_bytes_are_these():
    assert encode_release(message(), DIGEST) == GOLDEN
    assert same(decode_release(GOLDEN, EXPECTED), message())


def test_a_decoded_release_is_read_only():
    with pytest.raises(ValueError, match="read-only"):
        decode_release(GOLDEN, EXPECTED).release[0] = 0.0


@given(
    st.from_regex("[a-z0-9-]{1,40}", fullmatch=True),
    st.from_regex("[a-z0-9-]{1,40}", fullmatch=True),
    st.binary(min_size=16, max_size=16),
    st.integers(1, 2**63 - 1),
    st.tuples(st.booleans(), st.booleans()),
    st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=20),
)
def test_what_is_encoded_comes_back(run, source, instance, number, flags, values):
    sent = ReleaseMessage(run, source, instance.hex(), number, *flags, np.array(values))
    expected = Expected(run, source, DIGEST, len(values), 1e102)
    assert same(decode_release(encode_release(sent, DIGEST), expected), sent)


BROKEN = {
    "too long": (GOLDEN + bytes(1000), Reason.TOO_LONG),
    "a megabyte": (bytes(2**20), Reason.TOO_LONG),
    "nothing": (b"", Reason.UNREADABLE),
    "one byte": (GOLDEN[:1], Reason.LENGTH),
    "half a header": (GOLDEN[:20], Reason.LENGTH),
    "the header alone": (GOLDEN[:IDS], Reason.LENGTH),
    "cut in the run": (GOLDEN[: IDS + 3], Reason.LENGTH),
    "cut before the source": (GOLDEN[: IDS + 6], Reason.LENGTH),
    "cut in the source": (GOLDEN[: IDS + 8], Reason.LENGTH),
    "no payload": (GOLDEN[:PAYLOAD], Reason.LENGTH),
    "one number": (payload(1.0), Reason.LENGTH),
    "three numbers": (payload(1.0, 1.0, 1.0), Reason.LENGTH),
    "a byte short": (GOLDEN[:-1], Reason.LENGTH),
    "a byte long": (GOLDEN + b"\0", Reason.LENGTH),
    "version 0": (changed(0, b"\0"), Reason.VERSION),
    "version 2": (changed(0, b"\2"), Reason.VERSION),
    "json": (b'{"round": 7, "release": [1.5, -2.0], "source": "east", "run": "run-1"}', Reason.VERSION),
    "a pickle": (b"\x80\x04N.", Reason.VERSION),
    "a plan": (changed(1, b"\2"), Reason.KIND),
    "a heartbeat": (changed(1, b"\3"), Reason.KIND),
    "no kind": (changed(1, b"\0"), Reason.KIND),
    "another run": (changed(IDS + 5, b"2"), Reason.RUN),
    "a longer run": (ids(b"run-11", b"east"), Reason.RUN),
    "a shorter run": (ids(b"run-", b"east"), Reason.RUN),
    "no run": (ids(b"", b"east"), Reason.RUN),
    "a run in capitals": (ids(b"RUN-1", b"east"), Reason.RUN),
    "a run that is not text": (ids(b"\xff\xfe\xfd\xfc\xfb", b"east"), Reason.RUN),
    "another source": (ids(b"run-1", b"west"), Reason.SOURCE),
    "a longer source": (ids(b"run-1", b"east2"), Reason.SOURCE),
    "no source": (ids(b"run-1", b""), Reason.SOURCE),
    "source and run swapped": (ids(b"east", b"run-1"), Reason.RUN),
    "other settings": (changed(3, b"\xff"), Reason.DIGEST),
    "settings all zero": (changed(3, bytes(16)), Reason.DIGEST),
    "an unknown flag": (changed(2, b"\4"), Reason.FLAGS),
    "all flags": (changed(2, b"\xff"), Reason.FLAGS),
    "round 0": (changed(35, bytes(8)), Reason.MALFORMED),
    "a round beyond 63 bits": (changed(35, b"\xff" * 8), Reason.MALFORMED),
    "NaN": (payload(math.nan, 0.0), Reason.NOT_FINITE),
    "a signalling NaN": (changed(PAYLOAD, bytes.fromhex("010000000000f07f")), Reason.NOT_FINITE),
    "infinity": (payload(0.0, math.inf), Reason.NOT_FINITE),
    "minus infinity": (payload(-math.inf, math.nan), Reason.NOT_FINITE),
    "outside": (payload(3.0, -4.0000001), Reason.OUT_OF_BOUND),
    "far outside": (payload(1e300, 1e300), Reason.OUT_OF_BOUND),
    "a norm that overflows": (payload(1.7e308, 1.7e308), Reason.OUT_OF_BOUND),
    "big-endian": (GOLDEN[:PAYLOAD] + struct.pack(">2d", 1.1, -2.1), Reason.OUT_OF_BOUND),
}


@pytest.mark.parametrize(("data", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_release_is_refused_with_its_reason(data, reason):
    with pytest.raises(Refused) as refusal:
        decode_release(data, EXPECTED)
    assert refusal.value.reason is reason
    assert str(refusal.value).startswith(reason.value)


def test_the_bound_itself_is_inside():
    assert decode_release(payload(3.0, -4.0), EXPECTED).release.tolist() == [3.0, -4.0]


@pytest.mark.parametrize(
    ("changes", "digest", "text"),
    [
        ({"round": 0}, DIGEST, "round 0"),
        ({"round": 2**63}, DIGEST, "round 9223372036854775808"),
        ({"run": "Run"}, DIGEST, "'Run' must match"),
        ({"source": "a" * 256}, DIGEST, "at most 255"),
        ({"instance": "12"}, DIGEST, "32 hexadecimal"),
        ({"instance": INSTANCE.upper()}, DIGEST, "32 hexadecimal"),
        ({}, DIGEST[:8], "8 bytes"),
    ],
)
def test_a_message_that_is_none_is_not_encoded(changes, digest, text):
    with pytest.raises(ValueError, match=text):
        encode_release(message(**changes), digest)


@pytest.mark.parametrize("changes", [{"digest": b""}, {"run": "a.b"}, {"source": ""}])
def test_expecting_what_cannot_be_is_an_error(changes):
    values = {"run": "run-1", "source": "east", "digest": DIGEST, "dimension": 2, "bound": 5.0}
    with pytest.raises(ValueError, match="must"):
        Expected(**(values | changes))
