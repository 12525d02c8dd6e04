"""Brokers that `up` starts, and that die; Prometheus and Grafana, and what is missing of them."""

import os
import select
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from streams.cli.up import up
from streams.mesh.errors import UsageError
from streams.tools.broker.java import BrokerError
from streams.tools.up import services
from streams.tools.up.children import LONGEST
from streams.tools.up.programs import MetricsPorts, Observing
from streams.tools.up.services import StartedBroker, packed
from tests.support.brokers.development import free_ports
from tests.support.meshes.files import changed, written
from tests.support.processes.mesh import wait_until


def program(folder, name, text="exit 0"):
    """A program of that name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def ports():
    """Of Prometheus, Grafana, the scheduler, and node a (shared, private)."""
    return free_ports(5)


@pytest.fixture
def path_of(monkeypatch, tmp_path):
    """A PATH on which there is one folder."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(services, "_HOMES", ())
    return tmp_path / "bin"


def served(ports):
    return MetricsPorts(ports[2], {"a": ports[3]}, {"a": ports[4]})


def test_without_prometheus_one_line_names_the_package_and_nothing_starts(path_of, tmp_path):
    tree = changed()
    tree["brokers"] = {side: {"servers": "127.0.0.1:1"} for side in ("mesh", "data")} | {"trust_broker": True}
    with pytest.raises(UsageError, match="no prometheus on the PATH: install the package prometheus"):
        up(written(tmp_path, tree), state=tmp_path / "state", observe=True)
    assert not list((tmp_path / "state").iterdir())


def test_prometheus_scrapes_every_endpoint_and_has_the_rules(tmp_path, ports):
    made = services.prometheus_program(Observing(*ports[:2]), served(ports), tmp_path)
    settings = yaml.safe_load((tmp_path / "prometheus.yaml").read_text())
    (scrape,) = settings["scrape_configs"]
    (targets,) = scrape["static_configs"]
    assert targets == {"targets": [f"127.0.0.1:{port}" for port in ports[2:]]}
    rules, owner_s = settings["rule_files"]
    assert "NodeSilent" in Path(rules).read_text()
    assert "DataStalled" in Path(owner_s).read_text()
    address = settings["global"]["external_labels"]["runbooks"]  # of every alert's link
    assert "## NodeSilent" in Path(address.removeprefix("file://")).read_text()
    assert made.arguments[:2] == ("become", "prometheus")
    assert f"--web.listen-address=127.0.0.1:{ports[0]}" in made.arguments


def grafana_of(folder, name="grafana"):
    """A Grafana that says what it is started with."""
    (folder.parent / "conf").mkdir()
    (folder.parent / "conf" / "defaults.ini").touch()
    return program(folder, name, 'echo "$@"; /usr/bin/env')


@pytest.mark.parametrize(("name", "first"), [("grafana", "server "), ("grafana-server", "")])
def test_grafana_gets_our_data_source_and_dashboards_and_lets_anyone_look(
    path_of, tmp_path, ports, name, first
):
    assert services.grafana() is None
    grafana_of(path_of, name)
    made = services.grafana_program(Observing(*ports[:2]), services.grafana(), tmp_path)
    said = run_as_child(made.arguments)
    assert said[0] == f"{first}--homepath {tmp_path}"
    found = dict(line.partition("=")[::2] for line in said[1:])
    assert found["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
    assert found["GF_SERVER_HTTP_PORT"] == str(ports[1])
    assert found["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert found["PROMETHEUS_URL"] == f"http://127.0.0.1:{ports[0]}"
    provisioning = packed("grafana/provisioning", "grafana/provisioning")
    assert found["GF_PATHS_PROVISIONING"] == str(provisioning)
    asked = str([yaml.safe_load(path.read_text()) for path in provisioning.rglob("*.yaml")])
    for variable in ("PROMETHEUS_URL", "MIRRORMESH_DASHBOARDS", "SCRAPE_INTERVAL"):
        assert f"${{{variable}}}" in asked
        assert found[variable]
    dashboards = {path.name for path in Path(found["MIRRORMESH_DASHBOARDS"]).iterdir()}
    assert dashboards == {"learning.json", "mesh.json", "overview.json", "privacy.json"}


def run_as_child(arguments):
    """What a child with these arguments prints, line by line."""
    command = [sys.executable, "-P", "-m", "streams.tools.up", *arguments]
    environment = os.environ | {"PATH": f"{os.environ['PATH']}:/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
    return done.stdout.splitlines()


def test_a_grafana_without_its_own_files_is_none(path_of):
    program(path_of, "grafana")
    assert services.grafana() is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a program with its parent")
def test_a_program_that_is_not_ours_ends_with_the_process_that_started_it():
    child = [sys.executable, "-P", "-m", "streams.tools.up", "become", "sh", "-c", "echo $$; exec sleep 60"]
    parent = (
        "import subprocess, sys; "
        f"p = subprocess.Popen({child!r}, stdout=subprocess.PIPE, text=True); "
        "print(p.stdout.readline(), end='', flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", parent], **pipes) as up_itself:
        pid = int(up_itself.stdout.readline())
        descriptor = os.pidfd_open(pid)
        up_itself.kill()
    gone, _, _ = select.select([descriptor], [], [], 20)
    os.close(descriptor)
    assert gone


# A broker that `up` has started, and that dies.


@pytest.fixture
def development(monkeypatch):
    """A broker that can die, and be started."""
    made = SimpleNamespace(running=True, starts=[], fails=False)

    def start(folder, port):
        made.starts.append((folder, port))
        if made.fails:
            raise BrokerError("no room\nin its log")
        made.running = True

    made.start, made.status = start, lambda _: SimpleNamespace(running=made.running)
    monkeypatch.setattr(services, "development", made)
    return made


def settled(kept, said, number):
    """Look until so much is said."""

    def is_said():
        kept.look()
        return len(said) == number

    wait_until(is_said)


def test_a_broker_that_dies_is_started_again(tmp_path, development):
    said = []
    kept = StartedBroker(tmp_path, 19092, lambda _, text: said.append(text))
    kept.look()
    assert said == []
    development.running = False
    settled(kept, said, 2)
    assert said == ["127.0.0.1:19092 has died, and is started again", "127.0.0.1:19092 runs again"]
    assert development.starts == [(tmp_path, 19092)]
    kept.end()


def test_one_that_cannot_be_started_is_tried_again_later_and_later(tmp_path, development, monkeypatch):
    now, said = [100.0], []
    monkeypatch.setattr(services, "time", SimpleNamespace(monotonic=lambda: now[0]))
    kept = StartedBroker(tmp_path, 19092, lambda _, text: said.append(text))
    development.running, development.fails = False, True
    settled(kept, said, 2)
    assert said[1] == "no room"
    kept.look()
    assert len(development.starts) == 1
    now[0] += LONGEST
    settled(kept, said, 4)
    assert len(development.starts) == 2
    kept.end()
