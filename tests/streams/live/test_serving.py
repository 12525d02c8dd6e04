"""Where a node's owner is told that others can read what is private, and that nothing is served unasked."""

import logging
from contextlib import ExitStack
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from streams.live.node_process import NodeProcess
from streams.live.serving import Certificates, Endpoints
from streams.live.spend import NodeOptions
from streams.mesh.settings.brokers import BrokerSettings, BrokersSettings
from streams.runtime.process import ProcessStopped, Stop
from streams.runtime.runner import is_orderly
from tests.support.brokers.development import free_port, free_ports
from tests.support.meshes.files import changed, loaded
from tests.support.nodes.metrics import metrics, scraped


def served(shared, private):
    """The text of each that was asked for."""
    figures = metrics()
    log, plain = logging.getLogger("mirrormesh.node.a"), BrokerSettings(servers="127.0.0.1:1")
    brokers = BrokersSettings(mesh=plain, data=plain, trust_broker=True)
    with ExitStack() as closing:
        endpoints = Endpoints(shared, private, log, closing, stop=Stop(), is_over=is_orderly)
        endpoints.show({"a": figures}, lambda: None, Certificates(brokers, log))
        return [at and scraped("127.0.0.1", at[1]) for at in (shared, private)]


def test_private_metrics_are_served_where_they_are_asked_for_and_nowhere_else(monkeypatch):
    everyone, owner = served(*[("127.0.0.1", port) for port in free_ports(2)])
    assert "mirrormesh_regret" in owner
    assert "mirrormesh_regret" not in everyone
    opened = []
    monkeypatch.setattr("streams.live.serving.Endpoint", lambda *address: opened.append(address))
    with ExitStack() as closing:
        Endpoints(
            None, None, logging.getLogger("mirrormesh.node.a"), closing, stop=Stop(), is_over=is_orderly
        )
    assert not opened


def not_ready(port):
    """What `/readyz` says of a process that is not ready."""
    with pytest.raises(HTTPError) as raised:
        urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10)
    with raised.value as error:
        return error.read().decode()


def test_why_a_node_has_ended_goes_to_the_owner_alone():
    shared, private = [("127.0.0.1", port) for port in free_ports(2)]
    plain = BrokerSettings(servers="127.0.0.1:1")
    brokers = BrokersSettings(mesh=plain, data=plain, trust_broker=True)
    log, ends = logging.getLogger("mirrormesh.nodes"), {"b": "the journal /srv/b cannot be used"}
    with ExitStack() as closing:
        endpoints = Endpoints(shared, private, log, closing, stop=Stop(), is_over=is_orderly)
        endpoints.show({"a": metrics(), "b": metrics()}, lambda: None, Certificates(brokers, log), ends.get)
        told = [not_ready(port) for _, port in (shared, private)]
    assert "b: has ended" in told[0]
    assert "/srv" not in told[0]
    assert "b: the journal /srv/b cannot be used" in told[1]


def test_nothing_is_served_once_it_is_closed():
    at = ("127.0.0.1", free_port())
    served(None, at)
    with pytest.raises(URLError):
        scraped(*at)


@pytest.mark.parametrize(
    ("host", "warned"),
    [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True), ("", True)],  # noqa: S104 # it is the point
)
def test_private_metrics_that_others_reach_are_warned_of(caplog, host, warned):
    port, other = free_ports(2)
    with caplog.at_level(logging.INFO):
        served(None, (host, port))
        served((host, other), None)  # the shared ones are for all
    said = [f"private metrics tell about the data, and {host}:{port} is open to others"]
    assert [record.getMessage() for record in caplog.records] == said * warned


@pytest.mark.parametrize(
    ("host", "warned"),
    [("127.0.0.1", False), ("0.0.0.0", True)],  # noqa: S104 # it is the point
)
def test_pages_of_the_data_stream_that_others_reach_are_warned_of(tmp_path, caplog, host, warned):
    tree = changed()
    broker = {"servers": "127.0.0.1:1"}
    tree["brokers"] = {"mesh": broker, "data": broker, "trust_broker": True}
    process = NodeProcess(loaded(tmp_path, tree), ["a"], NodeOptions(tmp_path, web=(host, 6066)))
    with Stop() as stop:
        stop.asked.set()
        with pytest.raises(ProcessStopped):
            process.run(stop)
    said = [f"Faust's pages tell about the data, and {host}:6066 is open to others"]
    assert [
        record.getMessage() for record in caplog.records if "Faust" in record.getMessage()
    ] == said * warned
