"""What `export kubernetes` writes for a collaboration: its parties, and the topics and users they share."""

import json
import re

import pytest
import yaml

from streams.collaboration.file import load_collaboration
from streams.collaboration.processes import LearnerProcess, OwnerProcess, PartyOptions
from streams.collaboration.rights import collaboration_specs, collaboration_users
from streams.collaboration.wire import Wire
from streams.mesh.errors import MeshFileError
from streams.metrics.catalogue import PrivateMetric
from streams.tools.export import kubernetes
from streams.tools.export.asked import write_folder
from streams.tools.export.cluster import Cluster
from streams.tools.export.raw_mesh import participant, read_any
from tests.support.processes.in_process import Commands
from tests.support.published.exports import IMAGE, objects, star_file
from tests.support.published.manifests import kustomized, mistakes
from tests.support.published.page_blocks import parse

PARTIES = ("bank-a", "bank-t", "analyst")


@pytest.fixture
def mesh(tmp_path):
    return star_file(tmp_path)


def for_party(path, name):
    raw = read_any(path)
    return kubernetes.participant(raw, participant(raw.file.mesh, name), Cluster(IMAGE))


def for_operator(path):
    return kubernetes.collaboration_operator(read_any(path), Cluster(IMAGE))


def the_set(found):
    (one,) = (one for (kind, _), one in found.items() if kind == "StatefulSet")
    return one


def pod_of(found):
    return the_set(found)["spec"]["template"]["spec"]


@pytest.mark.parametrize("write", [*PARTIES, None])
def test_every_manifest_is_right_by_the_schema_of_its_kind_and_the_kustomization_names_it(mesh, write):
    files = for_operator(mesh) if write is None else for_party(mesh, write)
    found = objects(files)
    assert [(name, wrong) for (_, name), one in found.items() if (wrong := mistakes(one))] == []
    assert set(yaml.safe_load(files["kustomization.yaml"])["resources"]) == set(files) - {
        "kustomization.yaml"
    }


@pytest.mark.parametrize("write", ["bank-a", None])
def test_kubectl_takes_the_kustomization(mesh, tmp_path, write):
    files = for_operator(mesh) if write is None else for_party(mesh, write)
    write_folder(tmp_path / "out", files)
    made = kustomized(tmp_path / "out", tmp_path)
    built = {(one["kind"], one["metadata"]["name"]): one for one in made}
    assert built == objects(files)


def test_a_mistake_would_be_found(mesh):
    one = the_set(objects(for_party(mesh, "bank-a")))
    volumes = one["spec"]["template"]["spec"]["volumes"]
    (claim,) = [volume for volume in volumes if "persistentVolumeClaim" in volume]
    claim["persistentVolumeClaim"]["claim"] = claim["persistentVolumeClaim"].pop("claimName")
    assert mistakes(one) != []


@pytest.mark.parametrize("name", PARTIES)
def test_a_party_is_one_process_with_a_volume_that_is_kept_and_as_little_as_it_needs(mesh, name):
    found = objects(for_party(mesh, name))
    spec = the_set(found)["spec"]
    assert spec["replicas"] == 1
    assert spec["volumeClaimTemplates"][0]["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert set(spec["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}
    pod = pod_of(found)
    (one,) = pod["containers"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["automountServiceAccountToken"]) == (True, False)
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    parse(one["args"])
    text = "".join(for_party(mesh, name).values())
    others = {"analyst", "bank-a", "bank-b", "bank-t"} - {name}
    assert not [other for other in others if f"username: {other}" in text or f"{other}.csv" in text]
    assert {one["metadata"].get("namespace") for (kind, _), one in found.items() if kind != "Namespace"} == {
        f"lending-{name}"
    }


