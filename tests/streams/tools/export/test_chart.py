"""A chart's objects are those of the manifests, whatever the values; a value that is misspelt is refused."""

import json
import re
from copy import deepcopy

import jsonschema
import pytest
import yaml

from streams.mesh.errors import UsageError
from streams.tools.export import kubernetes
from streams.tools.export.cluster import Cluster
from streams.tools.export.raw_mesh import read_any
from tests.support.published.exports import (
    IMAGE,
    SECURED,
    for_operator,
    for_party,
    objects,
    star_file,
    with_scores,
)
from tests.support.published.manifests import mistakes

NETWORKS = ("192.0.2.0/24",)


@pytest.fixture
def mesh(tmp_path):
    path = tmp_path / "mesh.yaml"
    path.write_text(with_scores())
    return path


def exports(mesh, **settings):
    """The files of a party, and of the operator."""
    for write in (lambda cluster: for_party(mesh, "b", cluster), lambda cluster: for_operator(mesh, cluster)):
        yield (
            write(Cluster(IMAGE, NETWORKS, **settings)),
            write(Cluster(IMAGE, NETWORKS, chart=True, **settings)),
        )


def rendered(files, namespace, values=None):
    """The objects as Helm makes them of the four forms that templates have."""
    values = yaml.safe_load(files["values.yaml"]) if values is None else values
    jsonschema.validate(values, json.loads(files["values.schema.json"]))

    def put(match):
        expression = match[1]
        if expression == '"{{"':
            return "{{"
        if expression == ".Release.Namespace | toJson":
            return json.dumps(namespace)
        if index := re.fullmatch(r'index \.Values\.(\w+) "([^"]+)" \| toJson', expression):
            return json.dumps(values[index[1]][index[2]])
        return json.dumps(values[re.fullmatch(r"\.Values\.(\w+) \| toJson", expression)[1]])

    found = {}
    for name, text in files.items():
        if not name.startswith("templates/"):
            continue
        whole = re.fullmatch(r"\{\{- if \.Values\.(\w+) \}\}\n(.*)\{\{- end \}\}\n", text, re.DOTALL)
        if whole and not values[whole[1]]:
            continue
        for one in yaml.safe_load_all(re.sub(r"\{\{ (.*?) \}\}", put, whole[2] if whole else text)):
            found[one["kind"], one["metadata"]["name"]] = one
    return found


def without_nulls(tree):
    """As Kubernetes reads it: a null is a key that is left out."""
    if isinstance(tree, dict):
        return {key: without_nulls(one) for key, one in tree.items() if one is not None}
    return [without_nulls(one) for one in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize("priority", [None, "important"])
def test_a_chart_has_the_objects_of_the_manifests(mesh, priority):
    for manifests, chart in exports(mesh, priority_class=priority):
        expected = objects(manifests)
        ((kind, namespace),) = [key for key in expected if key[0] == "Namespace"]
        del expected[kind, namespace]
        found = without_nulls(rendered(chart, namespace))
        for one in expected.values():
            if one["kind"] == "NetworkPolicy" and "egress" in one["spec"]:
                assert one["spec"]["egress"][1]["to"] == [{"ipBlock": {"cidr": NETWORKS[0]}}]
        assert found == expected


def test_values_reach_every_workload(mesh):
    (_, party), (_, operator) = exports(mesh)
    for chart in (party, operator):
        values = yaml.safe_load(chart["values.yaml"])
        asked = {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}
        changed = values | {
            "image": "elsewhere.example/mirrormesh:1",
            "storageClass": "fast",
            "priorityClass": "important",
            "brokers": [],
            "resources": dict.fromkeys(values["resources"], asked),
            "monitoring": False,
            "dashboards": False,
        }
        found = rendered(chart, "elsewhere", changed)
        workloads = [one for (kind, _), one in found.items() if kind in {"StatefulSet", "Deployment"}]
        assert workloads
        for one in workloads:
            pod = one["spec"]["template"]["spec"]
            assert pod["containers"][0]["image"] == "elsewhere.example/mirrormesh:1"
            assert pod["containers"][0]["resources"] == asked
            assert pod["priorityClassName"] == "important"
            for claim in one["spec"].get("volumeClaimTemplates", []):
                assert claim["spec"]["storageClassName"] == "fast"
        assert not {"PodMonitor", "PrometheusRule"} & {kind for kind, _ in found}
        assert not [name for kind, name in found if kind == "ConfigMap" and name.startswith("dashboard")]
        assert {one["metadata"]["namespace"] for (kind, _), one in found.items() if kind[:5] != "Kafka"} == {
            "elsewhere"
        }
        assert [wrong for one in found.values() for wrong in mistakes(one)] == []


@pytest.mark.parametrize(
    "change",
    [
        {"imagee": "x"},
        {"image": ""},
        {"resources": {"node-z": {}}},
        {"resources": {"node-b": {"limit": {}}}},
        {"storageClass": 1},
        {"brokers": "192.0.2.0/24"},
        {"monitoring": "no"},
    ],
)
def test_a_misspelt_value_is_refused(mesh, change):
    chart = next(exports(mesh))[1]
    values = deepcopy(yaml.safe_load(chart["values.yaml"])) | change
    with pytest.raises(jsonschema.ValidationError):
        rendered(chart, "elsewhere", values)


def test_a_chart_says_what_it_is_and_holds_no_secret(tmp_path):
    path = tmp_path / "mesh.yaml"
    path.write_text(SECURED)
    chart = for_party(path, "a", Cluster(IMAGE, chart=True))
    about = yaml.safe_load(chart["Chart.yaml"])
    assert (about["apiVersion"], about["name"], about["type"]) == ("v2", "small-a", "application")
    assert not any("kind: Secret" in text or "kind: Namespace" in text for text in chart.values())


def test_a_chart_of_no_process_is_refused(tmp_path):
    with pytest.raises(UsageError, match="--chart: a collaboration's operator runs no process"):
        kubernetes.collaboration_operator(read_any(star_file(tmp_path)), Cluster(IMAGE, chart=True))
