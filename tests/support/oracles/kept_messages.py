"""A message of each kind, as it is sent today: `python -m tests.support.oracles.kept_messages`.

Beside the tests that read them it writes `version_N`. What is there stays, and shows that the bytes on the
wire have stayed the same; with `--again` it is made anew, while that version has not been released.
"""

import shutil
import sys
from pathlib import Path

import numpy as np

from nodes.collaboration.messages import Query, Response
from nodes.machine.journal import ReleaseMessage
from nodes.values import Release
from streams.codec import (
    Expected,
    Reason,
    Refused,
    encode_dead_letter,
    encode_heartbeat,
    encode_plans,
    encode_release,
)
from streams.codec.envelope import VERSION, SignedEnvelope
from streams.collaboration.wire import encode_query, encode_response
from tests.support.meshes.keys import private
from topology.plans import Heartbeat, Member, Plan

MESSAGES = Path(__file__).parents[2] / "streams" / "codec"
DIGEST, LIFE = bytes(range(16)), "5a" * 16
EXPECTED = Expected("run-1", "east", DIGEST, 3, 1e9)

MEMBERS = (Member("east", LIFE), Member("north", "c3" * 16, full=False), Member("west", "a7" * 16))
_EDGES = np.array([2, 0, 0]), np.array([0, 1, 2]), np.array([0.5, 1.0, 0.5])
_NOBODY = np.array([], int), np.array([], int), np.array([])
_COUNTS = (("east", 6), ("gone", 2), ("west", 6))
PLANS = (
    Plan("run-1", 7, 6, MEMBERS, *_EDGES, _COUNTS, 3),
    Plan("run-1", 8, 7, (), *_NOBODY, (("east", 7), ("gone", 2), ("north", 1), ("west", 7)), 3),
)
BEFORE = Plan("run-1", 6, 5, MEMBERS[::2], *_NOBODY)
VALUES = np.array([1.0, -2.5, 3e-300])
RELEASE = ReleaseMessage("run-1", "east", LIFE, 7, exact=False, simulated=True, release=Release(VALUES))
HEARTBEAT = Heartbeat("run-1", "east", LIFE, "0b" * 16, 7, join_after=9, leave_from=12, hello=True)
ACCUSING = Heartbeat("run-1", "east", LIFE, "0b" * 16, 8, accused=("c3" * 16, "a7" * 16))
ENVELOPE = SignedEnvelope(
    "kept", "run-1", DIGEST, {"east": private("east").public_key().public_bytes_raw()}, {}
)
QUERY = Query("run-1", "east", LIFE, 7, VALUES, final=True)
RESPONSE = Response("run-1", "east", LIFE, 7, simulated=False, response=VALUES)
LETTER = ("kept.run-1.edge.east.west", b"\x01\x01what was refused", Reason.OUT_OF_BOUND)


def messages() -> dict[str, bytes]:
    """The message of each kind, as it is sent today."""
    (record,) = encode_plans(BEFORE, PLANS, DIGEST)
    topic, value, reason = LETTER
    return {
        "release": encode_release(RELEASE, DIGEST),
        "plans": record,
        "heartbeat": encode_heartbeat(HEARTBEAT, DIGEST),
        "heartbeat-accusing": encode_heartbeat(ACCUSING, DIGEST),
        "signed": ENVELOPE.signing("east", private("east").sign).sealed(encode_heartbeat(HEARTBEAT, DIGEST)),
        "query": encode_query(QUERY, DIGEST),
        "response": encode_response(RESPONSE, DIGEST),
        "dead-letter": encode_dead_letter(topic, value, Refused(reason, "too long")),
    }


def main(*, again: bool) -> None:
    """Write what is missing."""
    at = MESSAGES / f"version_{VERSION}"
    if at.exists() and again:
        shutil.rmtree(at)
    if at.exists():
        sys.stdout.write(f"{at} stays as it is\n")
        return
    at.mkdir()
    for name, value in messages().items():
        (at / f"{name}.bin").write_bytes(value)
    sys.stdout.write(f"wrote {at}\n")


if __name__ == "__main__":
    main(again="--again" in sys.argv[1:])
