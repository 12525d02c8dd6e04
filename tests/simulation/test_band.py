"""`gaussian-bisr` in whole meshes: the band survives whoever dies when, and a new life begins a new one."""

from dataclasses import replace

import numpy as np
import pytest

from nodes.privacy.exact import ExactSampler
from nodes.privacy.reveal import opened
from streams.bus.memory import Faults
from streams.local.mesh import MemoryMesh, MemoryNode
from streams.local.run import mesh_parts
from tests.support.meshes.files import changed, counted_ids, ignore, loaded, planned_to_close, releases

PRIVACY = {"mechanism": "gaussian-bisr", "bands": 4, "delta": 1e-6, "epsilon": 1}


class Recorded(ExactSampler):
    """Exact noise, and a memory of the last that each round was given, whichever process drew it."""

    def __init__(self):
        super().__init__()
        self.noise = {}
        self.drawn_faults = 0

    def gaussian(self, round, values, scale):
        noisy = super().gaussian(round, values, scale)
        self.noise[round] = noisy - values
        self.drawn_faults += 1
        return noisy


class Replayed:
    """The same noise once more."""

    simulated = False

    def __init__(self, noise):
        self.noise = noise

    def gaussian(self, round, values, scale):
        return values + self.noise[round]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return loaded(tmp_path_factory.mktemp("mesh"), changed(privacy=PRIVACY))


def run(file, faults=None, samplers=None, state=None, rounds=None):
    """Run the mesh; return what was released, and every node's last record and secret."""
    parts = mesh_parts(file, rounds=rounds)
    for name, sampler in (samplers or {}).items():
        node = parts.nodes[name]
        learner = replace(node.learner, mechanism=replace(node.learner.mechanism, sampler=sampler))
        parts.nodes[name] = replace(node, learner=learner)
    mesh = MemoryMesh(parts, ignore, faults=faults, new_id=counted_ids(), state=state)
    mesh.run()
    assert mesh.done, "the run did not end"
    values, _ = releases(mesh)
    ends = {name: (node.journal.records()[-1], node.journal.secret()) for name, node in mesh.nodes.items()}
    mesh.close()
    return values, {
        name: (last.charged, last.release.tobytes(), opened(secret.draws).tolist())
        for name, (last, secret) in ends.items()
    }


def test_simulated_the_same_bytes_when_a_node_dies_before_any_one_effect(file):
    undisturbed = run(file)
    for n in range(1, 12 * 6, 5):
        assert run(file, Faults(crash_before=frozenset({("b", n)}))) == undisturbed, f"crash before {n}"
    again = Faults(crash_before=frozenset((name, n) for name in "ab" for n in range(2, 200, 7)))
    assert run(file, again) == undisturbed


def exact_runs(tmp_path_factory, faults):
    """A run with exact noise and crashes, and the same noise once more without them."""
    privacy = PRIVACY | {"noise": "exact"}
    file = loaded(tmp_path_factory.mktemp("mesh"), changed(privacy=privacy))
    samplers = {name: Recorded() for name in "abcd"}
    crashed = run(file, faults, samplers, tmp_path_factory.mktemp("state"))
    replayed = run(file, None, {name: Replayed(sampler.noise) for name, sampler in samplers.items()})
    return crashed, replayed, samplers


def test_exact_the_band_that_goes_on_is_the_journalled_one(tmp_path_factory):
    faults = Faults(crash_before=frozenset((name, n) for name in "bc" for n in range(2, 200, 7)))
    crashed, replayed, samplers = exact_runs(tmp_path_factory, faults)
    assert crashed == replayed
    assert samplers["b"].drawn_faults > 12 >= len(samplers["b"].noise)  # it did draw again
    for name, (charged, _, secret) in crashed[1].items():
        last = sorted(samplers[name].noise)[-3:][::-1]
        assert secret == [samplers[name].noise[round].tolist() for round in last]
        assert charged == 12


def test_a_band_that_a_crash_forgets_is_found(tmp_path_factory, monkeypatch):
    start = MemoryNode.start

    def forgetful(self):
        secret = self.journal.secret
        self.journal.secret = lambda: None
        start(self)
        self.journal.secret = secret

    monkeypatch.setattr(MemoryNode, "start", forgetful)
    crashed, replayed, _ = exact_runs(tmp_path_factory, Faults(crash_before=frozenset({("b", 30)})))
    assert crashed != replayed


def test_a_run_in_two_parts_goes_on_with_its_band(file, tmp_path):
    run(file, state=tmp_path, rounds=5)
    assert run(file, state=tmp_path)[1] == run(file)[1]


def test_after_the_budget_the_secret_is_gone(tmp_path):
    privacy = PRIVACY | {"budget": {"epsilon": 5, "delta": 1e-6}}
    file = loaded(tmp_path, changed(privacy=privacy))
    parts = planned_to_close(file)
    last = parts.nodes["a"].learner.ledger.last_learning_round
    assert 1 < last < 12
    mesh = MemoryMesh(parts, ignore, new_id=counted_ids(), state=tmp_path)
    mesh.run()
    for node in mesh.nodes.values():
        assert node.journal.records()[-1].charged == last
        assert node.journal.secret() is None
    mesh.close()


def test_a_lost_journal_begins_a_new_band(file):
    mesh = MemoryMesh(mesh_parts(file, rounds=12), ignore, new_id=counted_ids())
    for _ in range(60):
        mesh.advance()
    node = mesh.nodes["a"]
    assert node.journal.secret() is not None
    node.stop()
    node.journal.renew("f" * 32)
    assert node.journal.secret() is None
    mesh.close()


def test_no_public_value_of_a_mesh_holds_a_draw(file):
    """Nothing on the bus but what the codec makes of releases: the draws' bytes are in none of it."""
    mesh = MemoryMesh(mesh_parts(file), ignore, new_id=counted_ids())
    draws = set()
    while mesh.advance():
        for node in mesh.nodes.values():
            secret = node.journal.secret()
            if secret is not None:
                draws |= {value.tobytes() for value in opened(secret.draws).ravel()}
    assert len(draws) > 50
    topics = mesh.parts.topics
    names = [topics.topology] + [
        make(name) for name in "abcd" for make in (topics.progress, topics.dead_letters)
    ]
    names += [
        topics.edge(name, target)
        for name in "abcd"
        for target in mesh.parts.scheduler.schedule.graph.neighbours(name)[1]
    ]
    for topic in names:
        for value in mesh.bus.read(topic, 0):
            assert not any(draw in value for draw in draws)
    assert np.frombuffer(draws.pop(), "<i8").dtype == np.int64
    mesh.close()
