"""Mesh files for the tests of what is exported: two parties apart, each with a data broker of its own."""

from tests.support.commands import MESH

DIGEST = "0" * 64
IMAGE = f"registry.example/mirrormesh@sha256:{DIGEST}"
SHARED = MESH.partition("\nnodes:")[0]
SECURED = f"""{SHARED}
brokers:
  mesh: {{servers: "mesh.example:9093", username: small-scheduler, password: "${{MESH_PASSWORD}}"}}
nodes:
"""
NODE = """
  {name}:
    source: {{kind: localisation}}
    brokers:
      mesh: {{servers: "mesh.example:9093", username: {name}, password: "${{MESH_PASSWORD}}"}}
      data: {{servers: "{name}.example:9095", username: {name}, password: "${{DATA_PASSWORD}}"}}
"""
SECURED += "".join(NODE.format(name=name) for name in "abc")
"""Each of three nodes names its own brokers and users."""
