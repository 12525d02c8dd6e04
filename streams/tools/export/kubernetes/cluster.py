"""What an export for Kubernetes is told about the cluster, and what all objects share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from streams.mesh.errors import UsageError

Object = dict[str, Any]
APP = {"app.kubernetes.io/name": "mirrormesh"}
COMPONENT, INSTANCE = "app.kubernetes.io/component", "app.kubernetes.io/instance"
NODE = "mirrormesh.dev/node"
AUDIENCE = "mirrormesh.dev/audience"
ALL, OWNER = "all", "owner"
"""Audiences: who may see what is shared, and who the owner's alone."""
CHECKSUM = "mirrormesh.dev/mesh-sha256"
SHARED_PORT, OWNER_PORT = 9100, 9101
LONGEST = 63
"""The longest name of most objects, and value of a label."""
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Cluster:
    """What no mesh file says. `cidrs`: where brokers are; none: anywhere. `monitoring`: a namespace.

    `own_certificates`: users bring their certificates; else Strimzi makes them.
    """

    image: str
    cidrs: tuple[str, ...] = ()
    monitoring: str = "monitoring"
    kafka: str = "kafka"
    kafka_cluster: str = "shared"
    own_certificates: bool = False

    def __post_init__(self) -> None:
        for text in self.cidrs:
            try:
                ip_network(text)
            except ValueError:
                allowed = "must be a network, as 192.0.2.0/24 or 2001:db8::/32, without bits of a host"
                raise UsageError(f"--broker-cidr {text}: {allowed}") from None
        named = (self.monitoring, "monitoring-namespace"), (self.kafka, "kafka-namespace")
        for text, option in (*named, (self.kafka_cluster, "kafka-cluster")):
            if len(text) > LONGEST or _LABEL.fullmatch(text) is None:
                allowed = f"must be made of a-z, 0-9 and - inside, of at most {LONGEST} characters"
                raise UsageError(f"--{option} {text}: {allowed}")


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """The namespace of a party, or of the operator, in which its objects are; `mesh`: as a label."""

    namespace: str
    mesh: str

    def labels(self, component: str, **more: str) -> dict[str, str]:
        """Return the labels of a kind of process."""
        return {**APP, COMPONENT: component, INSTANCE: self.mesh, **more}

    def made(
        self, kind: str, name: str, body: Mapping[str, Any], labels: Mapping[str, str] | None = None
    ) -> Object:
        """Return an object of this namespace: `kind` is `apiVersion:kind`."""
        return made(kind, name, body, labels, self.namespace)


def made(
    kind: str,
    name: str,
    body: Mapping[str, Any],
    labels: Mapping[str, str] | None = None,
    namespace: str | None = None,
) -> Object:
    """Return an object: `kind` is `apiVersion:kind`, `body` what it has beside its metadata."""
    version, _, word = kind.partition(":")
    metadata: Object = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    metadata["labels"] = dict(APP if labels is None else labels)
    return {"apiVersion": version, "kind": word, "metadata": metadata, **body}
