"""The cluster of an export for Kubernetes, and the objects besides its processes.

These are the names and labels that all objects share, network policies, Strimzi's topics and users, and the
files of Prometheus and Grafana.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from streams.bus.provision import specs_of
from streams.bus.rights import Rule, User
from streams.bus.topic_specs import TopicSpec
from streams.bus.users import shared_users
from streams.collaboration.file import CollaborationFile
from streams.mesh.errors import MeshFileError, Problem, UsageError
from streams.mesh.file import AnyFile, MeshFile
from streams.mesh.settings.base import is_loopback
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.files import read_yaml
from streams.mesh.settings.parties import Party, is_subject
from streams.mesh.shipped import packed
from streams.tools.export.raw_mesh import Participant

Object = dict[str, Any]
APP = {"app.kubernetes.io/name": "mirrormesh"}
COMPONENT, INSTANCE = "app.kubernetes.io/component", "app.kubernetes.io/instance"
NODE = "mirrormesh.dev/node"
AUDIENCE = "mirrormesh.dev/audience"
ALL, OWNER = "all", "owner"
"""The audiences: everyone, who may see what is shared, and the owner."""
CHECKSUM = "mirrormesh.dev/mesh-sha256"
SHARED_PORT, OWNER_PORT = 9100, 9101
LONGEST = 63
"""The longest name of most objects, and value of a label."""
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"(?=.{{1,253}}$){_LABEL.pattern}(\.{_LABEL.pattern})*")


@dataclass(frozen=True, slots=True)
class Cluster:
    """The facts that no mesh file has. `cidrs`: where brokers are; none: anywhere. `monitoring`: a namespace.

    `own_certificates`: users bring their certificates; otherwise Strimzi makes them. `priority_class`: that
    of all pods; none: the cluster's default. `chart`: the export is a Helm chart.
    """

    image: str
    cidrs: tuple[str, ...] = ()
    monitoring: str = "monitoring"
    kafka: str = "kafka"
    kafka_cluster: str = "shared"
    own_certificates: bool = False
    priority_class: str | None = None
    chart: bool = False

    def __post_init__(self) -> None:
        for text in self.cidrs:
            try:
                ip_network(text)
            except ValueError:
                allowed = "must be a network, as 192.0.2.0/24 or 2001:db8::/32, without bits of a host"
                raise UsageError(f"--broker-cidr {text}: {allowed}") from None
        if self.priority_class is not None and _SUBDOMAIN.fullmatch(self.priority_class) is None:
            allowed = "must be made of a-z, 0-9, and - and . inside"
            raise UsageError(f"--priority-class {self.priority_class}: {allowed}")
        namespaces = (self.monitoring, "monitoring-namespace"), (self.kafka, "kafka-namespace")
        for text, option in (*namespaces, (self.kafka_cluster, "kafka-cluster")):
            if len(text) > LONGEST or _LABEL.fullmatch(text) is None:
                allowed = f"must be made of a-z, 0-9 and - inside, of at most {LONGEST} characters"
                raise UsageError(f"--{option} {text}: {allowed}")


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """The namespace for the objects of a party, or of the operator. `mesh`: the mesh's name as a label."""

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
    """Return an object: `kind` is `apiVersion:kind`, `body` its content besides the metadata."""
    version, _, word = kind.partition(":")
    metadata: Object = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    metadata["labels"] = dict(APP if labels is None else labels)
    return {"apiVersion": version, "kind": word, "metadata": metadata, **body}


# Kubernetes names of the names in a mesh file.
#
# A name becomes lower case, with `-` in place of all characters except letters and digits, and without `-` at
# its ends. A long name is cut, and ends with part of a hash of the whole. Names that become equal are
# refused.

LONGEST_SET = 52
"""A StatefulSet's pods and revisions have labels that add eleven characters."""
OPERATOR = "operator"
_OTHER = re.compile(r"[^a-z0-9]+")
_HASHED = 8


def label(*parts: str, longest: int = LONGEST) -> str:
    """Return the name that `parts` give together; empty if they have no letter and no digit."""
    full_name = "-".join(filter(None, (_OTHER.sub("-", part.lower()).strip("-") for part in parts)))
    if len(full_name) <= longest:
        return full_name
    digest = hashlib.sha256("-".join(parts).encode()).hexdigest()[:_HASHED]
    return f"{full_name[: longest - _HASHED - 1].rstrip('-')}-{digest}"


def node_set(node: str) -> str:
    """Return the name of a node's StatefulSet, and of the other objects of this node alone."""
    return label("node", node, longest=LONGEST_SET)


