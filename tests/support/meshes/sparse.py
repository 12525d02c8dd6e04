"""Small mesh files with sparse records, and the files that they name."""

import numpy as np

from tests.support.meshes.files import loaded

MESH = {
    "name": "sparse",
    "run": "run-1",
    "nodes": ["a", "b", "c"],
    "dimension": 5,
    "algorithm": {
        "name": "sparse-dola",
        "constraint": {"l2-ball": 2},
        "step_size": {"rule": "inverse-sqrt", "a": 0.5},
        "lasso": 0.1,
    },
    "loss": "hinge",
    "slots": {"by": "count", "size": 2},
    "privacy": {"mechanism": "none", "gradient_bound": 1, "norm": "l2"},
    "topology": {"graph": "ring"},
    "horizon": 4,
    "seed": 5,
}
CSR = {"kind": "csr", "path": "rows.npz", "label": {"positive": 1}}
ARRAYS = {
    "data": np.array([0.5, -2.0, 1.0, 3.0], np.float32),
    "indices": np.array([4, 0, 1, 2], np.int32),
    "indptr": np.array([0, 2, 2, 4]),
    "shape": np.array([3, 5]),
    "y": np.array([1, -1, 1], np.int8),
}


def sparse_mesh(folder, source, held_out=None, **mesh):
    """The mesh file whose node a has this source."""
    tree = {"mesh": MESH | mesh, "nodes": {"a": {"source": source}}}
    if held_out is not None:
        tree["held_out"] = held_out
    return loaded(folder, tree)


def saved(folder, **arrays):
    """Write rows.npz, with other arrays than ARRAYS; None: without it."""
    wanted = {name: array for name, array in (ARRAYS | arrays).items() if array is not None}
    np.savez(folder / "rows.npz", **wanted)
