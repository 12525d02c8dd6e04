"""A signed collaboration in memory: it takes what its parties have signed, and nobody else's messages."""

from collections import Counter

import numpy as np
import pytest
import yaml

from nodes.collaboration.messages import Query, Response
from streams.bus.memory import MemoryBroker, MemoryBus
from streams.codec import Reason
from streams.codec.envelope import PLAIN
from streams.collaboration.file import load_collaboration, party_envelope
from streams.collaboration.roles import owner_start
from streams.collaboration.wire import Wire, encode_query, encode_response
from streams.mesh.errors import MeshFileError
from streams.mesh.settings.keys import public_of
from tests.support.collaborations.folders import Parties, learnt_in_one_process, write
from tests.support.meshes.keys import private, write_private_key

NAMES = ("l", "a", "b", "c")


def signed_tree(folder):
    """The mesh file of the small collaboration, whose parties all have keys."""
    tree = yaml.safe_load(write(folder).read_text())
    keys = {name: public_of(private(name)) for name in NAMES}
    owners = {name: terms | {"key": keys[name]} for name, terms in tree["mesh"]["owners"].items()}
    signed = {"signatures": "required", "learner_key": keys["l"], "owners": owners}
    return tree | {"mesh": tree["mesh"] | signed}


def loaded(folder, tree):
    """The file of a tree."""
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(tree))
    return load_collaboration(path)


def signed(file):
    """Its parties, each of which signs for itself."""
    whole = file.resolved
    return Parties(file, lambda name: Wire(whole, whole.envelope.signing(name, private(name).sign)))


FORGERS = {
    "without a key": lambda whole, name: PLAIN,
    "with a stranger's key": lambda whole, name: whole.envelope.signing(name, private("stranger").sign),
    "with another party's key": lambda whole, name: whole.envelope.signing(
        name, private("b" if name != "b" else "a").sign
    ),
    "as another party": lambda whole, name: whole.envelope.signing("c", private("c").sign),
}


@pytest.mark.parametrize("forger", FORGERS)
def test_forged_messages_are_refused_and_change_no_bit(tmp_path, forger):
    file = loaded(tmp_path, signed_tree(tmp_path))
    parties, forge = signed(file), FORGERS[forger]
    owners = parties.host("a") + parties.host("b") + parties.host("c")
    query = Query("first", "l", "ee" * 16, 1, np.full(3, 0.5), final=False)
    answer = Response("first", "a", "5a" * 16, 1, True, np.full(3, 9.0))
    bus, digest = MemoryBus(parties.broker), file.digest()
    bus.send(parties.topics.query, forge(file.resolved, "l").sealed(encode_query(query, digest)))
    parties.broker.run()
    assert [machine.charged for machine in owners] == [0, 0, 0]
    (learner,) = parties.host("l")
    sealed = forge(file.resolved, "a").sealed(encode_response(answer, digest))
    bus.send(parties.topics.response("a"), sealed)
    parties.broker.run()
    assert learner.halted
    assert parties.learnt() == learnt_in_one_process(file)
    refused = {name: watcher.reasons for name, watcher in parties.watchers.items()}
    assert refused == {name: Counter({Reason.SIGNATURE: 1}) for name in NAMES}
    letters = [len(bus.read(parties.topics.dead_letters(name), 0)) for name in NAMES]
    assert letters == [1, 1, 1, 1]


def test_a_process_that_starts_again_knows_its_signed_messages(tmp_path):
    parties = signed(loaded(tmp_path, signed_tree(tmp_path)))
    for name in ("a", "b", "c", "l"):
        parties.host(name)
    parties.broker.run()
    bus, topic, journal = MemoryBus(parties.broker), parties.topics.response("a"), parties.journals["a"]
    assert owner_start(journal, "a", parties.wire_of("a"), bus).unsent == ()
    without = MemoryBus(MemoryBroker([topic, parties.topics.query]))
    assert list(owner_start(journal, "a", parties.wire_of("a"), without).unsent) == list(bus.read(topic, 0))


@pytest.mark.parametrize("missing", ["learner_key", "owners.b.key"])
def test_every_party_needs_a_key(tmp_path, missing):
    tree = signed_tree(tmp_path)
    place, *path, key = [tree["mesh"], *missing.split(".")]
    for part in path:
        place = place[part]
    del place[key]
    words = f"mesh.{missing}: missing: signatures are required, and {'b' if path else 'l'} has none"
    with pytest.raises(MeshFileError, match=words):
        loaded(tmp_path, tree)


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [
        ("l", None, "missing: must be the private key of the learner l, as signatures are required"),
        ("a", None, "missing: must be the private key of the owner a, as signatures are required"),
        ("a", "b", "must be the private key of the owner a"),
        ("a", "a", None),
        ("l", "l", None),
    ],
)
def test_a_process_signs_with_its_own_key_alone(tmp_path, name, key, words):
    tree = signed_tree(tmp_path)
    broker = {"servers": "127.0.0.1:1"}
    if key is not None:
        broker["signing_key"] = f"{key}.key"
        write_private_key(tmp_path / f"{key}.key", key)
    tree["brokers"] = {"mesh": broker}
    file = loaded(tmp_path, tree)
    if words is None:
        assert party_envelope(file, name).signs
        return
    with pytest.raises(MeshFileError, match=f"brokers.mesh.signing_key: .*{words}"):
        party_envelope(file, name)
