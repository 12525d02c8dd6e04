"""Who may reach a pod, and whom it may reach."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from streams.mesh.errors import MeshFileError, Problem
from streams.mesh.settings.base import is_loopback
from streams.tools.export.kubernetes.cluster import Cluster, ClusterPlace, Object

_DEFAULT = "9092"
_NAMESPACE = "kubernetes.io/metadata.name"


def policy(
    place: ClusterPlace,
    name: str,
    labels: Mapping[str, str],
    ports: Iterable[int],
    cluster: Cluster,
    *,
    owned: bool,
) -> Object:
    """Return the NetworkPolicy of the pods with these labels.

    The monitoring namespace reaches the shared port, a Prometheus in the pod's own namespace the owner's too
    if there is one (`owned`). The pod reaches DNS, and the brokers' ports.
    """
    monitoring = {"namespaceSelector": {"matchLabels": {_NAMESPACE: cluster.monitoring}}}
    prometheus = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}}
    ingress: list[Object] = [{"from": [monitoring, prometheus], "ports": [{"port": "metrics"}]}]
    if owned:
        ingress.append({"from": [prometheus], "ports": [{"port": "owner"}]})
    brokers: Object = {"ports": [{"port": port, "protocol": "TCP"} for port in ports]}
    if cluster.cidrs:
        brokers = {"to": [{"ipBlock": {"cidr": cidr}} for cidr in cluster.cidrs], **brokers}
    spec = {
        "podSelector": {"matchLabels": dict(labels)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": ingress,
        "egress": [_dns(), brokers],
    }
    return place.made("networking.k8s.io/v1:NetworkPolicy", name, {"spec": spec})


def _dns() -> Object:
    servers = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE: "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    return {"to": [servers], "ports": [{"port": 53, "protocol": word} for word in ("UDP", "TCP")]}


def broker_ports(brokers: Mapping[str, Any], file: str, path: tuple[str, ...]) -> list[int]:
    """Return the ports of the brokers at `path` of the file. Raises MeshFileError if one names none."""
    wrong, ports = list[str](), list[int]()
    for side, server in _servers(brokers):
        port = server.rpartition(":")[2] if ":" in server else _DEFAULT
        if "${" in server or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16):
            allowed = f"{server}: must be host:port, written out: the network policy names the port"
            wrong.append(Problem(file, (*path, side, "servers"), allowed).line)
        else:
            ports.append(int(port))
    if wrong:
        raise MeshFileError(wrong)
    return list(dict.fromkeys(ports))


def local_servers(brokers: Mapping[str, Any]) -> list[str]:
    """Return the servers that a pod would look for in itself."""
    return [server for _, server in _servers(brokers) if is_loopback((server.rpartition(":")[0], 0))]


def _servers(brokers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for side in ("mesh", "data"):
        settings = brokers.get(side)
        for server in settings["servers"].split(",") if settings else ():
            yield side, server.strip()
