"""Units for bare hosts: what a party gets, that systemd takes it, and that a process finds its secrets."""

import re
import sys
from pathlib import Path

import pytest
import yaml

from streams.mesh.file import load
from streams.mesh.settings.files import as_yaml, read_yaml
from tests.support.processes.in_process import Commands
from tests.support.processes.programs import need, systemd_analyze
from tests.support.published.exports import SECURED, installed, with_scores

PROGRAM = "/opt/mirrormesh/bin/mirrormesh"
FILES = {"mesh-password": "known to me", "data-password": "and to me"}


@pytest.fixture
def exported(tmp_path, capsys):
    """`exported("--party", "b", of=...)`: the export of a mesh file, and its files."""

    def run(*side, of=SECURED):
        (tmp_path / "mesh.yaml").write_text(of)
        done = Commands(capsys)(
            "export", "systemd", tmp_path / "mesh.yaml", "--output", tmp_path / "out", *side
        )
        assert done.code == 0, done.err
        folder = tmp_path / "out"
        return folder, {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}

    return run


def with_files(**own):
    """The mesh file with its secrets in files, in place of variables, and more in the own part of b."""
    text = SECURED
    for side, name in (("MESH", "mesh-password"), ("DATA", "data-password")):
        text = text.replace(f'password: "${{{side}_PASSWORD}}"', f"password_file: secrets/{name}")
    tree = yaml.safe_load(text)
    tree["nodes"]["b"] |= own
    return as_yaml(tree)


def dropin(folder, service):
    return (folder / f"etc/systemd/system/{service}.service.d/mesh.conf").read_text()


def test_a_party_gets_the_services_of_its_nodes_and_nothing_of_others(exported):
    folder, files = exported("--party", "b")
    assert files == {
        "README.md",
        "exported.txt",
        "etc/mirrormesh/b.yaml",
        "etc/systemd/system/mirrormesh-node@.service",
        "etc/systemd/system/mirrormesh-node@b.service.d/mesh.conf",
    }
    said = "".join((folder / path).read_text() for path in files)
    assert "b.example" in said
    assert not re.search(r"\b[ac]\.example|small-scheduler", said)


def test_what_is_scored_has_a_service_of_its_own(exported):
    folder, files = exported("--party", "b", of=with_scores())
    unit = "etc/systemd/system/mirrormesh-score@.service"
    assert {unit, "etc/mirrormesh/b.score.yaml"} <= files
    tree = read_yaml(folder / "etc/mirrormesh/b.score.yaml")
    assert tree["nodes"]["b"]["score"]["private_endpoint"] == "127.0.0.1:9301"
    assert tree["brokers"]["data"]["username"] == "b.score"
    assert "small" not in tree["brokers"]["mesh"].get("username", "")
    text = dropin(folder, "mirrormesh-score@b")
    assert text.splitlines()[-2:] == [
        "User=mirrormesh-score-b",
        "EnvironmentFile=/etc/mirrormesh/b.score.env",
    ]
    readme = (folder / "README.md").read_text()
    assert "install -m 0600 b.score.env /etc/mirrormesh/b.score.env  # lines: DATA_PASSWORD=..." in readme
    assert "systemctl enable mirrormesh-score@b" in readme


def test_the_operator_gets_the_scheduler(exported):
    folder, files = exported("--mesh-operator")
    assert "etc/mirrormesh/scheduler.yaml" in files
    assert "--metrics 127.0.0.1:9100" in dropin(folder, "mirrormesh-scheduler")
    assert "small-scheduler" in (folder / "etc/mirrormesh/scheduler.yaml").read_text()
    assert not any("node@" in path for path in files)


def test_nodes_of_one_party_have_ports_of_their_own(exported):
    parties = "mesh:\n  parties: {one: {nodes: [c, a]}}\n"
    folder, _ = exported("--party", "one", of=SECURED.replace("mesh:\n", parties, 1))
    for node, port in (("c", 9101), ("a", 9103)):
        assert f"--metrics 127.0.0.1:{port}'" in dropin(folder, f"mirrormesh-node@{node}")
        tree = read_yaml(folder / f"etc/mirrormesh/{node}.yaml")
        assert tree["nodes"][node]["private_endpoint"] == f"127.0.0.1:{port + 1}"


