"""Records of plans: these bytes, whole or refused, and no longer than they may be."""

import struct
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest

from streams.codec import Reason, Refused, decode_plans, encode_plan, encode_plans
from streams.codec.plans import RECORD_HEADER, SIZE, TOGETHER
from topology.plans import NOTHING, Member, Plan, after

DIGEST = bytes(range(16))
LIFE = "aa" * 16


def plan(round, members=("a", "b"), run="r", follows=None):
    names = tuple(Member(name, LIFE) for name in members)
    edges = (np.array([1, 0]), np.array([0, 1]), np.full(2, 0.5)) if len(names) == 2 else ()
    edges = edges or (np.array([], int), np.array([], int), np.array([]))
    counts = tuple((name, round - 1) for name in members)
    return Plan(run, round, round - 1 if follows is None else follows, names, *edges, counts)


THREE = plan(1), plan(2), plan(3, ())
FIRST, SECOND = (encode_plan(one, DIGEST) for one in THREE[:2])
GOLDEN = (
    bytes.fromhex("01 06 000102030405060708090a0b0c0d0e0f")
    + bytes(16)
    + bytes.fromhex("02000000")
    + struct.pack("<I", len(FIRST))
    + FIRST
    + struct.pack("<I", len(SECOND))
    + SECOND
)


def test_the_bytes_are_these():
    assert list(encode_plans(None, THREE[:2], DIGEST)) == [GOLDEN]
    record = decode_plans(GOLDEN, "r", DIGEST)
    assert record.continues == NOTHING
    assert [one.round for one in record.plans] == [1, 2]
    assert [encode_plan(one, DIGEST) for one in record.plans] == [FIRST, SECOND]


def test_a_mark_is_this_and_what_a_record_continues():
    said = (
        struct.pack("<QQIIIII", 2, 1, 2, 2, 2, 0, 0)
        + f"r,a,b,{LIFE},{LIFE},a,b".encode()
        + b"\1\1"
        + struct.pack("<IIIIddQQ", 1, 0, 0, 1, 0.5, 0.5, 1, 1)
    )
    assert THREE[1].mark == sha256(said).digest()[:16]
    (record,) = encode_plans(THREE[1], THREE[2:], DIGEST)
    found = decode_plans(record, "r", DIGEST)
    assert found.continues == THREE[1].mark == decode_plans(GOLDEN, "r", DIGEST).last.mark
    assert found.last.ended


def test_what_one_plan_says_changes_its_mark():
    lighter = replace(plan(2), weights=np.full(2, 0.25))
    newer = replace(plan(2), generation=1)
    closing = replace(plan(2), closing=1)
    marks = {one.mark for one in (plan(2), plan(3), plan(2, run="q"), plan(2, "ac"), lighter, newer, closing)}
    assert len(marks) == 7
    assert plan(2).mark in marks


def test_a_record_of_several_plans_is_no_longer_than_it_may_be_and_chains_go_on():
    names = [f"{k:060}" for k in range(600)]
    plans = [plan(round, tuple(names)) for round in range(1, 20)]
    values = list(encode_plans(None, tuple(plans), DIGEST))
    assert 1 < len(values) < len(plans)
    assert all(len(value) <= TOGETHER for value in values)
    assert all(len(one) + len(two) > TOGETHER for one, two in pairwise(values))
    records = [decode_plans(value, "r", DIGEST) for value in values]
    assert [one.round for record in records for one in record.plans] == list(range(1, 20))
    lasts = [NOTHING, *(record.last.mark for record in records)]
    assert [record.continues for record in records] == lasts[:-1]


def test_a_plan_that_is_longer_goes_alone():
    names = tuple(f"{k:060}" for k in range(4_000))
    values = list(encode_plans(None, (plan(1, names), plan(2, names)), DIGEST))
    assert [len(decode_plans(value, "r", DIGEST).plans) for value in values] == [1, 1]
    assert min(map(len, values)) > TOGETHER
    both = b"".join(
        (RECORD_HEADER.pack(1, 6, DIGEST, NOTHING, 2), *(value[RECORD_HEADER.size :] for value in values))
    )
    with pytest.raises(Refused, match="too-long"):
        decode_plans(both, "r", DIGEST)


def changed(at, new):
    return GOLDEN[:at] + new + GOLDEN[at + len(new) :]


def record(*plans, mark=NOTHING):
    parts = [SIZE.pack(len(data)) + data for data in (encode_plan(one, DIGEST) for one in plans)]
    return RECORD_HEADER.pack(1, 6, DIGEST, mark, len(plans)) + b"".join(parts)


BROKEN = {
    "nothing": (b"", Reason.UNREADABLE),
    "half a header": (GOLDEN[:20], Reason.LENGTH),
    "version 9": (changed(0, b"\x09"), Reason.VERSION),
    "a plan by itself, as they were before": (FIRST, Reason.KIND),
    "other settings": (changed(2, b"\xff"), Reason.DIGEST),
    "cut": (GOLDEN[:-1], Reason.LENGTH),
    "one byte more": (GOLDEN + b"\0", Reason.LENGTH),
    "fewer plans than there are": (changed(34, b"\1"), Reason.LENGTH),
    "more plans than there are": (changed(34, b"\3"), Reason.LENGTH),
    "four thousand million plans": (changed(34, b"\xff\xff\xff\xff"), Reason.LENGTH),
    "no plans": (record(), Reason.MALFORMED),
    "a plan of another run": (record(plan(1, run="q")), Reason.RUN),
    "a plan that is none": (changed(RECORD_HEADER.size + 4, b"\2"), Reason.VERSION),
    "a plan longer than the record": (changed(RECORD_HEADER.size, b"\xff\xff\xff\xff"), Reason.LENGTH),
    "plans in another order": (record(THREE[1], THREE[0], mark=DIGEST), Reason.MALFORMED),
    "a plan left out": (record(plan(1), plan(3)), Reason.MALFORMED),
    "a plan after the end": (record(plan(1, ()), plan(2)), Reason.MALFORMED),
    "a first plan that continues another": (record(plan(1), mark=DIGEST), Reason.MALFORMED),
    "a later plan that continues none": (record(plan(2)), Reason.MALFORMED),
}


@pytest.mark.parametrize(("data", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_record_is_refused_whole_with_its_reason(data, reason):
    with pytest.raises(Refused) as refusal:
        decode_plans(data, "r", DIGEST)
    assert refusal.value.reason is reason


def test_readers_of_one_process_share_a_record():
    one = decode_plans(GOLDEN, "r", DIGEST)
    assert decode_plans(bytes(bytearray(GOLDEN)), "r", DIGEST) is one


def test_a_record_says_what_a_scheduler_means():
    assert after(None, THREE[:1]).continues == NOTHING
    assert after(THREE[0], THREE[1:]).continues == THREE[0].mark
