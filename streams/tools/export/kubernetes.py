"""Kubernetes manifests, a Namespace first, and a kustomization of all of them; or a Helm chart."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streams.collaboration.settings import CollaborationSettings
from streams.mesh.compatibility import by_time
from streams.mesh.errors import UsageError
from streams.mesh.mesh import Mesh
from streams.mesh.settings.files import as_yaml
from streams.mesh.settings.parties import Party
from streams.tools.export import memory
from streams.tools.export.chart import chart
from streams.tools.export.cluster import (
    CHECKSUM,
    LONGEST_SET,
    NODE,
    OWNER_PORT,
    SHARED_PORT,
    Cluster,
    ClusterPlace,
    Object,
    broker_ports,
    check,
    check_collaboration,
    closed,
    dashboards,
    has_users,
    kafka_topics,
    kafka_users,
    label,
    local_servers,
    made,
    monitors,
    namespace,
    node_set,
    participant_set,
    policy,
    rules,
    source_ports,
)
from streams.tools.export.raw_mesh import (
    Participant,
    ProcessFile,
    RawCollaboration,
    RawMesh,
    fed_file,
    feed_file,
    learner_file,
    node_file,
    owner_file,
    scheduler_file,
    score_file,
    set_file,
)

_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def party(raw: RawMesh, whose: Party, cluster: Cluster) -> dict[str, str]:
    """Return a party's files by name. Raises MeshFileError for settings that a cluster cannot have."""
    check(raw.file)
    place = _place(raw, whose.name)
    return _files(place, {**of_party(raw, whose, place, cluster), **_watched(place, owned=True)}, cluster)


def operator(raw: RawMesh, cluster: Cluster) -> dict[str, str]:
    """Return the files of the mesh's operator by name.

    Raises MeshFileError for settings that a cluster cannot have.
    """
    check(raw.file)
    place = _place(raw, None)
    files = {**of_scheduler(raw, place, cluster), **_watched(place, owned=False)}
    files["topics.yaml"] = kafka_topics(raw.file, cluster)
    users = kafka_users(raw.file, cluster)
    return _files(place, {**files, "users.yaml": users} if users else files, cluster)


def participant(raw: RawCollaboration, whose: Participant, cluster: Cluster) -> dict[str, str]:
    """Return the files of a party of a collaboration by name. Raises MeshFileError, as `party` does."""
    check_collaboration(raw.file)
    place = _place(raw, whose.name)
    objects = {**of_participant(raw, whose, place, cluster), **_watched(place, owned=whose.owner)}
    return _files(place, objects, cluster)


def collaboration_operator(raw: RawCollaboration, cluster: Cluster) -> dict[str, str]:
    """Return the topics and users of a collaboration's shared broker by name. Raises MeshFileError."""
    check_collaboration(raw.file)
    files, users = {"topics.yaml": kafka_topics(raw.file, cluster)}, kafka_users(raw.file, cluster)
    return _files(None, {**files, "users.yaml": users} if users else files, cluster)


def warnings(raw: RawMesh | RawCollaboration, whose: Party | Participant | None) -> list[str]:
    """Return a line for each setting that an export allows, but that is probably not intended."""
    path = raw.file.path
    local = dict.fromkeys(server for side in _sides(raw, whose) for server in local_servers(side))
    lines = [f"{path}: {server}: a pod looks for this broker in itself" for server in local]
    if whose is None and not has_users(raw.file.mesh_broker):
        words = "names no users, so there is no KafkaUser: anyone who reaches this broker can forge"
        lines.append(f"{path}: brokers.mesh: {words} {raw.file.kind.messages}")
    return lines


def _sides(raw: RawMesh | RawCollaboration, whose: Party | Participant | None) -> Iterator[Mapping[str, Any]]:
    """Yield the brokers of each process of a party, or of the operator's processes."""
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


def _files(
    place: ClusterPlace | None, objects: Mapping[str, list[Object]], cluster: Cluster
) -> dict[str, str]:
    """Return the files, with the namespace of `place` if there is one. A chart without it is refused."""
    if cluster.chart:
        if place is None:
            raise UsageError("--chart: a collaboration's operator runs no process; leave it out")
        return chart(place, objects, cluster)
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


# The workloads of an export: pods, and the sets of nodes, schedulers and parties that run them.
#
# A pod has one container, its rights, its files, and the probes that report whether it is alive.

