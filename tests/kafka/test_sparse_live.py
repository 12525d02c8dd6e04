"""Sparse records on a real broker: a CSR file is fed as libsvm lines, and learnt from as in one process."""

import numpy as np
import pytest

from tests.kafka.test_equality import WAITING, equal
from tests.support.brokers.feeding import stored
from tests.support.brokers.topics import connection
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.meshes.reuters import texts
from tests.support.processes.mesh import LiveMesh, released_in_memory

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MESH = {
    "dimension": 500,
    "algorithm": {
        "name": "sparse-dola",
        "constraint": {"l2-ball": 50},
        "step_size": {"rule": "constant", "a": 2},
        "lasso": 0.05,
    },
    "loss": "hinge",
    "privacy": {
        "mechanism": "gaussian",
        "noise": "simulated",
        "epsilon": 8,
        "delta": 1e-6,
        "gradient_bound": 1,
    },
    "slots": WAITING["slots"] | {"size": 4},
    "rounds": 40,
}


def test_sparse_dola_in_processes_of_its_own_releases_what_one_process_does(tmp_path, broker):
    made = texts(480, 500)
    np.savez(tmp_path / "texts.npz", **made)
    source = {"kind": "csr", "path": "texts.npz", "label": {"positive": 1, "negative": -1}}
    sources = {name: source | {"take": {"every": 3, "offset": k}} for k, name in enumerate("abc")}
    tree = MESH | {key: value for key, value in WAITING.items() if key != "slots"}
    algorithm = tree.pop("algorithm") | {"mirror_map": "euclidean"}
    path = small_mesh_file(tmp_path, broker.address, sources=sources, algorithm=algorithm, **tree)
    with LiveMesh(path) as mesh:
        mesh.run_through()
        equal(mesh.values(), released_in_memory(path))
        first, *_ = stored(
            connection(broker.address), mesh.file.data_topics(next(iter(mesh.file.mesh.nodes))).records
        )
    words = made["indices"][: made["indptr"][1]].tolist()
    assert [int(pair.split(b":")[0]) for pair in first.value().split()[1:]] == [word + 1 for word in words]
