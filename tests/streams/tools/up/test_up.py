"""What `up` refuses, and what it shows of its processes, of what they log, and of what the broker says."""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
import typer
from rich.console import Console

from streams.bus.bus import BusError
from streams.cli.up import up
from streams.mesh.errors import UsageError
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.process import Stop
from streams.state.folder import write_wish
from streams.tools.broker.broker import take
from streams.tools.up import up as module
from streams.tools.up.children import LogTail
from streams.tools.up.programs import Options
from streams.tools.up.services import startable
from streams.tools.up.up import Silence, UpMesh, run_up
from tests.support.brokers.development import free_port
from tests.support.meshes.files import changed, loaded, written


def with_broker(servers):
    tree = changed()
    tree["brokers"] = {side: {"servers": servers} for side in ("mesh", "data")} | {"trust_broker": True}
    return tree


@pytest.mark.parametrize(
    ("servers", "port"),
    [
        ("127.0.0.1:19092", 19092),
        ("localhost:19092", 19092),
        (" 127.0.0.1:1 ", 1),
        ("127.0.0.1:64535", 64535),
        ("127.0.0.1:64536", None),  # its controller's would be 65536
        ("127.0.0.1:0", None),
        ("127.0.0.1", None),
        ("127.0.0.2:19092", None),
        ("broker.example.org:19092", None),
        ("127.0.0.1:19092,127.0.0.1:19093", None),
    ],
)
def test_which_addresses_a_development_broker_can_have(servers, port):
    assert startable(BrokerSettings(servers=servers)) == port


def test_a_broker_with_users_is_somebody_elses():
    theirs = BrokerSettings(servers="127.0.0.1:19092", username="a", password="b")  # noqa: S106 # of nobody
    assert startable(theirs) is None


def test_a_broker_elsewhere_that_does_not_answer_is_an_error(tmp_path, capsys):
    servers = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    path = written(tmp_path, with_broker(servers))
    with pytest.raises(typer.Exit) as ended:
        up(path, state=tmp_path / "state")
    assert ended.value.exit_code == 1
    said = f"{servers}: the broker does not answer, and it cannot be started here: "
    assert capsys.readouterr().err == f"{said}only one without password at 127.0.0.1:PORT can\n"
    assert not list((tmp_path / "state").glob("broker*"))


def test_one_state_folder_one_up(tmp_path):
    file = loaded(tmp_path, with_broker("127.0.0.1:1"))
    lock = take(tmp_path / "up.lock")
    try:
        with Stop() as stop, pytest.raises(UsageError, match="another mirrormesh up runs there"):
            run_up(file, Options(tmp_path), Console(quiet=True), stop, plain=True)
    finally:
        os.close(lock)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_is_none(tmp_path, rate):
    with pytest.raises(UsageError, match=r"--rate is .*: must be a number above 0"):
        up(written(tmp_path, changed()), rate=rate)


# What `up` shows of its processes, of what they log, and of what is heard on the broker.


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
        self.log, self.failure = LogTail(log), ""

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
    rounds = {"a": 10, "b": 3, "c": 11}
    found = {name: module.Progress(round, 0.0, 0) for name, round in rounds.items()}
    monkeypatch.setattr(module, "progress", lambda _, name: found[name])
    status = mesh.look()
    assert (status.round, status.slowest) == (10, ("b", 3))


@pytest.fixture
def reached(mesh, monkeypatch):
    """Sets the rounds and positions of all nodes; the topic of each holds 20 records."""
    monkeypatch.setattr(module, "Logs", lambda _: SimpleNamespace(end=lambda _: 20, close=lambda: None))
    monkeypatch.setattr(type(mesh._file), "brokers", lambda *_: SimpleNamespace(data=None))

    def set_reached(**rounds):
        found = {name: module.Progress(round, 0.0, position) for name, (round, position) in rounds.items()}
        monkeypatch.setattr(module, "progress", lambda _, name: found[name])
        return mesh.look()

    return set_reached


