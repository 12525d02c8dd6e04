"""A signed mesh in which a stranger, and a member, forge everything that a mesh says, and replay it."""

import contextlib
import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from nodes.machine.events import Notice
from streams.bus.memory import Faults
from streams.codec import (
    Reason,
    decode_heartbeat,
    decode_plans,
    decode_release,
    encode_heartbeat,
    encode_plans,
    encode_release,
)
from streams.codec.envelope import PLAIN, Envelope
from streams.local.mesh import MemoryScheduler
from tests.simulation.test_absence import TIMES, Watched
from tests.support.meshes.files import changed, loaded
from tests.support.meshes.keys import PLANNER, envelope, private, signed, signing
from topology.plans import Heartbeat, Plan

ROUNDS = 60


def file_of(folder, *, with_keys=True, **mesh):
    tree = changed(nodes=list("abcd"), rounds=ROUNDS, **mesh)
    return loaded(folder, signed(tree) if with_keys else tree)


@pytest.fixture(params=["edges", "outbox"])
def file(tmp_path, request):
    return file_of(tmp_path, layout=request.param)


class Signed(Watched):
    """A mesh whose nodes and scheduler sign, if the file says so."""

    def __init__(self, file, faults=None):
        self.file = file
        signs = file.mesh.signatures == "required"
        super().__init__(file, faults, partial(signing, file=file) if signs else None, **TIMES)

    @property
    def topics(self):
        return self.mesh.parts.topics

    def edges(self):
        """The source of each topic of releases."""
        edges = [(source, name) for name, node in self.mesh.nodes.items() for source in node._mesh.expected]
        return {self.topics.edge(source, name): source for source, name in edges}

    def values(self):
        """Each node's releases by round, whoever wrote them, that its own envelope takes."""
        found = {}
        for topic, source in self.edges().items():
            for value in self.mesh.bus.read(topic, 0):
                with contextlib.suppress(ValueError):
                    opened = self.file.resolved.envelope.of_node(value, source)
                    message = decode_release(opened, self.mesh.parts.expected(source))
                    found.setdefault((source, message.round), set()).add(message.release.tobytes())
        return found

    def last(self, topic, decode):
        for value in reversed(self.mesh.bus.read(topic, 0)):
            with contextlib.suppress(ValueError):  # a forger has broken it
                return decode(self.file.resolved.envelope.unverified(value))
        raise AssertionError(f"{topic} holds nothing")

    def forge(self, seal):
        """Write a hello of a new process of each node, a second value on each edge, and a plan.

        `seal(name)`: how the forger seals what `name` should have sent.
        """
        parts, digest = self.mesh.parts, self.mesh.parts.digest
        for name in self.mesh.nodes:
            hello = Heartbeat("run-1", name, "c" * 32, "d" * 32, 0, hello=True)
            far = replace(hello, hello=False, stepped=10**9, boot="e" * 32)
            for beat in (hello, far):
                value = seal(name).sealed(encode_heartbeat(beat, digest))
                self.mesh.bus.send(self.topics.progress(name), value)
        for topic, source in self.edges().items():
            first = self.last(topic, lambda value: decode_release(value, parts.expected(source)))  # noqa: B023
            second = first._replace(release=first.release + 0.125)
            self.mesh.bus.send(topic, seal(source).sealed(encode_release(second, digest)))
        plan = self.last(self.topics.topology, lambda value: decode_plans(value, "run-1", digest)).last
        nothing = np.array([], np.int64)
        over = Plan("run-1", plan.round + 1, plan.round, (), nothing, nothing, np.array([]), plan.named)
        for value in encode_plans(plan, (over,), digest):
            self.mesh.bus.send(self.topics.topology, seal(PLANNER).sealed(value))

    def refused(self):
        found = [refused.reason for node in self.mesh.nodes.values() for _, refused in node.refused]
        return [*found, *self.mesh.scheduler.refused]


def test_a_signed_mesh_does_what_an_unsigned_one_does(tmp_path, file):
    plain = Signed(file_of(tmp_path, with_keys=False, layout=file.mesh.layout))
    watched = Signed(file)
    for one in (plain, watched):
        one.until(lambda: one.mesh.done)  # noqa: B023
    assert watched.values() == plain.values()
    assert not watched.refused()


class Turned(Envelope):
    """Seals as a member does, and turns the bytes into others."""

    def __init__(self, sealing, turn):
        self._sealing, self._turn = sealing, turn

    def sealed(self, message):
        return self._turn(self._sealing.sealed(message))


def of_other(**changes):
    """A forger with a member's signatures for another mesh, run, or other settings."""
    return lambda file: lambda name: replace(envelope(file, name), **changes)


