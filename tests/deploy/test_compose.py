"""The compose files: compose takes them, and they agree with what is beside them."""

import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from streams.bus.rights import data_users, merged, mesh_users
from streams.mesh.file import load
from streams.mesh.settings.files import read_yaml
from streams.tools.up.programs import Options, ports
from tests.support.processes.programs import need
from tests.support.published.compose import variables
from tests.support.published.page_blocks import parse
from tests.support.published.pages import ROOT

DEPLOY = ROOT / "deploy"
WHOLE, OBSERVE = DEPLOY / "compose.yaml", DEPLOY / "compose.observe.yaml"
TREES = {path: yaml.safe_load(path.read_text()) for path in (WHOLE, OBSERVE)}
SERVICES = TREES[WHOLE]["services"]
OURS = {name: one for name, one in SERVICES.items() if "MIRRORMESH_IMAGE" in one["image"]}
MOUNTED = "broker-password"
EVERY = [
    pytest.param(path, name, id=f"{path.stem}-{name}") for path in TREES for name in TREES[path]["services"]
]


def schema_says(path):
    """What the compose schema, which the checker ships, finds wrong."""
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(
    ("path", "key"), [(WHOLE, "healthcheck"), (WHOLE, "read_only"), (OBSERVE, "network_mode")]
)
def test_compose_takes_the_file(path, key, tmp_path):
    assert schema_says(path) == ""
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(path.read_text().replace(f"{key}:", f"{key[:-1]}:"))
    assert key[:-1] in schema_says(wrong)


@pytest.mark.parametrize(("path", "name"), EVERY)
def test_what_is_mounted_is_there_and_images_have_a_version_and_a_digest(path, name):
    service = TREES[path]["services"][name]
    for volume in service.get("volumes", []):
        source, _, *mode = volume.split(":")
        if source.startswith("."):
            assert (DEPLOY / source).exists()
            assert mode == ["ro"]
        else:
            assert source in TREES[path]["volumes"]
    assert name in OURS or re.fullmatch(r"[a-z/]+:v?\d+\.\d+\.\d+@sha256:[0-9a-f]{64}", service["image"])


