"""Files of the formats of today, for the programs of tomorrow: `python -m tests.support.kept_formats`.

Beside the tests that read them it writes `format_N` (state folders, N the journals' version) and `version_N`
(messages). What is there already stays, as only files of an older program show that they can still be read;
with `--again` it is made anew, while that version has not been released.
"""

import itertools
import shutil
import sys
from pathlib import Path

import numpy as np
import yaml

from nodes.collaboration.messages import Answer, Query, QueryRecord, RecordSet, Response, ResponseRecord
from nodes.machine.journal import ReleaseMessage
from nodes.values import Release
from streams.codec import (
    Expected,
    Reason,
    Refused,
    encode_dead_letter,
    encode_heartbeat,
    encode_plans,
    encode_query,
    encode_release,
    encode_response,
)
from streams.codec.fields import VERSION
from streams.codec.signatures import SignedEnvelope
from streams.local.run import LocalRun, mesh_parts
from streams.local.run_spend import LocalSpends
from streams.mesh.file import load
from streams.state.folder import StateFolder
from streams.state.journal_file import SCHEMA
from streams.state.learner_journal import LearnerJournal
from streams.state.leaving import write_wish
from streams.state.owner_journal import OwnerJournal
from streams.state.party_journal import Party
from tests.support.signing import private
from topology.plans import Heartbeat, Member, Plan

TESTS = Path(__file__).parents[1] / "streams"
FORMATS, MESSAGES = TESTS / "state", TESTS / "codec"
ROUNDS, STEPPED, LEAVE_FROM = 6, 3, 120
DIGEST, LIFE = bytes(range(16)), "5a" * 16
EXPECTED = Expected("run-1", "east", DIGEST, 3, 1e9)
BISR = {"mechanism": "gaussian-bisr", "delta": 1e-6}
MESH = {
    "mesh": {
        "name": "kept",
        "run": "run-1",
        "nodes": {"a": {"epsilon": 50}, "b": {}},
        "dimension": 2,
        "algorithm": {
            "name": "dola",
            "constraint": {"l2-ball": 10},
            "step_size": {"rule": "inverse-sqrt", "a": 1},
        },
        "loss": "squared",
        "slots": {"by": "count", "size": 1},
        "privacy": {"mechanism": "laplace", "epsilon": 1, "gradient_bound": 1.0},
        "topology": {"graph": "complete"},
        "rounds": ROUNDS,
    },
}
SOURCE = {
    "kind": "json-lines",
    "path": "records.jsonl",
    "schema": {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}},
}
PARTY = Party("lending", "first", "bank-a", DIGEST, '{"queries":3}')
LEARNER = Party("lending", "first", "analyst", DIGEST, '{"queries":3}')
ANSWER = ResponseRecord(
    query=1,
    asked=bytes(16),
    response=np.array([0.5, -1.0]),
    charged=1,
    epsilon_spent=0.25,
    set=RecordSet('{"source":{"kind":"csv"}}', (("bytes", 812),), 12000),
)
ASKED = QueryRecord(
    number=2,
    parameters=np.array([0.5, 2.0]),
    average=np.array([0.1, 0.2]),
    answers=(Answer("bank-a", LIFE, 1.0, np.array([0.5, -1.0])),),
    missing=("bank-b",),
)

# -------------------------------------------------------------------------------------------- messages

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


# --------------------------------------------------------------------------------------- state folders


def write_mesh(folder: Path, **privacy: object) -> Path:
    """Write the mesh file of a folder, and its records; return its path."""
    folder.mkdir(parents=True)
    shared = MESH["mesh"] | {"nodes": {"a": {"epsilon": 50}, "b": {}}}
    if privacy:
        shared |= {"nodes": {"a": privacy, "b": {}}}
    tree = {"mesh": shared, "nodes": {name: {"source": SOURCE} for name in "ab"}}
    (folder / "mesh.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    (folder / "records.jsonl").write_text('{"x": 0.5, "y": 0.25, "z": 1.0}\n' * (2 * ROUNDS))
    return folder / "mesh.yaml"


def run(folder: Path, *, ended: bool, **privacy: object) -> None:
    """Leave the state folder of a run of STEPPED rounds; not `ended`: as a kill would."""
    file = load(write_mesh(folder, **privacy), {})
    ids = (f"{number:032x}" for number in itertools.count(1))
    spends = LocalSpends(file, folder)
    local = LocalRun(mesh_parts(file, rounds=STEPPED), spends=spends, new_id=lambda: next(ids))
    local.to_round(STEPPED)
    if ended:
        local.finish()
        spends.end(local.recorder)
    else:
        local.mesh.close()


def folders(at: Path) -> None:
    """Write all state folders."""
    run(at / "ended", ended=True)
    run(at / "killed", ended=False)
    run(at / "band", ended=False, **BISR)
    write_wish(at / "ended", "a", "run-1", LEAVE_FROM)
    (at / "parties").mkdir()
    owner = OwnerJournal.opened(StateFolder(at / "parties").journal("bank-a"), PARTY, LIFE)
    owner.append(ANSWER)
    owner.close()
    learner = LearnerJournal.opened(StateFolder(at / "parties").journal("analyst"), LEARNER, LIFE)
    learner.append(ASKED)
    learner.close()
    for kind in ("*.lock", "*-wal", "*-shm", "order.json"):  # the order has a path of this machine
        for path in at.glob(f"*/{kind}"):
            path.unlink()


def main(*, again: bool) -> None:
    """Write what is missing."""
    for at, make in ((FORMATS / f"format_{SCHEMA}", folders), (MESSAGES / f"version_{VERSION}", _messages)):
        if at.exists() and again:
            shutil.rmtree(at)
        if at.exists():
            sys.stdout.write(f"{at} stays as it is\n")
            continue
        make(at)
        sys.stdout.write(f"wrote {at}\n")


def _messages(at: Path) -> None:
    at.mkdir()
    for name, value in messages().items():
        (at / f"{name}.bin").write_bytes(value)


if __name__ == "__main__":
    main(again="--again" in sys.argv[1:])
