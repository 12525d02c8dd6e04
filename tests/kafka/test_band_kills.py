"""`gaussian-bisr` on a broker under kill -9: its band goes on, and no round has two values."""

import random
import sqlite3
import time
from contextlib import closing

import pytest

from tests.kafka.test_equality import equal
from tests.kafka.test_kills import Chaos
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh, released_in_memory, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BANDS, KILLS, STEP = 32, 6, 24
ROUNDS = BANDS + STEP * (KILLS + 2)
PRIVACY = {"mechanism": "gaussian-bisr", "delta": 1e-6, "bands": BANDS}


class Bands:
    """What a node's journal has held as secret, each time that it was looked at."""

    def __init__(self, mesh, name):
        self._path = mesh.folder / "state" / f"{name}.journal"
        self.seen = {}

    def draws(self):
        """Return what is there."""
        with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)) as connection:
            return dict(connection.execute("SELECT charged, draw FROM secret_draws").fetchall())

    def look(self):
        """Assert that exactly the last w - 1 draws are there, and none with another value than before."""
        with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("BEGIN")
            ((charged,),) = connection.execute("SELECT max(charged) FROM records").fetchall()
            draws = dict(connection.execute("SELECT charged, draw FROM secret_draws").fetchall())
        assert list(draws) == list(range(charged - BANDS + 2, charged + 1))
        assert {number: self.seen.get(number, draw) for number, draw in draws.items()} == draws
        self.seen |= draws


def run(path, after=lambda bands: None):
    """Run the mesh to its end, one node of it killed at random moments; return it."""
    with LiveMesh(path) as mesh:
        chaos = Chaos(mesh, 0)
        chaos.feed(BANDS, STEP)
        mesh.scheduler()
        victim, *_ = mesh.nodes()
        bands = Bands(mesh, victim)
        moments = random.Random(1)  # noqa: S311 # no secret
        for number in range(KILLS):
            at = BANDS + (number + 1) * STEP
            wait_until(lambda at=at: chaos.round(victim) >= at)
            time.sleep(moments.random() / 10)  # anywhere in a round
            chaos.kill_node(victim, lambda: after(bands))
            after(bands)
        mesh.finish("scheduler", *mesh.file.mesh.nodes)
        assert len(chaos.recovered) == KILLS
        for name in mesh.file.mesh.nodes:  # the run is over
            assert Bands(mesh, name).draws() == {}
        return mesh


def test_simulated_the_releases_are_those_of_one_process(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, rounds=ROUNDS, privacy=PRIVACY | {"noise": "simulated"})
    equal(run(path).values(), released_in_memory(path))


def test_exact_no_round_has_two_values_and_the_band_goes_on(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, rounds=ROUNDS, privacy=PRIVACY | {"noise": "exact"})
    mesh = run(path, Bands.look)
    values = mesh.values()
    assert {key: len(found) for key, found in values.items() if len(found) != 1} == {}
    assert {round for _, round in values} >= set(range(1, ROUNDS + 1))
