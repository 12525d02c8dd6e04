"""Names that make no Kubernetes names, and what no cluster or Strimzi takes: each is refused in one line."""

import re

import pytest

from streams.mesh.errors import MeshFileError, UsageError
from streams.tools.export import kubernetes
from streams.tools.export.cluster import LONGEST, LONGEST_SET, Cluster, label, namespace, node_set
from tests.support.published.exports import IMAGE, SECURED, SHARED, for_operator, for_party


@pytest.fixture
def mesh(tmp_path):
    path = tmp_path / "mesh.yaml"
    path.write_text(SECURED)
    return path


@pytest.mark.parametrize(
    ("given", "made"),
    [("east", "node-east"), ("7", "node-7"), ("-a", "node-a"), ("a--b-", "node-a-b")],
)
def test_a_name_becomes_a_kubernetes_name(given, made):
    assert node_set(given) == made


def test_a_long_name_is_cut_and_stays_apart_from_its_like():
    one, other = "a" * 59 + "b", "a" * 59 + "c"
    assert node_set(one) != node_set(other)
    assert len(node_set(one)) <= LONGEST_SET
    assert len(namespace(one, other)) <= LONGEST
    assert re.fullmatch("[a-z0-9]([a-z0-9-]*[a-z0-9])?", namespace(one, other))
    assert label("---") == ""


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("[a, a-, c]", "party a and party a- make one Kubernetes name, small-a: rename one"),
        (
            "[a, operator, c]",
            "the mesh's operator and party operator make one Kubernetes name, small-operator: rename one",
        ),
    ],
)
def test_names_that_no_cluster_tells_apart_are_refused(mesh, names, said):
    mesh.write_text(
        f"{SHARED}\n".replace("[a, b, c]", names) + SECURED.partition(SHARED)[2].partition("nodes:")[0]
    )
    with pytest.raises(MeshFileError) as refused:
        for_operator(mesh)
    assert f"{mesh}: {said}" in refused.value.lines


def test_nodes_of_one_party_that_become_one_are_refused(mesh):
    shared = SHARED.replace("[a, b, c]", "[a, a-, c]") + "\n  parties: {bank: {nodes: [a, a-], user: bank}}\n"
    mesh.write_text(shared + SECURED.partition(SHARED)[2].partition("nodes:")[0])
    with pytest.raises(
        MeshFileError, match="node a and node a- make one Kubernetes name, node-a: rename one"
    ):
        for_operator(mesh)


@pytest.mark.parametrize("server", ["${SERVER}", "a.example:port", "a.example:0", "a.example:70000"])
def test_a_server_without_a_port_that_is_known_is_refused(mesh, server):
    mesh.write_text(SECURED.replace("a.example:9095", server))
    with pytest.raises(MeshFileError) as refused:
        for_party(mesh, "a")
    (line,) = refused.value.lines
    assert line.startswith(f"{mesh}: nodes.a.brokers.data.servers: {server}: must be host:port")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"cidrs": ("192.0.2.1/24",)}, "--broker-cidr 192.0.2.1/24: must be a network"),
        ({"cidrs": ("everywhere",)}, "--broker-cidr everywhere: must be a network"),
        ({"monitoring": "A b"}, "--monitoring-namespace A b: must be made of"),
        ({"kafka": ""}, "--kafka-namespace : must be made of"),
        ({"kafka_cluster": "x" * 64}, "--kafka-cluster xxx"),
    ],
)
def test_what_is_no_name_or_network_is_refused(told, said):
    with pytest.raises(UsageError) as refused:
        Cluster(IMAGE, **told)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("mechanism", ["scram-sha-256", "plain"])
def test_a_mechanism_that_strimzi_has_no_users_for_is_refused(mesh, mechanism):
    mesh.write_text(
        SECURED.replace("small-scheduler,", f"small-scheduler, mechanism: {mechanism}, security: sasl-tls,")
    )
    with pytest.raises(MeshFileError) as refused:
        for_operator(mesh)
    (line,) = refused.value.lines
    assert line.startswith(f"{mesh}: brokers.mesh.mechanism: {mechanism}: must be scram-sha-512")
    for_party(mesh, "a")  # a party may be on a broker that is not Strimzi's


def test_a_mesh_file_that_no_config_map_takes_is_refused(mesh, monkeypatch):
    monkeypatch.setattr(kubernetes, "LARGEST", 500)
    with pytest.raises(UsageError, match=r"^the mesh file of node-a has [\d,]+ bytes: .* at most 500$"):
        for_party(mesh, "a")
