"""The files of an export: manifests by their content, a Namespace first, and a kustomization of all."""

from collections.abc import Iterator, Mapping
from typing import Any

from streams.mesh.settings.files import as_yaml
from streams.mesh.settings.parties import Party
from streams.tools.export.kubernetes import kafka
from streams.tools.export.kubernetes.cluster import (
    Cluster,
    ClusterPlace,
    Object,
    check,
    check_collaboration,
    label,
    made,
    namespace,
)
from streams.tools.export.kubernetes.network import local_servers
from streams.tools.export.kubernetes.watching import dashboards, monitors, rules
from streams.tools.export.kubernetes.workloads import of_participant, of_party, of_scheduler
from streams.tools.export.parties import Participant
from streams.tools.export.raw_mesh import RawCollaboration, RawMesh

_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def party(raw: RawMesh, whose: Party, cluster: Cluster) -> dict[str, str]:
    """Return a party's files by name. Raises MeshFileError for what no cluster takes."""
    check(raw.file)
    place = _place(raw, whose.name)
    return _files(place, {**of_party(raw, whose, place, cluster), **_watched(place, owned=True)})


def operator(raw: RawMesh, cluster: Cluster) -> dict[str, str]:
    """Return the files of the mesh's operator by name. Raises MeshFileError for what no cluster takes."""
    check(raw.file)
    place = _place(raw, None)
    files = {**of_scheduler(raw, place, cluster), **_watched(place, owned=False)}
    files["topics.yaml"] = kafka.topics(raw.file, cluster)
    users = kafka.users(raw.file, cluster)
    return _files(place, {**files, "users.yaml": users} if users else files)


def participant(raw: RawCollaboration, whose: Participant, cluster: Cluster) -> dict[str, str]:
    """Return the files of a party of a collaboration by name. Raises MeshFileError, as `party` does."""
    check_collaboration(raw.file)
    place = _place(raw, whose.name)
    return _files(place, {**of_participant(raw, whose, place, cluster), **_watched(place, owned=whose.owner)})


def collaboration_operator(raw: RawCollaboration, cluster: Cluster) -> dict[str, str]:
    """Return the topics and users of a collaboration's shared broker by name. Raises MeshFileError."""
    check_collaboration(raw.file)
    files, users = {"topics.yaml": kafka.topics(raw.file, cluster)}, kafka.users(raw.file, cluster)
    return _files(None, {**files, "users.yaml": users} if users else files)


def warnings(raw: RawMesh | RawCollaboration, whose: Party | Participant | None) -> list[str]:
    """Return what an export does not refuse, but hardly anybody means, one line each."""
    path = raw.file.path
    local = dict.fromkeys(server for side in _sides(raw, whose) for server in local_servers(side))
    lines = [f"{path}: {server}: a pod looks for this broker in itself" for server in local]
    if whose is None and not kafka.has_users(raw.file.mesh_broker):
        words = "names no users, so there is no KafkaUser: anyone who reaches this broker can forge"
        lines.append(f"{path}: brokers.mesh: {words} {raw.file.kind.messages}")
    return lines


def _sides(raw: RawMesh | RawCollaboration, whose: Party | Participant | None) -> Iterator[Mapping[str, Any]]:
    """Yield the brokers of each process of a party, or of the operator's."""
    if whose is not None and whose.nodes:
        yield from map(raw.brokers, whose.nodes)
    else:
        yield {"mesh": raw.mesh_broker()}


def _place(raw: RawMesh | RawCollaboration, party: str | None) -> ClusterPlace:
    mesh = raw.file.mesh.name
    return ClusterPlace(namespace(mesh, party), label(mesh))


def _watched(place: ClusterPlace, *, owned: bool) -> dict[str, list[Object]]:
    return {
        "monitoring.yaml": [*monitors(place, owned=owned), *rules(place, owned=owned)],
        "dashboards.yaml": dashboards(place, owned=owned),
    }


def _files(place: ClusterPlace | None, objects: Mapping[str, list[Object]]) -> dict[str, str]:
    """Return the files; with the namespace of `place`, if there is one."""
    all_of = dict(objects)
    if place is not None:
        labels = {**place.labels("namespace"), **_RESTRICTED}
        all_of = {"namespace.yaml": [made("v1:Namespace", place.namespace, {}, labels)], **objects}
    texts = {
        name: "---\n".join(as_yaml(manifest) for manifest in manifests) for name, manifests in all_of.items()
    }
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(texts),
    }
    return {**texts, "kustomization.yaml": as_yaml(kustomization)}
