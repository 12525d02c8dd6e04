"""Finds out why a Kafka client gets no answer from an address: who listens there, if anybody."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress

from streams.bus.handshake import encrypted
from streams.mesh.settings.brokers import BrokerSettings

SILENT = "the broker does not answer"
_WAIT = 1.0
_VERSIONS, _METADATA = 18, 3  # keys of requests in Kafka's protocol
_MOST = 1 << 16
_TLS_ALERT = b"\x15\x03"


def listens(broker: BrokerSettings) -> bool:
    """Return whether one of the servers accepts a connection; takes a second each at most."""
    return any(_accepts(host, port) for host, port in _places(broker))


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _WAIT).close()
    except (OSError, OverflowError, ValueError):
        return False
    return True


def why_silent(broker: BrokerSettings) -> str:
    """Return a clause on the first server that accepts a connection; takes a few seconds at most.

    Raises Untrusted if the two refuse each other's certificates.
    """
    for host, port in _places(broker):
        with suppress(OSError, OverflowError, ValueError):
            return _who_listens(broker, host, port)
    return SILENT


def _places(broker: BrokerSettings) -> Iterator[tuple[str, int]]:
    for server in broker.servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if port.isdecimal():
            yield host.strip("[]"), int(port)


def _who_listens(broker: BrokerSettings, host: str, port: int) -> str:
    """Raise OSError if nobody does."""
    if broker.tls:
        with (
            suppress(OSError),
            socket.create_connection((host, port), _WAIT) as plain_socket,
            encrypted(plain_socket, broker, host) as connection,
        ):
            return _asked(connection, broker)[0] or SILENT
    with socket.create_connection((host, port), _WAIT) as plain_socket:
        refusal, answer = _asked(plain_socket, broker)
        if refusal is not None:
            security = "sasl" if broker.users else "plaintext"
            return f"does not speak TLS: must be security {security}" if broker.tls else refusal
    if answer.startswith(_TLS_ALERT):
        return f"speaks TLS: must be security {'sasl-tls' if broker.users else 'tls'}, with ca"
    with socket.create_connection((host, port), _WAIT) as plain_socket:
        plain_socket.sendall(b"GET / HTTP/1.0\r\n\r\n")
        if _received(plain_socket, 5) == b"HTTP/":
            return "speaks HTTP: it is no Kafka broker"
    return f"{SILENT}, but something listens there: is it a Kafka broker?"


def _asked(asked: socket.socket, broker: BrokerSettings) -> tuple[str | None, bytes]:
    """Return what is wrong if a Kafka broker answers, else None; and the first answer."""
    answer = _answer(asked, _VERSIONS, 0, b"")
    version = _version(answer)
    if version is None:
        return None, answer
    body = struct.pack(">i", 0) + (b"\0" if version >= 4 else b"")  # no topics; make none
    if broker.users or _answer(asked, _METADATA, version, body):
        return SILENT, answer
    return f"{SILENT} without credentials: username and password are missing", answer


def _answer(asked: socket.socket, key: int, version: int, body: bytes) -> bytes:
    """Send a request; return the answer, with its size, as far as it comes."""
    name = b"mirrormesh"
    request = struct.pack(f">hhih{len(name)}s", key, version, key, len(name), name) + body
    asked.sendall(struct.pack(">i", len(request)) + request)
    head = _received(asked, 4)
    size = int.from_bytes(head, "big")
    return head + _received(asked, size) if len(head) == 4 and size <= _MOST else head


def _received(asked: socket.socket, size: int) -> bytes:
    """Return so many bytes, or fewer if no more come in time: `_WAIT` is for all of them."""
    received, until = b"", time.monotonic() + _WAIT
    with suppress(OSError):
        while len(received) < size and (left := until - time.monotonic()) > 0:
            asked.settimeout(left)
            more = asked.recv(size - len(received))
            if not more:
                break
            received += more
    return received


def _version(answer: bytes) -> int | None:
    """Return the oldest version of a request for metadata that a Kafka broker's answer offers."""
    if len(answer) < 14 or struct.unpack_from(">ih", answer, 4) != (_VERSIONS, 0):
        return None
    for key, least, _ in struct.iter_unpack(">hhh", answer[14 : 14 + (len(answer) - 14) // 6 * 6]):
        if key == _METADATA:
            return int(least)
    return None
