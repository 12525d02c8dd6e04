import pytest

from streams.tools.broker.folder import Folder, ensure_certificates


@pytest.fixture(autouse=True)
def without_java(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("command", ["start", "stop", "status"])
def test_each_has_help_with_an_example(call, command):
    outcome = call("broker", command, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert f"\n    mirrormesh broker {command}" in outcome.out


def test_a_missing_program_is_one_line_and_exit_code_1(call):
    outcome = call("broker", "start")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("java is missing: install openjdk-17-jre-headless")
    assert outcome.err.count("\n") == 1


def test_a_mistake_is_one_line_and_exit_code_2(call, mesh):
    outcome = call("broker", "start", "--folder", mesh.parent)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"{mesh.parent}: holds other files: must be a broker's, empty, or not there yet\n"


@pytest.mark.parametrize("port", ["0", "64536", "x"])
def test_a_port_that_is_none(call, port):
    outcome = call("broker", "start", "--port", port)
    assert (outcome.code, outcome.out) == (2, "")
    assert "--port" in outcome.err


def test_there_is_nothing_to_stop(call):
    assert call("broker", "stop") == (0, "no broker was running\n", "")
    assert call("broker", "status").code == 1


def test_a_user_s_certificate_never_takes_the_ca_s_place(call, tmp_path):
    folder = Folder(tmp_path / "broker")
    folder.path.mkdir()
    ensure_certificates(folder)
    asked = ("broker", "certificate", "--folder", folder.path, "--output", tmp_path / "out")
    assert call(*asked, "ann").code == 0
    for name in ("ca", "CA"):
        code, out, err = call(*asked, name)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"{name}: is what the CA's own certificate is called")
    assert (tmp_path / "out" / "ca.crt").read_bytes() == folder.ca.read_bytes()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["ann.crt", "ann.key", "ca.crt"]
