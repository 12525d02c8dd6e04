"""deploy/compose.yaml runs: from the image, in the order and with the checks of the file."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.brokers.topics import PATIENCE, until
from tests.support.published.compose import Project
from tests.support.published.containers import Network
from tests.support.published.pages import ROOT

pytestmark = [pytest.mark.image, pytest.mark.slow, pytest.mark.kafka]

NODES = ("east", "north-east", "north-west", "west", "south-west", "south-east")


@pytest.fixture(scope="module")
def project(image, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compose")
    deploy = Path(shutil.copytree(ROOT / "deploy", folder / "deploy"))
    for _ in range(2):
        subprocess.run([deploy / "compose" / "passwords.sh"], check=True)
    with Network() as network, Project(deploy / "compose.yaml", image, network, folder) as made:
        made.up()
        yield made


def fetched(project, url):
    """What a container of the project gets from there."""
    code = f"from urllib.request import urlopen; print(urlopen({url!r}, timeout=5).read().decode())"
    status, said = project.containers["scheduler"].run("python", "-c", code)
    return said if status == 0 else ""


def asked(project, query):
    """What Prometheus answers: {(node, instance): value}."""
    said = fetched(project, f"http://prometheus:9090/api/v1/query?query={quote(query)}")
    found = json.loads(said)["data"]["result"] if said else []
    return {
        (one["metric"].get("node"), one["metric"].get("instance")): float(one["value"][1]) for one in found
    }


def test_all_become_healthy_and_prometheus_reaches_every_endpoint(project):
    for name, service in project.services.items():
        if "healthcheck" in service:
            until(lambda name=name: project.is_healthy(name))
    until(lambda: list(asked(project, "up").values()) == [1.0] * 13)


def test_all_nodes_learn_and_no_alert_of_a_silent_one_fires(project):
    until(lambda: len(rounds(project)) == len(NODES) and min(rounds(project).values()) > 5)
    firing = json.loads(fetched(project, "http://prometheus:9090/api/v1/alerts"))["data"]["alerts"]
    assert [one for one in firing if one["state"] == "firing"] == []


def rounds(project):
    return {node: value for (node, _), value in asked(project, "mirrormesh_round").items() if node in NODES}


def test_a_check_fails_where_the_process_is_gone_and_a_node_goes_on_with_another_password(project):
    before, secret = rounds(project)["west"], project.secrets["west"]
    process = project.running.pop("west")
    process.terminate()
    assert process.wait(60) == 0
    assert not project.is_healthy("west")
    secret.unlink()
    subprocess.run([secret.parent.parent / "passwords.sh"], check=True)
    project.start("provision")
    assert project.running.pop("provision").wait(PATIENCE) == 0
    assert "changed the password of west to the one in its file" in project.log("provision")
    project.start("west")
    until(lambda: project.is_healthy("west"))
    until(lambda: rounds(project).get("west", 0) > before)
    assert re.search(r"continu|journal", project.log("west"))


def test_a_command_beside_the_mesh_sees_it(project):
    code, said = project.run("watch", "--once")
    assert code == 0, said
    assert all(name in said for name in NODES)


def test_users_have_their_rights_and_no_others(project):
    mesh = "/etc/mirrormesh/mesh.yaml"
    assert "Warning" not in project.log("provision")
    code, said = project.containers["provision"].run("mirrormesh", "provision", mesh, "--check")
    assert (code, said) == (0, "right: nothing is missing or too much\n")
    code, said = project.containers["east"].run("mirrormesh", "provision", mesh, "--check")
    assert code == 1, said
    code, said = project.containers["feed-east"].run("mirrormesh", "feed", mesh, "west", "--records", "1")
    assert code == 1, said
    assert "data.tracking.west" in said


def test_a_process_has_its_own_secret_and_no_password_is_anywhere_else(project):
    for name in (*NODES, "scheduler", "feed-east", "watch"):
        assert project.containers[name].run("ls", "/run/secrets") == (0, "broker-password\n")
    passwords = {name: path.read_text().strip() for name, path in project.secrets.items()}
    assert len(set(passwords.values())) == len(passwords)
    assert {len(password) for password in passwords.values()} == {48}
    words = subprocess.run(["ps", "axww", "-o", "args,"], capture_output=True, text=True, check=True).stdout
    said = words + "".join(project.log(name) for name in project.services)
    assert [name for name, password in passwords.items() if password in said] == []


def test_asked_to_end_all_end_well(project):
    codes = project.down()
    assert set(codes) == set(project.services)
    assert {name: code for name, code in codes.items() if code not in {0, 143}} == {}
    assert all(codes[name] == 0 for name in NODES)
