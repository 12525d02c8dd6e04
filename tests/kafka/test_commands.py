import pytest

from streams.tools.broker.broker import stop
from tests.support.brokers.development import free_port
from tests.support.processes.in_process import Commands

pytestmark = pytest.mark.kafka


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Commands(capsys)


@pytest.mark.usefixtures("broker")  # left out where there is no Java
def test_start_status_stop(call, tmp_path):
    folder, port = tmp_path / "state" / "mirrormesh" / "broker", free_port()
    try:
        assert call("broker", "status") == (1, f"not running; none was ever started in {folder}\n", "")
        outcome = call("broker", "start", "--port", port)
        assert (outcome.code, outcome.err) == (0, "")
        first, *rest = outcome.out.splitlines()
        assert first.startswith(f"running at 127.0.0.1:{port}, process ")
        assert rest == [
            "access  plain: every process of this machine",
            f"folder  {folder}",
            f"log     {folder / 'broker.log'}",
        ]
        assert call("broker", "status") == outcome
        assert call("broker", "start") == outcome
        refused = call("broker", "start", "--secure")
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert call("broker", "stop") == (0, "stopped\n", "")
        assert call("broker", "stop", "--folder", folder) == (0, "no broker was running\n", "")
        code, out, _ = call("broker", "status")
        assert (code, out.splitlines()) == (1, [f"not running (127.0.0.1:{port})", *rest])
    finally:
        stop(folder)
