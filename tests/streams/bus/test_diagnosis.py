"""Certificates near their end are named, with the setting that names them."""

import struct
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import inf
from socketserver import BaseRequestHandler, TCPServer
from threading import Thread
from urllib.request import urlopen

import pytest

from streams.bus.bus import Denied, Unreachable
from streams.bus.diagnosis import Expiry, why_silent
from streams.bus.logs import reach
from streams.mesh.settings.brokers import BrokerSettings
from streams.metrics.endpoint import Endpoint
from tests.support.brokers.certificates import Authority, tls_server
from tests.support.brokers.development import free_port
from tests.support.nodes.metrics import metrics


@pytest.fixture
def lasting(tmp_path):
    """What is said of a broker whose certificate lasts so many days."""
    authority = Authority(tmp_path)

    def made(days):
        certificate, key = authority.issue(user="ann", days=days)
        own = {"certificate": str(certificate), "key": str(key)}
        return Expiry({"brokers.mesh": BrokerSettings(servers="one:9093", ca=str(authority.ca), **own)})

    return made


def test_a_certificate_is_named_from_two_weeks_before_its_end_on(lasting):
    assert lasting(15).soon() is None
    ends = datetime.now(UTC) + timedelta(days=13)
    assert lasting(13).soon() == (
        f"brokers.mesh.certificate ends on {ends:%Y-%m-%d %H:%M} UTC: renew it and restart"
    )
    assert "brokers.mesh.certificate ended on" in lasting(-1).soon()
    assert abs(lasting(13).first - ends.timestamp()) < 60


def test_a_broker_without_certificates_has_no_end():
    none = Expiry({"brokers.mesh": BrokerSettings(servers="one:9092")})
    assert (none.first, none.soon()) == (inf, None)


def test_it_is_said_on_readyz_and_takes_nobody_out_of_service(lasting):
    port, expiry = free_port(), lasting(3)
    with Endpoint("127.0.0.1", port) as endpoint:
        endpoint.show(metrics(ends=(expiry.first, inf)).shared, lambda: None, noted=expiry.soon)
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            first, second = answer.read().decode().splitlines()
        assert (answer.status, first) == (200, "ready")
        assert second.startswith("brokers.mesh.certificate ends on ")
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert "mirrormesh_certificate_end_timestamp_seconds{mesh=" in answer.read().decode()


# Why a broker and a client refuse each other's certificates: each cause is one line that names it


TOMORROW = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("theirs"), "theirs")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr("streams.bus.logs.PATIENCE", 0.3)


def said(port, authority, pair=None, **settings):
    """What is said of the server by a client with that CA and certificate."""
    own = {} if pair is None else {"certificate": str(pair.certificate), "key": str(pair.key)}
    servers = f"127.0.0.1:{port}"
    broker = BrokerSettings(servers=servers, ca=str(authority.ca), **own, **settings)
    with pytest.raises((Denied, Unreachable)) as raised:
        reach(broker)
    line = str(raised.value)
    assert line.startswith(f"{servers}: ")
    assert "\n" not in line
    return type(raised.value), line.removeprefix(f"{servers}: ")


def test_the_brokers_certificate_has_ended(ours):
    with tls_server(ours.issue("127.0.0.1", days=-1)) as port:
        kind, line = said(port, ours)
    ended = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    assert kind is Denied
    assert line.startswith(f"the broker's certificate ended on {ended}")
    assert "must be renewed, or is this machine's clock wrong? It says 2" in line


def test_the_brokers_certificate_begins_later_as_by_a_clock_that_is_behind(ours):
    with tls_server(ours.issue("127.0.0.1", begins=TOMORROW)) as port:
        kind, line = said(port, ours)
    assert kind is Denied
    assert line.startswith(f"the broker's certificate begins on {TOMORROW:%Y-%m-%d %H:%M} UTC: is it the rig")
    assert "is this machine's clock wrong?" in line


def test_the_brokers_certificate_is_of_another_ca(ours, theirs):
    with tls_server(theirs.issue("127.0.0.1")) as port:
        kind, line = said(port, ours)
    assert kind is Denied
    assert line.startswith(f"the broker's certificate is not from a CA in {ours.ca} but from OU=")
    assert "O=theirs" in line


def test_the_brokers_certificate_names_another_host(ours):
    with tls_server(ours.issue("kafka.example", "10.0.0.1")) as port:
        refused = said(port, ours)
        unverified = said(port, ours, verify_host_name=False)
    names = (
        "the broker's certificate names kafka.example, 10.0.0.1, not 127.0.0.1: servers must have its name"
    )
    assert refused == (Denied, names)
    assert unverified[0] is Unreachable  # it shakes hands, and is no Kafka broker


def test_the_broker_demands_a_certificate(ours):
    with tls_server(ours.issue("127.0.0.1"), ours.ca) as port:
        assert said(port, ours) == (Denied, "demands a certificate: certificate and key are missing")


