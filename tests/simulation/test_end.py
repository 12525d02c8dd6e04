"""A run that its operator ends, while nodes and schedulers are at work."""

import pytest

from streams.bus.mesh_log import MeshLog
from streams.live.scheduler_process import RunEnd
from streams.local.mesh import MemoryMesh, MemoryScheduler
from streams.local.run import mesh_parts
from tests.support.meshes.files import changed, counted_ids, loaded, until


@pytest.fixture
def mesh(tmp_path):
    """A mesh that runs until it is ended."""
    parts = mesh_parts(loaded(tmp_path, changed(rounds=10_000)))
    return MemoryMesh(parts, lambda *_: None, new_id=counted_ids())


def until_round(mesh, round):
    until(mesh, lambda: all(newest(node) >= round for node in mesh.nodes.values()))


def newest(node):
    records = node.journal.records()
    return records[-1].round if records else 0


def run_end(mesh, bus=None):
    log = MeshLog(mesh.parts.topics, mesh.parts.digest, mesh.bus)
    return RunEnd(mesh.parts.digest, log, bus or mesh.bus)


class Late:
    """A bus on which the schedulers' plans come between, so many times."""

    def __init__(self, mesh, times):
        self._mesh, self._times = mesh, times

    def __getattr__(self, name):
        return getattr(self._mesh.bus, name)

    def send(self, topic, value):
        before = self._mesh.bus.end(topic)
        if self._times:
            self._times -= 1
            until(self._mesh, lambda: self._mesh.bus.end(topic) > before)
        self._mesh.bus.send(topic, value)


@pytest.mark.parametrize("times", [0, 1, 3])
def test_the_end_is_repeated_until_it_is_the_valid_plan_and_everyone_ends(mesh, times):
    until_round(mesh, 6)
    end = run_end(mesh, Late(mesh, times))
    assert [end.attempt() for _ in range(times)] == [None] * times
    assert end.attempt() == end.last
    mesh.run()
    assert mesh.done
    assert {newest(node) for node in mesh.nodes.values()} == {end.last.round}
    assert run_end(mesh).attempt() == end.last  # again: harmless


def test_a_run_without_a_plan_has_nothing_to_end(tmp_path):
    parts = mesh_parts(loaded(tmp_path, changed(rounds=10_000)))
    mesh = MemoryMesh(parts, lambda *_: None, new_id=counted_ids())
    end = run_end(mesh)
    assert not end.attempt()
    assert end.last is None


def test_a_scheduler_that_starts_after_the_end_plans_nothing(mesh):
    until_round(mesh, 6)
    assert run_end(mesh).attempt()
    mesh.run()
    last = mesh.bus.end(mesh.parts.topics.topology)
    mesh.scheduler.stop()
    mesh.scheduler = MemoryScheduler(mesh.parts, mesh.broker)
    mesh.broker.run()
    assert mesh.bus.end(mesh.parts.topics.topology) == last


def test_a_node_whose_plans_were_lost_ends_with_the_run_all_the_same(mesh):
    until_round(mesh, 20)
    mesh.scheduler.stop()
    for node in mesh.nodes.values():
        node.stop()
    records = mesh.broker.logs[mesh.parts.topics.topology].records
    del records[len(records) // 2 :]
    assert run_end(mesh).attempt()
    for node in mesh.nodes.values():
        assert newest(node) > run_end(mesh).last.round
        node.start()
    mesh.run()
    assert mesh.done
