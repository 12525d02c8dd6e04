"""Addresses where something listens that is not the broker one hopes for."""

import struct
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import BaseRequestHandler, TCPServer
from threading import Thread

import pytest

from streams.bus.diagnosis import why_silent
from streams.mesh.settings.brokers import BrokerSettings

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


def said(handler, server=TCPServer, settings=None, **more):
    kind = type("Handler", (handler,), more)
    with listening(server(("127.0.0.1", 0), kind)) as address:
        return why_silent(BrokerSettings(servers=address, **(settings or {})))


def test_who_listens_is_said():
    assert said(Quiet, HTTPServer) == "speaks HTTP: it is no Kafka broker"
    assert said(Broker) == f"{SILENT} without credentials: username and password are missing"
    assert said(Broker, answers=True) == SILENT
    alert = b"\x15\x03\x03\x00\x02\x02\x50"
    assert said(Says, text=alert) == "speaks TLS: must be security tls, with ca"
    user = {"username": "ann", "password": "hers"}
    assert said(Says, text=alert, settings=user) == "speaks TLS: must be security sasl-tls, with ca"
    assert said(Broker, settings={"security": "tls"}) == "does not speak TLS: must be security plaintext"
    assert (
        said(Broker, settings={"security": "sasl-tls", **user}) == "does not speak TLS: must be security sasl"
    )
    assert said(Trickles).endswith("something listens there: is it a Kafka broker?")
    other = f"{SILENT}, but something listens there: is it a Kafka broker?"
    assert said(Says) == said(Says, text=b"220 mail\r\n") == other


@pytest.mark.parametrize("servers", ["127.0.0.1:1", "127.0.0.1", "127.0.0.1:99999999", "nowhere"])
def test_where_nobody_listens_nothing_more_is_known(servers):
    assert why_silent(BrokerSettings(servers=servers)) == SILENT