def turned(turn):
    """A forger with a member's signed messages, changed on their way."""
    return lambda file: lambda name: Turned(envelope(file, name), turn)


FORGERS = {
    "unsigned": lambda file: lambda _: PLAIN,
    "of another mesh": of_other(mesh="tracking-2"),
    "of another run": of_other(run="run-2"),
    "with other settings": of_other(digest=bytes(16)),
    "cut off": turned(lambda value: value[:-1]),
    "with a byte more": turned(lambda value: value + b"\0"),
    "signed by a node for a scheduler, and by that for nodes": lambda file: (
        lambda name: envelope(file, PLANNER if name in file.mesh.nodes else "a")
    ),
    "in a second envelope, of a stranger": lambda file: (
        lambda name: Turned(envelope(file, name), envelope(file, name, "stranger").sealed)
    ),
    "a stranger's key": lambda file: lambda name: envelope(file, name, "stranger"),
    "another member's key": lambda file: lambda name: envelope(file, name, "a" if name != "a" else "b"),
    "as another member": lambda file: lambda name: envelope(file, "a" if name != "a" else "b"),
}


@pytest.mark.parametrize("forger", FORGERS.values(), ids=FORGERS.keys())
def test_what_is_forged_is_refused_and_changes_nothing(file, forger):
    expected = Signed(file)
    expected.until(lambda: expected.mesh.done)
    watched = Signed(file)
    watched.until_round(20)
    watched.forge(forger(file))
    watched.until(lambda: watched.mesh.done)
    assert watched.values() == expected.values()
    assert not watched.count(Notice.EVIDENCE)
    assert set(watched.refused()) == {Reason.SIGNATURE}
    assert not any(node.replaced for node in watched.mesh.nodes.values())


def test_a_message_in_two_envelopes_of_its_own_signer_is_no_message(file):
    watched = Signed(file)
    watched.until_round(20)
    watched.forge(lambda name: Turned(envelope(file, name), envelope(file, name).sealed))
    watched.until(lambda: watched.mesh.done)
    assert not watched.count(Notice.EVIDENCE)
    assert {reason.value for reason in watched.refused()} == {"kind"}
    assert not any(node.replaced for node in watched.mesh.nodes.values())


def test_what_is_signed_counts_on_no_topic_but_its_own(file):
    """Of another kind, or of another member."""
    expected = Signed(file)
    expected.until(lambda: expected.mesh.done)
    watched = Signed(file)
    watched.until_round(20)
    homes = {topic: ("edge", source) for topic, source in watched.edges().items()}
    homes |= {topic: (topic, "") for topic in map(watched.topics.progress, "abcd")}
    homes[watched.topics.topology] = "plans", ""
    values = {topic: watched.mesh.bus.read(topic, 0)[-5:] for topic in homes}
    for (topic, written), place in itertools.product(values.items(), homes):
        for value in written if homes[topic] != homes[place] else ():
            watched.mesh.bus.send(place, value)
    watched.until(lambda: watched.mesh.done)
    assert watched.values() == expected.values()
    assert set(watched.refused()) <= {Reason.SIGNATURE, Reason.KIND, Reason.LENGTH}
    assert not any(node.replaced for node in watched.mesh.nodes.values())


def test_who_starts_among_forgeries_and_replays_starts_as_if_there_were_none(file):
    """Each process reads them back: its own releases and hellos, its neighbours', and the plans."""
    expected = Signed(file)
    expected.until(lambda: expected.mesh.done)
    watched = Signed(file)
    watched.until_round(20)
    for forger in FORGERS.values():
        watched.forge(forger(file))
    for topic in (*watched.edges(), *map(watched.topics.progress, "abcd"), watched.topics.topology):
        for value in watched.mesh.bus.read(topic, 0):
            watched.mesh.bus.send(topic, value)
    watched.mesh.scheduler.stop()
    lives = {name: node.journal.instance for name, node in watched.mesh.nodes.items()}
    for node in watched.mesh.nodes.values():
        node.stop()
        node.start()
    watched.mesh.scheduler = MemoryScheduler(watched.mesh.parts, watched.mesh.broker)
    watched.until(lambda: watched.mesh.done)
    assert watched.values() == expected.values()
    assert {name: node.journal.instance for name, node in watched.mesh.nodes.items()} == lives
    assert not any(node.replaced for node in watched.mesh.nodes.values())


