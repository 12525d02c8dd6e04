"""Signed messages: only what a key's owner has signed, for this mesh and run, comes out."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.codec import Reason, Refused, encode_heartbeat
from streams.codec.envelope import OVERHEAD, PLAIN, SIGNATURE, SignedEnvelope
from tests.support.meshes.keys import private
from topology.plans import Heartbeat

DIGEST = bytes(range(16))


def public(name):
    return private(name).public_key().public_bytes_raw()


def envelope(mesh="m", run="r", digest=DIGEST, signer=None, key=None):
    nodes, planners = {name: public(name) for name in ("east", "west")}, {"planner": public("planner")}
    made = SignedEnvelope(mesh, run, digest, nodes, planners)
    return made if signer is None else made.signing(signer, private(key or signer).sign)


READER = envelope()
MESSAGE = encode_heartbeat(Heartbeat("r", "east", "aa" * 16, "bb" * 16, 7), DIGEST)
SEALED = envelope(signer="east").sealed(MESSAGE)


def test_what_a_node_has_signed_comes_out_as_it_was():
    assert READER.of_node(SEALED, "east") == MESSAGE
    assert READER.unverified(SEALED) == MESSAGE
    assert READER.signs


def test_a_signature_adds_its_bytes_and_the_signers_name():
    assert SEALED[:2] == b"\x01\x07"
    assert SEALED.endswith(MESSAGE)
    assert len(SEALED) - len(MESSAGE) == 3 + len("east") + SIGNATURE < OVERHEAD


def test_the_bytes_are_these():
    signature = base64.b64encode(SEALED[7 : 7 + SIGNATURE]).decode()
    assert (
        signature
        == base64.b64encode(
            private("east").sign(
                b"mirrormesh signature 1\x03" + b"\x01m" + b"\x01r" + b"\x04east" + DIGEST + MESSAGE
            )
        ).decode()
    )


@given(st.integers(0, len(SEALED) - 1), st.integers(1, 255))
def test_any_other_byte_is_refused(at, change):
    READER.of_node(SEALED, "east")  # what was right once is remembered
    broken = bytearray(SEALED)
    broken[at] ^= change
    with pytest.raises(Refused) as refused:
        READER.of_node(bytes(broken), "east")
    assert refused.value.reason is (Reason.SIGNATURE if at else Reason.VERSION)


@given(st.integers(0, len(SEALED) - 1))
def test_what_is_cut_off_is_refused(length):
    with pytest.raises(Refused) as refused:
        READER.of_node(SEALED[:length], "east")
    assert refused.value.reason is (Reason.SIGNATURE if length else Reason.UNREADABLE)


OTHERS = {
    "unsigned": MESSAGE,
    "another member's key": envelope(signer="east", key="west").sealed(MESSAGE),
    "another member": envelope(signer="west").sealed(MESSAGE),
    "a stranger": envelope(signer="north").sealed(MESSAGE),
    "a scheduler": envelope(signer="planner").sealed(MESSAGE),
    "another mesh": envelope(mesh="m2", signer="east").sealed(MESSAGE),
    "another run": envelope(run="r2", signer="east").sealed(MESSAGE),
    "other settings": envelope(digest=bytes(16), signer="east").sealed(MESSAGE),
}


@pytest.mark.parametrize("value", OTHERS.values(), ids=OTHERS.keys())
def test_what_the_node_has_not_signed_for_this_run_is_refused(value):
    with pytest.raises(Refused) as refused:
        READER.of_node(value, "east")
    assert refused.value.reason is Reason.SIGNATURE


def test_plans_are_signed_by_a_scheduler_alone():
    value = envelope(signer="planner").sealed(MESSAGE)
    assert READER.of_scheduler(value) == MESSAGE
    for other in (SEALED, MESSAGE, envelope(signer="planner", key="east").sealed(MESSAGE)):
        with pytest.raises(Refused):
            READER.of_scheduler(other)


def test_names_cannot_be_moved_from_mesh_to_run():
    """Each name is signed with its length."""
    value = envelope(mesh="ab", run="c", signer="east").sealed(MESSAGE)
    with pytest.raises(Refused):
        envelope(mesh="a", run="bc").of_node(value, "east")


def test_without_signatures_bytes_are_as_they_are():
    assert PLAIN.sealed(MESSAGE) == PLAIN.of_node(MESSAGE, "west") == PLAIN.of_scheduler(MESSAGE) == MESSAGE
    assert PLAIN.unverified(b"") == b""
    assert not PLAIN.signs


def test_who_only_reads_signs_nothing():
    with pytest.raises(RuntimeError):
        READER.sealed(MESSAGE)
