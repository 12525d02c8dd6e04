"""Example meshes on a real broker, one process a node: the releases of one process, bit for bit.

The others run through the same runner in tests/simulation/test_examples.py.
"""

import pytest

from streams.mesh.settings.files import read_yaml
from tests.support.meshes.examples import ROUNDS, example
from tests.support.processes.mesh import LiveMesh, mesh_file, released_in_memory

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


SMOKE = ("emergency-visits", "experts", "tracking-switching")
"""Records of a schema, the entropy map, and a graph that changes."""


def patient(base):
    """The example's shared part, shortened, noise from the seed; nobody given up, no slot closed empty."""
    shared = read_yaml(base)["mesh"]
    changes = {"rounds": ROUNDS, "round_timeout": "none", "silence": 60}
    changes["privacy"] = shared["privacy"] | {"noise": "simulated"}
    if shared["slots"]["by"] == "count":
        changes["slots"] = shared["slots"] | {"timeout": "none"}
    return changes


@pytest.mark.parametrize("name", SMOKE)
def test_an_example_releases_on_a_broker_what_it_does_in_memory(name, tmp_path, monkeypatch, broker):
    base = example(name, tmp_path, monkeypatch)
    path = mesh_file(tmp_path, base, broker.address, **patient(base))
    with LiveMesh(path) as mesh:
        mesh.run_through()
        values = mesh.values()
    assert {key for key, found in values.items() if len(found) != 1} == set()
    assert {key: value for key, ((_, _, value),) in values.items()} == released_in_memory(path)
    assert {round for _, round in values} >= set(range(1, ROUNDS + 1))
