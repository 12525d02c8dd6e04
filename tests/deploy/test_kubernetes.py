"""The manifests in deploy/kubernetes: what export writes, right by the schemas of their kinds."""

from copy import deepcopy
from functools import cache

import pytest
import yaml

from docs.regions.kubernetes import examples
from docs.regions.kubernetes import held as held_in
from streams.mesh.settings.files import read_yaml
from tests.support.published.manifests import kustomized, manifests, mistakes
from tests.support.published.page_blocks import parse
from tests.support.published.pages import ROOT

EXAMPLE = ROOT / "deploy" / "kubernetes"
MESH = EXAMPLE / "income.yaml"
FOLDER_NAMES = ("bank-1", "operator")
FOLDERS = pytest.mark.parametrize("folder", FOLDER_NAMES)


@cache
def held(folder):
    """The example's objects, by kind and name."""
    return {(one["kind"], one["metadata"]["name"]): one for one in manifests(EXAMPLE / folder)}


def test_the_example_is_what_export_writes():
    written = dict(examples())
    assert tuple(folder.name for folder in written) == FOLDER_NAMES
    for folder, files in written.items():
        assert (folder / "exported.txt").read_text().splitlines() == sorted(files)
        assert held_in(folder) == files, "out of date: python -m docs.generate"


def test_the_example_is_the_mesh_that_runs_on_one_machine():
    alone = read_yaml(ROOT / "deploy" / "meshes" / "income.yaml")
    apart = read_yaml(MESH)
    assert apart["mesh"] == alone["mesh"]
    own = read_yaml(EXAMPLE / "bank-1.yaml")["source"]
    for key in ("path", "schema"):
        own[key] = own[key].removeprefix("../meshes/")
    assert own == alone["nodes"]["bank-1"]["source"]


@FOLDERS
def test_every_manifest_is_right_by_the_schema_of_its_kind(folder):
    found = manifests(EXAMPLE / folder)
    assert [(one["kind"], one["metadata"]["name"], wrong) for one in found if (wrong := mistakes(one))] == []
    assert len(held(folder)) == len(found)  # each name once a kind


def put(*keys_and_value):
    """A mistake: the value at the end of the keys."""
    *keys, last, value = keys_and_value

    def change(one):
        for key in keys:
            one = one[key]
        one[last] = value

    return change


def renamed(*keys_and_name):
    """A mistake: the last key under another name."""
    *keys, last, name = keys_and_name

    def change(one):
        for key in keys:
            one = one[key]
        one[name] = one.pop(last)

    return change


