"""Exports for tests: mesh files of parties apart, and what the command writes of them."""

import shlex
import subprocess
import sys
from pathlib import Path
from re import MULTILINE, findall

import yaml

from streams.tools.export import kubernetes
from streams.tools.export.cluster import Cluster
from streams.tools.export.raw_mesh import read
from tests.support.processes.in_process import MESH

DIGEST = "0" * 64
IMAGE = f"registry.example/mirrormesh@sha256:{DIGEST}"
SHARED = MESH.partition("\nnodes:")[0]
_NODE = """
  {name}:
    source: {{kind: localisation}}
    brokers:
      mesh: {{servers: "mesh.example:9093", username: {name}, password: "${{MESH_PASSWORD}}"}}
      data: {{servers: "{name}.example:9095", username: {name}, password: "${{DATA_PASSWORD}}"}}
"""
SECURED = f"""{SHARED}
brokers:
  mesh: {{servers: "mesh.example:9093", username: small-scheduler, password: "${{MESH_PASSWORD}}"}}
nodes:
{"".join(_NODE.format(name=name) for name in "abc")}"""
"""Each of three nodes names its own brokers and users."""

_OWNER = """
  {name}:
    source: {{kind: csv, path: sets/{name}.csv.gz, schema: schema.yaml}}
    brokers: {{mesh: {{servers: "shared.example:9093", username: {name}, password: "${{MESH_PASSWORD}}"}}}}
"""
STAR = f"""\
mesh:
  kind: collaboration
  name: lending
  run: first
  learner: analyst
  owners:
    bank-a: {{records: 12, epsilon: 1}}
    bank-b: {{records: 8, epsilon: 10, mechanism: gaussian, delta: 1.0e-6}}
    bank-t: {{records: 9, epsilon: 2}}
  dimension: 3
  loss: squared
  constraint: {{l2-ball: 10}}
  algorithm: {{name: averaged, step: 1.5}}
  queries: 100
  gradient_bound: 1
brokers:
  mesh: {{servers: "shared.example:9093", username: analyst, password: "${{MESH_PASSWORD}}"}}
owners:
{"".join(_OWNER.format(name=name) for name in ("bank-a", "bank-b"))}
  bank-t:
    source: {{kind: csv, columns: [x, y, z], schema: schema.yaml}}
    brokers:
      mesh: {{servers: "shared.example:9093", username: bank-t, password: "${{MESH_PASSWORD}}"}}
      data: {{servers: "bank-t.example:9095", username: bank-t, password: "${{DATA_PASSWORD}}"}}
"""
"""A learner and three owners, each with its own user; the sets of two are files, that of one is a topic."""
STAR_SCHEMA = "features: {x: number, y: number}\nlabel: {column: z}\nintercept: true\n"


def star_file(folder: Path) -> Path:
    """Write the mesh file of the collaboration, and return its path."""
    (folder / "schema.yaml").write_text(STAR_SCHEMA)
    path = folder / "mesh.yaml"
    path.write_text(STAR)
    return path


SCORED = {"input": "payments.new", "output": "payments.scored", "threshold": 0.2}


def with_scores(text: str = SECURED) -> str:
    """Return the file with what is scored with the decisions of b."""
    tree = yaml.safe_load(text)
    tree["nodes"]["b"]["score"] = SCORED
    return yaml.safe_dump(tree, sort_keys=False)


def for_party(path: Path, name: str, cluster: Cluster | None = None) -> dict[str, str]:
    """Return the files of a party by name."""
    raw = read(path)
    (party,) = (one for one in raw.file.mesh.all_parties if one.name == name)
    return kubernetes.party(raw, party, cluster or Cluster(IMAGE))


def for_operator(path: Path, cluster: Cluster | None = None) -> dict[str, str]:
    """Return the files of the mesh's operator by name."""
    return kubernetes.operator(read(path), cluster or Cluster(IMAGE))


def objects(files: dict[str, str]) -> dict[tuple[str, str], dict]:
    """Return the objects of an export by kind and name."""
    found = [
        one
        for name, text in files.items()
        if name != "kustomization.yaml"
        for one in yaml.safe_load_all(text)
    ]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def compose_says(folder: Path, text: str) -> int:
    """Return the exit code of a check of a compose file by the schema of compose; 0: right."""
    path = folder / "compose.yaml"
    path.write_text(text)
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", path]
    return subprocess.run(command, capture_output=True, check=False).returncode


def installed(folder: Path, root: Path) -> None:
    """Run the lines of an export's README.md that begin with install, below `root`."""
    for line in findall(r"^install .*", (folder / "README.md").read_text(), MULTILINE):
        *words, where = shlex.split(line, comments=True)
        subprocess.run([*words, f"{root}{where}"], cwd=folder, check=True)
