"""Several nodes in one process: the same releases, and each ends for itself."""

import sqlite3
from contextlib import closing
from urllib.request import urlopen

import pytest

from streams.bus.provision import Admin, provision
from streams.state.folder import StateFolder, lock_of
from streams.state.journal_file import locked
from tests.kafka.test_equality import SIMULATED, WAITING, equal
from tests.kafka.test_lives import QUICK, end, last_round, one_value_a_round
from tests.support.brokers.development import free_port
from tests.support.brokers.topics import until
from tests.support.processes.mesh import LiveMesh, mesh_file, released_in_memory, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS, HALF = 80, 40
MESH = "deploy/meshes/tracking.yaml"


def host(mesh, label, *chosen):
    """Start a process of several nodes."""
    return mesh.start(label, "node", mesh.path, *chosen, "--state", mesh.folder / "state")


def go_on(mesh, names):
    """Wait until each of these nodes has gone on from where it is."""
    before = {name: last_round(mesh, name) for name in names}
    wait_until(lambda: all(last_round(mesh, name) > round for name, round in before.items()))


def test_two_hosts_of_three_release_what_one_process_does_though_one_is_killed(tmp_path, broker):
    given = WAITING | {"privacy": SIMULATED, "layout": "outbox"}
    path = mesh_file(tmp_path, MESH, broker.address, rounds=ROUNDS, **given)
    with LiveMesh(path) as mesh:
        first, *_, last = mesh.file.mesh.nodes
        mesh.feed_all(but=[last])
        mesh.allow(last, HALF)
        mesh.scheduler()
        host(mesh, "one", "--share", "1/2")
        killed = host(mesh, "two", "--share", "2/2")
        wait_until(lambda: last_round(mesh, first) > HALF // 2)
        killed.kill()
        assert last_round(mesh, first) < ROUNDS
        mesh.allow(last, ROUNDS)
        host(mesh, "again", "--share", "2/2")
        mesh.finish("scheduler", "one", "again")
        equal(mesh.values(), released_in_memory(path))


def test_a_node_that_is_replaced_or_loses_its_journal_ends_alone(tmp_path, broker):
    path = mesh_file(tmp_path, MESH, broker.address, rounds="none", privacy=SIMULATED, **QUICK)
    with LiveMesh(path) as mesh:
        mesh.scheduler()
        replaced, broken, *others = mesh.file.mesh.nodes
        port = free_port()
        union = mesh.start(
            "host",
            "node",
            path,
            replaced,
            broken,
            *others[:2],
            "--state",
            tmp_path / "state",
            "--metrics",
            port,
        )
        host(mesh, "rest", *others[2:])
        wait_until(lambda: last_round(mesh, replaced) > 10)
        mesh.node(replaced, "--spent", "0", "--from", "end", state="elsewhere", label="newer")
        said = f"another process of node {replaced} has started after this one, and takes its place"
        wait_until(lambda: f"ERROR node {replaced}: {said}" in union.log)
        with closing(sqlite3.connect(StateFolder(tmp_path / "state").journal(broken))) as journal, journal:
            journal.execute("DROP TABLE records")
        wait_until(lambda: f"ERROR node {broken}: " in union.log)
        with pytest.raises(OSError, match="503"):
            urlopen(f"http://127.0.0.1:{port}/readyz")
        shown = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
        assert shown.count("# TYPE mirrormesh_round ") == 1
        assert all(f'node="{name}"' in shown for name in (replaced, broken, *others[:2]))
        go_on(mesh, others)
        end(mesh, "scheduler", "newer", "rest")
        assert union.ends() == 1
        assert f"node {replaced} has failed, and 1 more: {said}" in union.log
        one_value_a_round(mesh)


def test_a_damaged_journal_and_a_lock_keep_one_node_each_from_starting_and_the_lock_is_waited_for(
    tmp_path, broker
):
    path = mesh_file(tmp_path, MESH, broker.address, rounds="none", privacy=SIMULATED, **QUICK)
    state = StateFolder(tmp_path / "state")
    with LiveMesh(path) as mesh:
        mesh.scheduler()
        damaged, held, *others = mesh.file.mesh.nodes
        first = host(mesh, "first", "--all")
        wait_until(lambda: last_round(mesh, others[0]) > 3)
        first.kill()
        with closing(sqlite3.connect(state.journal(damaged))) as journal, journal:
            journal.execute("UPDATE records SET charged = charged - 1 WHERE round = 2")
        port = free_port()
        with locked(state.journal(held)):
            second = host(mesh, "second", "--all", "--metrics", port)
            wait_until(lambda: "journal" in second.log and f"ERROR node {held}: cannot start: " in second.log)
            go_on(mesh, others)  # they have started
            line = f"ERROR node {damaged}: cannot start: the journal {state.journal(damaged)} cannot be used"
            assert f"{line}: it is damaged: the record of round 2 is not as it was written" in second.log
            with pytest.raises(OSError, match="503"):
                urlopen(f"http://127.0.0.1:{port}/readyz")
            with locked(state.journal(damaged)):  # it can be started alone, once its journal is moved away
                pass
        wait_until(lambda: f"node {held} can start now: begins again" in second.log)
        wait_until(lambda: f"INFO node {held}: instance" in second.log)
        go_on(mesh, (held, *others))
        end(mesh, "scheduler")
        assert second.ends() == 1
        assert f"node {damaged} has failed: the journal" in second.log
        one_value_a_round(mesh)


def test_nodes_that_cannot_start_for_five_reasons_leave_the_others_to_their_work(tmp_path, broker):
    path = mesh_file(tmp_path, MESH, broker.address, rounds="none", privacy=SIMULATED, **QUICK)
    state = StateFolder(tmp_path / "state")
    with LiveMesh(path) as mesh:
        mesh.scheduler()
        damaged, held, missing, unlockable, foreign, going_on = mesh.file.mesh.nodes
        first = host(mesh, "first", "--all")
        wait_until(lambda: last_round(mesh, going_on) > 3)
        first.kill()
        with closing(sqlite3.connect(state.journal(damaged))) as journal, journal:
            journal.execute("DELETE FROM average")
        with closing(sqlite3.connect(state.journal(foreign))) as journal, journal:
            journal.execute("PRAGMA user_version = 7")
        lock = lock_of(state.journal(unlockable))
        lock.unlink()
        lock.mkdir()  # as one that is another user's
        topic = mesh.file.data_topics(missing).records
        with Admin(mesh.file.brokers(missing).data) as admin:
            admin._client.delete_topics([topic])
            until(lambda: not admin.topics([topic]))
        with locked(state.journal(held)):
            second = host(mesh, "second", "--all")
            refused = (damaged, held, missing, unlockable, foreign)
            wait_until(lambda: all(f"ERROR node {name}: cannot start: " in second.log for name in refused))
            go_on(mesh, [going_on])
            provision(mesh.file)
        for name in (held, missing):  # those wait, and one start may be for both
            wait_until(lambda name=name: f"INFO node {name}: instance" in second.log)
        go_on(mesh, [held])
        assert second.log.count(f"ERROR node {unlockable}: cannot start: ") == 1
        assert "Traceback" not in second.log
        second.terminate()
        assert second.ends() == 0  # as asked
        third = mesh.start("third", "node", path, damaged, unlockable, foreign, "--state", tmp_path / "state")
        assert third.ends() == 1
        assert "Traceback" not in third.log
        for name in (damaged, unlockable, foreign):  # each is named, in one line
            assert third.log.count(f"the journal {state.journal(name)} cannot be used: ") == 1
        one_value_a_round(mesh)
