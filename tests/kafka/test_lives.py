"""Two processes with one name; journals that are lost or old; processes that are asked to end."""

import shutil

import pytest

from streams.bus.provision import Admin, provision
from streams.mesh.file import load
from streams.state.folder import JournalError
from streams.state.journal_file import JournalReader
from tests.kafka.test_equality import SIMULATED, WAITING, equal
from tests.support.brokers.feeding import stored
from tests.support.brokers.topics import connection, until
from tests.support.nodes.journals import restored, saved
from tests.support.processes.mesh import LiveMesh, mesh_file, released_in_memory, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS, HALF = 80, 40
QUICK = {"round_timeout": 2, "silence": 3, "slots": {"by": "count", "size": 1, "timeout": 0.2}}
"""A lost instance is given up, and planned without; nobody is fed, so a round of empty slots takes 0.2 s.

The run goes on until a test has seen what it waits for: nothing depends on how far it is by then.
"""


@pytest.fixture
def mesh_waiting(tmp_path, broker):
    path = mesh_file(
        tmp_path, "deploy/meshes/tracking.yaml", broker.address, rounds=ROUNDS, privacy=SIMULATED, **WAITING
    )
    with LiveMesh(path) as live:
        yield live


@pytest.fixture
def mesh_quick(tmp_path, broker):
    path = mesh_file(
        tmp_path, "deploy/meshes/tracking.yaml", broker.address, rounds="none", privacy=SIMULATED, **QUICK
    )
    with LiveMesh(path) as live:
        yield live


def last_round(mesh, name, state="state"):
    """The last round that a node's journal knows; 0: none."""
    try:
        with JournalReader(mesh.folder / state / f"{name}.journal") as journal:
            return max((record.round for record in journal.records(1)), default=0)
    except JournalError:
        return 0


def forget_spends(mesh, node):
    """Make the node's `spends` topic anew, and empty."""
    file = load(mesh.path, {})
    topic = file.data_topics(node).spends
    with Admin(file.brokers(node).data) as admin:
        admin._client.delete_topics([topic])
        until(lambda: not admin.topics([topic]))
    provision(file)


def end(mesh, *labels):
    """End the run, and wait until these processes have ended."""
    assert mesh.start("end", "end", mesh.path, "--yes").ends() == 0
    mesh.finish(*labels)


def has_joined(mesh, label, name):
    """Wait until the process has joined as another instance of the node, and has released."""
    wait_until(lambda: "has joined as a listener" in mesh.processes[label].log)
    wait_until(lambda: len(instances(mesh, name)) > 1)


def instances(mesh, name):
    """The instances of the node that have released."""
    return {who for (source, _), found in mesh.values().items() if source == name for who, _, _ in found}


def one_value_a_round(mesh):
    """Assert that no round of an edge's source has two values."""
    values = mesh.values()
    assert {key: found for key, found in values.items() if len(found) != 1} == {}
    return values


def test_the_lock_turns_a_second_process_on_one_state_folder_away(mesh_quick):
    mesh = mesh_quick
    mesh.scheduler()
    nodes = list(mesh.nodes())
    wait_until(lambda: last_round(mesh, nodes[0]) > 5)
    second = mesh.node(nodes[0], label="second")
    assert second.ends() == 2
    assert "another process has the journal" in second.log
    end(mesh, "scheduler", *nodes)
    one_value_a_round(mesh)


def test_a_short_silence_has_beats_to_match_and_leaves_the_dead_out(tmp_path, broker):
    waits = {"round_timeout": 0.5, "silence": 0.6, "slots": {"by": "count", "size": 1, "timeout": 0.3}}
    base = "deploy/meshes/tracking.yaml"
    path = mesh_file(tmp_path, base, broker.address, rounds="none", horizon=16, privacy=SIMULATED, **waits)
    with LiveMesh(path) as mesh:
        mesh.scheduler()
        dead, *others = mesh.nodes()
        wait_until(lambda: last_round(mesh, dead) > 5)
        mesh.processes[dead].kill()
        at = max(last_round(mesh, name) for name in mesh.file.mesh.nodes)
        wait_until(lambda: min(last_round(mesh, name) for name in others) > at + 16)  # past all plans with it
        end(mesh, "scheduler", *others)
        topic = mesh.file.resolved.topics.progress(others[0])
        sent = [one.timestamp()[1] for one in stored(connection(broker.address), topic)]
    # Milliseconds: 60 on an idle machine, and more on a busy one. Had they come ten times as rarely, all
    # would have been silent, and nobody would have gone on.
    assert (sent[-1] - sent[0]) / (len(sent) - 1) > 30