def participant_set(whose: Participant) -> str:
    """Return the name of a party's StatefulSet in a collaboration, and of the other objects of this party
    alone.
    """
    return label(whose.kind, whose.name, longest=LONGEST_SET)


def namespace(mesh: str, party: str | None) -> str:
    """Return the namespace of a party; None: of the mesh's operator."""
    return label(mesh, OPERATOR if party is None else party)


def check(file: MeshFile) -> None:
    """Refuse a mesh file with two names that give the same Kubernetes name. Raises MeshFileError."""
    mesh, parties = file.mesh, file.mesh.all_parties
    lines = _twice(
        file, [("the mesh's operator", namespace(mesh.name, None)), *_namespaces(mesh.name, parties)]
    )
    for party in parties:
        lines += _twice(file, [(f"node {node}", node_set(node)) for node in party.nodes])
    if lines:
        raise MeshFileError(lines)


def check_collaboration(file: CollaborationFile) -> None:
    """Refuse a collaboration with two names that give the same Kubernetes name. Raises MeshFileError."""
    mesh = file.mesh
    party_namespaces = [
        (f"party {name}", namespace(mesh.name, name)) for name in (mesh.learner, *mesh.owners)
    ]
    lines = _twice(file, [("the mesh's operator", namespace(mesh.name, None)), *party_namespaces])
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


# Which pods may connect to a pod, and to which addresses it may connect.

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
    """Return where names are resolved: in the cluster, in OpenShift or on the host.

    OpenShift's pods listen at 5353. A NodeLocal DNSCache answers at 169.254.20.10, an address of the host,
    which no pod's labels match.
    """
    servers = [
        {
            "namespaceSelector": {"matchLabels": {_NAMESPACE: space}},
            "podSelector": {"matchLabels": {key: value}},
        }
        for space, key, value in (
            ("kube-system", "k8s-app", "kube-dns"),
            ("openshift-dns", "dns.operator.openshift.io/daemonset-dns", "default"),
        )
    ]
    local = {"ipBlock": {"cidr": "169.254.20.10/32"}}
    ports = [{"port": port, "protocol": word} for port in (53, 5353) for word in ("UDP", "TCP")]
    return {"to": [*servers, local], "ports": ports}


def closed(place: ClusterPlace) -> Object:
    """Return the policy of all our pods: one without a policy of its own reaches nothing, and nobody it."""
    spec = {"podSelector": {"matchLabels": APP}, "policyTypes": ["Ingress", "Egress"]}
    return place.made("networking.k8s.io/v1:NetworkPolicy", "default-deny", {"spec": spec})


def broker_ports(brokers: Mapping[str, Any], file: str, path: tuple[str, ...]) -> list[int]:
    """Return the ports of the brokers at `path` of the file. Raises MeshFileError if one names none."""
    places = [
        (side, server, server.rpartition(":")[2] if ":" in server else _DEFAULT)
        for side, server in _servers(brokers)
    ]
    return _ports([((side, "servers"), server, port) for side, server, port in places], file, path)


def source_ports(source: Any, file: str, path: tuple[str, ...]) -> list[int]:
    """Return the ports of a source's own broker and schema registry, and of those of its later labels.

    Raises MeshFileError, as `broker_ports` does.
    """
    places: list[tuple[tuple[str, str], str, str]] = []
    if not isinstance(source, Mapping):
        return []
    labels = source_ports(source.get("labels"), file, (*path, "labels"))
    for server in (source.get("broker") or {}).get("servers", "").split(","):
        if server:
            port = server.strip().rpartition(":")[2] if ":" in server else _DEFAULT
            places.append((("broker", "servers"), server.strip(), port))
    for url in (source.get("registry") or {}).get("url", "").split(","):
        if url:
            host = urlsplit(url.strip()).netloc
            usual = "443" if url.strip().startswith("https:") else "80"
            port = host.rpartition(":")[2] if re.search(r":\d+$", host) else usual
            places.append((("registry", "url"), url.strip(), port))
    return [*_ports(places, file, path), *labels]


def _ports(places: Iterable[tuple[tuple[str, str], str, str]], file: str, path: tuple[str, ...]) -> list[int]:
    """Return the ports of addresses, each with its keys. Raises MeshFileError for those that name none."""
    wrong, ports = list[str](), list[int]()
    for keys, address, port in places:
        if "${" in address or not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16):
            allowed = f"{address}: must be host:port, written out: the network policy names the port"
            wrong.append(Problem(file, (*path, *keys), allowed).line)
        else:
            ports.append(int(port))
    if wrong:
        raise MeshFileError(wrong)
    return list(dict.fromkeys(ports))


def local_servers(brokers: Mapping[str, Any]) -> list[str]:
    """Return the servers that a pod would look for on itself."""
    return [server for _, server in _servers(brokers) if is_loopback((server.rpartition(":")[0], 0))]


