"""Messages of every version so far, in files: each is read as what it said."""

import numpy as np
import pytest

from streams.codec import Reason, Refused, decode_dead_letter, decode_heartbeat, decode_plans, decode_release
from streams.codec.envelope import VERSION
from streams.collaboration.wire import decode_query, decode_response
from tests.support.oracles.kept_messages import (
    ACCUSING,
    BEFORE,
    DIGEST,
    ENVELOPE,
    EXPECTED,
    HEARTBEAT,
    LETTER,
    MESSAGES,
    PLANS,
    QUERY,
    RELEASE,
    RESPONSE,
    messages,
)

OF_VERSIONS = sorted(MESSAGES.glob("version_*"))
AGAIN = "not released yet: python -m tests.support.oracles.kept_messages --again; else: another version"
every = pytest.mark.parametrize("kept", OF_VERSIONS, ids=lambda folder: folder.name)


def test_there_are_files_of_this_version_and_they_are_what_is_sent():
    kept = {path.stem: path.read_bytes() for path in (MESSAGES / f"version_{VERSION}").iterdir()}
    assert kept == messages(), AGAIN


@every
def test_plans_are_read(kept):
    record = decode_plans((kept / "plans.bin").read_bytes(), "run-1", DIGEST)
    assert record.continues == BEFORE.mark
    assert [plan.mark for plan in record.plans] == [plan.mark for plan in PLANS]
    assert [plan.generation for plan in record.plans] == [3, 3]


@every
@pytest.mark.parametrize(("name", "sent"), [("heartbeat", HEARTBEAT), ("heartbeat-accusing", ACCUSING)])
def test_a_heartbeat_is_read(kept, name, sent):
    assert decode_heartbeat((kept / f"{name}.bin").read_bytes(), "run-1", "east", DIGEST) == sent


@every
def test_a_signed_message_is_read(kept):
    message = ENVELOPE.of_node((kept / "signed.bin").read_bytes(), "east")
    assert decode_heartbeat(message, "run-1", "east", DIGEST) == HEARTBEAT


@every
@pytest.mark.parametrize(
    ("name", "decode", "sent", "values"),
    [
        ("release", decode_release, RELEASE, "release"),
        ("query", decode_query, QUERY, "parameters"),
        ("response", decode_response, RESPONSE, "response"),
    ],
)
def test_a_vector_is_read(kept, name, decode, sent, values):
    found = decode((kept / f"{name}.bin").read_bytes(), EXPECTED)
    np.testing.assert_array_equal(getattr(found, values), getattr(sent, values))
    assert found.run == sent.run
    assert found.instance == sent.instance


@every
def test_a_dead_letter_is_read(kept):
    topic, value, reason = LETTER
    assert decode_dead_letter((kept / "dead-letter.bin").read_bytes()) == (topic, value, reason.value)


@pytest.mark.parametrize("name", ["release", "plans", "heartbeat", "query", "response", "signed"])
def test_one_of_a_newer_version_is_refused_as_that(name):
    newer = bytes([VERSION + 1]) + messages()[name][1:]
    read = {
        "plans": lambda: decode_plans(newer, "run-1", DIGEST),
        "heartbeat": lambda: decode_heartbeat(newer, "run-1", "east", DIGEST),
        "query": lambda: decode_query(newer, EXPECTED),
        "release": lambda: decode_release(newer, EXPECTED),
        "response": lambda: decode_response(newer, EXPECTED),
        "signed": lambda: ENVELOPE.of_node(newer, "east"),
    }[name]
    with pytest.raises(Refused, match=f"version: {VERSION + 1}, this program speaks {VERSION}") as refusal:
        read()
    assert refusal.value.reason is Reason.VERSION
