"""Any bytes, and any change of good bytes, give a message or `Refused`: nothing else ever comes out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.collaboration.messages import Query, Response
from nodes.machine.journal import ReleaseMessage
from streams.codec import (
    Expected,
    Refused,
    decode_heartbeat,
    decode_plan,
    decode_plans,
    decode_release,
    encode_heartbeat,
    encode_plan,
    encode_plans,
    encode_release,
)
from streams.collaboration.wire import decode_query, decode_response, encode_query, encode_response
from topology.plans import Heartbeat, Member, Plan

DIGEST = bytes(range(16))
LIFE = "5a" * 16
EXPECTED = Expected("run-1", "east", DIGEST, 3, 1e9)
MEMBERS = tuple(Member(name, LIFE) for name in ("east", "north", "west"))
RING = Plan(
    "run-1",
    7,
    6,
    MEMBERS,
    np.array([1, 2, 0, 2, 0, 1]),
    np.array([0, 0, 1, 1, 2, 2]),
    np.full(6, 0.25),
    tuple((member.name, 6) for member in MEMBERS),
)

AFTER_RING = replace(RING, round=8, follows=7)
END = Plan("run-1", 9, 8, (), np.array([], int), np.array([], int), np.array([]))


def read_release(data):
    message = decode_release(data, EXPECTED)
    return encode_release(message, DIGEST)


def read_plan(data):
    return encode_plan(decode_plan(data, "run-1", DIGEST), DIGEST)


def read_plans(data):
    record = decode_plans(data, "run-1", DIGEST)
    mark = data[18:34]
    (again,) = encode_plans(None, record.plans, DIGEST)
    assert record.continues == mark
    return again[:18] + mark + again[34:]


def read_heartbeat(data):
    return encode_heartbeat(decode_heartbeat(data, "run-1", "east", DIGEST), DIGEST)


def read_query(data):
    return encode_query(decode_query(data, EXPECTED), DIGEST)


def read_response(data):
    return encode_response(decode_response(data, EXPECTED), DIGEST)


GOOD = {
    read_release: encode_release(
        ReleaseMessage(
            "run-1", "east", LIFE, 7, exact=True, simulated=False, release=np.array([1.0, -2.0, 3.0])
        ),
        DIGEST,
    ),
    read_plan: encode_plan(RING, DIGEST),
    read_plans: next(encode_plans(RING, (AFTER_RING, END), DIGEST)),
    read_heartbeat: encode_heartbeat(Heartbeat("run-1", "east", LIFE, LIFE, 7, 9, 12), DIGEST),
    read_query: encode_query(Query("run-1", "east", LIFE, 7, np.array([1.0, -2.0, 3.0]), final=True), DIGEST),
    read_response: encode_response(
        Response("run-1", "east", LIFE, 7, simulated=False, response=np.array([1.0, -2.0, 3.0])), DIGEST
    ),
}
readers = pytest.mark.parametrize("read", GOOD, ids=lambda read: read.__name__)


@readers
@given(data=st.binary(max_size=300))
def test_any_bytes_are_a_message_or_refused(read, data):
    for bytes_ in (data, GOOD[read][:2] + data, GOOD[read][: len(data)] + data):
        try:
            read(bytes_)
        except Refused:
            continue


@readers
@settings(max_examples=300)
@given(data=st.data())
def test_any_change_of_good_bytes_is_a_message_or_refused(read, data):
    bytes_ = bytearray(GOOD[read])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(bytes_) - 1))
        bytes_[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xF0, 0xFF]) | st.integers(0, 255))
    cut = data.draw(st.sampled_from([0, 0, 0, 1, 8, 40]))
    bytes_ = bytes(bytes_[cut:]) if data.draw(st.booleans()) else bytes(bytes_[: len(bytes_) - cut])
    try:
        again = read(bytes_)
    except Refused:
        return
    if read not in {read_plan, read_plans}:  # a plan may carry its table in another order
        assert again == bytes_


@readers
def test_every_single_bit_that_is_flipped_is_a_message_or_refused(read):
    good = GOOD[read]
    assert read(good) == good
    refused = 0
    for bit in range(8 * len(good)):
        bytes_ = bytearray(good)
        bytes_[bit // 8] ^= 1 << bit % 8
        try:
            read(bytes(bytes_))
        except Refused:
            refused += 1
    assert 8 * 18 <= refused < 8 * len(good)  # version, kind and digest at the least
