"""The files of an export: manifests by their content, a Namespace first, and a kustomization of all."""

from collections.abc import Mapping

from streams.mesh.settings.parties import Party
from streams.mesh.settings.yaml_file import as_yaml
from streams.tools.export.kubernetes import kafka, names
from streams.tools.export.kubernetes.cluster import Cluster, Object, Place, made
from streams.tools.export.kubernetes.network import local_servers
from streams.tools.export.kubernetes.nodes import of_party
from streams.tools.export.kubernetes.scheduler import of_scheduler
from streams.tools.export.kubernetes.watching import dashboards, monitors, rules
from streams.tools.export.raw_mesh import RawMesh

_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def party(raw: RawMesh, whose: Party, cluster: Cluster) -> dict[str, str]:
    """Return a party's files by name. Raises MeshFileError for what no cluster takes."""
    names.check(raw.file)
    place = _place(raw, whose.name)
    return _files(place, {**of_party(raw, whose, place, cluster), **_watched(place, owned=True)})


def operator(raw: RawMesh, cluster: Cluster) -> dict[str, str]:
    """Return the files of the mesh's operator by name. Raises MeshFileError for what no cluster takes."""
    names.check(raw.file)
    place = _place(raw, None)
    found = {**of_scheduler(raw, place, cluster), **_watched(place, owned=False)}
    found["topics.yaml"] = kafka.topics(raw.file, cluster)
    users = kafka.users(raw.file, cluster)
    return _files(place, {**found, "users.yaml": users} if users else found)


def warnings(raw: RawMesh, whose: Party | None) -> list[str]:
    """Return what an export does not refuse, but hardly anybody means, one line each."""
    path = raw.file.path
    sides = [{"mesh": raw.mesh_broker()}] if whose is None else [raw.brokers(node) for node in whose.nodes]
    local = dict.fromkeys(server for side in sides for server in local_servers(side))
    lines = [f"{path}: {server}: a pod looks for this broker in itself" for server in local]
    if whose is None and not kafka.has_users(raw.file.mesh_broker):
        words = "names no users, so there is no KafkaUser: anyone who reaches this broker can forge plans"
        lines.append(f"{path}: brokers.mesh: {words} and heartbeats")
    return lines


def _place(raw: RawMesh, party: str | None) -> Place:
    mesh = raw.file.mesh.name
    return Place(names.namespace(mesh, party), names.label(mesh))


def _watched(place: Place, *, owned: bool) -> dict[str, list[Object]]:
    return {
        "monitoring.yaml": [*monitors(place, owned=owned), *rules(place, owned=owned)],
        "dashboards.yaml": dashboards(place, owned=owned),
    }


def _files(place: Place, objects: Mapping[str, list[Object]]) -> dict[str, str]:
    namespace = made("v1:Namespace", place.namespace, {}, {**place.labels("namespace"), **_RESTRICTED})
    all_of = {"namespace.yaml": [namespace], **objects}
    found = {name: "---\n".join(as_yaml(one) for one in some) for name, some in all_of.items()}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(found),
    }
    return {**found, "kustomization.yaml": as_yaml(kustomization)}
