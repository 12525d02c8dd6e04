"""The pod of a process: its container, what it may, what it reads, and when it is alive."""

from collections.abc import Mapping
from typing import Any

from streams.mesh.errors import UsageError
from streams.tools.export.kubernetes.cluster import CHECKSUM, ClusterPlace, Object
from streams.tools.export.process_file import ProcessFile

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
    file: ProcessFile, container: Object, labels: Mapping[str, str], secret: str, config: str, grace: int
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
