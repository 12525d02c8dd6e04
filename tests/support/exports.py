"""Exports for tests: mesh files of parties apart, and what the command writes of them."""

from pathlib import Path

from streams.tools.export.kubernetes import manifests
from streams.tools.export.kubernetes.cluster import Cluster
from streams.tools.export.raw_mesh import read
from tests.support.commands import MESH

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


def for_party(path: Path, name: str, cluster: Cluster | None = None) -> dict[str, str]:
    """Return the files of a party by name."""
    raw = read(path)
    (party,) = (one for one in raw.file.mesh.all_parties if one.name == name)
    return manifests.party(raw, party, cluster or Cluster(IMAGE))


def for_operator(path: Path, cluster: Cluster | None = None) -> dict[str, str]:
    """Return the files of the mesh's operator by name."""
    return manifests.operator(read(path), cluster or Cluster(IMAGE))
