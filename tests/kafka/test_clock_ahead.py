"""A scheduler an hour ahead on a broker, where slots follow time: the mesh keeps to the broker's clock."""

import time

import pytest

from streams.bus.mesh_log import MeshLog
from tests.support.brokers.topics import bus_of
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.forked import Forked, command
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

HOUR = 3600.0


def ahead(*given):
    """Do a command by a clock that is an hour ahead."""
    right = time.time
    time.time = lambda: right() + HOUR
    command(*given)


class Ahead(Forked):
    """A command in a process with such a clock."""

    target = staticmethod(ahead)


def test_a_scheduler_an_hour_ahead_plans_by_the_brokers_clock(tmp_path, broker):
    slots = {"by": "time", "period": 0.2, "start": time.time() - 60, "size": 1}
    path = small_mesh_file(
        tmp_path, broker.address, rounds="none", slots=slots, round_timeout=5, silence=5, horizon=8
    )
    with LiveMesh(path) as mesh:
        mesh.processes["scheduler"] = Ahead(mesh.folder, "scheduler", "scheduler", mesh.path)
        mesh.nodes()
        clock, topic = mesh.file.resolved.clock, mesh.file.resolved.topics.topology
        bus = bus_of(mesh.file.mesh_broker, topic)
        try:
            log = MeshLog.of(mesh.file, bus)
            wait_until(lambda: len(log.valid_plans()) > 30)
            record = bus.stored({topic: 0})[topic][-1]
            assert abs(record.appended - time.time()) < 60
            rounds = list(log.valid_plans())
            assert rounds[0] > 250  # of its slot, not of the first: its clock counts so far
            assert rounds[-1] < clock.round_at(time.time()) + 40
            assert log.refused == {}
        finally:
            bus.close()
        mesh.check()
