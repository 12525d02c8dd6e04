"""A mesh file whose nodes sum what records are: records of two classes, in files beside it."""

from pathlib import Path
from typing import Any

import numpy as np

NODES = "abcd"
COLUMNS = 3
MOMENTS: dict[str, Any] = {
    "algorithm": {"name": "moments"},
    "privacy": {"mechanism": "gaussian", "epsilon": 1, "delta": 1e-6, "noise": "simulated"},
}
SUMS: dict[str, Any] = {
    "algorithm": {"name": "class-sums"},
    "privacy": {"mechanism": "laplace", "epsilon": 1, "noise": "simulated"},
}
CORRELATED: dict[str, Any] = MOMENTS | {
    "privacy": MOMENTS["privacy"] | {"mechanism": "gaussian-bisr", "bands": 4}
}


def rows_of(name: str, records: int) -> list[list[float]]:
    """Return rows [x1, x2, x3, 0 or 1]: the class 1 has more of x1, and less of x2."""
    random = np.random.default_rng(ord(name))
    labels = (random.random(records) < 0.3).astype(float)
    numbers = random.random((records, COLUMNS)) * 0.4
    numbers[:, 0] += 0.3 * labels
    numbers[:, 1] += 0.3 * (1 - labels)
    return np.concatenate([numbers.round(4), labels[:, None]], 1).tolist()


def tree_of(
    folder: Path, form: dict[str, Any], *, names: str = NODES, records: int = 60, **mesh: Any
) -> dict[str, Any]:
    """Write the files of records into the folder; return a mesh file's tree, `mesh` in its shared part."""
    schema = {
        "features": {f"x{k + 1}": {"bounds": [0, 1]} for k in range(COLUMNS)},
        "norm": 1,
        "label": {"column": "y", "positive": ["1.0"]},
    }
    nodes = {}
    for name in names:
        lines = [",".join(map(str, row)) for row in rows_of(name, records)]
        (folder / f"{name}.csv").write_text("\n".join(["x1,x2,x3,y", *lines, ""]))
        nodes[name] = {"source": {"kind": "csv", "path": f"{name}.csv", "schema": schema, "shuffle": False}}
    shared = {
        "name": "classes",
        "run": "run-1",
        "nodes": list(names),
        "dimension": COLUMNS,
        "loss": "hinge",
        "slots": {"by": "count", "size": 5},
        "topology": {"graph": "ring"},
        "horizon": 4,
        "rounds": 12,
    }
    return {"mesh": shared | form | mesh, "nodes": nodes}
