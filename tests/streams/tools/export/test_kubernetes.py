"""What export writes for Kubernetes fits together, and what no cluster takes is refused in one line."""

import json
import re

import pytest
import yaml

from streams.bus.rights import mesh_users
from streams.bus.topic_specs import mesh_specs
from streams.live.node_process import NodeProcess
from streams.live.spend import NodeOptions
from streams.mesh.errors import MeshFileError, UsageError
from streams.mesh.file import load
from streams.metrics.catalogue import PrivateMetric
from streams.tools.export.cluster import CHECKSUM, Cluster
from tests.support.brokers.certificates import Authority
from tests.support.published.exports import (
    IMAGE,
    SECURED,
    SHARED,
    for_operator,
    for_party,
    objects,
    with_scores,
)
from tests.support.published.manifests import mistakes

NEEDED = {"MESH_PASSWORD": "never-written", "DATA_PASSWORD": "never-written"}
TLS = "certificate: n.crt, key: n.key"


@pytest.fixture
def mesh(tmp_path):
    path = tmp_path / "mesh.yaml"
    path.write_text(SECURED)
    return path


def with_parties(text, parties):
    return text.replace("  rounds: 40", f"  rounds: 40\n  parties: {parties}")


def pod_of(one):
    return one["spec"]["template"]["spec"]


def test_a_party_has_a_set_of_one_for_each_of_its_nodes_and_nothing_of_others(mesh):
    mesh.write_text(with_parties(SECURED, "{bank: {nodes: [a, b], user: bank}}"))
    found = objects(for_party(mesh, "bank"))
    sets = {name: one for (kind, name), one in found.items() if kind == "StatefulSet"}
    assert list(sets) == ["node-a", "node-b"]
    assert all(one["spec"]["replicas"] == 1 for one in sets.values())
    assert {one["metadata"].get("namespace") for (kind, _), one in found.items() if kind != "Namespace"} == {
        "small-bank"
    }
    text = "".join(for_party(mesh, "bank").values())
    for other in ("c.example", "username: c", "node-c", "small-scheduler", "Kafka", "Deployment"):
        assert other not in text
    assert "b.example" not in for_party(mesh, "bank")["node-a.yaml"]
    operators = "".join(for_operator(mesh).values())
    assert not re.search(r"[abc]\.example|DATA_PASSWORD|StatefulSet", operators)


def test_what_is_scored_has_a_deployment_that_no_set_of_a_node_takes_for_its_own(mesh):
    mesh.write_text(with_scores())
    found = objects(for_party(mesh, "b"))
    assert not any("score" in name for _, name in objects(for_party(mesh, "a")))
    deployment = found["Deployment", "score-b"]
    assert [wrong for one in found.values() for wrong in mistakes(one)] == []
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    of_node = found["StatefulSet", "node-b"]["spec"]["selector"]["matchLabels"]
    assert not of_node.items() <= labels.items()
    assert found["NetworkPolicy", "score-b"]["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    ports = [rule["ports"][0]["port"] for rule in found["NetworkPolicy", "score-b"]["spec"]["egress"]]
    assert ports[-1] == 9095  # and not the mesh broker's
    (one,) = pod_of(deployment)["containers"]
    assert one["args"][0] == "score"
    assert one["args"][-1] == "b"
    assert {variable["name"] for variable in one["env"]} == {"DATA_PASSWORD"}
    assert one["env"][0]["valueFrom"]["secretKeyRef"]["name"] == "score-b"
    assert one["readinessProbe"]["httpGet"]["port"] == "owner"
    assert "username: b.score" in found["ConfigMap", "score-b"]["data"]["mesh.yaml"]


def test_pods_reach_the_broker_and_the_registry_of_their_source(mesh):
    tree = yaml.safe_load(with_scores())
    source = {
        "kind": "topic",
        "topic": "payments",
        "format": "avro",
        "broker": {"servers": "others.example:9096"},
        "registry": {"url": "https://registry.example/api,http://registry-2.example:8081"},
        "schema": {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}},
    }
    for name in "abc":
        tree["nodes"][name]["source"] = source | {"topic": f"payments.{name}"}
    tree["mesh"]["loss"] = "squared"
    mesh.write_text(yaml.safe_dump(tree))
    found = objects(for_party(mesh, "b"))

    def reached(name):
        return [port["port"] for port in found["NetworkPolicy", name]["spec"]["egress"][-1]["ports"]]

    assert reached("node-b") == [9093, 9095, 9096, 443, 8081]
    assert reached("score-b") == [9095, 443, 8081]
    tree["nodes"]["b"]["source"]["registry"] = {"url": "https://${HOST}"}
    mesh.write_text(yaml.safe_dump(tree))
    with pytest.raises(MeshFileError, match=r"source\.registry\.url: https://\$\{HOST\}: must be host:port"):
        for_party(mesh, "b")


