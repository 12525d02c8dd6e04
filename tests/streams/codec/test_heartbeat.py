from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.codec import Reason, Refused, accuses, decode_heartbeat, encode_heartbeat
from topology.plans import Heartbeat

DIGEST = bytes(range(16))
BEAT = Heartbeat("r", "east", "aa" * 16, "bb" * 16, 7, join_after=9, hello=True)
GOLDEN = bytes.fromhex(
    "01 03 05"
    "000102030405060708090a0b0c0d0e0f"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
    "0700000000000000 0900000000000000 0000000000000000"
    "01 72 04 65617374"
)
STEPPED, JOIN, LEAVE, IDS = 51, 59, 67, 75


def changed(at, new):
    return GOLDEN[:at] + new + GOLDEN[at + len(new) :]


def test_the_bytes_are_these():
    assert encode_heartbeat(BEAT, DIGEST) == GOLDEN
    assert decode_heartbeat(GOLDEN, "r", "east", DIGEST) == BEAT


numbers = st.just(0) | st.integers(0, 2**63 - 1)


@given(numbers, st.none() | numbers, st.none() | numbers, st.booleans(), st.booleans())
def test_what_is_encoded_comes_back_at_one_length(stepped, join, leave, hello, finished):
    beat = replace(BEAT, stepped=stepped, join_after=join, leave_from=leave, hello=hello, finished=finished)
    data = encode_heartbeat(beat, DIGEST)
    assert decode_heartbeat(data, "r", "east", DIGEST) == beat
    assert len(data) == len(GOLDEN)


@given(st.lists(st.binary(min_size=16, max_size=16).map(bytes.hex), min_size=1, max_size=8))
def test_the_accused_follow_and_without_any_the_bytes_are_those_of_old(accused):
    data = encode_heartbeat(replace(BEAT, accused=tuple(accused)), DIGEST)
    assert decode_heartbeat(data, "r", "east", DIGEST).accused == tuple(accused)
    assert accuses(data)
    assert not accuses(GOLDEN)
    assert data[:2] + GOLDEN[2:3] + data[3 : len(GOLDEN)] == GOLDEN


def test_no_more_than_eight_are_accused():
    data = encode_heartbeat(replace(BEAT, accused=("cc" * 16,) * 9), DIGEST)
    assert len(decode_heartbeat(data, "r", "east", DIGEST).accused) == 8


ACCUSING = encode_heartbeat(replace(BEAT, accused=("cc" * 16,)), DIGEST)
BROKEN = {
    "nobody accused": (ACCUSING[:-16], Reason.LENGTH),
    "half an accused": (ACCUSING[:-8], Reason.LENGTH),
    "nine accused": (ACCUSING + bytes(8 * 16), Reason.LENGTH),
    "too long": (GOLDEN + bytes(1000), Reason.TOO_LONG),
    "nothing": (b"", Reason.UNREADABLE),
    "half a header": (GOLDEN[:40], Reason.LENGTH),
    "cut in the node": (GOLDEN[:-1], Reason.LENGTH),
    "one byte more": (GOLDEN + b"x", Reason.LENGTH),
    "version 0": (changed(0, b"\0"), Reason.VERSION),
    "a release": (changed(1, b"\1"), Reason.KIND),
    "another run": (changed(IDS + 1, b"s"), Reason.RUN),
    "another node": (changed(IDS + 3, b"w"), Reason.SOURCE),
    "other settings": (changed(3, b"\x01"), Reason.DIGEST),
    "an unknown flag": (changed(2, b"\x25"), Reason.FLAGS),
    "a wish to join without its flag": (changed(2, b"\4"), Reason.FLAGS),
    "a wish to leave without its flag": (changed(LEAVE, b"\1"), Reason.FLAGS),
    "a step beyond 63 bits": (changed(STEPPED + 7, b"\x80"), Reason.MALFORMED),
    "a wish beyond 63 bits": (changed(JOIN + 7, b"\x80"), Reason.MALFORMED),
}


@pytest.mark.parametrize(("data", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_heartbeat_is_refused_with_its_reason(data, reason):
    with pytest.raises(Refused) as refusal:
        decode_heartbeat(data, "r", "east", DIGEST)
    assert refusal.value.reason is reason


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"stepped": -1}, "must be from 0"),
        ({"leave_from": 2**63}, "must be from 0"),
        ({"boot": "b"}, "32 hexadecimal"),
        ({"node": "a.b"}, "must match"),
    ],
)
def test_a_heartbeat_that_cannot_be_said_is_not_encoded(changes, text):
    with pytest.raises(ValueError, match=text):
        encode_heartbeat(replace(BEAT, **changes), DIGEST)
