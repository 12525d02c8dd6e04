"""Releases are, bit for bit, those of the commit that wrote `releases.json`.

    python -m tests.golden.test_golden_releases     # writes it anew: only where releases are meant to change

They are of meshes with simulated noise: every mechanism, and moments and class sums, with slots by count and
by time.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

import mirrormesh

RELEASES = Path(__file__).with_name("releases.json")
NODES = ("a", "b", "c")
SLOTS: dict[str, dict[str, Any]] = {
    "count": {"by": "count"},
    "time": {"by": "time", "period": 1, "start": 0},
}
MECHANISMS: dict[str, dict[str, Any]] = {
    "laplace": {"mechanism": "laplace", "epsilon": 1},
    "laplace on parameters": {"mechanism": "laplace", "epsilon": 1, "on": "parameters", "norm": "l2"},
    "gaussian": {"mechanism": "gaussian", "epsilon": 1, "delta": 1e-6},
    "gaussian-bisr": {"mechanism": "gaussian-bisr", "epsilon": 1, "delta": 1e-6, "bands": 4},
    "l2-sphere": {"mechanism": "l2-sphere", "epsilon": 1},
    "none": {"mechanism": "none"},
}
SUMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "moments": ({"name": "moments", "kappa": 3, "signed": True}, MECHANISMS["gaussian"]),
    "moments, bisr": ({"name": "moments"}, MECHANISMS["gaussian-bisr"]),
    "class-sums": ({"name": "class-sums", "entries": 2}, MECHANISMS["laplace"]),
}
"""Algorithm and mechanism of releases that are sums of records."""


def golden(folder: Path, mechanism: str, slots: str) -> dict[str, str]:
    """Return the SHA-256 of each node's releases, float64 little-endian, of a run of 40 rounds."""
    for place, name in enumerate(NODES):
        lines = [record(place, number) for number in range(90)]
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    outcome = mirrormesh.run(mirrormesh.load(mesh_file(folder, mechanism, slots)))
    return {
        name: hashlib.sha256(
            b"".join(record.release.astype("<f8").tobytes() for record in history.records)
        ).hexdigest()
        for name, history in outcome.nodes.items()
    }


def record(place: int, number: int) -> dict[str, Any]:
    """Return a record: five in two seconds, so slots by time are full or over-full, and the last empty."""
    features = {f"x{k}": (7 * number + 3 * place + k) % 5 / 2 - 1 for k in range(3)}
    label = (number * 13 + place) % 7 / 3 - 1
    return {"t": number * 0.4, **features, "y": label, "z": int(label > 0)}


def mesh_file(folder: Path, mechanism: str, slots: str) -> Path:
    """Write the mesh file of three nodes on a switching ring."""
    label = {"column": "z", "positive": [1]} if mechanism in SUMS else {"column": "y"}
    schema = {"features": {f"x{k}": "number" for k in range(3)}, "label": label}
    form = {
        "algorithm": {
            "name": "dpdo-nc",
            "constraint": {"l2-ball": 3},
            "step_size": {"rule": "inverse-sqrt", "a": 0.5},
        },
        "loss": "squared",
    }
    privacy = MECHANISMS.get(mechanism, {}) | {"gradient_bound": 1}
    if mechanism in SUMS:
        algorithm, privacy = SUMS[mechanism]
        form = {"algorithm": algorithm, "loss": "hinge"}
    mesh = {
        "name": "golden",
        "run": "run-1",
        "nodes": [*NODES],
        "dimension": 3,
        **form,
        "slots": SLOTS[slots] | {"size": 1 if "parameters" in mechanism else 2},
        "privacy": privacy | ({} if mechanism == "none" else {"noise": "simulated"}),
        "topology": {"graph": "ring", "switching": 0.7},
        "rounds": 40,
        "seed": 5,
    }
    sources = {
        name: {
            "source": {
                "kind": "json-lines",
                "path": str(folder / f"{name}.jsonl"),
                "schema": schema | ({"timestamp": "t"} if slots == "time" else {}),
            }
        }
        for name in NODES
    }
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump({"mesh": mesh, "nodes": sources}))
    return path


def cases() -> Iterator[tuple[str, str]]:
    """Yield all pairs of a mechanism, or a sum of records, and a kind of slots."""
    for mechanism in (*MECHANISMS, *SUMS):
        for slots in SLOTS:
            yield mechanism, slots


@pytest.mark.parametrize(("mechanism", "slots"), [*cases()])
def test_releases_are_the_golden_ones(mechanism, slots, tmp_path):
    assert golden(tmp_path, mechanism, slots) == json.loads(RELEASES.read_text())[f"{mechanism}, {slots}"]


def test_each_mesh_has_releases_of_its_own():
    digests = [tuple(nodes.values()) for nodes in json.loads(RELEASES.read_text()).values()]
    assert len(set(digests)) == len(digests) == len([*cases()])


if __name__ == "__main__":
    written = {}
    for mechanism, slots in cases():
        with TemporaryDirectory() as folder:
            written[f"{mechanism}, {slots}"] = golden(Path(folder), mechanism, slots)
    RELEASES.write_text(f"{json.dumps(written, indent=1)}\n")
