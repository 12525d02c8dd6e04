"""A thousand malformed variants of each message, on each kind of topic: counted, and nothing else happens."""

import tracemalloc

import pytest

from streams.codec import Reason
from streams.local.mesh import MemoryMesh
from streams.local.run import mesh_parts
from tests.simulation.test_absence import TIMES, Watched
from tests.support.malformed import decoders, variants, well_formed
from tests.support.meshes import changed, ignore, loaded

VARIANTS = 1000
ALWAYS = {Reason.LENGTH, Reason.VERSION, Reason.KIND, Reason.RUN, Reason.DIGEST}
"""Why some of the variants of every message are refused."""


@pytest.fixture
def file(tmp_path):
    return loaded(tmp_path, changed(rounds=30))


@pytest.fixture
def honest(file):
    """What an undisturbed run releases, and one of its messages for each topic."""
    watched = Watched(file, **TIMES)
    values = watched.finish()
    return values, {topic: watched.mesh.bus.read(topic, 0)[1] for topic in decoders(file)}


@pytest.mark.parametrize("kind", ["edge", "topology", "progress"])
def test_malformed_variants_are_counted_and_change_nothing(file, honest, kind):
    values, good = honest
    watched = Watched(file, **TIMES)
    mesh, decode = watched.mesh, decoders(file)
    topic = next(name for name in good if f".{kind}" in name)
    watched.until_round(5)
    for number, value in enumerate(variants(decode[topic], good[topic], file.digest(), VARIANTS)):
        mesh.bus.send(topic, value)
        if number % 10 == 0:
            mesh.bus.send(topic, good[topic])  # what was said before, once more
        mesh.advance()
    watched.until(lambda: mesh.done)
    mesh.run()
    assert well_formed(decode, lambda topic: mesh.bus.read(topic, 0)) == values
    refused = [refused.reason for node in mesh.nodes.values() for _, refused in node.refused]
    by_scheduler = [reason for reason in mesh.scheduler.refused if isinstance(reason, Reason)]
    readers = {"edge": 1, "topology": len(mesh.nodes), "progress": 0}[kind]
    assert len(refused) == VARIANTS * readers
    assert len(by_scheduler) == (0 if kind == "edge" else VARIANTS)
    assert set(refused) | set(by_scheduler) >= ALWAYS


def test_refusing_takes_no_memory(file, honest):
    _, good = honest
    decode, mesh = decoders(file), MemoryMesh(mesh_parts(file, **TIMES), ignore)
    edge, topology = mesh.parts.topics.edge("b", "a"), mesh.parts.topics.topology
    sent = {
        topic: list(variants(decode[topic], good[topic], file.digest(), 100, seed=1))
        for topic in (edge, topology)
    }
    node = mesh.nodes["a"]
    node._refuse = lambda *_: None  # the bus in memory would keep all letters
    node.start()
    tracemalloc.start()
    took = []
    for _ in range(20):
        for number in range(100):
            node.shell.release_read("b", number, sent[edge][number])
            node.shell.plan_read(number, sent[topology][number])
        took.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert took[-1] < took[4] + 20_000
