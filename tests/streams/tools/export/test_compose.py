"""What `export compose` writes: what compose takes, for one party alone, with secrets in files."""

import re

import pytest
import yaml

from streams.mesh.file import load
from streams.tools.export.compose import operator, party
from streams.tools.export.raw_mesh import party as found_party
from streams.tools.export.raw_mesh import read
from tests.support.published.exports import IMAGE, SCORED, SECURED, compose_says, with_scores
from tests.support.published.page_blocks import parse
from tests.support.published.pages import ROOT


@pytest.fixture
def secured(tmp_path):
    path = tmp_path / "mesh.yaml"
    path.write_text(SECURED)
    return path


def of_party(path, name="b"):
    raw = read(path)
    return party(raw, found_party(raw.file.mesh, name), IMAGE)


def services(written):
    return yaml.safe_load(written["compose.yaml"])["services"]


@pytest.mark.parametrize(
    "made", [of_party, lambda path: operator(read(path), IMAGE)], ids=["party", "operator"]
)
def test_compose_takes_it_and_would_not_take_a_mistake(secured, tmp_path, made):
    pytest.importorskip("check_jsonschema")

    text = made(secured)["compose.yaml"]
    assert compose_says(tmp_path, text) == 0
    assert compose_says(tmp_path, text.replace("    read_only:", "    read_onlyy:")) == 1


def test_a_node_is_our_command_and_as_little_as_it_needs(secured):
    node = services(of_party(secured))["node-b"]
    parse(node["command"])
    assert node["command"][2] == "b"
    assert node["image"] == IMAGE
    assert (node["read_only"], node["cap_drop"], node["restart"]) == (True, ["ALL"], "on-failure")
    assert "node-b:/var/lib/mirrormesh" in node["volumes"]
    assert "'http://127.0.0.1:9101/livez'" in node["healthcheck"]["test"][-1]


def test_a_scheduler_is_our_command_and_the_operator_has_no_node_and_nothing_for_owners(secured):
    written = operator(read(secured), IMAGE)
    found = services(written)
    assert set(found) == {"scheduler", "prometheus", "grafana"}
    parse(found["scheduler"]["command"])
    assert "'http://127.0.0.1:9100/livez'" in found["scheduler"]["healthcheck"]["test"][-1]
    assert not [path for path in written if "owner" in path or "learning" in path]
    assert "data" not in yaml.safe_load(written["mesh/scheduler.yaml"])["brokers"]


def test_every_secret_is_a_file_that_the_mesh_file_reads_where_it_is_mounted(secured):
    written = of_party(secured)
    tree = yaml.safe_load(written["compose.yaml"])
    mounted = {one["target"]: one["source"] for one in tree["services"]["node-b"]["secrets"]}
    brokers = yaml.safe_load(written["mesh/node-b.yaml"])["brokers"]
    assert {brokers["mesh"]["password_file"], brokers["data"]["password_file"]} == set(mounted)
    assert set(mounted.values()) == set(tree["secrets"])
    files = {one["file"] for one in tree["secrets"].values()}
    assert files == {
        f"${{MIRRORMESH_SECRETS:-../secrets}}/node-b/{side}-password" for side in ("mesh", "data")
    }
    assert all(f"#     {file}\n" in written["compose.yaml"] for file in files)
    assert "environment" not in tree["services"]["node-b"]


def test_a_node_s_mesh_file_loads_with_its_secrets_and_is_the_same_mesh(secured, tmp_path):
    text = of_party(secured)["mesh/node-b.yaml"].replace("/run/secrets", str(tmp_path))
    for side in ("mesh", "data"):
        (tmp_path / f"{side}-password").write_text(f"of-{side}\n")
    (tmp_path / "b.yaml").write_text(text)
    loaded = load(tmp_path / "b.yaml")
    assert loaded.digest() == load(secured, {"MESH_PASSWORD": "x", "DATA_PASSWORD": "y"}).digest()
    assert loaded.brokers("b").data.password.get_secret_value() == "of-data"


def test_a_variable_that_is_no_secret_is_asked_of_who_starts_it(secured):
    secured.write_text(SECURED.replace('"mesh.example:9093"', '"${MESH_SERVERS}"'))
    given = services(of_party(secured))["node-b"]["environment"]
    assert given == {"MESH_SERVERS": "${MESH_SERVERS:?as in the mesh file}"}


def test_nothing_of_another_party_is_in_it(secured):
    text = "".join(text for path, text in of_party(secured).items() if not path.startswith("grafana/"))
    assert "b.example:9095" in text
    assert not re.search(r"[ac]\.example:9095|node-[ac]\b", text)


