"""The same objects as a Helm chart: what differs between clusters is a value.

A value enters a template as JSON, which is YAML of one line, so templates have no logic but this, and a file
that is left out as a whole. Dashboards contain braces of their own; these are escaped.
"""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from importlib.metadata import version
from typing import Any

from streams.mesh.settings.files import as_yaml
from streams.tools.export.cluster import Cluster, ClusterPlace, Object

OPTIONAL = {"monitoring.yaml": "monitoring", "dashboards.yaml": "dashboards"}
"""Files that a cluster without the Prometheus Operator, or without Grafana, leaves out, and their values."""
WORKLOADS = {"StatefulSet", "Deployment"}
_MARK = "@@{}@@"
"""What stands for a value in an object. YAML quotes it, as `@` begins no plain text."""
_VALUES = """\
# The image of all processes, best by its digest.
image: {image}
# The class of the nodes' volumes; null: the cluster's default.
storageClass: null
# The PriorityClass of all pods; null: the cluster's default.
priorityClass: {priority}
# Where brokers are, as peers of a NetworkPolicy; []: anywhere, on the brokers' ports.
brokers: {brokers}
# Resources of each process.
resources:
{resources}
# For a cluster with the Prometheus Operator, and for one whose Grafana has the sidecar for dashboards.
monitoring: true
dashboards: true
"""
_TEXT = {"type": "string", "minLength": 1}
_RESOURCES = {"type": "object", "additionalProperties": False} | {
    "properties": {key: {"type": "object"} for key in ("requests", "limits")}
}


def chart(place: ClusterPlace, objects: Mapping[str, list[Object]], cluster: Cluster) -> dict[str, str]:
    """Return a chart's files by name. Its release's namespace takes the place of `place`'s."""
    resources = {
        manifest["metadata"]["name"]: _container(manifest)["resources"]
        for manifests in objects.values()
        for manifest in manifests
        if manifest["kind"] in WORKLOADS
    }
    about = {
        "apiVersion": "v2",
        "name": place.namespace,
        "description": f"mirrormesh: {place.namespace}",
        "type": "application",
        "version": version("mirrormesh"),
        "appVersion": version("mirrormesh"),
    }
    return {
        "Chart.yaml": as_yaml(about),
        "values.yaml": _values(resources, cluster),
        "values.schema.json": json.dumps(_schema(resources), indent=2) + "\n",
        **{f"templates/{name}": _template(place, name, manifests) for name, manifests in objects.items()},
    }


def _values(resources: Mapping[str, Any], cluster: Cluster) -> str:
    indented = "".join(f"  {line}\n" for line in as_yaml(dict(resources)).splitlines())
    return _VALUES.format(
        image=json.dumps(cluster.image),
        priority=json.dumps(cluster.priority_class),
        brokers=json.dumps([{"ipBlock": {"cidr": cidr}} for cidr in cluster.cidrs]),
        resources=indented.rstrip(),
    )


def _schema(resources: Mapping[str, Any]) -> Object:
    """Return the JSON Schema of the values, by which Helm refuses one that is misspelt."""
    properties = {
        "image": _TEXT,
        "storageClass": {"anyOf": [_TEXT, {"type": "null"}]},
        "priorityClass": {"anyOf": [_TEXT, {"type": "null"}]},
        "brokers": {"type": "array", "items": {"type": "object"}},
        "resources": {
            "type": "object",
            "additionalProperties": False,
            "properties": dict.fromkeys(resources, _RESOURCES),
        },
        "monitoring": {"type": "boolean"},
        "dashboards": {"type": "boolean"},
        "global": {"type": "object"},  # Helm's own
    }
    schema = "http://json-schema.org/draft-07/schema#"
    return {"$schema": schema, "type": "object", "additionalProperties": False, "properties": properties}


def _template(place: ClusterPlace, name: str, manifests: list[Object]) -> str:
    expressions: list[str] = []
    marked = [_marked(place, manifest, expressions) for manifest in manifests]
    text = "---\n".join(as_yaml(manifest) for manifest in marked).replace("{{", '{{ "{{" }}')
    for number, expression in enumerate(expressions):
        text = text.replace(f"'{_MARK.format(number)}'", f"{{{{ {expression} | toJson }}}}")
    if name in OPTIONAL:
        return f"{{{{- if .Values.{OPTIONAL[name]} }}}}\n{text}{{{{- end }}}}\n"
    return text


def _marked(place: ClusterPlace, manifest: Object, expressions: list[str]) -> Object:
    """Return a copy with marks in place of what is a value, and add the values' expressions."""
    marked = deepcopy(manifest)
    for parent, key, expression in _variable(place, marked):
        parent[key] = _MARK.format(len(expressions))
        expressions.append(expression)
    return marked


def _variable(place: ClusterPlace, manifest: Object) -> Iterator[tuple[Object, str, str]]:
    """Yield what is a value: the object that has it, its key, and the expression of the template."""
    metadata = manifest["metadata"]
    if metadata.get("namespace") == place.namespace:  # Strimzi's topics and users are in another
        yield metadata, "namespace", ".Release.Namespace"
    if manifest["kind"] in WORKLOADS:
        yield _container(manifest), "image", ".Values.image"
        name = json.dumps(metadata["name"])
        yield _container(manifest), "resources", f"index .Values.resources {name}"
        yield manifest["spec"]["template"]["spec"], "priorityClassName", ".Values.priorityClass"
    for claim in manifest.get("spec", {}).get("volumeClaimTemplates", ()):
        yield claim["spec"], "storageClassName", ".Values.storageClass"
    if manifest["kind"] == "NetworkPolicy" and "egress" in manifest["spec"]:
        _, brokers = manifest["spec"]["egress"]
        yield brokers, "to", ".Values.brokers"


def _container(workload: Object) -> Object:
    container: Object = workload["spec"]["template"]["spec"]["containers"][0]
    return container