@pytest.mark.parametrize("name", PARTIES)
def test_the_process_of_a_pod_loads_the_file_that_its_pod_has(mesh, tmp_path, monkeypatch, name):
    found = objects(for_party(mesh, name))
    pod = pod_of(found)
    (one,) = pod["containers"]
    whole = the_set(found)["metadata"]["name"]
    mounts = {mount["name"]: mount["mountPath"] for mount in one["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert set(mounts) == {*volumes, "state"}
    assert one["args"][one["args"].index("--state") + 1] == mounts["state"]
    for variable in one["env"]:
        monkeypatch.setenv(variable["name"], "known")
        assert variable["valueFrom"]["secretKeyRef"] == {"name": whole, "key": variable["name"]}
    text = found["ConfigMap", volumes["mesh"]["configMap"]["name"]]["data"]["mesh.yaml"]
    if name == "bank-a":
        claim = volumes["set"]["persistentVolumeClaim"]
        assert claim == {"claimName": "owner-bank-a-set", "readOnly": True}
        assert f"path: {mounts['set']}/bank-a.csv.gz" in text
        (tmp_path / "bank-a.csv.gz").touch()
        text = text.replace(mounts["set"], str(tmp_path))
    assert ("set" in mounts) == (name == "bank-a")
    there = tmp_path / "there.yaml"
    there.write_text(text)
    file, options = load_collaboration(there), PartyOptions(tmp_path / "state")
    if name == "analyst":
        LearnerProcess(file, options)
    elif name == "bank-t":
        OwnerProcess(file, [one["args"][-1]], options)
        assert file.own(name).private_endpoint == ("0.0.0.0", 9101)  # noqa: S104 # a kubelet reaches it


@pytest.mark.parametrize("name", PARTIES)
def test_ports_and_labels_meet(mesh, name):
    found = objects(for_party(mesh, name))
    labels = the_set(found)["spec"]["template"]["metadata"]["labels"].items()
    (one,) = pod_of(found)["containers"]
    ports = {port["name"]: port["containerPort"] for port in one["ports"]}
    assert ("owner" in ports) == (name != "analyst")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert one[probe]["httpGet"]["port"] == ("owner" if "owner" in ports else "metrics")
    selectors = {
        kind: one["spec"].get("podSelector", one["spec"].get("selector"))
        for (kind, _), one in found.items()
        if kind in {"NetworkPolicy", "PodDisruptionBudget", "PodMonitor", "StatefulSet"}
    }
    assert len(selectors) == 4
    assert all(selector["matchLabels"].items() <= labels for selector in selectors.values()), selectors
    asked = {
        endpoint["port"]
        for (kind, _), one in found.items()
        if kind == "PodMonitor"
        for endpoint in one["spec"]["podMetricsEndpoints"]
    }
    assert asked == set(ports)
    guarded = the_policy(found)["ingress"]
    assert {rule["ports"][0]["port"] for rule in guarded} == set(ports)


def the_policy(found):
    policies = {name: one["spec"] for (kind, name), one in found.items() if kind == "NetworkPolicy"}
    assert "ingress" not in policies["default-deny"]
    assert "egress" not in policies.pop("default-deny")
    (one,) = policies.values()
    return one


def test_a_pod_reaches_the_ports_of_its_brokers_and_no_others(mesh):
    def reached(name):
        _, brokers = the_policy(objects(for_party(mesh, name)))["egress"]
        return [port["port"] for port in brokers["ports"]]

    assert [reached(name) for name in PARTIES] == [[9093], [9093, 9095], [9093]]


def test_the_learner_has_nothing_that_asks_for_private_series(mesh):
    private = {f"mirrormesh_{one.value.name}" for one in PrivateMetric}
    found = objects(for_party(mesh, "analyst"))
    rules = [json.dumps(one) for (kind, _), one in found.items() if kind == "PrometheusRule"]
    assert len(rules) == 1
    assert not [word for word in private if re.search(rf"{word}(?![a-z])", rules[0])]


def test_topics_and_users_are_those_of_the_collaboration(mesh, monkeypatch):
    for variable in ("MESH_PASSWORD", "DATA_PASSWORD"):
        monkeypatch.setenv(variable, "known")
    wire = Wire(load_collaboration(mesh).resolved)
    found = objects(for_operator(mesh))
    assert {kind for kind, _ in found} == {"KafkaTopic", "KafkaUser"}
    assert {name for kind, name in found if kind == "KafkaTopic"} == {
        spec.name for spec in collaboration_specs(wire)
    }
    users = {name: one["spec"] for (kind, name), one in found.items() if kind == "KafkaUser"}
    assert set(users) == {"analyst", "bank-a", "bank-b", "bank-t", "lending-auditor"}
    for user in collaboration_users(wire):
        acls = [(acl["resource"], acl["operations"]) for acl in users[user.name]["authorization"]["acls"]]
        assert [(one["type"], one["name"], one["patternType"], tuple(may)) for one, may in acls] == list(
            user.rules
        )


def test_names_that_become_one_are_refused(mesh):
    mesh.write_text(mesh.read_text().replace("bank-b", "bank-a-"))
    with pytest.raises(MeshFileError, match="party bank-a and party bank-a- make one Kubernetes name"):
        for_party(mesh, "bank-t")


def test_the_command_writes_it_and_warns_of_a_broker_without_users(mesh, tmp_path, capsys):
    call, asked = Commands(capsys), ("--output", tmp_path / "out", "--image", IMAGE)
    code, out, err = call("export", "kubernetes", mesh, *asked, "--party", "bank-a")
    assert (code, err) == (0, "")
    assert "owner-bank-a.yaml" in {path.name for path in (tmp_path / "out").iterdir()}
    users = ', username: analyst, password: "${MESH_PASSWORD}"'
    mesh.write_text(mesh.read_text().replace(users, ""))
    code, out, err = call("export", "kubernetes", mesh, *asked, "--mesh-operator")
    assert code == 0, out
    assert "can forge queries and responses" in err