def _servers(brokers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for side in ("mesh", "data"):
        settings = brokers.get(side)
        for server in settings["servers"].split(",") if settings else ():
            yield side, server.strip()


# The mesh broker's topics and users as Strimzi's resources, for the mesh's operator.

REPLICAS, IN_SYNC = 3, 2
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LONGEST, _LONGEST_CERTIFIED = 253, 64
"""Of a resource's name, and of a certificate's common name."""


def kafka_topics(file: AnyFile, cluster: Cluster) -> list[Object]:
    """Return a KafkaTopic for each topic of the mesh broker."""
    return [_topic(spec, cluster) for spec in specs_of(file, None)]


def kafka_users(file: AnyFile, cluster: Cluster) -> list[Object]:
    """Return a KafkaUser for each user of the mesh broker; none if the broker has no users.

    Raises MeshFileError for settings that Strimzi does not support.
    """
    broker = file.mesh_broker
    if not has_users(broker):
        return []
    wrong = _refused(file, broker)
    if wrong:
        raise MeshFileError(wrong)
    kind = "scram-sha-512" if broker.users else "tls-external" if cluster.own_certificates else "tls"
    return [_user(user, kind, cluster) for user in shared_users(file)]


def has_users(broker: BrokerSettings) -> bool:
    """Return whether the broker knows its users, by a password or by a certificate."""
    return broker.users or broker.certificate is not None


def _topic(spec: TopicSpec, cluster: Cluster) -> Object:
    config: Object = {
        key: int(value) if value.lstrip("-").isdigit() else value for key, value in spec.configs.items()
    }
    config["min.insync.replicas"] = IN_SYNC
    body = {"partitions": 1, "replicas": REPLICAS, "config": config}
    name = spec.name
    if _SUBDOMAIN.fullmatch(name) is None:  # a part begins or ends with -
        name = ".".join(f"x{part}x" for part in name.split("."))
        body = {"topicName": spec.name, **body}
    return _made("KafkaTopic", name, body, cluster)


def _user(user: User, kind: str, cluster: Cluster) -> Object:
    spec: Object = {
        "authentication": {"type": kind},
        "authorization": {"type": "simple", "acls": [_acl(rule) for rule in user.rules]},
    }
    if user.quota is not None:
        sent_rate, received, percentage = user.quota
        spec["quotas"] = {
            "producerByteRate": sent_rate,
            "consumerByteRate": received,
            "requestPercentage": percentage,
        }
    return _made("KafkaUser", _name(user.name), spec, cluster)


def _acl(rule: Rule) -> Object:
    resource = {"type": rule.kind, "name": rule.name, "patternType": rule.pattern}
    return {"resource": resource, "operations": list(rule.operations)}


def _made(kind: str, name: str, spec: Object, cluster: Cluster) -> Object:
    labels = {**APP, "strimzi.io/cluster": cluster.kafka_cluster}
    return made(f"kafka.strimzi.io/v1:{kind}", name, {"spec": spec}, labels, cluster.kafka)


def _name(user: str) -> str:
    """Return the KafkaUser's name. Kafka knows a user with a certificate as CN=<name>."""
    return user.removeprefix("CN=") if is_subject(user) else user


def _refused(file: AnyFile, broker: BrokerSettings) -> Iterable[str]:
    """Return the settings that Strimzi does not support, one line each."""
    lines = []
    if broker.users and broker.mechanism != "scram-sha-512":
        allowed = f"{broker.mechanism}: must be scram-sha-512, or certificates: Strimzi makes no other users"
        lines.append(Problem(str(file.path), ("brokers", "mesh", "mechanism"), allowed).line)
    longest = _LONGEST if broker.users else _LONGEST_CERTIFIED
    for user in shared_users(file):
        name = _name(user.name)
        if broker.users and is_subject(user.name):
            allowed = "must be a name, as the users of brokers.mesh have passwords"
        elif _SUBDOMAIN.fullmatch(name) is None or len(name) > longest:
            words = f"must be made of a-z, 0-9, . and - inside, of at most {longest} characters"
            allowed = f"makes no KafkaUser: {words}"
            allowed += "" if broker.users else ", after CN= alone"
        else:
            continue
        lines.append(f"{file.path}: mesh: user {user.name} ({', '.join(user.roles)}): {allowed}")
    return lines


# The objects for monitoring: the targets, the rules by audience, and the dashboards.
#
# Everyone may see what is shared. The private metrics, and the rules and the dashboard that use them, are for
# the owner's Prometheus and Grafana alone. A dashboard contains no metrics: panels for which a view has none
# are left out there.

OPERATOR_BOARDS = ("overview", "mesh")
"""The operator's own processes know nothing of what the others show."""
OWNER_BOARDS = (*OPERATOR_BOARDS, "privacy", "learning")
OF_NODES = {
    "overview": {
        "Least budget left",
        "Budget ends in",
        "Unprotected nodes",
        "Worst own regret a round",
        "Own regret a round",
        "Budget left",
    },
    "mesh": {
        "Unprotected nodes",
        "Time from step to step",
        "Waiting",
        "Since the last step",
        "Edges on and off",
        "Consensus gap",
        "Releases given up",
        "Late corrections",
    },
}
"""The panels of what nodes' own processes know alone: the operator's Prometheus has no data for them."""
OF_SCHEDULERS = {"mesh": {"Starts", "Plans", "Left out"}}
"""The panels of what schedulers know alone: a party's Prometheus has no data for them."""
_WIDTH = 24
_FOLDER = "grafana_folder"


def monitors(place: ClusterPlace, *, owned: bool) -> list[Object]:
    """Return the PodMonitors: one for everyone, and, if `owned`, one for the owner."""
    objects = [_monitor(place, "mirrormesh-shared", ALL, "metrics")]
    return [*objects, _monitor(place, "mirrormesh-owner", OWNER, "owner")] if owned else objects


def rules(place: ClusterPlace, *, owned: bool) -> list[Object]:
    """Return the PrometheusRules. If `owned`, all are for the owner: the operator has the shared one."""
    objects = [_rule(place, "mirrormesh-shared", OWNER if owned else ALL, "rules.yaml")]
    return [*objects, _rule(place, "mirrormesh-owner", OWNER, "rules-owner.yaml")] if owned else objects


def dashboards(place: ClusterPlace, *, owned: bool) -> list[Object]:
    """Return the dashboards as ConfigMaps with the label by which Grafana's sidecar finds them."""
    names = OWNER_BOARDS if owned else OPERATOR_BOARDS
    return [_board(place, name, seen_board(name, owned=owned)) for name in names]


def seen_board(name: str, *, owned: bool) -> Object:
    """Return a dashboard with the panels for which a party's Prometheus has data; or the operator's."""
    text = (packed("grafana/dashboards", "grafana/dashboards") / f"{name}.json").read_text("utf-8")
    board: Object = json.loads(text)
    hidden = (OF_SCHEDULERS if owned else OF_NODES).get(name, set())
    board["panels"] = _closed_up([panel for panel in board["panels"] if panel["title"] not in hidden])
    return board


def _closed_up(panels: list[Object]) -> list[Object]:
    """Return the panels without the room of those that were left out, and without rows that have none."""
    remaining = [
        panel
        for panel, following in zip(panels, [*panels[1:], None], strict=True)
        if panel["type"] != "row" or panel.get("panels") or (following and following["type"] != "row")
    ]
    column = top = bottom = 0
    for panel in remaining:
        place = panel["gridPos"]
        if panel["type"] == "row" or column + place["w"] > _WIDTH:
            column, top = 0, bottom
        place["x"], place["y"] = column, top
        column, bottom = column + place["w"], max(bottom, top + place["h"])
    return remaining


def _monitor(place: ClusterPlace, name: str, audience: str, port: str) -> Object:
    endpoint = {
        "port": port,
        "interval": "5s",
        "scrapeTimeout": "4s",
        "honorLabels": False,
        "relabelings": [{"targetLabel": "job", "replacement": name}],  # the rules know jobs by this
    }
    spec = {
        "selector": {"matchLabels": APP},
        "podTargetLabels": ["mirrormesh.dev/node"],
        "podMetricsEndpoints": [endpoint],
        "sampleLimit": 20000,
    }
    labels = {**APP, AUDIENCE: audience}
    return place.made("monitoring.coreos.com/v1:PodMonitor", name, {"spec": spec}, labels)


def _rule(place: ClusterPlace, name: str, audience: str, file: str) -> Object:
    groups: Any = read_yaml(packed("deploy_prometheus", "deploy/prometheus") / file)["groups"]
    labels = {**APP, AUDIENCE: audience}
    return place.made("monitoring.coreos.com/v1:PrometheusRule", name, {"spec": {"groups": groups}}, labels)


def _board(place: ClusterPlace, name: str, content: Object) -> Object:
    text = json.dumps(content, separators=(",", ":"))
    board = place.made(
        "v1:ConfigMap",
        f"dashboard-{name}",
        {"data": {f"{name}.json": text}},
        {**APP, "grafana_dashboard": "1"},
    )
    board["metadata"]["annotations"] = {_FOLDER: "mirrormesh"}
    return board
