"""A mesh of three nodes on a broker, and what its brokers hold of it."""

import json

import yaml

from tests.support.brokers.feeding import stored
from tests.support.brokers.topics import connection
from tests.support.meshes.classes import MOMENTS, tree_of
from tests.support.meshes.files import changed
from tests.support.processes.mesh import mesh_file

PATIENT = {
    "round_timeout": "none",
    "silence": 60,
    "slots": {"by": "count", "size": 1, "timeout": "none"},
}
"""Nobody is given up, and no slot closes empty, however slow the machine is."""


def small_mesh_file(folder, mesh_broker, data_broker=None, sources=None, own=None, **mesh):
    """Write the mesh file of a ring of three, and return its path; unless given, sources are sensors.

    `own`: what else stands in a node's own part.
    """
    tree = changed(**({"nodes": list("abc")} | PATIENT | mesh))
    sources = sources or {name: {"kind": "localisation"} for name in tree["mesh"]["nodes"]}
    tree["nodes"] = {name: {"source": source} | (own or {}).get(name, {}) for name, source in sources.items()}
    base = folder / "base.yaml"
    base.write_text(yaml.safe_dump(tree))
    return mesh_file(folder, base, mesh_broker, data_broker)


def moments_mesh_file(folder, mesh_broker, names="abc", records=300, **mesh):
    """Write the mesh file of a ring of nodes that release moments of records in files; return its path."""
    shared = PATIENT | {"slots": PATIENT["slots"] | {"size": 5}} | mesh
    privacy = MOMENTS["privacy"] | shared.pop("privacy", {})
    tree = tree_of(folder, MOMENTS, names=names, records=records, **shared | {"privacy": privacy})
    base = folder / "base.yaml"
    base.write_text(yaml.safe_dump(tree))
    return mesh_file(folder, base, mesh_broker)


def decisions(address, topics):
    """What a node's application finds on its broker, round by round."""
    found = stored(connection(address), topics.decisions)
    return [json.loads(message.value()) for message in found]
