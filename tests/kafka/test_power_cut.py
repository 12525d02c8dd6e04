"""Nodes with `durability: process` on a broker: all machines lose power, and records come later."""

import sqlite3
from contextlib import closing

import pytest

from streams.state.journal_file import JournalReader
from streams.state.rows import checksum, read_bound
from tests.kafka.test_lives import QUICK, last_round, one_value_a_round
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 12


def bound_of(journal):
    with closing(sqlite3.connect(journal)) as connection:
        return read_bound(connection)[0]


def lose_power(journal):
    """Let the journal's last bound be one of an earlier boot of the machine. Return the bound."""
    bound = bound_of(journal)
    with closing(sqlite3.connect(journal)) as connection, connection:
        *row, _, _ = connection.execute("SELECT * FROM bound").fetchone()
        row = [*row, "an earlier boot"]
        connection.execute("UPDATE bound SET boot = ?, checksum = ?", (row[-1], checksum(*row)))
    return bound


def newest(journal):
    with JournalReader(journal) as reader:
        return reader.instance, reader.records(1)[0]


def test_a_mesh_whose_machines_all_lose_power_goes_on_beyond_its_bounds(tmp_path, broker):
    own = {name: {"durability": "process"} for name in ("a", "b", "c")}
    path = small_mesh_file(tmp_path, broker.address, own=own, rounds="none", **QUICK)
    with LiveMesh(path) as mesh:
        names = list(mesh.file.mesh.nodes)
        journals = {name: mesh.folder / "state" / f"{name}.journal" for name in names}
        mesh.feed_all("--records", str(RECORDS))
        mesh.scheduler()
        mesh.nodes()
        wait_until(lambda: all(last_round(mesh, name) > RECORDS + 8 for name in names))
        for name in names:
            mesh.processes[name].kill()
        lives = {name: newest(journal) for name, journal in journals.items()}
        bounds = {name: lose_power(journal) for name, journal in journals.items()}
        floors = {name: dict(bound.read)[0] for name, bound in bounds.items()}
        assert all(floor > RECORDS for floor in floors.values())  # beyond the ends of the logs
        before = max(last_round(mesh, name) for name in names)
        mesh.nodes()
        wait_until(lambda: all(last_round(mesh, name) > before + 5 for name in names))
        for name, journal in journals.items():
            (life, last), (instance, record) = lives[name], newest(journal)
            if last.round == bounds[name].round:  # nothing beyond it was sent, so nothing can be lost
                assert instance == life
                continue
            assert instance != life
            assert record.charged >= bounds[name].charged
            assert dict(record.data_position)[0] == floors[name]
            assert "the machine has started anew: joining as a new instance" in mesh.processes[name].log
        mesh.feed_all("--records", str(2 * RECORDS))
        ends = dict.fromkeys(names, 2 * RECORDS)  # a feed goes on where the one before ended
        wait_until(
            lambda: {name: dict(newest(path)[1].data_position)[0] for name, path in journals.items()} == ends
        )
        first = names[0]
        life, _ = newest(journals[first])
        mesh.processes[first].terminate()
        mesh.finish(first)
        assert bound_of(journals[first]) is None  # in order: a power cut now costs nothing
        mesh.node(first)
        wait_until(lambda: bound_of(journals[first]) is not None)
        assert newest(journals[first])[0] == life
        mesh.check()
        one_value_a_round(mesh)
