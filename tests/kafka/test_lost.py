"""A broker that lost its disk, and a journal that is gone: what was charged is told all the same."""

import json

import pytest
from confluent_kafka.admin import AdminClient

from nodes.accounting.reuse import total
from streams.bus.provision import provision
from streams.state.journal_file import JournalReader
from streams.state.spends import all_spends
from tests.kafka.test_reuse import another_run
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 12
EXACT = {"noise": "exact", "budget": 20}


def told(mesh, name, label):
    """What `mirrormesh budget --json` says of a node, by its state folder."""
    asked = mesh.start(label, "budget", mesh.path, name, "--json", "--state", mesh.folder / "state")
    assert asked.ends() == 0, asked.log
    (found,) = json.loads(asked.log)["nodes"]
    return found


def made_anew(mesh, address):
    """Delete every topic of the mesh and its nodes, and provision them again: a broker with an empty disk."""
    admin = AdminClient({"bootstrap.servers": address})
    own = {mesh.file.mesh.name, *mesh.file.mesh.nodes}

    def left():
        names = admin.list_topics(timeout=30).topics
        return [topic for topic in names if any(name in topic for name in own)]

    for future in admin.delete_topics(left()).values():
        future.result(30)
    wait_until(lambda: not left())
    provision(mesh.file)


def charged(journal):
    """The charged rounds in a journal."""
    with JournalReader(journal) as reader:
        return reader.charged


def up(mesh, *options):
    """Start every node, and wait until each has looked at its topics; return their names."""
    names = list(mesh.file.mesh.nodes)
    said = {
        name: mesh.processes[name].log.count("goes on") if name in mesh.processes else 0 for name in names
    }
    mesh.nodes(*options)
    wait_until(lambda: all(mesh.processes[name].log.count("goes on") > said[name] for name in names))
    return names


def ended(mesh):
    """Scheduler and nodes to the run's end, fed when the nodes have looked at their topics."""
    mesh.scheduler()
    names = up(mesh)
    mesh.feed_all()
    mesh.finish("scheduler", *names)
    return names


def test_a_broker_that_lost_its_disk_takes_nothing_from_what_was_charged(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, rounds=ROUNDS, privacy=EXACT)
    with LiveMesh(path) as mesh:
        name = ended(mesh)[0]
        assert told(mesh, name, "before")["spent"] == ROUNDS
        made_anew(mesh, broker.address)
        ended(mesh)
        found = told(mesh, name, "after")
        said = mesh.processes[name].log
    assert "was made anew" in said
    assert "epsilon = 2 (pure), by " in said
    assert (found["charged"], found["spent"], found["relaying"]) == (
        20,
        20.0,
        True,
    )  # no budget begins afresh
    assert (found["all_runs"]["epsilon"], found["all_runs"]["stream_epsilon"]) == (2, 20)
    first, second = all_spends(tmp_path / "state", name)
    assert (first.charged, second.charged) == (ROUNDS, 20 - ROUNDS)


def test_a_journal_that_is_gone_leaves_its_price(tmp_path, broker):
    """H5: killed, the journal deleted, a new run; then three restarts by a unit with one command line."""
    path = small_mesh_file(tmp_path, broker.address, rounds=400, privacy={"noise": "exact"})
    with LiveMesh(path) as mesh:
        mesh.scheduler()
        names = up(mesh)
        journals = [tmp_path / "state" / f"{name}.journal" for name in names]
        mesh.feed_all("--records", "20")  # the run waits for more, and is not over when it is killed
        wait_until(lambda: all(charged(journal) for journal in journals))
        for name in names:
            mesh.processes[name].kill()
        mesh.processes["scheduler"].kill()
    for journal in journals:
        for file in tmp_path.glob(f"state/{journal.name}*"):
            file.unlink()
    options = ("--spent", "7", "--data-reused")
    with LiveMesh(another_run(path)) as mesh:
        mesh.scheduler()
        for _ in range(3):
            for name in up(mesh, *options):
                mesh.processes[name].kill()
        other = mesh.node(names[0], "--spent", "8", "--data-reused", label="other")
        said = mesh.processes[names[0]].log
        wait_until(lambda: not other.running or "goes on" in other.log)
        found = told(mesh, names[0], "asked")
        spends = all_spends(tmp_path / "state", names[0])
    assert "over all runs each record is protected with epsilon = 2 (pure), by " in said
    assert total(spends).stream_epsilon is None  # nobody knows how far the first came
    assert found["all_runs"] == dict.fromkeys(("epsilon", "delta", "stream_epsilon", "stream_delta"))
    assert not charged(journals[0]) or (other.code == 2 and "--spent is 8: must be 7" in other.log)
