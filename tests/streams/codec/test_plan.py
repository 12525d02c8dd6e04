import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.codec import Reason, Refused, decode_plan, encode_plan
from topology.plans import Member, Plan

DIGEST = bytes(range(16))
A, B = "aa" * 16, "bb" * 16
GOLDEN = bytes.fromhex(
    "01 02"
    "000102030405060708090a0b0c0d0e0f"
    "0900000000000000 0700000000000000"  # round 9 follows 7
    "0a000000 02000000 01000000 02000000 05000000"  # 10 bytes of names, 2 members, 1 edge, 2 counts; file 5
    "03000000"  # 3 closing rounds left
    "01 72"
    "656173742c6f6c642c77"  # east,old,w
    "00000000 02000000"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
    "01 00"
    "00000000 01000000 000000000000e03f"  # east -> w, 0.5
    "00000000 01000000"
    "0700000000000000 0300000000000000"
)
CLOSING, TABLE = 54, 60
PLACES, FULL = TABLE + 10, TABLE + 10 + 8 + 32
SOURCE, TARGET, WEIGHT = FULL + 2, FULL + 6, FULL + 10
NAMED, COUNTS = WEIGHT + 8, WEIGHT + 16


def plan(**changes):
    values = {
        "run": "r",
        "round": 9,
        "follows": 7,
        "members": (Member("east", A), Member("w", B, full=False)),
    }
    values |= {"sources": np.array([0]), "targets": np.array([1]), "weights": np.array([0.5])}
    return Plan(**(values | {"named": (("east", 7), ("old", 3)), "generation": 5, "closing": 3} | changes))


def same(one, other):
    arrays = ("sources", "targets", "weights")
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("run", "round", "follows", "generation", "closing")
    ) and (
        (one.members, one.named) == (other.members, other.named)
        and all(getattr(one, name).dtype == getattr(other, name).dtype for name in arrays)
        and all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in arrays)
    )


def changed(at, new):
    return GOLDEN[:at] + new + GOLDEN[at + len(new) :]


def test_the_bytes_are_these():
    assert encode_plan(plan(), DIGEST) == GOLDEN
    assert same(decode_plan(GOLDEN, "r", DIGEST), plan())


