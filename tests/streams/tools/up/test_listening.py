"""MetricsPorts that cannot be had are told before anything is started."""

import socket

import pytest

from streams.cli.up import up
from streams.mesh.errors import UsageError
from streams.tools.up import services
from streams.tools.up.programs import MetricsPorts, Observing
from streams.tools.up.services import check_ports
from tests.support.brokers.development import free_ports
from tests.support.meshes.files import changed, loaded


@pytest.fixture
def ports(monkeypatch):
    """Free ones: the scheduler's, node a's shared and private one, Prometheus's, Grafana's (it is here)."""
    monkeypatch.setattr(services, "grafana", lambda: ("grafana",))
    return free_ports(5)


@pytest.fixture
def file(tmp_path):
    """A mesh whose broker would be started at 18590, with its controller at 19590."""
    tree = changed(nodes=["a", "b", "c"])
    tree["nodes"] = {"a": {"source": {"kind": "localisation"}}}
    servers = {"servers": "127.0.0.1:18590"}
    tree["brokers"] = {"mesh": servers, "data": servers, "trust_broker": True}
    return loaded(tmp_path, tree)


def served(ports):
    return MetricsPorts(ports[0], {"a": ports[1]}, {"a": ports[2]})


OPTIONS = dict(enumerate(["--metrics-from"] * 3 + ["--prometheus-port", "--grafana-port"]))


@pytest.mark.parametrize("at", OPTIONS)
def test_a_port_in_use_is_one_line(file, ports, at):
    check_ports(file, served(ports), Observing(*ports[3:]))
    told = f"^{OPTIONS[at]}: 127.0.0.1:{ports[at]} is not available: Address already in use$"
    with socket.create_server(("127.0.0.1", ports[at])), pytest.raises(UsageError, match=told):
        check_ports(file, served(ports), Observing(*ports[3:]))


def test_ports_of_metrics_are_looked_at_when_nobody_observes_them_too(file, ports):
    check_ports(file, None, None)
    with socket.create_server(("127.0.0.1", ports[2])), pytest.raises(UsageError, match="is not available"):
        check_ports(file, served(ports), None)


def test_it_is_told_before_anything_is_started(file, ports, tmp_path):
    told = "--metrics-from: 127.0.0.1:.* is not available"
    with socket.create_server(("127.0.0.1", ports[1])), pytest.raises(UsageError, match=told):
        up(file.path, state=tmp_path / "state", metrics_from=ports[1] - 1)
    assert not list((tmp_path / "state").iterdir())


@pytest.mark.parametrize("at", [3, 4])
@pytest.mark.parametrize("port", [-1, 0, 65_536])
def test_a_port_that_is_none(file, ports, port, at):
    ports[at] = port
    with pytest.raises(UsageError, match=rf"{OPTIONS[at]} {port}: must be from 1 to 65535"):
        check_ports(file, served(ports), Observing(*ports[3:]))


def test_a_port_is_taken_once(file, ports):
    with pytest.raises(
        UsageError, match=rf"^--prometheus-port: port {ports[1]} is taken by --metrics-from: "
    ):
        check_ports(file, served(ports), Observing(ports[1], ports[4]))
    with pytest.raises(
        UsageError, match=rf"^--grafana-port: port {ports[3]} is taken by --prometheus-port: "
    ):
        check_ports(file, served(ports), Observing(ports[3], ports[3]))


@pytest.mark.parametrize(
    ("port", "owner"), [(18_590, "the broker"), (19_590, "the controller of the broker")]
)
def test_a_port_of_a_broker_that_is_not_started_yet_is_taken(file, ports, port, owner):
    told = rf"^--metrics-from: port {port} is taken by {owner} 127\.0\.0\.1:18590: must be another$"
    with pytest.raises(UsageError, match=told):
        check_ports(file, served([port, *ports[1:]]), None)


def test_a_grafana_that_is_not_here_needs_no_port(file, ports, monkeypatch):
    monkeypatch.setattr(services, "grafana", lambda: None)
    with socket.create_server(("127.0.0.1", ports[4])):
        check_ports(file, served(ports), Observing(*ports[3:]))