def of_count(mesh, **changes):
    """Slots of 3 records, in which a silent neighbour is given up."""
    slots = mesh._file.mesh.slots.model_copy(update={"by": "count", "size": 3, "timeout": 1.0})
    settings = mesh._file.mesh.model_copy(update={"slots": slots, "rounds": None, **changes})
    mesh._file = replace(mesh._file, mesh=settings)


def test_a_run_of_files_is_over_when_no_node_here_has_a_full_slot_left(mesh, reached):
    of_count(mesh)
    reached(a=(6, 18), b=(6, 18), c=(6, 18))
    assert not mesh.starved  # the feeders are not done
    for feeder in mesh._feeders.values():
        feeder.done = True
    assert mesh.starved
    reached(a=(6, 18), b=(6, 18), c=(5, 17))
    assert not mesh.starved
    reached(a=(6, 18), b=(6, 18), c=(5, 18))
    assert mesh.starved
    mesh._feeders.pop("c")  # others write to its topic, whose end nobody knows
    assert not mesh.starved


def test_records_that_fill_no_slot_are_counted_once_all_is_fed(mesh, reached):
    of_count(mesh)
    reached(a=(6, 18), b=(6, 19), c=(2, 6))
    assert mesh.left_over == {}
    mesh._feeders["a"].done = mesh._feeders["c"].done = True
    assert mesh.left_over == {"a": 2}  # c has slots left
    mesh._file.mesh.slots.__dict__["by"] = "time"
    assert mesh.left_over == {}


def test_where_nobody_is_given_up_the_first_node_without_a_full_slot_ends_the_run(mesh, reached):
    of_count(mesh, round_timeout=None)
    mesh._file.mesh.slots.__dict__["timeout"] = None
    for feeder in mesh._feeders.values():
        feeder.done = True
    reached(a=(6, 18), b=(5, 15), c=(5, 15))
    assert mesh.starved
    reached(a=(5, 15), b=(5, 15), c=(5, 15))
    assert not mesh.starved


def test_nodes_that_have_stepped_all_rounds_end_by_themselves(mesh, reached):
    of_count(mesh, rounds=6)
    for feeder in mesh._feeders.values():
        feeder.done = True
    reached(a=(6, 18), b=(6, 18), c=(6, 18))
    assert not mesh.starved


def test_who_has_left_is_shown_so_and_the_rounds_of_the_others_count(mesh, reached, tmp_path):
    write_wish(tmp_path, "c", mesh._file.mesh.run, 5)
    reached(a=(3, 0), b=(3, 0), c=(3, 0))
    assert states(mesh)["c"] == "starting"
    status = reached(a=(9, 0), b=(8, 0), c=(4, 0))
    assert {row.name: row.state for row in status.rows}["c"] == "left"
    assert mesh.course.round == 8
    assert status.slowest == ("b", 8)


def test_a_feeder_that_failed_is_named_unless_it_was_done_after_all(mesh):
    mesh._feeders["b"].failure = "feed b has failed (exit code 1): its topic holds other lines"
    assert mesh.failures == ["feed b has failed (exit code 1): its topic holds other lines"]


def test_a_node_that_is_not_heard_is_silent_and_not_running():
    silence = Silence()
    assert silence.state(100.0, None, 103.0) == "starting"
    assert silence.state(100.0, 99.0, 103.0) == "starting"  # that was its last life
    assert silence.state(100.0, 102.0, 103.0) == "running"
    assert silence.state(100.0, 102.0, 121.0) == "silent for 19 s"


def test_while_the_broker_is_away_nobody_can_be_heard():
    silence = Silence()
    silence.broker_away(120.0)
    assert silence.state(100.0, 102.0, 121.0) == "running"
    assert silence.state(100.0, 102.0, 127.0) == "silent for 7 s"