POD = ("spec", "template", "spec")
BOX = (*POD, "containers", 0)
NODE, SCHEDULER = ("bank-1", "StatefulSet", "node-bank-1"), ("operator", "Deployment", "scheduler")
USER, TOPIC = ("operator", "KafkaUser", "bank-1"), ("operator", "KafkaTopic", "income.run-1.topology")
MONITOR, RULE = ("bank-1", "PodMonitor", "mirrormesh-owner"), ("bank-1", "PrometheusRule", "mirrormesh-owner")
GUARD, BUDGET = ("bank-1", "NetworkPolicy", "node-bank-1"), ("bank-1", "PodDisruptionBudget", "nodes")
PLANTED = {
    "a misspelt restriction": (
        NODE,
        renamed(*BOX, "securityContext", "readOnlyRootFilesystem", "readOnlyRootFileSystem"),
    ),
    "a misspelt probe": (NODE, renamed(*BOX, "livenessProbe", "livenessprobe")),
    "a number of replicas as text": (NODE, put("spec", "replicas", "1")),
    "access modes that are no list": (
        NODE,
        put("spec", "volumeClaimTemplates", 0, "spec", "accessModes", "ReadWriteOncePod"),
    ),
    "a misspelt retention": (NODE, renamed("spec", "persistentVolumeClaimRetentionPolicy", "retention")),
    "a flag as text": (NODE, put(*POD, "automountServiceAccountToken", "false")),
    "an argument that is a number": (SCHEDULER, put(*BOX, "args", 2, 9100)),
    "a label that is a number": (SCHEDULER, put("metadata", "labels", "app.kubernetes.io/version", 1)),
    "no selector": (SCHEDULER, lambda one: one["spec"].pop("selector")),
    "one operation": (USER, renamed("spec", "authorization", "acls", 0, "operations", "operation")),
    "an operation that Kafka has not": (USER, put("spec", "authorization", "acls", 0, "operations", ["Get"])),
    "another pattern": (
        USER,
        put("spec", "authorization", "acls", 0, "resource", "patternType", "prefixed"),
    ),
    "a user that Strimzi does not make": (USER, put("spec", "authentication", "type", "scram-sha-256")),
    "an earlier version": (USER, put("apiVersion", "kafka.strimzi.io/v1beta2")),
    "no replicas": (TOPIC, put("spec", "replicas", 0)),
    "a misspelt number of partitions": (TOPIC, renamed("spec", "partitions", "partition")),
    "a single target label": (MONITOR, renamed("spec", "podTargetLabels", "podTargetLabel")),
    "an interval without a unit": (MONITOR, put("spec", "podMetricsEndpoints", 0, "interval", "5")),
    "an alert without an expression": (RULE, lambda one: one["spec"]["groups"][0]["rules"][0].pop("expr")),
    "a misspelt group": (RULE, renamed("spec", "groups", 0, "rules", "rule")),
    "a port that is a list": (GUARD, put("spec", "egress", 0, "ports", 0, "port", [53])),
    "a misspelt direction": (GUARD, renamed("spec", "egress", "outgress")),
    "a misspelt budget": (BUDGET, renamed("spec", "maxUnavailable", "maxUnavailble")),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_found(mistake):
    (folder, kind, name), plant = PLANTED[mistake]
    one = deepcopy(held(folder)[kind, name])
    assert mistakes(one) == []
    plant(one)
    assert mistakes(one) != []


@FOLDERS
def test_a_kustomization_names_every_file(folder):
    tree = yaml.safe_load((EXAMPLE / folder / "kustomization.yaml").read_text())
    there = {path.name for path in (EXAMPLE / folder).glob("*.yaml")}
    assert set(tree["resources"]) == there - {"kustomization.yaml"}


@FOLDERS
def test_kubectl_takes_the_kustomization(folder, tmp_path):
    def sort(one):
        return one["kind"], one["metadata"]["name"]

    built = sorted(kustomized(EXAMPLE / folder, tmp_path), key=sort)
    assert built == sorted(manifests(EXAMPLE / folder), key=sort)


def containers(folder):
    for one in manifests(EXAMPLE / folder):
        if one["kind"] in {"StatefulSet", "Deployment"}:
            yield one, one["spec"]["template"]["spec"]["containers"][0]


@FOLDERS
def test_every_command_is_one_of_ours(folder):
    found = [container["args"] for _, container in containers(folder)]
    assert [args[0] for args in found] == (["scheduler"] if folder == "operator" else ["feed", "node"])
    for args in found:
        parse(args)


def test_what_no_kubelet_takes_is_not_there():
    for folder in FOLDER_NAMES:
        for one, container in containers(folder):
            pod = one["spec"]["template"]["spec"]
            secured = pod["securityContext"]
            assert (secured["runAsNonRoot"], secured["runAsUser"]) == (True, 10001)
            assert secured["seccompProfile"] == {"type": "RuntimeDefault"}
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(pod)
            claims = {"persistentVolumeClaim"} if container["args"][0] == "feed" else set()
            kinds = {"name", "configMap", "secret", "emptyDir"} | claims
            assert {key for volume in pod["volumes"] for key in volume} <= kinds
        namespace = next(one for one in manifests(EXAMPLE / folder) if one["kind"] == "Namespace")
        assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
