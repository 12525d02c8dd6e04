"""Prometheus and Grafana in containers: a file that compose takes, and that agrees with what is beside it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from streams.mesh.file import load
from streams.tools.up.programs import ports

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose.yaml"
SERVICES = yaml.safe_load(COMPOSE.read_text())["services"]


def schema_says(path):
    """What the compose schema, which the checker ships, finds wrong."""
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_compose_takes_the_file(tmp_path):
    assert schema_says(COMPOSE) == ""
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("network_mode", "network_mod"))
    assert "network_mod" in schema_says(wrong)


@pytest.mark.parametrize("service", SERVICES)
def test_what_is_mounted_is_there_and_images_have_a_version(service):
    mounted = [volume.split(":") for volume in SERVICES[service]["volumes"] if volume.startswith(".")]
    assert mounted
    for source, _, mode in mounted:
        assert (COMPOSE.parent / source).is_dir()
        assert mode == "ro"
    assert re.fullmatch(r"[a-z/]+:v?\d+\.\d+\.\d+", SERVICES[service]["image"])


def test_what_is_provisioned_has_all_that_it_asks_for():
    given = SERVICES["grafana"]["environment"]
    for path in (ROOT / "grafana" / "provisioning").rglob("*.yaml"):
        assert set(re.findall(r"\$\{(\w+)\}", path.read_text())) <= set(given)
    mounted = dict(volume.split(":")[:2][::-1] for volume in SERVICES["grafana"]["volumes"])
    assert mounted[given["MIRRORMESH_DASHBOARDS"]] == "../grafana/dashboards"


def test_prometheus_scrapes_what_the_example_serves():
    settings = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yaml").read_text())
    (targets,) = settings["scrape_configs"][0]["static_configs"]
    served = ports(load(ROOT / "deploy" / "meshes" / "tracking.yaml"), 9100)
    all_ports = sorted({served.scheduler, *served.shared.values(), *served.private.values()})
    assert targets["targets"] == [f"127.0.0.1:{port}" for port in all_ports]
    assert SERVICES["grafana"]["environment"]["SCRAPE_INTERVAL"] == settings["global"]["scrape_interval"]
