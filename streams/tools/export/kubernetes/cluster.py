"""The cluster that an export for Kubernetes is for, and the names and labels that its objects share."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from streams.mesh.errors import MeshFileError, UsageError
from streams.mesh.file import CollaborationFile, MeshFile
from streams.mesh.settings.parties import Party
from streams.tools.export.parties import Participant

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


# Kubernetes names of what a mesh file names.
#
# A name becomes lower case, with `-` for all but letters and digits, and none of them at its ends; a long
# one is cut, and ends with part of a hash of the whole. Names that become one are refused.

LONGEST_SET = 52
"""A StatefulSet's pods and revisions have labels that add eleven characters."""
OPERATOR = "operator"
_OTHER = re.compile(r"[^a-z0-9]+")
_HASHED = 8


def label(*parts: str, longest: int = LONGEST) -> str:
    """Return the name that `parts` make together; empty if they have no letter and no digit."""
    whole = "-".join(filter(None, (_OTHER.sub("-", part.lower()).strip("-") for part in parts)))
    if len(whole) <= longest:
        return whole
    digest = hashlib.sha256("-".join(parts).encode()).hexdigest()[:_HASHED]
    return f"{whole[: longest - _HASHED - 1].rstrip('-')}-{digest}"


def node_set(node: str) -> str:
    """Return the name of a node's StatefulSet, and of all else that is the node's alone."""
    return label("node", node, longest=LONGEST_SET)


def participant_set(whose: Participant) -> str:
    """Return the name of the StatefulSet of a collaboration's party, and of all else that is its alone."""
    return label(whose.kind, whose.name, longest=LONGEST_SET)


def namespace(mesh: str, party: str | None) -> str:
    """Return the namespace of a party; None: of the mesh's operator."""
    return label(mesh, OPERATOR if party is None else party)


def check(file: MeshFile) -> None:
    """Refuse a mesh file with two names that make one Kubernetes name. Raises MeshFileError."""
    mesh, parties = file.mesh, file.mesh.all_parties
    lines = _twice(
        file, [("the mesh's operator", namespace(mesh.name, None)), *_namespaces(mesh.name, parties)]
    )
    for party in parties:
        lines += _twice(file, [(f"node {node}", node_set(node)) for node in party.nodes])
    if lines:
        raise MeshFileError(lines)


def check_collaboration(file: CollaborationFile) -> None:
    """Refuse a collaboration with two names that make one Kubernetes name. Raises MeshFileError."""
    mesh = file.mesh
    named = [(f"party {name}", namespace(mesh.name, name)) for name in (mesh.learner, *mesh.owners)]
    lines = _twice(file, [("the mesh's operator", namespace(mesh.name, None)), *named])
    if lines:
        raise MeshFileError(lines)


def _namespaces(mesh: str, parties: Iterable[Party]) -> list[tuple[str, str]]:
    return [(f"party {party.name}", namespace(mesh, party.name)) for party in parties]


def _twice(file: MeshFile | CollaborationFile, named: list[tuple[str, str]]) -> list[str]:
    earlier, lines = dict[str, str](), list[str]()
    for subject, name in named:
        if name in earlier:
            lines.append(
                f"{file.path}: {earlier[name]} and {subject} make one Kubernetes name, {name}: rename one"
            )
        earlier.setdefault(name, subject)
    return lines
