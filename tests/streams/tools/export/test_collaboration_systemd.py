"""Units for a collaboration's parties: what each gets, that systemd takes it, that its process loads it."""

import shlex
import sys

import pytest

from streams.collaboration.file import load_collaboration
from tests.support.processes.in_process import Commands
from tests.support.processes.programs import need, systemd_analyze
from tests.support.published.exports import installed, star_file

PROGRAM = "/opt/mirrormesh/bin/mirrormesh"


@pytest.fixture
def exported(tmp_path, capsys):
    """`exported("bank-a", wrong=by)`: a party's export, and its files."""

    def run(name, **changes):
        path = star_file(tmp_path)
        for wrong, by in changes.values():
            path.write_text(path.read_text().replace(wrong, by))
        done = Commands(capsys)("export", "systemd", path, "--output", tmp_path / "out", "--party", name)
        assert done.code == 0, done.err
        folder = tmp_path / "out"
        return folder, {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}

    return run


def test_a_set_s_name_is_one_word_of_the_shell(exported):
    folder, _ = exported("bank-a", wrong=("bank-a.csv.gz", "bank a; $(id).csv.gz"))
    (line,) = [one for one in (folder / "README.md").read_text().splitlines() if "# the set" in one]
    words = shlex.split(line, comments=True)
    assert words[-2] == "bank a; $(id).csv.gz"
    assert words[-1].endswith("/bank a; $(id).csv.gz")


def dropin(folder, service):
    return (folder / f"etc/systemd/system/mirrormesh-{service}.service.d/mesh.conf").read_text()


@pytest.mark.parametrize(("kind", "name"), [("owner", "bank-a"), ("owner", "bank-t"), ("learner", "analyst")])
def test_a_party_gets_its_own_service_and_nothing_of_others(exported, kind, name):
    folder, files = exported(name)
    assert files == {
        "README.md",
        "exported.txt",
        f"etc/mirrormesh/{name}.yaml",
        f"etc/systemd/system/mirrormesh-{kind}@.service",
        f"etc/systemd/system/mirrormesh-{kind}@{name}.service.d/mesh.conf",
    }
    assert f"User=mirrormesh-{name}\n" in dropin(folder, f"{kind}@{name}")
    text = (folder / f"etc/mirrormesh/{name}.yaml").read_text()
    others = {"analyst", "bank-a", "bank-b", "bank-t"} - {name}
    assert f"username: {name}\n" in text
    assert not [other for other in others if f"username: {other}\n" in text or f"{other}.csv" in text]
    assert ("bank-t.example" in text) == (name == "bank-t")


def test_the_processes_load_what_they_get(exported, monkeypatch):
    for variable in ("MESH_PASSWORD", "DATA_PASSWORD"):
        monkeypatch.setenv(variable, "known")
    digests = set()
    for name in ("bank-a", "bank-t", "analyst"):
        folder, _ = exported(name)
        file = load_collaboration(folder / f"etc/mirrormesh/{name}.yaml")
        assert file.mesh_broker.username == name
        assert list(file.owners) == ([] if name == "analyst" else [name])
        digests.add(file.digest())
        if name == "bank-a":
            assert file.own(name).source.path == "/run/mirrormesh/set/bank-a.csv.gz"
            assert file.own(name).brokers is None
            assert file.common.data is None
        if name == "bank-t":
            assert file.brokers(name).data.username == "bank-t"
            assert file.own(name).private_endpoint == ("127.0.0.1", 9102)
    assert len(digests) == 1


def test_a_set_is_seen_by_its_owner_s_service_alone(exported):
    folder, _ = exported("bank-a")
    said = dropin(folder, "owner@bank-a")
    assert "BindReadOnlyPaths=/srv/mirrormesh/bank-a:/run/mirrormesh/set\n" in said
    lines = (folder / "README.md").read_text()
    assert "install -d -m 0700 /srv/mirrormesh\n" in lines
    for name, service in (("bank-t", "owner@bank-t"), ("analyst", "learner@analyst")):
        folder, _ = exported(name)
        assert "Bind" not in dropin(folder, service)
        assert "/srv/" not in (folder / "README.md").read_text()


def test_the_commands_put_every_file_in_its_place(exported, tmp_path):
    need("install")
    folder, files = exported(
        "bank-a", secret=(' password: "${MESH_PASSWORD}"', " password_file: secrets/word")
    )
    for name in ("mesh-password", "bank-a.csv.gz"):
        (folder / name).write_text(name)
    root = tmp_path / "root"
    installed(folder, root)
    for path in files:
        if path.startswith("etc/"):
            assert (root / path).read_text() == (folder / path).read_text()
    modes = {
        "srv/mirrormesh": 0o700,
        "srv/mirrormesh/bank-a": 0o755,
        "srv/mirrormesh/bank-a/bank-a.csv.gz": 0o644,
        "etc/credstore/mirrormesh.bank-a.mesh-password": 0o600,
    }
    assert {path: (root / path).stat().st_mode & 0o777 for path in modes} == modes


def test_what_an_owner_says_of_its_liveness_holds(exported):
    folder, _ = exported("bank-a", own=("    brokers: {mesh", "    liveness: 90\n    brokers: {mesh"))
    assert "WatchdogSec=90s" in dropin(folder, "owner@bank-a")


@pytest.mark.parametrize("name", ["bank-a", "analyst"])
def test_systemd_takes_the_units_and_would_find_a_mistake_in_a_dropin(exported, name):
    folder, files = exported(name)
    units = folder / "etc/systemd/system"
    (unit,) = units.glob("*.service")
    unit.write_text(unit.read_text().replace(PROGRAM, sys.executable))
    started = unit.name.replace("@", f"@{name}")
    assert systemd_analyze("verify", "--man=no", started, folder=units) == (0, "")
    (dropped,) = [folder / path for path in files if path.endswith("mesh.conf")]
    dropped.write_text(dropped.read_text().replace("User=", "Usr="))
    assert "Unknown key" in systemd_analyze("verify", "--man=no", started, folder=units)[1]


@pytest.mark.parametrize(
    ("side", "said"),
    [
        (("--party", "bank-aa"), "--party bank-aa: must be one of analyst, bank-a, bank-b, bank-t"),
        (("--mesh-operator",), "--mesh-operator: a collaboration has no scheduler: must be --party"),
    ],
)
def test_who_is_nobody_in_it_is_one_line(tmp_path, capsys, side, said):
    path = star_file(tmp_path)
    code, out, err = Commands(capsys)("export", "systemd", path, "--output", tmp_path / "out", *side)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(said)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("wrong", "by", "party", "said"),
    [
        ("path: sets/bank-a.csv.gz, ", "", "bank-a", "owners.bank-a.brokers.data: missing: must be given"),
        ("sets/bank-a.csv.gz", '"${NOWHERE}"', "bank-a", "owners.bank-a.source.path"),
        (
            '"${MESH_PASSWORD}"',
            "hunter2",
            "bank-b",
            "owners.bank-a.brokers.mesh.password: (hidden): must be $",
        ),
    ],
)
def test_what_an_owner_lacks_is_named(tmp_path, capsys, wrong, by, party, said):
    path = star_file(tmp_path)
    path.write_text(path.read_text().replace(wrong, by))
    code, out, err = Commands(capsys)(
        "export", "systemd", path, "--output", tmp_path / "out", "--party", party
    )
    assert (code, out) == (2, "")
    assert said in err
    assert "hunter2" not in err
