"""Feeders in every export: one process a node whose source is a file, with a user and a file of its own."""

import pytest
import yaml

from streams.mesh.file import load
from streams.tools.export import compose, systemd
from streams.tools.export.cluster import Cluster
from streams.tools.export.raw_mesh import party, read
from tests.support.published.exports import IMAGE, SECURED, for_party, objects
from tests.support.published.manifests import mistakes
from tests.support.published.page_blocks import parse

NEEDED = {"MESH_PASSWORD": "never-written", "DATA_PASSWORD": "never-written"}
SOURCE = {
    "kind": "csv",
    "path": "data/b.csv",
    "schema": {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}, "timestamp": "at"},
}


@pytest.fixture
def mesh(tmp_path):
    """The mesh file of three nodes, of which b has a file."""

    def write(**changes):
        tree = yaml.safe_load(SECURED)
        tree["mesh"] |= {"loss": "squared"} | changes
        for name in "ac":
            tree["nodes"][name]["source"] = {key: value for key, value in SOURCE.items() if key != "path"}
            tree["nodes"][name]["source"]["columns"] = ["x", "y", "z", "at"]
        tree["nodes"]["b"]["source"] = SOURCE
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / "b.csv").write_text("x,y,z,at\n1,2,3,4\n")
        path = tmp_path / "mesh.yaml"
        path.write_text(yaml.safe_dump(tree, sort_keys=False))
        return path

    return write


def exported(write, path, name):
    raw = read(path)
    return write(raw, party(raw.file.mesh, name))


def of_compose(path, name="b"):
    return exported(lambda raw, whose: compose.party(raw, whose, IMAGE), path, name)


def is_fed_from(tmp_path, text, folder):
    """The mesh file of the feeder: the file with its header, its own user, and nothing of the mesh broker."""
    (tmp_path / "data-password").write_text("known\n")
    (tmp_path / "feeder.yaml").write_text(text)
    loaded = load(tmp_path / "feeder.yaml", NEEDED)
    assert loaded.digest() == load(tmp_path / "mesh.yaml", NEEDED).digest()
    source = loaded.own("b").source
    assert (source.path, source.columns) == (f"{folder}/b.csv", None)
    assert (loaded.brokers("b").data.username, loaded.brokers("b").mesh.username) == ("b-feeder", None)


def test_a_service_of_compose_feeds_and_stays(mesh, tmp_path):
    path = mesh()
    written = of_compose(path)
    assert not any("feed" in name for name in of_compose(path, "a"))
    service = yaml.safe_load(written["compose.yaml"])["services"]["feed-b"]
    parse(service["command"])
    words = [
        "feed",
        "/etc/mirrormesh/mesh.yaml",
        "b",
        "--stay",
        "--private-metrics=0.0.0.0:9101",
        "--log=json",
    ]
    assert service["command"] == words
    assert service["restart"] == "unless-stopped"
    assert service["volumes"][1] == {
        "type": "bind",
        "source": "${MIRRORMESH_SETS:-../sets}/feed-b/b.csv",
        "target": "/srv/mirrormesh/b.csv",
        "read_only": True,
        "bind": {"create_host_path": False},
    }
    assert "#     ${MIRRORMESH_SETS:-../sets}/feed-b/b.csv" in written["compose.yaml"].splitlines()
    (scraped,) = yaml.safe_load(written["prometheus/prometheus.yaml"])["scrape_configs"]
    assert scraped["static_configs"][0]["targets"] == ["node-b:9100", "node-b:9101", "feed-b:9101"]
    is_fed_from(
        tmp_path, written["mesh/feed-b.yaml"].replace("/run/secrets", str(tmp_path)), "/srv/mirrormesh"
    )


def test_a_deployment_of_kubernetes_feeds_from_a_volume_and_is_never_there_twice(mesh, tmp_path):
    path = mesh()
    found = objects(for_party(path, "b"))
    assert [wrong for one in found.values() for wrong in mistakes(one)] == []
    assert not any("feed" in name for _, name in objects(for_party(path, "a")))
    deployment = found["Deployment", "feed-b"]["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"].items() <= labels.items()
    assert not found["StatefulSet", "node-b"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    policy = found["NetworkPolicy", "feed-b"]["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert [rule["ports"][0]["port"] for rule in policy["egress"]][-1] == 9095  # and not the mesh broker's
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    parse(container["args"])
    assert container["args"][:4] == ["feed", "--log", "json", "--stay"]
    assert (container["livenessProbe"]["httpGet"]["port"], container["args"][-1]) == ("owner", "b")
    claim = {"name": "set", "persistentVolumeClaim": {"claimName": "feed-b-set", "readOnly": True}}
    assert claim in pod["volumes"]
    assert {"name": "set", "mountPath": "/srv/mirrormesh", "readOnly": True} in container["volumeMounts"]
    is_fed_from(tmp_path, found["ConfigMap", "feed-b"]["data"]["mesh.yaml"], "/srv/mirrormesh")
    chart = for_party(path, "b", Cluster(IMAGE, chart=True))
    assert "feed-b" in yaml.safe_load(chart["values.yaml"])["resources"]


def test_a_unit_of_systemd_feeds_from_a_folder_that_it_alone_sees(mesh, tmp_path):
    written = exported(systemd.party, mesh(), "b")
    assert "etc/systemd/system/mirrormesh-feed@.service" in written
    assert written["etc/systemd/system/mirrormesh-feed@b.service.d/mesh.conf"].splitlines() == [
        "[Service]",
        "Environment=OPTIONS='--private-metrics 127.0.0.1:9501'",
        "User=mirrormesh-feed-b",
        "BindReadOnlyPaths=/srv/mirrormesh/b.feed:/run/mirrormesh/set",
        "EnvironmentFile=/etc/mirrormesh/b.feed.env",
    ]
    assert (
        "install -m 0644 -- b.csv /srv/mirrormesh/b.feed/b.csv  # the set of records" in written["README.md"]
    )
    is_fed_from(tmp_path, written["etc/mirrormesh/b.feed.yaml"], "/run/mirrormesh/set")


def test_with_slots_by_time_records_are_fed_at_their_own_times(mesh):
    path = mesh(slots={"by": "time", "size": 3, "period": 2, "start": 0})
    assert "--timestamps" in yaml.safe_load(of_compose(path)["compose.yaml"])["services"]["feed-b"]["command"]
    found = objects(for_party(path, "b"))["Deployment", "feed-b"]["spec"]["template"]["spec"]
    assert "--timestamps" in found["containers"][0]["args"]
    text = exported(systemd.party, path, "b")["etc/systemd/system/mirrormesh-feed@b.service.d/mesh.conf"]
    assert "--timestamps" in text