@pytest.mark.parametrize(("node", "user"), [("b", "mirrormesh-b"), ("b" * 60, r"mirrormesh-[0-9a-f]{16}")])
def test_each_node_is_a_user_of_its_own_whatever_its_name(exported, node, user):
    text = re.sub(r"\bb\b", node, SECURED)
    folder, _ = exported("--party", node, of=text)
    (said,) = re.findall("^User=(.*)$", dropin(folder, f"mirrormesh-node@{node}"), re.MULTILINE)
    assert re.fullmatch(user, said)
    assert len(said) <= 31


def test_what_a_node_says_of_its_endpoint_and_its_liveness_holds(exported):
    folder, _ = exported("--party", "b", of=with_files(private_endpoint="192.0.2.1:7000", liveness=90))
    tree = read_yaml(folder / "etc/mirrormesh/b.yaml")
    assert tree["nodes"]["b"]["private_endpoint"] == "192.0.2.1:7000"
    assert "WatchdogSec=90s" in dropin(folder, "mirrormesh-node@b")
    assert "EnvironmentFile" not in dropin(folder, "mirrormesh-node@b")


def test_a_process_finds_its_secrets_where_the_unit_puts_them(exported, tmp_path):
    folder, _ = exported("--party", "b", of=with_files())
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    unit = (folder / "etc/systemd/system/mirrormesh-node@.service").read_text()
    for name, text in FILES.items():
        assert f"LoadCredential={name}:mirrormesh.%i.{name}\n" in unit
        (credentials / name).write_text(text)
    brokers = load(folder / "etc/mirrormesh/b.yaml", {"CREDENTIALS_DIRECTORY": str(credentials)}).brokers("b")
    assert [one.password.get_secret_value() for one in (brokers.mesh, brokers.data)] == list(FILES.values())


def test_variables_come_from_a_file_that_root_alone_reads(exported):
    folder, _ = exported("--party", "b")
    assert "EnvironmentFile=/etc/mirrormesh/b.env\n" in dropin(folder, "mirrormesh-node@b")
    lines = (folder / "README.md").read_text()
    assert (
        "install -m 0600 b.env /etc/mirrormesh/b.env  # lines: MESH_PASSWORD=..., DATA_PASSWORD=..." in lines
    )


def test_a_password_in_the_place_of_its_file_s_path_is_nowhere(exported):
    folder, files = exported("--party", "b", of=with_files().replace("secrets/data-password", "hunter2"))
    assert [path for path in files if "hunter2" in (folder / path).read_text()] == []
    assert "b.data-password  # a copy of brokers.data.password_file\n" in (folder / "README.md").read_text()


def test_the_commands_put_every_file_in_its_place(exported, tmp_path):
    need("install")
    folder, files = exported("--party", "b", of=with_files())
    for name, text in FILES.items():
        (folder / name).write_text(text)
    root = tmp_path / "root"
    installed(folder, root)
    for path in files:
        if path.startswith("etc/"):
            assert (root / path).read_text() == (folder / path).read_text()
    for name, text in FILES.items():
        put = root / f"etc/credstore/mirrormesh.b.{name}"
        assert (put.read_text(), put.stat().st_mode & 0o777, put.parent.stat().st_mode & 0o777) == (
            text,
            0o600,
            0o700,
        )


@pytest.mark.parametrize("side", [("--party", "b"), ("--mesh-operator",)])
def test_systemd_takes_the_units_and_would_find_a_mistake_in_a_dropin(exported, side):
    folder, files = exported(*side)
    units = folder / "etc/systemd/system"
    (unit,) = units.glob("*.service")
    unit.write_text(unit.read_text().replace(PROGRAM, sys.executable))
    name = unit.name.replace("@", "@b")
    assert systemd_analyze("verify", "--man=no", name, folder=units) == (0, "")
    (dropped,) = [folder / path for path in files if path.endswith("mesh.conf")]
    dropped.write_text(dropped.read_text().replace("Environment=", "Enviroment="))
    assert "Unknown key" in systemd_analyze("verify", "--man=no", name, folder=units)[1]


def test_its_unit_is_the_one_in_deploy(exported):
    folder, _ = exported("--mesh-operator")
    source = Path(__file__).parents[4] / "deploy/systemd/mirrormesh-scheduler.service"
    assert (folder / "etc/systemd/system" / source.name).read_text() == source.read_text()
