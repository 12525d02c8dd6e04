import os

import pytest
import typer
from rich.console import Console

from streams.cli.up import up
from streams.mesh.errors import UsageError
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.process import Stop
from streams.tools.broker.broker import take
from streams.tools.up.brokers import startable
from streams.tools.up.programs import Options
from streams.tools.up.up import run_up
from tests.support.brokers.development import free_port
from tests.support.meshes.files import changed, loaded, written


def with_broker(servers):
    tree = changed()
    tree["brokers"] = {side: {"servers": servers} for side in ("mesh", "data")} | {"trust_broker": True}
    return tree


@pytest.mark.parametrize(
    ("servers", "port"),
    [
        ("127.0.0.1:19092", 19092),
        ("localhost:19092", 19092),
        (" 127.0.0.1:1 ", 1),
        ("127.0.0.1:64535", 64535),
        ("127.0.0.1:64536", None),  # its controller's would be 65536
        ("127.0.0.1:0", None),
        ("127.0.0.1", None),
        ("127.0.0.2:19092", None),
        ("broker.example.org:19092", None),
        ("127.0.0.1:19092,127.0.0.1:19093", None),
    ],
)
def test_which_addresses_a_development_broker_can_have(servers, port):
    assert startable(BrokerSettings(servers=servers)) == port


def test_a_broker_with_users_is_somebody_elses():
    theirs = BrokerSettings(servers="127.0.0.1:19092", username="a", password="b")  # noqa: S106 # of nobody
    assert startable(theirs) is None


def test_a_broker_elsewhere_that_does_not_answer_is_an_error(tmp_path, capsys):
    servers = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    path = written(tmp_path, with_broker(servers))
    with pytest.raises(typer.Exit) as ended:
        up(path, state=tmp_path / "state")
    assert ended.value.exit_code == 1
    said = f"{servers}: the broker does not answer, and it cannot be started here: "
    assert capsys.readouterr().err == f"{said}only one without password at 127.0.0.1:PORT can\n"
    assert not list((tmp_path / "state").glob("broker*"))


def test_one_state_folder_one_up(tmp_path):
    file = loaded(tmp_path, with_broker("127.0.0.1:1"))
    lock = take(tmp_path / "up.lock")
    try:
        with Stop() as stop, pytest.raises(UsageError, match="another mirrormesh up runs there"):
            run_up(file, Options(tmp_path), Console(quiet=True), stop, plain=True)
    finally:
        os.close(lock)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_is_none(tmp_path, rate):
    with pytest.raises(UsageError, match=r"--rate is .*: must be a number above 0"):
        up(written(tmp_path, changed()), rate=rate)
