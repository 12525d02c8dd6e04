"""State folders that are full, read-only or damaged beside a broker; and the way back, as operate.md says."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.support.brokers.forgetting import stepped_by
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.nodes import disk
from tests.support.processes.command import LONG, ONE_THREAD
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SERVICE = {
    "rounds": "none",
    "round_timeout": 2,
    "silence": 5,
    "slots": {"by": "count", "size": 1, "timeout": 0.1},
    "privacy": {"noise": "exact"},
}
"""Slots close empty where nobody is fed, and are charged all the same."""
LIMITED = """
import sys
from pathlib import Path
from streams.cli import main
from tests.support.nodes import disk
limit, folder = sys.argv.pop(1), sys.argv.pop(1)
with getattr(disk, limit)(Path(folder)):
    main()
"""
"""A command whose disk is full, or whose state folder is read-only."""
DAMAGES = (disk.overwritten, disk.cut, disk.flipped, disk.replaced_by_a_folder)


class Stopped(LiveMesh):
    """A mesh that was fed with `--state`, and whose nodes were killed in mid-run."""

    def begin(self):
        """Run for some rounds, then kill the nodes."""
        self.state, self.first = self.folder / "state", next(iter(self.file.mesh.nodes))
        self.feed_all("--records", "20")
        self.scheduler()
        nodes = self.nodes()
        wait_until(lambda: all(stepped_by(self.state / f"{name}.journal") > 10 for name in nodes))
        for name in nodes:
            self.processes[name].kill()
            # Else SQLite mends a damaged page by its write-ahead log, and there is nothing to refuse.
            with closing(sqlite3.connect(self.state / f"{name}.journal")) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (self.folder / "more.csv").write_text("x\n" * 3)

    def arguments(self, command):
        """A command on the first node's part of the state folder."""
        return {
            "node": ("node", self.path, self.first),
            "feed": ("feed", self.path, self.first, "more.csv"),
            "leave": ("leave", self.path, self.first),
            "audit": ("audit", "releases", self.path),
        }[command] + ("--state", self.state)

    def refused(self, command, words, limit="nothing"):
        """Assert that the command ends with one line of these words, on a disk of that kind."""
        program = (sys.executable, "-c", LIMITED, limit, self.state)
        ended = subprocess.run(
            list(map(str, (*program, *self.arguments(command)))),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
            env=os.environ | ONE_THREAD | {"PYTHONPATH": ":".join(sys.path)},
        )
        said = ended.stdout + ended.stderr
        assert ended.returncode in (1, 2), said[-2000:]
        assert "Traceback" not in said, said[-2000:]
        assert len([line for line in ended.stderr.splitlines() if words in line]) == 1, said[-2000:]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory, broker):
    folder = tmp_path_factory.mktemp("damaged")
    with Stopped(small_mesh_file(folder, broker.address, **SERVICE)) as mesh:
        mesh.begin()
        yield mesh


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize(("command", "kind"), [("node", "journal"), ("node", "spends"), ("audit", "journal")])
def test_a_damaged_file_is_named(mesh, command, kind, damage):
    file = mesh.state / f"{mesh.first}.{kind}"
    with damage(file):
        mesh.refused(command, str(file))


@pytest.mark.parametrize("limit", ["full", "read_only"])
@pytest.mark.parametrize("command", ["node", "leave", "feed"])
def test_a_folder_that_cannot_be_written_to_is_named(mesh, command, limit):
    mesh.refused(command, str(mesh.state), limit)


def test_the_way_back_from_a_damaged_journal(mesh):
    """Moved away with its `-wal` file it is a lost one: the node joins anew, and all charges are known."""
    journal = mesh.state / f"{mesh.first}.journal"
    budget = ("budget", mesh.path, mesh.first, "--state", mesh.state, "--json")
    before = mesh.start("budget-before", *budget)
    assert before.ends() == 0, before.log
    for name in list(mesh.file.mesh.nodes)[1:]:
        mesh.node(name)
    journal.write_bytes(journal.read_bytes()[:5000])
    broken = mesh.node(mesh.first)
    assert broken.ends() == 1, broken.log[-2000:]
    assert f"the journal {journal} cannot be used" in broken.log.splitlines()[-1]
    away = mesh.folder / "away"
    away.mkdir()
    for file in mesh.state.glob(f"{journal.name}*"):
        if not file.name.endswith(".lock"):
            file.rename(away / file.name)
    back = mesh.node(mesh.first)
    wait_until(lambda: stepped_by(journal) > 0)
    assert "has joined as a listener" in back.log
    after = mesh.start("budget-after", *budget)
    assert after.ends() == 0, after.log
    charged = [json.loads(asked.log)["nodes"][0]["charged"] for asked in (before, after)]
    assert charged[1] >= charged[0] > 10
