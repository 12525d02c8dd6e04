"""A thousand malformed variants of each message, on each kind of topic: counted, and nothing else happens."""

import logging
import tracemalloc
from io import StringIO
from math import inf

import pytest

from streams.codec import Reason
from streams.codec.envelope import PLAIN
from streams.live.hosted_node import NodeWatcher
from streams.local.mesh import MemoryMesh, MemoryScheduler
from streams.local.run import mesh_parts
from streams.metrics.scheduler_metrics import SchedulerMetrics
from streams.runtime.floods import MOST
from tests.simulation.test_absence import TIMES
from tests.simulation.test_signed import Signed
from tests.support.meshes.files import changed, ignore, loaded
from tests.support.meshes.keys import PLANNER, envelope, signed
from tests.support.nodes.metrics import metrics, shown
from tests.support.oracles.malformed import decoders, holds_releases, misplaced, variants
from topology.scheduler import Refusal

VARIANTS = 1000
ALWAYS = {Reason.LENGTH, Reason.VERSION, Reason.KIND, Reason.RUN, Reason.DIGEST}
"""Why some of the variants of every message are refused."""
MESHES = {"edges": ("edges", False), "outbox": ("outbox", False), "signed": ("edges", True)}


@pytest.fixture(params=MESHES.values(), ids=MESHES.keys())
def file(tmp_path, request):
    layout, keys = request.param
    tree = changed(rounds=30, layout=layout)
    return loaded(tmp_path, signed(tree) if keys else tree)


@pytest.fixture
def plain(tmp_path):
    return loaded(tmp_path, changed(rounds=30))


def honest(file):
    """What an undisturbed run releases, and one of its messages for each topic."""
    watched = Signed(file)
    watched.until(lambda: watched.mesh.done)
    return watched.values(), {topic: watched.mesh.bus.read(topic, 0)[1] for topic in decoders(file)}


def sender(file, topic):
    """How who writes to a topic seals its messages."""
    if file.mesh.signatures != "required":
        return PLAIN
    _, _, kind, *names = topic.split(".")
    return envelope(file, PLANNER if kind == "topology" else names[0])


def disturbed(file, topic, bad, good):
    """A mesh that reads the bad values on a topic, and its good one again and again."""
    watched = Signed(file)
    mesh = watched.mesh
    watched.until_round(5)
    for number, value in enumerate(bad):
        mesh.bus.send(topic, value)
        if number % 10 == 0:
            mesh.bus.send(topic, good)  # what was said before, once more
        mesh.advance()
    watched.until(lambda: mesh.done)
    mesh.run()
    return watched


@pytest.mark.parametrize("kind", ["releases", "topology", "progress"])
def test_malformed_variants_are_counted_and_change_nothing(file, kind):
    values, good = honest(file)
    decode = decoders(file)
    topic = next(name for name in good if f".{kind}" in name or (kind == "releases" and holds_releases(name)))
    sent = variants(decode[topic], good[topic], file.digest(), VARIANTS, envelope=sender(file, topic))
    watched = disturbed(file, topic, sent, good[topic])
    mesh = watched.mesh
    assert watched.values() == values
    refused = [refused.reason for node in mesh.nodes.values() for _, refused in node.refused]
    by_scheduler = [reason for reason in mesh.scheduler.refused if isinstance(reason, Reason)]
    heard = 2 if file.mesh.layout == "outbox" else 1
    readers = {"releases": heard, "topology": len(mesh.nodes), "progress": 0}[kind]
    assert len(refused) == VARIANTS * readers
    assert len(by_scheduler) == (0 if kind == "releases" else VARIANTS)
    assert set(refused) | set(by_scheduler) >= ALWAYS
    assert (Reason.SIGNATURE in {*refused, *by_scheduler}) is (file.mesh.signatures == "required")


