"""A party's nodes: a StatefulSet of one replica each, whose volume is kept."""

import math

from streams.mesh.mesh import Mesh
from streams.mesh.settings.parties import Party
from streams.tools.export.kubernetes.cluster import OWNER_PORT, Cluster, ClusterPlace, Object
from streams.tools.export.kubernetes.kept import StatefulProcess, account, disruption
from streams.tools.export.kubernetes.names import node_set
from streams.tools.export.kubernetes.network import broker_ports
from streams.tools.export.kubernetes.pods import ANY, SECRETS
from streams.tools.export.process_file import node_file
from streams.tools.export.raw_mesh import RawMesh

COMPONENT = "node"
_MIB, _GIB = 2**20, 2**30
_MEMORY = 192
"""MiB that a node has for itself: measured are 130 (docs/measurements/2026-11-23.md)."""


def node_objects(raw: RawMesh, node: str, place: ClusterPlace, cluster: Cluster) -> list[Object]:
    """Return a node's objects. Raises MeshFileError if its own part, or its brokers, are not here."""
    file, mesh = node_file(raw, node, SECRETS, f"{ANY}:{OWNER_PORT}"), raw.file.resolved
    ports = broker_ports(raw.brokers(node), str(raw.file.path), raw.brokers_path(node))
    resources = _memory(mesh, node), _storage(mesh)
    code = tuple(raw.file.code_of(node))
    process = StatefulProcess(
        COMPONENT, node_set(node), file, (node,), *resources, ports, private=True, code=code
    )
    return process.objects(place, cluster)


def of_party(raw: RawMesh, party: Party, place: ClusterPlace, cluster: Cluster) -> dict[str, list[Object]]:
    """Return the objects of a party by file: one for each node, and what they share."""
    node_files = {f"{node_set(node)}.yaml": node_objects(raw, node, place, cluster) for node in party.nodes}
    return {"party.yaml": [account(place), disruption(place, COMPONENT)], **node_files}


def _memory(mesh: Mesh, node: str) -> int:
    """Return the MiB that a node asks for: for itself, and for neighbours' releases within the horizon."""
    vectors = 16 + mesh.settings.horizon * len(mesh.graph.neighbours(node)[0])
    return _MEMORY + math.ceil(8 * mesh.settings.dimension * vectors / _MIB)


def _storage(mesh: Mesh) -> int:
    """Return the GiB of a node's volume: a journal holds the rounds of the horizon, and a few more."""
    return 1 + 64 * mesh.settings.horizon * mesh.settings.dimension // _GIB
