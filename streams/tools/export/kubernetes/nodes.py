"""A party's nodes: a StatefulSet of one replica each, whose volume is kept."""

import math

from streams.mesh.mesh import Mesh
from streams.mesh.settings.parties import Party
from streams.tools.export.kubernetes.cluster import NODE, OWNER_PORT, SHARED_PORT, Cluster, Object, Place
from streams.tools.export.kubernetes.names import node_set
from streams.tools.export.kubernetes.network import broker_ports, policy
from streams.tools.export.kubernetes.pods import (
    ACCOUNT,
    ANY,
    MESH_FILE,
    SECRETS,
    STATE,
    config_map,
    container,
    pod,
)
from streams.tools.export.process_file import ProcessFile, node_file
from streams.tools.export.raw_mesh import RawMesh

COMPONENT = "node"
_MIB, _GIB = 2**20, 2**30
_MEMORY = 192
"""MiB that a node has for itself: measured are 130 (docs/performance.md)."""
_GRACE = 60
"""Seconds to end in order: a neighbour may still need the last release."""
_KEPT = {"whenDeleted": "Retain", "whenScaled": "Retain"}


def node_objects(raw: RawMesh, node: str, place: Place, cluster: Cluster) -> list[Object]:
    """Return a node's objects. Raises MeshFileError if its own part, or its brokers, are not here."""
    file = node_file(raw, node, SECRETS, f"{ANY}:{OWNER_PORT}")
    ports = broker_ports(raw.brokers(node), str(raw.file.path), raw.brokers_path(node))
    name, selector = node_set(node), {NODE: node_set(node).removeprefix("node-")}
    labels = place.labels(COMPONENT, **selector)
    service = {
        "clusterIP": "None",
        "selector": selector,
        "ports": [{"name": "metrics", "port": SHARED_PORT, "targetPort": "metrics"}],
    }
    return [
        config_map(place, name, file, labels),
        place.made("v1:Service", name, {"spec": service}, labels),
        place.made("apps/v1:StatefulSet", name, {"spec": _set(raw, node, file, labels, cluster)}, labels),
        policy(place, name, selector, ports, cluster, owned=True),
    ]


def party_objects(place: Place) -> list[Object]:
    """Return what all nodes of a party share: their account, and how many may be away at once."""
    return [account(place), disruption(place, COMPONENT)]


def account(place: Place) -> Object:
    """Return the account of all pods, which has no rights."""
    return place.made("v1:ServiceAccount", ACCOUNT, {"automountServiceAccountToken": False})


def disruption(place: Place, component: str) -> Object:
    """Return the PodDisruptionBudget of a kind of process: one at a time."""
    spec = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": place.labels(component)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return place.made("policy/v1:PodDisruptionBudget", f"{component}s", {"spec": spec})


def of_party(raw: RawMesh, party: Party, place: Place, cluster: Cluster) -> dict[str, list[Object]]:
    """Return the objects of a party by file: one for each node, and what they share."""
    found = {f"{node_set(node)}.yaml": node_objects(raw, node, place, cluster) for node in party.nodes}
    return {"party.yaml": party_objects(place), **found}


def _set(raw: RawMesh, node: str, file: ProcessFile, labels: dict[str, str], cluster: Cluster) -> Object:
    name, mesh = node_set(node), raw.file.resolved
    ports = {"metrics": SHARED_PORT, "owner": OWNER_PORT}
    one = container("node", cluster.image, _args(node), file, name, ports, "owner", _resources(mesh, node))
    one["volumeMounts"] = [{"name": "state", "mountPath": STATE}, *one["volumeMounts"]]
    claim = {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": _storage(mesh)}}}
    return {
        "serviceName": name,
        "replicas": 1,
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": {NODE: labels[NODE]}},
        "persistentVolumeClaimRetentionPolicy": _KEPT,
        "updateStrategy": {"type": "RollingUpdate"},
        "template": pod(file, one, labels, name, name, _GRACE),
        "volumeClaimTemplates": [{"metadata": {"name": "state"}, "spec": claim}],
    }


def _args(node: str) -> list[str]:
    options = ["--state", STATE, "--metrics", f"{ANY}:{SHARED_PORT}", "--log", "json"]
    return ["node", *options, *(["--"] if node.startswith("-") else []), MESH_FILE, node]


def _resources(mesh: Mesh, node: str) -> Object:
    """Return what a node asks for: for itself, and for each neighbour's releases within the horizon."""
    vectors = 16 + mesh.settings.horizon * len(mesh.graph.neighbours(node)[0])
    asked = _MEMORY + math.ceil(8 * mesh.settings.dimension * vectors / _MIB)
    return {"requests": {"cpu": "100m", "memory": f"{asked}Mi"}, "limits": {"memory": f"{2 * asked}Mi"}}


def _storage(mesh: Mesh) -> str:
    """Return the size of a node's volume: a journal holds the rounds of the horizon, and a few more."""
    return f"{1 + 64 * mesh.settings.horizon * mesh.settings.dimension // _GIB}Gi"