USER = 10001
"""The user of the image (deploy/Containerfile)."""
FOLDER = "/etc/mirrormesh"
MESH_FILE = f"{FOLDER}/mesh/mesh.yaml"
SECRETS = f"{FOLDER}/secrets"
STATE = "/var/lib/mirrormesh"
ANY = "0.0.0.0"  # noqa: S104 # a kubelet and Prometheus reach a pod at its own address
ACCOUNT = "mirrormesh"
LARGEST = 250_000
"""The longest mesh file in bytes: `kubectl apply` keeps a copy of it in an annotation of at most 256 KiB."""
_READABLE = 0o440


def config_map(place: ClusterPlace, name: str, file: ProcessFile, labels: Mapping[str, str]) -> Object:
    """Return the ConfigMap of a process's mesh file. Raises UsageError if it is too long for one."""
    size = len(file.text.encode())
    if size > LARGEST:
        raise UsageError(f"the mesh file of {name} has {size:,} bytes: a ConfigMap takes at most {LARGEST:,}")
    return place.made("v1:ConfigMap", name, {"data": {MESH_FILE.rpartition("/")[2]: file.text}}, labels)


def pod(
    file: ProcessFile,
    container: Object,
    labels: Mapping[str, str],
    secret: str,
    config: str,
    grace: int,
    cluster: Cluster,
) -> Object:
    """Return a pod's template. `secret` and `config` are the names of its Secret and its ConfigMap."""
    spec = {
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace,
        "securityContext": _restricted_pod(),
        "containers": [container],
        "volumes": _volumes(file, secret, config),
    }
    if cluster.priority_class is not None:
        spec["priorityClassName"] = cluster.priority_class
    return {"metadata": {"labels": dict(labels), "annotations": {CHECKSUM: file.checksum}}, "spec": spec}


def container(
    name: str,
    image: str,
    args: list[str],
    file: ProcessFile,
    secret: str,
    ports: Mapping[str, int],
    probed: str,
    resources: Object,
) -> Object:
    """Return a container that answers probes on the port `probed`, one of `ports`."""
    return {
        "name": name,
        "image": image,
        "args": args,
        "env": [_variable(variable, secret) for variable in file.variables],
        "ports": [{"name": port, "containerPort": number} for port, number in ports.items()],
        "startupProbe": {**_asked("/livez", probed), "periodSeconds": 2, "failureThreshold": 60},
        "livenessProbe": {**_asked("/livez", probed), "periodSeconds": 10, "failureThreshold": 3},
        "readinessProbe": {**_asked("/readyz", probed), "periodSeconds": 5},
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": _mounts(file),
    }


def _resources(requested: int) -> Object:
    """Return the resources of a container that requests so many MiB of memory.

    The kubelet's own copies of its log, five of 10 MiB, count as its ephemeral storage.
    """
    return {
        "requests": {"cpu": "100m", "memory": f"{requested}Mi", "ephemeral-storage": "64Mi"},
        "limits": {"memory": f"{memory.limit(requested)}Mi", "ephemeral-storage": "256Mi"},
    }


def _restricted_pod() -> Object:
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _asked(path: str, port: str) -> Object:
    return {"httpGet": {"path": path, "port": port}, "timeoutSeconds": 2}


def _variable(name: str, secret: str) -> Object:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}}