def test_the_own_certificate_has_ended_or_begins_later(ours):
    for times, words in (({"days": -1}, "ended on 2"), ({"begins": TOMORROW}, "begins on 2")):
        own = ours.issue(user="ann", **times)
        kind, line = said(1, ours, own)  # nobody needs to be asked
        assert kind is Denied
        assert line.startswith(f"the own certificate {own.certificate} {words}")
        assert "this machine's clock" in line


@pytest.mark.parametrize(
    ("times", "alert"), [({"days": -1}, "certificate expired"), ({"begins": TOMORROW}, "bad certificate")]
)
def test_the_own_certificate_is_refused_by_the_brokers_clock(ours, monkeypatch, times, alert):
    monkeypatch.setattr("streams.bus.logs.check_own", lambda _: None)  # by the own clock it is right
    own = ours.issue(user="ann", **times)
    with tls_server(ours.issue("127.0.0.1"), ours.ca) as port:
        kind, line = said(port, ours, own)
    assert kind is Denied
    assert line == (
        f"refuses the own certificate {own.certificate} ({alert}): is it from a CA that the broker trusts, "
        "and is the broker's clock right?"
    )


def test_the_own_certificate_is_of_another_ca(ours, theirs):
    own = theirs.issue(user="ann")
    with tls_server(ours.issue("127.0.0.1"), ours.ca) as port:
        kind, line = said(port, ours, own)
    assert kind is Denied
    assert line.startswith(
        f"refuses the own certificate {own.certificate} (unknown ca): is it from a CA that"
    )


def test_an_unverified_host_name_is_loud(ours, caplog):
    for _ in range(2):
        with pytest.raises(Unreachable):
            reach(BrokerSettings(servers="127.0.0.1:2", ca=str(ours.ca), verify_host_name=False))
    warned = [record.getMessage() for record in caplog.records if "verify_host_name" in record.getMessage()]
    assert warned == [
        "verify_host_name is false: anyone with a certificate of the CA can pose as 127.0.0.1:2"
    ]


# Addresses where something listens that is not the broker one hopes for


SILENT = "the broker does not answer"


@contextmanager
def listening(server):
    """Serve; yield the address."""
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Quiet(BaseHTTPRequestHandler):
    """A web server."""

    def log_message(self, *_):
        """Say nothing."""


class Broker(BaseRequestHandler):
    """Offers metadata from version 1 on; `answers` it, or hangs up as on one that has not logged in."""

    answers = False

    def handle(self):
        self.asked(18)
        versions = struct.pack(">ihihhhhhh", 18, 0, 2, 0, 0, 9, 3, 1, 12)
        self.request.sendall(struct.pack(">i", len(versions)) + versions)
        self.asked(3)
        if self.answers:
            self.request.sendall(struct.pack(">ii", 4, 3))

    def asked(self, key):
        """Read a request of that kind."""
        (size,) = struct.unpack(">i", self.request.recv(4))
        found = self.request.recv(size)
        assert struct.unpack_from(">hh", found) == (key, int(key == 3))


class Says(BaseRequestHandler):
    """Answers anything with `text`."""

    text = b""

    def handle(self):
        self.request.recv(1024)
        self.request.sendall(self.text)


class Trickles(BaseRequestHandler):
    """Announces an answer of 64 KiB, and sends it a byte at a time, more often than any read gives up."""

    def handle(self):
        with suppress(OSError):  # who waits for the end hangs up
            self.request.sendall(struct.pack(">i", 1 << 16))
            while True:
                self.request.sendall(b"\0")
                time.sleep(0.01)


def silent(handler, server=TCPServer, settings=None, **more):
    kind = type("Handler", (handler,), more)
    with listening(server(("127.0.0.1", 0), kind)) as address:
        return why_silent(BrokerSettings(servers=address, **(settings or {})))


def test_who_listens_is_said():
    assert silent(Quiet, HTTPServer) == "speaks HTTP: it is no Kafka broker"
    assert silent(Broker) == f"{SILENT} without credentials: username and password are missing"
    assert silent(Broker, answers=True) == SILENT
    alert = b"\x15\x03\x03\x00\x02\x02\x50"
    assert silent(Says, text=alert) == "speaks TLS: must be security tls, with ca"
    user = {"username": "ann", "password": "hers"}
    assert silent(Says, text=alert, settings=user) == "speaks TLS: must be security sasl-tls, with ca"
    assert silent(Broker, settings={"security": "tls"}) == "does not speak TLS: must be security plaintext"
    assert (
        silent(Broker, settings={"security": "sasl-tls", **user})
        == "does not speak TLS: must be security sasl"
    )
    assert silent(Trickles).endswith("something listens there: is it a Kafka broker?")
    other = f"{SILENT}, but something listens there: is it a Kafka broker?"
    assert silent(Says) == silent(Says, text=b"220 mail\r\n") == other


@pytest.mark.parametrize("servers", ["127.0.0.1:1", "127.0.0.1", "127.0.0.1:99999999", "nowhere"])
def test_where_nobody_listens_nothing_more_is_known(servers):
    assert why_silent(BrokerSettings(servers=servers)) == SILENT