def test_a_wish_to_leave_that_was_taken_back_ends_nobody_when_it_is_sent_again(file):
    watched = Signed(file, Faults(slot_time=0.1))
    watched.until_round(10)
    progress, node = watched.topics.progress("b"), watched.mesh.nodes["b"]
    node.leave(watched.stepped["b"][-1] + 3)
    node.leave(None)
    wishes = [
        value
        for value in watched.mesh.bus.read(progress, 0)
        for opened in [file.resolved.envelope.of_node(value, "b")]
        if decode_heartbeat(opened, "run-1", "b", watched.mesh.parts.digest).leave_from is not None
    ]
    assert wishes
    for round in (12, 20, 30):
        watched.until_round(round)
        watched.mesh.bus.send(progress, wishes[0])
    watched.until(lambda: watched.mesh.done)
    assert watched.stepped["b"][-1] == watched.stepped["a"][-1] == ROUNDS + 1
    assert all(len(values) == 1 for values in watched.values().values())
    assert node.journal.charged == len(watched.stepped["b"]) - 1  # all but the closing one


def of_one_party(parts, file, **known):
    """The parts of a mesh in which node a's own file has other keys, or none."""
    parts = signing(parts, file)
    own = parts.envelopes["a"]
    wrong = replace(own, **known) if known else PLAIN
    return replace(parts, envelopes=parts.envelopes | {"a": wrong})


@pytest.mark.parametrize("file_of_a", ["keys of b and d swapped", "its own key another's", "no signatures"])
def test_a_wrong_file_of_one_party_stops_that_party_alone(tmp_path, file_of_a):
    file = file_of(tmp_path, min_members=3)
    keys = file.resolved.envelope.nodes
    known = {
        "keys of b and d swapped": {"nodes": keys | {"b": keys["d"], "d": keys["b"]}},
        "its own key another's": {"nodes": keys, "signer": ("a", private("b").sign)},
        "no signatures": {},
    }[file_of_a]
    watched = Watched(file, Faults(slot_time=0.1), partial(of_one_party, file=file, **known), **TIMES)
    watched.until(lambda: all(watched.mesh.nodes[name].halted for name in "bcd"))
    assert [watched.stepped[name][-1] for name in "bcd"] == [ROUNDS + 1] * 3
    assert not watched.count(Notice.EVIDENCE)
    assert not any(node.replaced for node in watched.mesh.nodes.values())


def test_the_same_forgeries_end_an_unsigned_mesh(tmp_path):
    """So they are forged rightly."""
    watched = Signed(file_of(tmp_path, with_keys=False))
    watched.until_round(20)
    watched.forge(lambda _: PLAIN)
    watched.until(lambda: all(node.replaced for node in watched.mesh.nodes.values()))


def test_a_second_value_that_is_signed_isolates_its_source(file):
    watched = Signed(file)
    watched.until_round(5)
    topic = watched.topics.edge("b", "a")
    first = watched.last(topic, lambda value: decode_release(value, watched.mesh.parts.expected("b")))
    second = encode_release(first._replace(release=first.release + 0.125), watched.mesh.parts.digest)
    watched.mesh.bus.send(topic, envelope(file, "b").sealed(second))
    watched.until(lambda: watched.count(Notice.EVIDENCE, "b") >= 1)
    watched.until(lambda: watched.mesh.done)
    assert watched.stepped["a"][-1] == ROUNDS + 1
    assert any(who == "b" for who, notice, _, _ in watched.noticed if notice is Notice.ACCUSED)


def test_whatever_was_signed_may_be_sent_again(file):
    """All of it, twice, also the hellos of processes that have ended since."""
    watched = Signed(file)
    watched.until_round(10)
    for name in "bd":
        watched.mesh.nodes[name].stop()
        watched.mesh.nodes[name].start()
    watched.until_round(20)
    for topic in (*watched.edges(), *map(watched.topics.progress, "abcd"), watched.topics.topology):
        for value in watched.mesh.bus.read(topic, 0):
            watched.mesh.bus.send(topic, value)
    hellos = [
        decode_heartbeat(file.resolved.envelope.unverified(value), "run-1", "b", watched.mesh.parts.digest)
        for value in watched.mesh.bus.read(watched.topics.progress("b"), 0)
    ]
    assert len({beat.boot for beat in hellos if beat.hello}) > 1
    watched.until(lambda: watched.mesh.done)
    assert not any(node.replaced for node in watched.mesh.nodes.values())
    assert all(len(found) == 1 for found in watched.values().values())
    assert not watched.count(Notice.EVIDENCE)


def test_nodes_and_schedulers_that_are_killed_go_on(file):
    crashes = frozenset({("a", 30), ("b", 45), ("c", 61), ("d", 90), ("a", 140)})
    expected = Signed(file)
    expected.until(lambda: expected.mesh.done)
    watched = Signed(file, Faults(3, crash_before=crashes, restart_after=0.5))
    watched.until_round(20)
    watched.mesh.scheduler.stop()
    MemoryScheduler(watched.mesh.parts, watched.mesh.broker)
    watched.until(lambda: watched.mesh.done)
    assert watched.values() == expected.values()
    assert not watched.refused()
