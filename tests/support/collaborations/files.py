"""The mesh file of a collaboration of three banks, and their records."""

import uuid

import numpy as np
import yaml

SIZES = {"bank-a": 60, "bank-b": 40, "bank-c": 25}
OWNERS = tuple(SIZES)


def collaboration_file(folder, broker, **changes):
    """Write the mesh file of three banks with their records, and return its path."""
    random = np.random.default_rng(5)
    for name, count in SIZES.items():
        features = random.normal(size=(count, 2))
        labels = features @ [1.0, -2.0] + 0.1 * random.normal(size=count)
        cells = np.column_stack([features, labels]).tolist()
        rows = "".join(f"{','.join(map(repr, row))}\n" for row in cells)
        (folder / f"{name}.csv").write_text(f"x,y,rate\n{rows}")
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "rate"}}
    source = {"kind": "csv", "schema": schema}
    tree = {
        "mesh": {
            "kind": "collaboration",
            "name": f"lending-{uuid.uuid4().hex[:8]}",
            "run": "first",
            "learner": "analyst",
            "owners": {
                "bank-a": {"records": 60, "epsilon": 1},
                "bank-b": {"records": 40, "epsilon": 10, "mechanism": "gaussian", "delta": 1e-6},
                "bank-c": {"records": 25, "epsilon": 2},
            },
            "dimension": 2,
            "loss": "squared",
            "constraint": {"l2-ball": 10},
            "algorithm": {"name": "averaged", "step": 0.5},
            "queries": 12,
            "gradient_bound": 4,
            "response_timeout": "none",
            "noise": {"simulated": 3},
        }
        | changes,
        "owners": {name: {"source": source | {"path": f"{name}.csv"}} for name in SIZES},
        "brokers": {"mesh": {"servers": broker}},
    }
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path
