"""A process with a journal: a StatefulSet of one replica, whose volume is kept, and what guards it."""

from collections.abc import Iterable
from dataclasses import dataclass

from streams.tools.export.kubernetes.cluster import (
    NODE,
    OWNER_PORT,
    SHARED_PORT,
    Cluster,
    ClusterPlace,
    Object,
)
from streams.tools.export.kubernetes.network import policy
from streams.tools.export.kubernetes.pods import ACCOUNT, ANY, MESH_FILE, STATE, config_map, container, pod
from streams.tools.export.process_file import ProcessFile

SETS = "/srv/mirrormesh"
"""Where an owner's pod has its set of records."""
_GRACE = 60
"""Seconds to end in order: a neighbour may still need the last release."""
_KEPT = {"whenDeleted": "Retain", "whenScaled": "Retain"}


@dataclass(frozen=True, slots=True)
class StatefulProcess:
    """A process: `kind` is its command, `arguments` what follows the mesh file, `name` all its objects'.

    `memory` (MiB) and `storage` (GiB) are what it asks for; `ports`: those of its brokers; `private`: it has
    a port for its owner alone; `records`: it reads its set from the volume of the claim `<name>-set`;
    `code`: the user's code that it may run.
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
        """Return its objects. Raises UsageError if its mesh file is too long."""
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
        requests = {"memory": f"{self.memory}Mi"}
        resources = {"requests": {"cpu": "100m", **requests}, "limits": {"memory": f"{2 * self.memory}Mi"}}
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
            "template": self._template(process, labels),
            "volumeClaimTemplates": [{"metadata": {"name": "state"}, "spec": claim}],
        }

    def _template(self, one: Object, labels: dict[str, str]) -> Object:
        template = pod(self.file, one, labels, self.name, self.name, _GRACE)
        if self.records:
            one["volumeMounts"].append({"name": "set", "mountPath": SETS, "readOnly": True})
            claim = {"claimName": f"{self.name}-set", "readOnly": True}
            template["spec"]["volumes"].append({"name": "set", "persistentVolumeClaim": claim})
        return template

    def _args(self) -> list[str]:
        options = ["--state", STATE, "--metrics", f"{ANY}:{SHARED_PORT}", "--log", "json"]
        options += [f"--code={allowed}" for allowed in self.code]
        dashed = any(word.startswith("-") for word in self.arguments)
        return [self.kind, *options, *(["--"] if dashed else []), MESH_FILE, *self.arguments]


def account(place: ClusterPlace) -> Object:
    """Return the account of all pods, which has no rights."""
    return place.made("v1:ServiceAccount", ACCOUNT, {"automountServiceAccountToken": False})


def disruption(place: ClusterPlace, component: str) -> Object:
    """Return the PodDisruptionBudget of a kind of process: one at a time."""
    spec = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": place.labels(component)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return place.made("policy/v1:PodDisruptionBudget", f"{component}s", {"spec": spec})