def test_all_nodes_of_a_party_are_in_its_project_and_prometheus_asks_each_twice(secured):
    secured.write_text(SECURED.replace("  dimension: 2", "  parties: {ab: {nodes: [a, b]}}\n  dimension: 2"))
    written = of_party(secured, "ab")
    tree = yaml.safe_load(written["compose.yaml"])
    assert set(tree["services"]) == {"node-a", "node-b", "prometheus", "grafana"}
    assert set(tree["volumes"]) == {"node-a", "node-b", "prometheus", "grafana"}
    (scraped,) = yaml.safe_load(written["prometheus/prometheus.yaml"])["scrape_configs"]
    targets = [f"node-{name}:{port}" for name in "ab" for port in (9100, 9101)]
    assert scraped["static_configs"] == [{"targets": targets}]
    rules = ROOT / "deploy" / "prometheus" / "rules-owner.yaml"
    assert written["prometheus/rules-owner.yaml"] == rules.read_text()


def test_a_changed_mesh_file_makes_another_container_and_an_endless_run_is_always_restarted(secured):
    first = services(of_party(secured))["node-b"]
    assert services(of_party(secured))["node-b"] == first
    secured.write_text(SECURED.replace("  rounds: 40\n", ""))
    other = services(of_party(secured))["node-b"]
    assert other["labels"] != first["labels"]
    assert other["restart"] == "unless-stopped"


def test_no_project_takes_another_s_name(secured):
    secured.write_text(SECURED.replace("[a, b, c]", "[a, b, operator]").replace("\n  c:", "\n  operator:"))
    written = [operator(read(secured), IMAGE), *(of_party(secured, name) for name in ("b", "operator"))]
    names = [yaml.safe_load(one["compose.yaml"])["name"] for one in written]
    assert names == ["mirrormesh_small", "mirrormesh_small_b", "mirrormesh_small_operator"]


def test_what_is_mounted_is_written(secured):
    for written in (of_party(secured), operator(read(secured), IMAGE)):
        for service in services(written).values():
            for source in (volume.split(":")[0] for volume in service["volumes"] if volume.startswith("./")):
                assert [
                    path for path in written if f"./{path}" == source or f"./{path}".startswith(f"{source}/")
                ]


def test_what_is_scored_has_a_service_with_a_user_of_its_own_and_nothing_of_the_mesh_broker(
    secured, tmp_path
):
    secured.write_text(with_scores())
    written = of_party(secured)
    assert set(services(of_party(secured, "a"))) == {"node-a", "prometheus", "grafana"}
    service = services(written)["score-b"]
    parse(service["command"])
    assert (service["command"][0], service["command"][2]) == ("score", "b")
    assert service["restart"] == "unless-stopped"
    assert service["secrets"] == [{"source": "score-b-data-password", "target": "/run/secrets/data-password"}]
    assert service["volumes"] == ["./mesh/score-b.yaml:/etc/mirrormesh/mesh.yaml:ro"]
    text = written["mesh/score-b.yaml"].replace("/run/secrets", str(tmp_path))
    (tmp_path / "data-password").write_text("of-scores\n")
    (tmp_path / "score.yaml").write_text(text)
    loaded = load(tmp_path / "score.yaml")
    data = loaded.brokers("b").data
    assert (data.username, data.password.get_secret_value()) == ("b.score", "of-scores")
    assert loaded.brokers("b").mesh.username is None
    assert loaded.own("b").score.private_endpoint == ("0.0.0.0", 9101)  # noqa: S104 # Prometheus reaches it
    assert (loaded.own("b").score.input, loaded.own("b").score.threshold) == (SCORED["input"], 0.2)
    assert loaded.digest() == load(secured, {"MESH_PASSWORD": "x", "DATA_PASSWORD": "y"}).digest()
    (scraped,) = yaml.safe_load(written["prometheus/prometheus.yaml"])["scrape_configs"]
    assert "score-b:9101" in scraped["static_configs"][0]["targets"]


def test_a_user_that_the_environment_names_stays_one(secured):
    secured.write_text(with_scores().replace("username: b\n", "username: ${DATA_USER}\n"))
    brokers = yaml.safe_load(of_party(secured)["mesh/score-b.yaml"])["brokers"]
    assert brokers["data"]["username"] == "${DATA_USER}"
    assert services(of_party(secured))["score-b"]["environment"].keys() == {"DATA_USER"}
