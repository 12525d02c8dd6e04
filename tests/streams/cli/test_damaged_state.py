"""State and output folders that are full, read-only or damaged: each command ends with one line."""

import gzip
import json

import pytest
import yaml

from tests.support.nodes import disk
from tests.support.processes.in_process import MESH as SIMULATED

MESH = SIMULATED.replace("noise: simulated", "noise: exact")
COMMANDS = {
    "run": ("run", "more.yaml", "--state", "state", "--output", "output"),
    "budget": ("budget", "mesh.yaml", "--state", "state"),
    "pardon": ("pardon", "mesh.yaml", "b", "--state", "state", "--by", "a"),
    "leave": ("leave", "mesh.yaml", "a", "--state", "state"),
}
DAMAGES = (disk.overwritten, disk.cut, disk.flipped, disk.replaced_by_a_folder)
READ = {
    "run": ("a.journal", "a.spends", "order.json"),
    "budget": ("a.journal", "a.spends", "order.json"),
    "pardon": ("a.journal",),
    "leave": ("a.journal",),
}
"""The files that each command cannot do without."""


@pytest.fixture
def state(call, tmp_path):
    """The state folder of a run that has ended; `more.yaml` goes on with it."""
    (tmp_path / "mesh.yaml").write_text(MESH.replace("rounds: 40", "rounds: 4"))
    (tmp_path / "more.yaml").write_text(MESH.replace("rounds: 40", "rounds: 8"))
    assert call("run", "mesh.yaml", "--state", "state").code == 0
    return tmp_path / "state"


def refused_in_one_line(outcome, words):
    """Assert that a command has ended with one line that has these words: a file or folder, as a rule."""
    assert outcome.code == 2, outcome
    (line,) = outcome.err.splitlines()
    assert words in line
    assert "Traceback" not in outcome.out + outcome.err


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize(("command", "file"), [(name, file) for name in READ for file in READ[name]])
def test_a_damaged_file_is_named_and_nothing_is_written(call, state, command, file, damage):
    with damage(state / file):
        before = {path.name: path.read_bytes() for path in state.glob("*.spends") if path.is_file()}
        outcome = call(*COMMANDS[command])
        refused_in_one_line(outcome, f"state/{file}")
        assert {path.name: path.read_bytes() for path in state.glob("*.spends") if path.is_file()} == before
    assert not list(state.parent.glob("output/*"))
    assert call(*COMMANDS["run"]).code == 0  # nothing is left of it


@pytest.mark.parametrize("damage", [disk.full, disk.read_only], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("command", ["run", "pardon"])
def test_a_folder_that_cannot_be_written_to_is_named(call, state, command, damage):
    with damage(state):
        refused_in_one_line(call(*COMMANDS[command]), "state")
    assert not list(state.parent.glob("output/*"))
    assert call(*COMMANDS["run"]).code == 0


def test_an_output_folder_that_must_not_be_written_to_is_named(call, tmp_path):
    (tmp_path / "mesh.yaml").write_text(MESH.replace("rounds: 40", "rounds: 4"))
    output = tmp_path / "output"
    output.mkdir()
    with disk.read_only(output):
        refused_in_one_line(call("run", "mesh.yaml", "--output", "output"), "output")
    assert list(output.iterdir()) == []


BROKER = """
brokers:
  mesh: {servers: "127.0.0.1:1"}
  data: {servers: "127.0.0.1:1"}
  trust_broker: true
"""


@pytest.mark.parametrize("command", [*COMMANDS, "audit"])
def test_a_file_in_the_place_of_the_state_folder_is_named(call, state, command):
    """No broker is asked instead: what the folder would have said is more."""
    (state.parent / "mesh.yaml").write_text(MESH + BROKER)
    state.rename(state.with_name("kept"))
    state.write_text("")
    audit = ("audit", "releases", "mesh.yaml", "--state", "state")
    refused_in_one_line(call(*COMMANDS.get(command, audit)), "state")


def test_after_damage_a_run_in_one_process_has_another_name_and_counts_what_was_spent(call, state):
    """As its error says: moved away, the journal is a lost one, and `.spends` knows its rounds."""
    with disk.overwritten(state / "a.journal"):
        refused_in_one_line(call(*COMMANDS["run"]), "state/a.journal")
    for file in state.glob("a.journal*"):
        file.unlink()
    needed = "the mesh needs a new run name (the new run counts what was spent)"
    refused_in_one_line(call(*COMMANDS["run"]), needed)
    renamed = MESH.replace("run: run-1", "run: run-2").replace("rounds: 40", "rounds: 3")
    (state.parent / "mesh.yaml").write_text(renamed)
    outcome = call("run", "mesh.yaml", "--state", "state")
    assert outcome.code == 0, outcome.err
    nodes = json.loads(call("budget", "mesh.yaml", "--state", "state", "--json").out)["nodes"]
    assert {node["all_runs"]["stream_epsilon"] for node in nodes} == {4 + 3}


def test_a_packed_source_that_is_damaged_ends_a_run_whose_rounds_stay_charged(call, tmp_path):
    """The line names the file, and not the byte: that would tell how long the records before it are."""
    rows = "x,y,z\n" + "".join(f"{k % 7},{k % 5},{k % 3}\n" for k in range(5000))
    packed = bytearray(gzip.compress(rows.encode()))
    tree = yaml.safe_load(MESH) | {"nodes": {}}
    del tree["mesh"]["rounds"]
    tree["mesh"] |= {"loss": "squared", "slots": {"by": "count", "size": 100}}
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}
    for name in "abc":
        tree["nodes"][name] = {"source": {"kind": "csv", "path": f"{name}.csv.gz", "schema": schema}}
        (tmp_path / f"{name}.csv.gz").write_bytes(packed)
    packed[-6] ^= 1  # of the checksum: every record is read before
    (tmp_path / "b.csv.gz").write_bytes(packed)
    (tmp_path / "mesh.yaml").write_text(yaml.safe_dump(tree))
    outcome = call("run", "mesh.yaml", "--state", "state", "--output", "output")
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        'mesh.yaml: nodes.b.source.path: "b.csv.gz": cannot be read: it is damaged'
    ]
    assert list((tmp_path / "output").iterdir()) == []
    nodes = json.loads(call("budget", "mesh.yaml", "--state", "state", "--json").out)["nodes"]
    assert min(node["charged"] for node in nodes) >= 49
