"""What `up` shows of its processes, of what they log, and of what is heard on the broker."""

from types import SimpleNamespace

import pytest

from streams.bus.bus import BusError
from streams.tools.up import mesh as module
from streams.tools.up.children import LogTail
from streams.tools.up.mesh import UpMesh
from streams.tools.up.programs import Options
from tests.support.meshes.files import changed, loaded


class Asks:
    """A broker, and the ages of the nodes' last heartbeats."""

    def __init__(self):
        self.gone, self.ages, self.error, self.planner = None, {}, None, 999.0

    def status(self):
        if self.error:
            raise self.error
        return SimpleNamespace(rows=[SimpleNamespace(name=name, seen=age) for name, age in self.ages.items()])


class Running:
    """A child that always runs, and began long ago."""

    def __init__(self, program, log, say):
        self.label, self.done, self.state, self.began, self.restarts = program.label, False, "running", 0.0, 1
        self.log = LogTail(log)

    def look(self):
        pass


@pytest.fixture
def asks():
    return Asks()


@pytest.fixture
def mesh(tmp_path, monkeypatch, asks):
    monkeypatch.setattr(module, "Child", Running)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    tree = changed(nodes=list("abc"))
    tree["nodes"] = {name: {"source": {"kind": "localisation"}} for name in "abc"}
    return UpMesh(loaded(tmp_path, tree), Options(tmp_path), None, lambda _: None, asks)


def states(mesh):
    return {row.name: row.state for row in mesh.look().rows}


def test_a_frozen_node_does_not_just_run(mesh, asks):
    asks.ages = {"a": 1.0, "b": 19.0, "c": None}
    assert states(mesh) == {"a": "running", "b": "silent for 19 s", "c": "starting"}
    assert [row.restarts for row in mesh.look().rows] == [2, 2, 2]  # of a node and its feeder


def test_a_frozen_scheduler_does_not_just_run(mesh, asks):
    assert mesh.look().scheduler == "running"
    asks.planner = 981.0
    assert mesh.look().scheduler == "silent for 19 s"
    asks.gone = 8.0
    assert mesh.look().scheduler == "running"  # nobody can be heard


def test_of_a_broker_that_is_gone_no_node_is_blamed_and_its_warnings_go_when_it_is_back(mesh, asks):
    asks.ages, asks.gone = {"a": 1.0, "b": 19.0, "c": 1.0}, 8.0
    log = mesh._nodes["a"].log
    log.path.parent.mkdir(exist_ok=True)
    log.path.write_text("2026-01-01T18:03:17.000Z WARNING kafka: no answer from the broker\n")
    status = mesh.look()
    assert status.gone == 8.0
    assert {row.state for row in status.rows} == {"running"}
    assert status.rows[0].warning
    asks.gone = None
    status = mesh.look()
    assert status.gone is None
    assert not status.rows[0].warning


def test_who_cannot_listen_blames_nobody(mesh, asks):
    asks.error = BusError("not allowed")
    assert states(mesh) == dict.fromkeys("abc", "running")


def test_the_headline_is_the_median_and_the_slowest(mesh, asks, monkeypatch):
    rounds = {"a": 40, "b": 12, "c": 41}
    found = {name: module.Progress(round, 0.0) for name, round in rounds.items()}
    monkeypatch.setattr(module, "progress", lambda _, name: found[name])
    status = mesh.look()
    assert (status.round, status.slowest) == (40, ("b", 12))