def _mounts(file: ProcessFile) -> list[Object]:
    mounts: list[Object] = [{"name": "mesh", "mountPath": MESH_FILE.rpartition("/")[0], "readOnly": True}]
    if file.files:
        mounts.append({"name": "secrets", "mountPath": SECRETS, "readOnly": True})
    return [*mounts, {"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 # an empty folder of the pod's own


def _volumes(file: ProcessFile, secret: str, config: str) -> list[Object]:
    volumes: list[Object] = [{"name": "mesh", "configMap": {"name": config}}]
    if file.files:
        items = [{"key": name, "path": name} for name in file.files]
        source: dict[str, Any] = {"secretName": secret, "defaultMode": _READABLE, "items": items}
        volumes.append({"name": "secrets", "secret": source})
    return [*volumes, {"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}]


# A process with a journal: a StatefulSet of one replica, whose volume is kept, and its guards.

SETS = "/srv/mirrormesh"
"""The folder in which an owner's pod has its set of records."""
_BESIDE_GRACE = 30
_GRACE = 60
"""Seconds for an orderly end, as a neighbour may still need the last release."""
_KEPT = {"whenDeleted": "Retain", "whenScaled": "Retain"}


@dataclass(frozen=True, slots=True)
class StatefulProcess:
    """A process. `kind` is its command, and `arguments` follow the mesh file. All its objects have the
    `name`.

    `memory` (MiB) and `storage` (GiB) are its requests. `ports`: the ports of its brokers. `private`: it has
    a port for its owner alone. `records`: it reads its set from the volume of the claim `<name>-set`. `code`:
    the user's code that it may run.
    """

    kind: str
    name: str
    file: ProcessFile
    arguments: tuple[str, ...]
    memory: int
    storage: int
    ports: Iterable[int]
    private: bool
    records: bool = False
    code: tuple[str, ...] = ()

    def objects(self, place: ClusterPlace, cluster: Cluster) -> list[Object]:
        """Return the objects of the process. Raises UsageError if its mesh file is too long."""
        selector = {NODE: self.name.removeprefix(f"{self.kind}-")}
        labels = place.labels(self.kind, **selector)
        service = {
            "clusterIP": "None",
            "selector": selector,
            "ports": [{"name": "metrics", "port": SHARED_PORT, "targetPort": "metrics"}],
        }
        return [
            config_map(place, self.name, self.file, labels),
            place.made("v1:Service", self.name, {"spec": service}, labels),
            place.made("apps/v1:StatefulSet", self.name, {"spec": self._set(labels, cluster)}, labels),
            policy(place, self.name, selector, self.ports, cluster, owned=self.private),
        ]

    def _set(self, labels: dict[str, str], cluster: Cluster) -> Object:
        ports = {"metrics": SHARED_PORT} | ({"owner": OWNER_PORT} if self.private else {})
        probed = "owner" if self.private else "metrics"
        resources = _resources(self.memory)
        process = container(
            self.kind, cluster.image, self._args(), self.file, self.name, ports, probed, resources
        )
        process["volumeMounts"] = [{"name": "state", "mountPath": STATE}, *process["volumeMounts"]]
        claim = {
            "accessModes": ["ReadWriteOncePod"],
            "resources": {"requests": {"storage": f"{self.storage}Gi"}},
        }
        return {
            "serviceName": self.name,
            "replicas": 1,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": {NODE: labels[NODE]}},
            "persistentVolumeClaimRetentionPolicy": _KEPT,
            "updateStrategy": {"type": "RollingUpdate"},
            "template": self._template(process, labels, cluster),
            "volumeClaimTemplates": [{"metadata": {"name": "state"}, "spec": claim}],
        }

    def _template(self, one: Object, labels: dict[str, str], cluster: Cluster) -> Object:
        template = pod(self.file, one, labels, self.name, self.name, _GRACE, cluster)
        if self.records:
            _mount_set(self.name, template)
        return template

    def _args(self) -> list[str]:
        options = ["--stay", "--state", STATE, "--metrics", f"{ANY}:{SHARED_PORT}", "--log", "json"]
        options += [f"--code={allowed}" for allowed in self.code]
        dashed = any(word.startswith("-") for word in self.arguments)
        return [self.kind, *options, *(["--"] if dashed else []), MESH_FILE, *self.arguments]


def account(place: ClusterPlace) -> Object:
    """Return the account of all pods, which has no rights."""
    return place.made("v1:ServiceAccount", ACCOUNT, {"automountServiceAccountToken": False})


def disruption(place: ClusterPlace, component: str) -> Object:
    """Return the PodDisruptionBudget of a kind of process. It allows one disruption at a time."""
    spec = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": place.labels(component)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return place.made("policy/v1:PodDisruptionBudget", f"{component}s", {"spec": spec})


# A party's nodes: a StatefulSet of one replica each, whose volume is kept.

_NODE = "node"
_GIB = 2**30


def node_objects(raw: RawMesh, node: str, place: ClusterPlace, cluster: Cluster) -> list[Object]:
    """Return a node's objects. Raises MeshFileError if its own part, or its brokers, are not here."""
    file, mesh = node_file(raw, node, SECRETS, f"{ANY}:{OWNER_PORT}"), raw.file.resolved
    ports = [
        *broker_ports(raw.brokers(node), str(raw.file.path), raw.brokers_path(node)),
        *source_ports(raw.owns[node].get("source"), str(raw.file.path), ("nodes", node, "source")),
    ]
    resources = memory.of_node(mesh, node), _storage(mesh)
    code = tuple(raw.file.code_of(node))
    names = node_set(node), file, (node,)
    process = StatefulProcess(_NODE, *names, *resources, ports, private=True, code=code)
    return process.objects(place, cluster)


def of_party(raw: RawMesh, party: Party, place: ClusterPlace, cluster: Cluster) -> dict[str, list[Object]]:
    """Return the objects of a party by file: one for each node, and what they share."""
    node_files = {f"{node_set(node)}.yaml": node_objects(raw, node, place, cluster) for node in party.nodes}
    score_files = {
        f"{_beside(_SCORE, node)}.yaml": score_objects(raw, node, place, cluster)
        for node in party.nodes
        if raw.file.own(node).score is not None
    }
    fed = {node: fed_file(raw, node) for node in party.nodes}
    feed_files = {
        f"{_beside(_FEED, node)}.yaml": feed_objects(raw, node, place, cluster)
        for node, records in fed.items()
        if records is not None
    }
    return {
        "party.yaml": [account(place), closed(place), disruption(place, _NODE)],
        **node_files,
        **score_files,
        **feed_files,
    }


# The processes beside a node, each a Deployment: those that score with its decisions, which can be scaled up
# to the partitions of their input, and the one that feeds its file to its topic. That one is replaced as a
# whole, as two feeds of one topic would find each other and end. When all is fed, it stays idle.

_SCORE, _FEED = "score", "feed"
_REQUESTED = {_SCORE: memory.SCORER, _FEED: memory.FEEDER}
_OF_NODE = {_SCORE: "mirrormesh.dev/scores-of", _FEED: "mirrormesh.dev/feeds"}


def score_objects(raw: RawMesh, node: str, place: ClusterPlace, cluster: Cluster) -> list[Object]:
    """Return the objects of the processes that score with a node's decisions.

    Raises as `node_objects` does.
    """
    file = score_file(raw, node, SECRETS, f"{ANY}:{OWNER_PORT}")
    # its messages have the registry of its source
    source = {"registry": (raw.owns[node].get("source") or {}).get("registry")}
    ports = source_ports(source, str(raw.file.path), ("nodes", node, "source"))
    return _deployed(_SCORE, raw, node, place, cluster, file, [], ports)[0]


def feed_objects(raw: RawMesh, node: str, place: ClusterPlace, cluster: Cluster) -> list[Object]:
    """Return the objects of the process that feeds a node's file, from the volume of the claim <name>-set.

    Raises as `node_objects` does.
    """
    file = feed_file(raw, node, SECRETS, SETS)
    options = ["--stay", "--private-metrics", f"{ANY}:{OWNER_PORT}"]
    options += ["--timestamps"] if by_time(raw.file.mesh) else []
    objects, spec = _deployed(_FEED, raw, node, place, cluster, file, options, [])
    spec["strategy"] = {"type": "Recreate"}
    _mount_set(_beside(_FEED, node), spec["template"])
    return objects


def _deployed(
    kind: str,
    raw: RawMesh,
    node: str,
    place: ClusterPlace,
    cluster: Cluster,
    file: ProcessFile,
    options: list[str],
    ports: Iterable[int],
) -> tuple[list[Object], Object]:
    """Return the objects of a process beside a node, and the Deployment's spec, to be completed.

    It may connect to the node's data broker, and to `ports`.
    """
    name, labels = _beside(kind, node), place.labels(kind, **{_OF_NODE[kind]: label(node)})
    data = {"data": raw.brokers(node)["data"]}
    all_ports = [*broker_ports(data, str(raw.file.path), raw.brokers_path(node)), *ports]
    args = [kind, "--log", "json", *options, *(f"--code={allowed}" for allowed in raw.file.code_of(node))]
    args += [*(["--"] if node.startswith("-") else []), MESH_FILE, node]
    resources = _resources(_REQUESTED[kind])
    process = container(kind, cluster.image, args, file, name, {"owner": OWNER_PORT}, "owner", resources)
    spec = {
        "replicas": 1,
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": labels},
        "template": pod(file, process, labels, name, name, _BESIDE_GRACE, cluster),
    }
    objects = [
        config_map(place, name, file, labels),
        place.made("apps/v1:Deployment", name, {"spec": spec}, labels),
        policy(place, name, labels, all_ports, cluster, owned=True),
    ]
    return objects, spec


def _mount_set(name: str, template: Object) -> None:
    """Mount the set of records of the process `name` into its pod."""
    spec = template["spec"]
    spec["containers"][0]["volumeMounts"].append({"name": "set", "mountPath": SETS, "readOnly": True})
    claim = {"claimName": f"{name}-set", "readOnly": True}
    spec["volumes"].append({"name": "set", "persistentVolumeClaim": claim})


def _beside(kind: str, node: str) -> str:
    return label(kind, node, longest=LONGEST_SET)


def _storage(mesh: Mesh) -> int:
    """Return the GiB of a node's volume: a journal holds the rounds of the horizon, and a few more."""
    return 1 + 64 * mesh.settings.horizon * mesh.settings.dimension // _GIB


# The schedulers of a mesh: a Deployment of two. The first plan of a round counts.

SCHEDULER = "scheduler"
REPLICAS = 2
_SCHEDULER_GRACE = 30


def of_scheduler(raw: RawMesh, place: ClusterPlace, cluster: Cluster) -> dict[str, list[Object]]:
    """Return the objects of the schedulers by file. Raises MeshFileError if the mesh's broker is missing."""
    file, labels = scheduler_file(raw, SECRETS), place.labels(SCHEDULER)
    ports = broker_ports({"mesh": raw.mesh_broker()}, str(raw.file.path), ("brokers",))
    objects = [
        account(place),
        closed(place),
        config_map(place, SCHEDULER, file, labels),
        place.made("apps/v1:Deployment", SCHEDULER, {"spec": _deployment(file, labels, cluster)}, labels),
        disruption(place, SCHEDULER),
        policy(place, SCHEDULER, labels, ports, cluster, owned=False),
    ]
    return {"scheduler.yaml": objects}


def _deployment(file: ProcessFile, labels: dict[str, str], cluster: Cluster) -> Object:
    args = ["scheduler", "--stay", "--metrics", f"{ANY}:{SHARED_PORT}", "--log", "json", MESH_FILE]
    ports = {"metrics": SHARED_PORT}
    process = container(
        "scheduler", cluster.image, args, file, SCHEDULER, ports, "metrics", _resources(memory.SCHEDULER)
    )
    template = pod(file, process, labels, SCHEDULER, SCHEDULER, _SCHEDULER_GRACE, cluster)
    template["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
    ]
    return {
        "replicas": REPLICAS,
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
        "template": template,
    }


# A party of a collaboration: its learner, or an owner, as a StatefulSet of one replica.


def of_participant(
    raw: RawCollaboration, whose: Participant, place: ClusterPlace, cluster: Cluster
) -> dict[str, list[Object]]:
    """Return the objects of a party by file. Raises MeshFileError if its part or its brokers are not here."""
    process = _owner(raw, whose) if whose.owner else _learner(raw, whose)
    shared = [account(place), closed(place), disruption(place, whose.kind)]
    return {"party.yaml": shared, f"{process.name}.yaml": process.objects(place, cluster)}


def _owner(raw: RawCollaboration, whose: Participant) -> StatefulProcess:
    name, settings = whose.name, raw.file.mesh
    return StatefulProcess(
        whose.kind,
        participant_set(whose),
        owner_file(raw, name, SECRETS, f"{ANY}:{OWNER_PORT}", SETS),
        (name,),
        memory.of_owner(settings),
        _party_storage(settings, settings.queries),
        broker_ports(raw.brokers(name), str(raw.file.path), raw.brokers_path(name)),
        private=True,
        records=set_file(raw, name) is not None,
    )


def _learner(raw: RawCollaboration, whose: Participant) -> StatefulProcess:
    settings, brokers = raw.file.mesh, {"mesh": raw.mesh_broker("the learner")}
    vectors = 2 + len(settings.owners)
    return StatefulProcess(
        whose.kind,
        participant_set(whose),
        learner_file(raw, SECRETS),
        (),
        memory.of_learner(settings),
        _party_storage(settings, settings.queries * vectors),
        broker_ports(brokers, str(raw.file.path), ("brokers",)),
        private=False,
    )


def _party_storage(settings: CollaborationSettings, vectors: int) -> int:
    """Return the GiB of a volume for a journal that keeps this many vectors of d numbers, all of a run."""
    return 1 + 16 * settings.dimension * vectors // _GIB