def test_a_volume_is_kept_and_has_one_writer(mesh):
    spec = objects(for_party(mesh, "a"))["StatefulSet", "node-a"]["spec"]
    assert spec["volumeClaimTemplates"][0]["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert set(spec["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}


def test_the_process_of_a_pod_loads_the_file_that_its_pod_has(mesh, tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    authority.issue("mesh.example")
    side = f'ca: {authority.ca}, password: "${{MESH_PASSWORD}}"'
    mesh.write_text(SECURED.replace('password: "${MESH_PASSWORD}"', side))
    found = objects(for_party(mesh, "a"))
    pod = pod_of(found["StatefulSet", "node-a"])
    (one,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in one["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert set(mounts) == {*volumes, "state"}
    config = found["ConfigMap", volumes["mesh"]["configMap"]["name"]]["data"]
    assert f"{mounts['mesh']}/{next(iter(config))}" in one["args"]
    assert one["args"][one["args"].index("--state") + 1] == mounts["state"]
    files = [f"{mounts['secrets']}/{item['path']}" for item in volumes["secrets"]["secret"]["items"]]
    text = config["mesh.yaml"]
    assert re.findall(r"ca: (.*)", text) == files
    for variable in one["env"]:
        monkeypatch.setenv(variable["name"], "known")
        assert variable["valueFrom"]["secretKeyRef"] == {"name": "node-a", "key": variable["name"]}
    assert {variable["name"] for variable in one["env"]} == set(NEEDED)
    there = tmp_path / "there.yaml"
    there.write_text(text.replace(files[0], str(authority.ca)))
    NodeProcess(load(there), [one["args"][-1]], NodeOptions(tmp_path / "state", None, None))
    assert load(there).own("a").private_endpoint == ("0.0.0.0", 9101)  # noqa: S104 # a kubelet reaches it


def test_a_scheduler_s_pod_has_its_file_and_its_secret(mesh):
    found = objects(for_operator(mesh))
    deployment = found["Deployment", "scheduler"]
    assert deployment["spec"]["replicas"] == 2
    (one,) = pod_of(deployment)["containers"]
    assert [variable["name"] for variable in one["env"]] == ["MESH_PASSWORD"]
    assert load_text(found["ConfigMap", "scheduler"]["data"]["mesh.yaml"], mesh).mesh_broker.username == (
        "small-scheduler"
    )


def load_text(text, mesh):
    path = mesh.with_name("written.yaml")
    path.write_text(text)
    return load(path, NEEDED)


@pytest.mark.parametrize(
    "write", [lambda path: for_party(path, "a"), for_operator], ids=["party", "operator"]
)
def test_ports_and_labels_meet(mesh, write):
    found = objects(write(mesh))
    (run,) = (one for (kind, _), one in found.items() if kind in {"StatefulSet", "Deployment"})
    labels = run["spec"]["template"]["metadata"]["labels"].items()
    (one,) = pod_of(run)["containers"]
    ports = {port["name"]: port["containerPort"] for port in one["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert one[probe]["httpGet"]["port"] == ("owner" if "owner" in ports else "metrics")
    assert f"0.0.0.0:{ports['metrics']}" in one["args"]
    selectors = {
        kind: one["spec"].get("podSelector", one["spec"].get("selector"))
        for (kind, _), one in found.items()
        if kind in {"NetworkPolicy", "PodDisruptionBudget", "PodMonitor", "StatefulSet", "Deployment"}
    }
    assert all(selector["matchLabels"].items() <= labels for selector in selectors.values()), selectors
    assert {"NetworkPolicy", "PodDisruptionBudget", "PodMonitor"} <= set(selectors)
    asked = {
        endpoint["port"]
        for (kind, _), one in found.items()
        if kind == "PodMonitor"
        for endpoint in one["spec"]["podMetricsEndpoints"]
    }
    assert asked == set(ports)


def test_the_owner_s_port_is_open_to_the_owner_s_prometheus_alone(mesh):
    spec = objects(for_party(mesh, "a"))["NetworkPolicy", "node-a"]["spec"]
    asking = {rule["ports"][0]["port"]: rule["from"] for rule in spec["ingress"]}
    assert set(asking) == {"metrics", "owner"}
    assert asking["owner"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}}]
    assert "monitoring" in json.dumps(asking["metrics"])
    guarded = objects(for_operator(mesh))["NetworkPolicy", "scheduler"]["spec"]
    assert [rule["ports"] for rule in guarded["ingress"]] == [[{"port": "metrics"}]]


def test_a_pod_reaches_dns_and_the_ports_of_its_brokers(mesh):
    def egress(**told):
        files = for_party(mesh, "a", Cluster(IMAGE, **told))
        return objects(files)["NetworkPolicy", "node-a"]["spec"]["egress"]

    (dns, brokers), (_, narrow) = egress(), egress(cidrs=("192.0.2.0/24", "2001:db8::/32"))
    assert {port["port"] for port in dns["ports"]} == {53, 5353}
    resolvers = [to.get("namespaceSelector", to.get("ipBlock")) for to in dns["to"]]
    names = [
        {"matchLabels": {"kubernetes.io/metadata.name": name}} for name in ("kube-system", "openshift-dns")
    ]
    assert resolvers == [*names, {"cidr": "169.254.20.10/32"}]
    assert [port["port"] for port in brokers["ports"]] == [9093, 9095]
    assert "to" not in brokers
    assert [one["ipBlock"]["cidr"] for one in narrow["to"]] == ["192.0.2.0/24", "2001:db8::/32"]
    assert narrow["ports"] == brokers["ports"]


def test_a_pod_of_ours_without_a_policy_reaches_nothing(mesh):
    for files in (for_party(mesh, "a"), for_operator(mesh)):
        found = objects(files)
        shut = found["NetworkPolicy", "default-deny"]["spec"]
        assert (set(shut), shut["policyTypes"]) == ({"podSelector", "policyTypes"}, ["Ingress", "Egress"])
        for (kind, _), one in found.items():
            if kind in {"StatefulSet", "Deployment"}:
                labels = one["spec"]["template"]["metadata"]["labels"].items()
                assert shut["podSelector"]["matchLabels"].items() <= labels
    # a Prometheus of the owner's in the same namespace is left as it is
    assert shut["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "mirrormesh"}


def test_a_pod_has_bounds_and_the_priority_that_is_asked_for(mesh):
    for name in (None, "important"):
        spec = pod_of(
            objects(for_party(mesh, "a", Cluster(IMAGE, priority_class=name)))["StatefulSet", "node-a"]
        )
        assert spec.get("priorityClassName") == name
        resources = spec["containers"][0]["resources"]
        assert set(resources["limits"]) == {"memory", "ephemeral-storage"}
        assert set(resources["requests"]) == {"cpu", "memory", "ephemeral-storage"}
    with pytest.raises(UsageError, match="--priority-class Important: must be made of a-z"):
        Cluster(IMAGE, priority_class="Important")


def test_no_private_series_is_in_the_rules_that_everyone_sees(mesh):
    private = {f"mirrormesh_{one.value.name}" for one in PrivateMetric}

    def rules(files):
        found = [(name, one) for (kind, name), one in objects(files).items() if kind == "PrometheusRule"]
        for name, one in found:
            asked = {word for word in private if re.search(rf"{word}(?![a-z])", json.dumps(one))}
            yield name, one["metadata"]["labels"]["mirrormesh.dev/audience"], asked

    assert list(rules(for_operator(mesh))) == [("mirrormesh-shared", "all", set())]
    shared, (name, audience, asked) = rules(for_party(mesh, "a"))
    assert shared == ("mirrormesh-shared", "owner", set())
    assert (name, audience) == ("mirrormesh-owner", "owner")
    assert {"mirrormesh_data_lag_records", "mirrormesh_malformed_records_total"} <= asked


def test_who_may_see_what(mesh):
    def seen(files, kind):
        found = {name: one for (made, name), one in objects(files).items() if made == kind}
        return {name: one["metadata"]["labels"].get("mirrormesh.dev/audience") for name, one in found.items()}

    party, operator = for_party(mesh, "a"), for_operator(mesh)
    assert seen(party, "PodMonitor") == {"mirrormesh-shared": "all", "mirrormesh-owner": "owner"}
    assert seen(operator, "PodMonitor") == {"mirrormesh-shared": "all"}
    boards = {f"dashboard-{name}" for name in ("overview", "mesh")}
    assert set(seen(operator, "ConfigMap")) == {"scheduler", *boards}
    assert set(seen(party, "ConfigMap")) == {"node-a", "dashboard-learning", "dashboard-privacy", *boards}
    for (kind, name), one in objects(party).items():
        if kind == "ConfigMap" and name in boards:
            assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
            assert json.loads(one["data"][f"{name.removeprefix('dashboard-')}.json"])["panels"]


def test_the_jobs_are_those_that_the_rules_ask_for(mesh):
    for (kind, name), one in objects(for_party(mesh, "a")).items():
        if kind == "PodMonitor":
            (renamed,) = one["spec"]["podMetricsEndpoints"][0]["relabelings"]
            assert renamed == {"targetLabel": "job", "replacement": name}
            assert re.fullmatch("mirrormesh.*", name)


def test_topics_and_users_are_those_of_the_mesh(mesh):
    all_of, made = objects(for_operator(mesh)), load(mesh, NEEDED).resolved
    topics = {name: one["spec"] for (kind, name), one in all_of.items() if kind == "KafkaTopic"}
    assert set(topics) == {spec.name for spec in mesh_specs(made)}
    for spec in mesh_specs(made):
        config = topics[spec.name]["config"]
        assert {key: str(value) for key, value in config.items()} == {
            **spec.configs,
            "min.insync.replicas": "2",
        }
        assert (topics[spec.name]["partitions"], topics[spec.name]["replicas"]) == (1, 3)
    users = {name: one["spec"] for (kind, name), one in all_of.items() if kind == "KafkaUser"}
    assert set(users) == {"a", "b", "c", "small-scheduler", "small-auditor"}
    for user in mesh_users(made):
        acls = [(acl["resource"], acl["operations"]) for acl in users[user.name]["authorization"]["acls"]]
        assert [(one["type"], one["name"], one["patternType"], tuple(may)) for one, may in acls] == list(
            user.rules
        )
        assert tuple(users[user.name]["quotas"].values()) == user.quota


def test_a_topic_whose_name_is_no_kubernetes_name_has_another_resource_s(mesh):
    mesh.write_text(SECURED.replace("[a, b, c]", "[a-, b, c]").replace("  a:", "  a-:"))
    with pytest.raises(MeshFileError, match=r"user a- \(node a-\): makes no KafkaUser"):
        for_operator(mesh)
    mesh.write_text(
        mesh.read_text().replace("  rounds: 40", "  rounds: 40\n  parties: {x: {nodes: [a-], user: x}}")
    )
    made = objects(for_operator(mesh))
    topic = made["KafkaTopic", "xsmallx.xrun-1x.xprogressx.xa-x"]
    assert topic["spec"]["topicName"] == "small.run-1.progress.a-"
    assert mistakes(topic) == []


@pytest.mark.parametrize(("own", "kind"), [(False, "tls"), (True, "tls-external")])
def test_users_with_certificates_are_strimzi_s_or_their_own(mesh, own, kind):
    word = 'password: "${MESH_PASSWORD}"'
    apart = re.sub(r"username: [\w-]+, " + re.escape(word), TLS, SECURED)
    mesh.write_text(
        apart.replace("  rounds: 40", "  rounds: 40\n  parties: {bank: {nodes: [a, b], user: CN=bank}}")
    )
    found = objects(for_operator(mesh, Cluster(IMAGE, own_certificates=own)))
    users = {name: one for (made, name), one in found.items() if made == "KafkaUser"}
    assert set(users) == {"bank", "c", "small-scheduler", "small-auditor"}
    assert {one["spec"]["authentication"]["type"] for one in users.values()} == {kind}
    assert [wrong for one in users.values() for wrong in mistakes(one)] == []
    mesh.write_text(mesh.read_text().replace("user: CN=bank}", "user: 'CN=bank,O=Bank'}"))
    with pytest.raises(
        MeshFileError, match=r"user CN=bank,O=Bank \(node a, node b\): makes no KafkaUser.*after CN="
    ):
        for_operator(mesh)


def test_a_broker_without_users_has_no_kafka_user(mesh):
    mesh.write_text(f"{SHARED}\nbrokers: {{mesh: {{servers: 'mesh.example:9092'}}}}\n")
    assert "users.yaml" not in for_operator(mesh)


def test_a_change_of_the_mesh_file_starts_the_pods_that_read_it_anew(mesh):
    def sums():
        found = {
            **objects(for_party(mesh, "a")),
            **objects(for_operator(mesh)),
            **objects(for_party(mesh, "b")),
        }
        return {
            name: one["spec"]["template"]["metadata"]["annotations"][CHECKSUM]
            for (kind, name), one in found.items()
            if kind in {"StatefulSet", "Deployment"}
        }

    first = sums()
    assert set(first) == {"node-a", "node-b", "scheduler"}
    mesh.write_text(SECURED.replace("a.example", "elsewhere.example"))
    other = sums()
    assert {name for name in first if first[name] != other[name]} == {"node-a"}
    mesh.write_text(SECURED.replace("rounds: 40", "rounds: 41"))
    assert not set(sums().values()) & set(first.values())