@pytest.mark.parametrize("kind", ["releases", "topology", "progress"])
def test_well_formed_messages_of_a_wrong_round_or_instance_stop_nothing(file, kind):
    """Where messages are signed they are refused; else releases and plans of theirs are void.

    Heartbeats are believed, unless they say too much: an instance that is not there costs its node rounds.
    """
    values, good = honest(file)
    decode = decoders(file)
    topic = next(name for name in good if f".{kind}" in name or (kind == "releases" and holds_releases(name)))
    bad = list(misplaced(decode[topic](good[topic]), file.digest(), VARIANTS))
    watched = disturbed(file, topic, bad, good[topic])
    refused = watched.refused()
    if file.mesh.signatures == "required":
        assert set(refused) - {Refusal.PLACE} == {Reason.SIGNATURE}  # plans that come again are out of place
    if file.mesh.signatures == "required" or kind != "progress":
        assert {
            key: found & values[key] for key, found in watched.values().items() if key in values
        } == values
    else:
        assert Refusal.PROGRESS in refused


ROUNDS_OF_BAD, EACH = 20, 100
"""How often a test of memory refuses all of its bad messages, and how many there are for a topic."""


@pytest.fixture
def quiet():
    """A log whose lines are made, and go nowhere."""
    log, handler = logging.getLogger("test.malformed"), logging.StreamHandler(StringIO())
    handler.terminator = ""
    log.propagate = False
    log.addHandler(handler)
    yield log
    log.removeHandler(handler)


def grown(refuse_all):
    """The bytes that a process has taken since it had refused a quarter of what it refuses."""
    took = []
    tracemalloc.start()
    for _ in range(ROUNDS_OF_BAD):
        refuse_all()
        took.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return took[-1] - took[ROUNDS_OF_BAD // 4]


def bad_messages(file, good, *topics):
    """Malformed variants by topic."""
    decode = decoders(file)
    return {one: list(variants(decode[one], good[one], file.digest(), EACH, seed=1)) for one in topics}


def test_refusing_takes_a_node_no_memory(plain, quiet):
    """With its counters, its log and its dead letters, as a process on a broker has them."""
    _, good = honest(plain)
    mesh = MemoryMesh(mesh_parts(plain, **TIMES), ignore)
    topics, node, figures = mesh.parts.topics, mesh.nodes["a"], metrics()
    edge, topology = topics.edge("b", "a"), topics.topology
    sent, letters, written = bad_messages(plain, good, edge, topology), topics.dead_letters("a"), []
    node.stop()
    node._told = watcher = NodeWatcher(quiet, figures, None, None)
    node.start()
    (runner,) = node._host._runners

    def refuse_all():
        for number in range(EACH):
            mesh.broker.now += 0.05
            for topic in (edge, topology):
                runner.read(topic, number, sent[topic][number], inf)
        watcher.catch_up()
        written[:] = [len(record.value) for record in mesh.broker.logs[letters].records]
        mesh.broker.logs[letters].records.clear()

    assert grown(refuse_all) < 20_000
    assert refused_in(figures.shared) == 2 * EACH * ROUNDS_OF_BAD
    assert len(written) == EACH * 0.05 * MOST


def test_refusing_takes_a_scheduler_no_memory(plain):
    """With its counters; it writes no dead letters, and logs nothing of what it refuses."""
    _, good = honest(plain)
    mesh = MemoryMesh(mesh_parts(plain, **TIMES), ignore)
    topics, parts = mesh.parts.topics, mesh.parts
    sent = bad_messages(plain, good, topics.progress("a"), topics.topology)
    figures = SchedulerMetrics("tracking", plain.mesh.nodes, connected=lambda: True)
    runner = MemoryScheduler(parts, mesh.broker, figures).runner

    def refuse_all():
        for topic, values in sent.items():
            for value in values:
                runner.read(topic, 0, value, inf)

    assert grown(refuse_all) < 20_000
    assert refused_in(figures.shared) == 2 * EACH * ROUNDS_OF_BAD


def refused_in(registry):
    """How many messages its metrics say were refused."""
    return sum(
        value for (name, *_), value in shown(registry).items() if name == "mirrormesh_messages_refused_total"
    )
