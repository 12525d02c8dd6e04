import pytest


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