def test_readers_of_one_process_share_a_plan_that_nobody_can_change():
    one = decode_plan(GOLDEN, "r", DIGEST)
    assert decode_plan(bytes(bytearray(GOLDEN)), "r", DIGEST) is one
    for array in (one.sources, one.targets, one.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_the_plan_that_ends_a_run_comes_back():
    none = np.array([], dtype=np.int64)
    end = Plan("r", 9, 7, (), none, none, np.array([]), (("east", 7),))
    assert same(decode_plan(encode_plan(end, DIGEST), "r", DIGEST), end)
    bare = Plan("r", 9, 7, (), none, none, np.array([]))
    assert same(decode_plan(encode_plan(bare, DIGEST), "r", DIGEST), bare)


@st.composite
def plans(draw):
    ids = st.from_regex("[a-z0-9-]{1,8}", fullmatch=True)
    names = sorted(draw(st.sets(ids, min_size=1, max_size=8)))
    lives = draw(st.lists(st.binary(min_size=16, max_size=16), min_size=len(names), max_size=len(names)))
    members = tuple(Member(name, life.hex()) for name, life in zip(names, lives, strict=True))
    pairs = [(i, j) for i in range(len(names)) for j in range(len(names)) if i < j]
    on = [pair for pair in pairs if draw(st.booleans())]
    edges = sorted({(j, i) for i, j in on} | set(on))
    weights = np.full(len(edges), draw(st.floats(1e-6, 1.0)) / len(names))
    follows, gap = draw(st.integers(0, 2**62)), draw(st.integers(1, 2**62 - 1))
    named = draw(st.dictionaries(ids, st.integers(0, follows), max_size=8))
    targets, sources = (np.array([edge[side] for edge in edges], dtype=np.int64) for side in (0, 1))
    return Plan("r", follows + gap, follows, members, sources, targets, weights, tuple(named.items()))


@settings(max_examples=60)
@given(plans())
def test_what_is_encoded_comes_back(sent):
    assert same(decode_plan(encode_plan(sent, DIGEST), "r", DIGEST), sent)


def u32(number):
    return struct.pack("<I", number)


def f64(number):
    return struct.pack("<d", number)


BROKEN = {
    "too long": (bytes(2**24 + 1), Reason.TOO_LONG),
    "nothing": (b"", Reason.UNREADABLE),
    "half a header": (GOLDEN[:30], Reason.LENGTH),
    "no run": (GOLDEN[:58], Reason.LENGTH),
    "cut": (GOLDEN[:-1], Reason.LENGTH),
    "more plans than there were": (changed(NAMED + 8, b"\x08"), Reason.MALFORMED),
    "one byte more": (GOLDEN + b"\0", Reason.LENGTH),
    "four thousand million members": (changed(38, u32(2**32 - 1)), Reason.LENGTH),
    "more edges than there are": (changed(42, u32(2)), Reason.LENGTH),
    "more names than there are": (changed(46, u32(3)), Reason.LENGTH),
    "version 9": (changed(0, b"\x09"), Reason.VERSION),
    "a release": (changed(1, b"\1"), Reason.KIND),
    "another run": (changed(59, b"q"), Reason.RUN),
    "other settings": (changed(2, b"\xff"), Reason.DIGEST),
    "more closing rounds than there may be": (changed(CLOSING, u32(66)), Reason.MALFORMED),
    "round 0": (changed(18, bytes(8)), Reason.MALFORMED),
    "its own follower": (changed(18, b"\x07"), Reason.MALFORMED),
    "a round beyond 63 bits": (changed(25, b"\x80"), Reason.MALFORMED),
    "a name in capitals": (changed(TABLE, b"E"), Reason.MALFORMED),
    "a name with a dot": (changed(TABLE + 1, b"."), Reason.MALFORMED),
    "an empty name": (changed(TABLE, b","), Reason.MALFORMED),
    "a name that is not text": (changed(TABLE, b"\xff"), Reason.MALFORMED),
    "members out of order": (changed(PLACES, u32(2) + u32(0)), Reason.MALFORMED),
    "one member twice": (changed(PLACES, u32(0) + u32(0)), Reason.MALFORMED),
    "a member outside the table": (changed(PLACES + 4, u32(3)), Reason.MALFORMED),
    "neither full nor listener": (changed(FULL, b"\2"), Reason.FLAGS),
    "a listener that is heard": (changed(FULL, b"\0\1"), Reason.MALFORMED),
    "weights that are not doubly stochastic": (changed(FULL + 1, b"\1"), Reason.MALFORMED),
    "an edge from nobody": (changed(SOURCE, u32(2)), Reason.MALFORMED),
    "an edge to nobody": (changed(TARGET, u32(2**32 - 1)), Reason.MALFORMED),
    "an edge to itself": (changed(TARGET, u32(0)), Reason.MALFORMED),
    "weight 0": (changed(WEIGHT, f64(0.0)), Reason.MALFORMED),
    "a negative weight": (changed(WEIGHT, f64(-0.5)), Reason.MALFORMED),
    "a weight above 1": (changed(WEIGHT, f64(1.5)), Reason.MALFORMED),
    "an infinite weight": (changed(WEIGHT, f64(float("inf"))), Reason.MALFORMED),
    "a weight that is not a number": (changed(WEIGHT, f64(float("nan"))), Reason.MALFORMED),
    "a weight that signals": (changed(WEIGHT, bytes.fromhex("010000000000f07f")), Reason.MALFORMED),
    "counts of nobody": (changed(NAMED, u32(3)), Reason.MALFORMED),
    "counts of one twice": (changed(NAMED + 4, u32(0)), Reason.MALFORMED),
    "a count beyond 63 bits": (changed(COUNTS + 7, b"\xff"), Reason.MALFORMED),
    "members without a table": (changed(34, u32(0))[:TABLE] + GOLDEN[TABLE + 10 :], Reason.MALFORMED),
}


@pytest.mark.parametrize(("data", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_plan_is_refused_with_its_reason(data, reason):
    with pytest.raises(Refused) as refusal:
        decode_plan(data, "r", DIGEST)
    assert refusal.value.reason is reason


@pytest.mark.parametrize(
    ("changes", "digest", "text"),
    [
        ({"run": ""}, DIGEST, "must match"),
        ({"named": (("a,b", 1),)}, DIGEST, "must match"),
        ({"members": (Member("east", "x"), Member("w", B, full=False))}, DIGEST, "32 hexadecimal"),
        ({}, b"", "0 bytes"),
    ],
)
def test_a_plan_that_cannot_be_said_is_not_encoded(changes, digest, text):
    with pytest.raises(ValueError, match=text):
        encode_plan(plan(**changes), digest)