@pytest.mark.parametrize("path", TREES, ids=lambda path: path.stem)
def test_what_is_provisioned_has_all_that_it_asks_for(path):
    given = TREES[path]["services"]["grafana"]["environment"]
    for asking in (ROOT / "grafana" / "provisioning").rglob("*.yaml"):
        assert set(re.findall(r"\$\{(\w+)\}", asking.read_text())) <= set(given)
    mounted = dict(volume.split(":")[:2][::-1] for volume in TREES[path]["services"]["grafana"]["volumes"])
    assert mounted[given["MIRRORMESH_DASHBOARDS"]] == "../grafana/dashboards"
    assert given["GF_AUTH_ANONYMOUS_ENABLED"] == "true"
    assert given["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"


def test_prometheus_scrapes_what_the_example_serves():
    settings = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    (targets,) = settings["scrape_configs"][0]["static_configs"]
    served = ports(load(DEPLOY / "meshes" / "tracking.yaml"), Options(ROOT, metrics_from=9100))
    assert targets["targets"] == [f"127.0.0.1:{port}" for port in served.all]
    grafana = TREES[OBSERVE]["services"]["grafana"]
    assert grafana["environment"]["SCRAPE_INTERVAL"] == settings["global"]["scrape_interval"]


def test_prometheus_in_containers_scrapes_what_the_services_serve_with_the_same_rules():
    settings = yaml.safe_load((DEPLOY / "compose" / "prometheus.yaml").read_text())
    beside = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    (targets,) = settings["scrape_configs"][0]["static_configs"]
    served = [
        f"{name}:{port}"
        for name, service in OURS.items()
        for word in service["command"]
        for port in re.findall(r"(?:^|=)0\.0\.0\.0:(\d+)$", word)
    ]
    assert targets["targets"] == served
    mounted = dict(volume.split(":")[:2][::-1] for volume in SERVICES["prometheus"]["volumes"])
    (folder,) = (place for place, source in mounted.items() if source == "./prometheus")
    assert settings["rule_files"] == [f"{folder}/{name}" for name in beside["rule_files"]]
    assert settings["global"] == beside["global"]
    assert SERVICES["grafana"]["environment"]["SCRAPE_INTERVAL"] == settings["global"]["scrape_interval"]


def test_the_mesh_is_the_example_on_the_broker_of_the_network():
    whole, example = (
        read_yaml(DEPLOY / "compose" / "mesh.yaml"),
        read_yaml(DEPLOY / "meshes" / "tracking.yaml"),
    )
    assert (whole["mesh"], whole["nodes"]) == (example["mesh"], example["nodes"])
    listens = re.search(r"^advertised.listeners=CLIENTS://(\S+)$", broker_settings(), re.MULTILINE)[1]
    assert whole["brokers"]["mesh"]["servers"] == whole["brokers"]["data"]["servers"] == listens
    assert whole["brokers"]["mesh"]["password_file"] == f"/run/secrets/{MOUNTED}"


def broker_settings():
    return (DEPLOY / "compose" / "broker.properties").read_text()


@pytest.mark.parametrize("name", OURS)
def test_a_process_is_a_command_of_ours_and_as_little_as_it_needs(name):
    service = OURS[name]
    parse(service["command"])
    assert service["command"][1] == "/etc/mirrormesh/mesh.yaml"
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_every_process_is_a_user_of_its_own_and_the_administrator_knows_all():
    mesh = load(DEPLOY / "compose" / "mesh.yaml", {"BROKER_USER": "admin"}, secrets=False).resolved
    users = {
        role: user.name
        for user in merged((*mesh_users(mesh), *data_users(mesh, mesh.settings.nodes)))
        for role in user.roles
    }
    roles = {"scheduler": "scheduler", "watch": "auditor"}
    roles |= {node: f"node {node}" for node in mesh.settings.nodes}
    roles |= {f"feed-{node}": f"feeder of {node}" for node in mesh.settings.nodes}
    own = {"broker": "admin", "provision": "admin"} | {name: users[role] for name, role in roles.items()}
    for name, user in own.items():
        assert {"source": user, "target": MOUNTED} in SERVICES[name]["secrets"]
        assert name == "broker" or SERVICES[name]["environment"] == {"BROKER_USER": user}
        assert name == "provision" or len(SERVICES[name]["secrets"]) == 1
    assert set(own) == set(OURS) | {"broker"}
    assert sorted(SERVICES["provision"]["secrets"][1:]) == sorted(users.values())
    assert set(TREES[WHOLE]["secrets"]) == {"admin", *users.values()}
    assert 'username="admin"' in broker_settings()


def test_passwords_are_written_once_each_for_its_user(tmp_path):
    need("od")
    deploy = Path(shutil.copytree(DEPLOY, tmp_path / "deploy"))
    secrets = deploy / "compose" / "secrets"
    (secrets / "east").write_text("my own")
    subprocess.run([deploy / "compose" / "passwords.sh"], check=True)
    found = {path.name: path.read_text() for path in secrets.iterdir() if path.name[0] != "."}
    assert set(found) == set(TREES[WHOLE]["secrets"])
    assert found.pop("east") == "my own"
    assert all(re.fullmatch(r"[0-9a-f]{48}", text) for text in found.values())
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    assert {stat.S_IMODE((secrets / name).stat().st_mode) for name in found} == {0o444}
    subprocess.run([deploy / "compose" / "passwords.sh"], check=True)
    assert found.items() <= {path.name: path.read_text() for path in secrets.iterdir()}.items()


def test_every_node_has_its_process_its_feeder_its_volume_and_its_health_on_the_owner_s_port():
    mesh = read_yaml(DEPLOY / "compose" / "mesh.yaml")["mesh"]
    for node in mesh["nodes"]:
        command = SERVICES[node]["command"]
        assert command[2] == node
        assert SERVICES[f"feed-{node}"]["command"][2] == node
        assert f"{node}:/var/lib/mirrormesh" in SERVICES[node]["volumes"]
        (port,) = (word.rpartition(":")[2] for word in command if word.startswith("--private-metrics"))
        assert f"'http://127.0.0.1:{port}/livez'" in SERVICES[node]["healthcheck"]["test"][-1]
    volumes = [volume for one in SERVICES.values() for volume in one.get("volumes", []) if volume[0] != "."]
    assert len(set(volumes)) == len(volumes) == len(TREES[WHOLE]["volumes"])


def test_what_waits_waits_for_health_or_for_the_end():
    for name, service in SERVICES.items():
        for other, condition in service.get("depends_on", {}).items():
            wanted = (
                "service_healthy" if "healthcheck" in SERVICES[other] else "service_completed_successfully"
            )
            assert condition == {"condition": wanted}
        assert name == "broker" or service["depends_on"]
    assert variables(WHOLE.read_text()) == {"MIRRORMESH_IMAGE"}


def test_nothing_is_reached_from_elsewhere():
    published = [port for one in SERVICES.values() for port in one.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
