"""A run that its operator ends, while nodes and schedulers are at work."""

from dataclasses import replace

import pytest

from streams.bus.mesh_log import MeshLog
from streams.local.mesh import MemoryMesh, MemoryScheduler
from tests.support.meshes.files import changed, counted_ids, loaded, planned_to_close, until


@pytest.fixture
def mesh(tmp_path):
    """A mesh that runs until it is ended."""
    parts = planned_to_close(loaded(tmp_path, changed(rounds=10_000)))
    return MemoryMesh(parts, lambda *_: None, new_id=counted_ids())


def until_round(mesh, round):
    until(mesh, lambda: all(newest(node) >= round for node in mesh.nodes.values()))


def newest(node):
    records = node.journal.records()
    return records[-1].round if records else 0


def ended_by(mesh, **changes):
    """The scheduler by which an operator ends the run."""
    settings = replace(mesh.parts.scheduler, rounds=None, ends=60.0, **changes)
    return MemoryScheduler(replace(mesh.parts, scheduler=settings), mesh.broker)


def plans(mesh):
    return list(MeshLog(mesh.parts.topics, mesh.parts.digest, mesh.bus).valid_plans().values())


@pytest.mark.parametrize("alone", [False, True], ids=["beside a scheduler", "alone"])
def test_all_closing_rounds_follow_and_everyone_ends(mesh, alone):
    until_round(mesh, 6)
    before = plans(mesh)[-1].round
    if alone:
        mesh.scheduler.stop()
    ended_by(mesh)
    mesh.run()
    assert mesh.done
    *learning, closing, end = plans(mesh)
    assert [plan.closing for plan in learning] == [0] * len(learning)
    assert (closing.closing, end.ended) == (1, True)
    assert closing.round >= before + 1
    for node in mesh.nodes.values():
        record = node.journal.records()[-1]
        assert (record.round, record.stepped, record.exact) == (end.round, closing.round, True)
        assert record.charged == len(learning)
    last = mesh.bus.end(mesh.parts.topics.topology)
    assert ended_by(mesh).error is not None  # again: harmless
    mesh.broker.run()
    assert mesh.bus.end(mesh.parts.topics.topology) == last


def test_a_run_without_a_plan_has_nothing_to_end(tmp_path):
    parts = planned_to_close(loaded(tmp_path, changed(rounds=10_000)))
    mesh = MemoryMesh(parts, lambda *_: None, new_id=counted_ids())
    mesh.scheduler.stop()
    ended_by(mesh)
    mesh.broker.run()
    assert not plans(mesh)


def test_a_scheduler_that_starts_after_the_end_plans_nothing(mesh):
    until_round(mesh, 6)
    ended_by(mesh)
    mesh.run()
    last = mesh.bus.end(mesh.parts.topics.topology)
    mesh.scheduler.stop()
    mesh.scheduler = MemoryScheduler(mesh.parts, mesh.broker)
    mesh.broker.run()
    assert mesh.bus.end(mesh.parts.topics.topology) == last


def test_nodes_whose_plans_were_lost_begin_again_and_close(mesh):
    until_round(mesh, 20)
    mesh.scheduler.stop()
    for node in mesh.nodes.values():
        node.stop()
    records = mesh.broker.logs[mesh.parts.topics.topology].records
    del records[len(records) // 2 :]
    last = plans(mesh)[-1].round
    assert all(newest(node) > last for node in mesh.nodes.values())
    for node in mesh.nodes.values():
        node.start()
    ended_by(mesh, one_process=False)
    mesh.run()
    assert mesh.done
    assert plans(mesh)[-1].ended
    assert plans(mesh)[-2].closing == 1
