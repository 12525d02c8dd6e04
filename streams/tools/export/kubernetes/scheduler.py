"""The schedulers of a mesh: a Deployment of two, of which the first plan of a round counts."""

from streams.tools.export.kubernetes.cluster import SHARED_PORT, Cluster, ClusterPlace, Object
from streams.tools.export.kubernetes.kept import account, disruption
from streams.tools.export.kubernetes.network import broker_ports, policy
from streams.tools.export.kubernetes.pods import ANY, MESH_FILE, SECRETS, config_map, container, pod
from streams.tools.export.process_file import ProcessFile, scheduler_file
from streams.tools.export.raw_mesh import RawMesh

COMPONENT = NAME = "scheduler"
REPLICAS = 2
_RESOURCES = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
_GRACE = 30


def of_scheduler(raw: RawMesh, place: ClusterPlace, cluster: Cluster) -> dict[str, list[Object]]:
    """Return the objects of the schedulers by file. Raises MeshFileError if the mesh's broker is missing."""
    file, labels = scheduler_file(raw, SECRETS), place.labels(COMPONENT)
    ports = broker_ports({"mesh": raw.mesh_broker()}, str(raw.file.path), ("brokers",))
    objects = [
        account(place),
        config_map(place, NAME, file, labels),
        place.made("apps/v1:Deployment", NAME, {"spec": _deployment(file, labels, cluster)}, labels),
        disruption(place, COMPONENT),
        policy(place, NAME, labels, ports, cluster, owned=False),
    ]
    return {"scheduler.yaml": objects}


def _deployment(file: ProcessFile, labels: dict[str, str], cluster: Cluster) -> Object:
    args = ["scheduler", "--metrics", f"{ANY}:{SHARED_PORT}", "--log", "json", MESH_FILE]
    ports = {"metrics": SHARED_PORT}
    process = container("scheduler", cluster.image, args, file, NAME, ports, "metrics", _RESOURCES)
    template = pod(file, process, labels, NAME, NAME, _GRACE)
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