def test_of_two_processes_on_two_state_folders_the_newer_goes_on(mesh_quick):
    mesh = mesh_quick
    mesh.scheduler()
    nodes = list(mesh.nodes())
    older = mesh.processes[nodes[0]]
    wait_until(lambda: last_round(mesh, nodes[0]) > 20)
    mesh.node(nodes[0], "--spent", "0", "--from", "end", state="elsewhere", label="newer")
    assert older.ends() == 1
    assert "has started after this one, and takes its place" in older.log
    has_joined(mesh, "newer", nodes[0])
    end(mesh, "scheduler", "newer", *nodes[1:])
    assert (
        "The scheduler counted what this run had charged before its journal begins"
        in mesh.processes["newer"].log
    )
    one_value_a_round(mesh)
    assert len(instances(mesh, nodes[0])) == 2


def test_a_node_with_an_older_journal_joins_as_a_new_instance(mesh_quick):
    mesh = mesh_quick
    mesh.scheduler()
    nodes = list(mesh.nodes())
    lost, state = nodes[2], mesh.folder / "state"
    wait_until(lambda: last_round(mesh, lost) > 5)
    saved(state, lost, mesh.folder / "backup")
    at = last_round(mesh, lost)
    wait_until(lambda: last_round(mesh, lost) > at + 20)
    mesh.processes[lost].kill()
    restored(state, lost, mesh.folder / "backup")
    mesh.node(lost)
    has_joined(mesh, lost, lost)
    end(mesh, "scheduler", *nodes)
    assert "the journal is older than what it has published" in mesh.processes[lost].log
    one_value_a_round(mesh)
    assert len(instances(mesh, lost)) == 2


def test_asked_to_end_every_process_does_and_goes_on_later_where_it_was(mesh_waiting):
    mesh = mesh_waiting
    labels = ["scheduler", *mesh.file.mesh.nodes]
    mesh.feed_all(but=labels[-1:])
    mesh.allow(labels[-1], HALF)
    mesh.scheduler()
    mesh.nodes()
    wait_until(lambda: all(last_round(mesh, name) > HALF // 2 for name in labels[1:]))
    for label in labels:
        mesh.processes[label].terminate()
    for label in labels:
        assert mesh.processes[label].ends() == 0, mesh.processes[label].log
        assert "stopped, as asked" in mesh.processes[label].log
    mesh.allow(labels[-1], ROUNDS)
    mesh.scheduler()
    mesh.nodes()
    mesh.finish(*labels)
    equal(mesh.values(), released_in_memory(mesh.path))


def test_a_second_start_after_the_end_says_that_the_run_is_over(mesh_waiting):
    mesh = mesh_waiting
    mesh.run_through()
    labels = ["scheduler", *mesh.file.mesh.nodes]
    for label in ("scheduler", labels[1]):
        again = mesh.scheduler() if label == "scheduler" else mesh.node(label)
        assert again.ends() == 0
        assert again.log.count("the run is over") == 2


def test_a_copied_state_folder_is_another_instance(mesh_quick):
    mesh = mesh_quick
    mesh.scheduler()
    nodes = list(mesh.nodes())
    wait_until(lambda: last_round(mesh, nodes[1]) > 20)
    shutil.copytree(mesh.folder / "state", mesh.folder / "copy", ignore=shutil.ignore_patterns("faust"))
    mesh.node(nodes[1], state="copy", label="copy")
    assert mesh.processes[nodes[1]].ends() == 1
    has_joined(mesh, "copy", nodes[1])
    end(mesh, "scheduler", "copy", nodes[0], *nodes[2:])
    assert "the journal is a copy" in mesh.processes["copy"].log
    one_value_a_round(mesh)


def test_a_node_without_its_folder_is_asked_what_other_runs_have_spent_again_and_again(mesh_waiting):
    mesh = mesh_waiting
    mesh.run_through()
    labels = ["scheduler", *mesh.file.mesh.nodes]
    forget_spends(mesh, labels[1])  # as runs left it from before there was such a topic
    for label in ("first", "second"):  # the journal that the first leaves tells nothing
        asked = mesh.node(labels[1], state="elsewhere", label=label)
        assert asked.ends() == 2
        assert "Give --spent N" in asked.log
    told = mesh.node(labels[1], "--spent", "0", "--from", "end", state="elsewhere", label="told")
    assert told.ends() == 0
    assert "The scheduler counted what this run had charged before its journal begins" in told.log
