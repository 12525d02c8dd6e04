"""The meshes that are measured: rings of six parties who learn a line from made-up records, squared loss."""

import json
from pathlib import Path

import yaml
from confluent_kafka import Producer

from streams.bus.connection import producer_settings
from streams.mesh.mesh import Mesh
from tests.support.processes.mesh import LiveMesh
from topology.keyed import generator

SIZE = 6
ROWS = 1_024


def write_mesh(
    folder: Path,
    address: str,
    party: str,
    dimension: int,
    slot: int = 1,
    size: int = SIZE,
    data: str | None = None,
    *,
    durability: str = "machine",
    predictions: bool = False,
    **shared: object,
) -> Path:
    """Write the mesh file of parties `party`-0, -1, ... into a folder of its own, and return its path.

    `size` of them, with a broker of their own for the data at `data`, if given; `shared` replaces keys of the
    shared part.

    Data topics go by the mesh, which is called after its parties: two runs of it read the same records. Noise
    is exact, as users have it. Nobody is given up, and no slot closes empty.
    """
    folder.mkdir()
    nodes, features = [f"{party}-{k}" for k in range(size)], [f"f{k}" for k in range(dimension)]
    schema = {"features": dict.fromkeys(features, "number"), "label": {"column": "label"}}
    source = {"kind": "json-lines", "path": "rows.jsonl", "schema": schema}
    tree = {
        "mesh": {
            "name": f"bench-{party}",
            "run": folder.name,
            "nodes": nodes,
            "dimension": dimension,
            "algorithm": {
                "name": "dpdo-nc",
                "constraint": {"l2-ball": 10},
                "step_size": {"rule": "inverse-sqrt", "a": 0.5},
            },
            "loss": "squared",
            "slots": {"by": "count", "size": slot, "timeout": "none"},
            "privacy": {"mechanism": "laplace", "noise": "exact", "epsilon": 1, "gradient_bound": 1},
            "topology": {"graph": "ring"},
            "round_timeout": "none",
            "silence": 60,
        }
        | shared,
        "brokers": {
            "mesh": {"servers": address},
            "data": {"servers": data or address},
            "trust_broker": data is None,
        },
        "nodes": {
            name: {"source": source, "durability": durability, "predictions": predictions} for name in nodes
        },
    }
    (folder / "rows.jsonl").write_bytes(b"\n".join(rows(dimension)))
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def rows(dimension: int) -> list[bytes]:
    """Records, each a line of JSON, to go round."""
    rng = generator("bench-kafka", dimension)
    features = rng.uniform(-1, 1, (ROWS, dimension)).round(4)
    labels = features.sum(axis=1).round(4)
    return [
        json.dumps({f"f{k}": value for k, value in enumerate(row)} | {"label": label}).encode()
        for row, label in zip(features.tolist(), labels.tolist(), strict=True)
    ]


def fill(mesh: LiveMesh, count: int) -> None:
    """Append `count` records to every data topic of a mesh."""
    lines, bulk = rows(mesh.file.mesh.dimension), {"linger.ms": 5, "batch.num.messages": 10_000}
    names = list(mesh.file.mesh.nodes)
    producer = Producer(producer_settings(mesh.file.brokers(names[0]).data, 0) | bulk | {"log_level": 0})
    for name in names:
        for k in range(count):
            producer.produce(mesh.file.data_topics(name).records, lines[k % ROWS], partition=0)
            if k % 10_000 == 0:
                producer.flush()
        producer.flush()
    producer.close()


def start(mesh: LiveMesh, processes: int | None = None) -> dict[str, int]:
    """Start the scheduler and all nodes; return the process id of each.

    A process a node, or its share of them in each of `processes` hosts, with a state folder of its own.
    """
    mesh.scheduler()
    options = ("--spent", 0, "--data-reused")  # two meshes read the same records
    if processes is None:
        mesh.nodes(*options)
    for k in range(processes or 0):
        share = ("--share", f"{k + 1}/{processes}", "--state", mesh.path.parent / f"state-{k}")
        mesh.start(f"host-{k}", "node", mesh.path, *share, *options)
    return {label: process._process.pid for label, process in mesh.processes.items()}


def first_edge(mesh: LiveMesh) -> str:
    """Return the topic from the first node to a neighbour of its."""
    made = Mesh(mesh.file.mesh)
    first = next(iter(made.settings.nodes))
    _, targets = made.graph.neighbours(first)
    return made.topics.edge(first, targets[0])
