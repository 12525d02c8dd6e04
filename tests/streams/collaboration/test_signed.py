"""A signed collaboration in memory: it takes what its parties have signed, and nobody else's messages."""

from collections import Counter

import numpy as np
import pytest
import yaml

from nodes.collaboration.messages import Query, Response
from streams.bus.memory import MemoryBroker, MemoryBus
from streams.codec import Reason, encode_query, encode_response
from streams.codec.signatures import PLAIN
from streams.collaboration.learner import LearnerRole, learner_start
from streams.collaboration.local import (
    LearnerMemory,
    LocalCollaboration,
    OwnerMemory,
    StarJournals,
    collaboration_topics,
)
from streams.collaboration.owner import OwnerRole, owner_start
from streams.mesh.errors import MeshFileError
from streams.mesh.file import load_collaboration
from streams.mesh.settings.signing import public_of
from streams.mesh.signing import party_envelope
from streams.mesh.wire import Wire
from streams.records.passes import fixed_sets
from streams.runtime.runner import Host, Runner
from streams.runtime.worlds import at_once, in_memory
from tests.support.collaborations import write
from tests.support.signing import private, write_private_key

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


class Watcher:
    """Counts what a role refuses."""

    def __init__(self):
        self.reasons = Counter()

    def refused(self, *refused):
        """Count it: an owner's is the refusal alone."""
        self.reasons[refused[-1].reason] += 1

    def __getattr__(self, name):
        return lambda *_: None


class Signed:
    """A learner and owners on a broker in memory, each of which signs for itself."""

    def __init__(self, file):
        self.file, self.whole, mesh = file, file.resolved, file.mesh
        self.topics = Wire(self.whole).topics
        self.broker = MemoryBroker(
            collaboration_topics(self.topics, mesh.learner, mesh.owners), largest=2**40
        )
        self.watchers = {name: Watcher() for name in NAMES}
        self.journals = {name: OwnerMemory("5a" * 16) for name in "abc"} | {"l": LearnerMemory("1e" * 16)}

    def wire(self, name, key=None):
        """The wire of one; `key`: whose key it has."""
        return Wire(self.whole, self.whole.envelope.signing(name, private(key or name).sign))

    def begin(self, name):
        """Begin a process of one; return its machine."""
        bus, wire, journal = MemoryBus(self.broker), self.wire(name), self.journals[name]
        world = in_memory(self.broker, bus)
        if name == "l":
            made = LearnerRole(self.file, wire, journal, "b0" * 16)
            made.presence.hello(bus, at_once)
            role = made.role(learner_start(journal, wire, bus), self.watchers[name], timeout=None, beat=None)
        else:
            ((passes, records),) = fixed_sets(self.file, [name]).values()
            made = OwnerRole(self.file, name, wire, journal, "b1" * 16)
            made.presence.hello(bus, at_once)
            start = owner_start(journal, name, wire, bus)
            role = made.role(start, records, passes, world, self.watchers[name], beat=None)
        Host([Runner(role, world, lambda _: None)], bus).begin()
        return made.machine


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
    signed, journals = Signed(file), StarJournals.in_memory(file)
    LocalCollaboration(file, journals).run()
    owners = [signed.begin(name) for name in "abc"]
    forge = FORGERS[forger]
    query = Query("first", "l", "ee" * 16, 1, np.full(3, 0.5), final=False)
    answer = Response("first", "a", "5a" * 16, 1, True, np.full(3, 9.0))
    bus, digest = MemoryBus(signed.broker), file.digest()
    bus.send(signed.topics.query, forge(signed.whole, "l").sealed(encode_query(query, digest)))
    signed.broker.run()
    assert [machine.charged for machine in owners] == [0, 0, 0]
    learner = signed.begin("l")
    bus.send(signed.topics.response("a"), forge(signed.whole, "a").sealed(encode_response(answer, digest)))
    signed.broker.run()
    assert learner.halted
    expected = [record.parameters.tobytes() for record in journals.learner.records()]
    assert [record.parameters.tobytes() for record in signed.journals["l"].records()] == expected
    refused = {name: watcher.reasons for name, watcher in signed.watchers.items()}
    assert refused == {name: Counter({Reason.SIGNATURE: 1}) for name in NAMES}
    letters = [len(bus.read(signed.topics.dead_letters(name), 0)) for name in NAMES]
    assert letters == [1, 1, 1, 1]


def test_a_process_that_starts_again_knows_its_signed_messages(tmp_path):
    signed = Signed(loaded(tmp_path, signed_tree(tmp_path)))
    for name in ("a", "b", "c", "l"):
        signed.begin(name)
    signed.broker.run()
    bus, topic = MemoryBus(signed.broker), signed.topics.response("a")
    assert owner_start(signed.journals["a"], "a", signed.wire("a"), bus).unsent == ()
    stored = bus.read(topic, 0)
    less = MemoryBroker([topic, signed.topics.query])
    start = owner_start(signed.journals["a"], "a", signed.wire("a"), MemoryBus(less))
    assert list(start.unsent) == list(stored)


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
