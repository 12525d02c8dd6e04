"""Finds why a broker and a client refuse each other's certificates, which Kafka's clients do not report."""

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TYPE_CHECKING

from streams.bus.connection import tls_context
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.keys import certificates, lifetime

if TYPE_CHECKING:
    from cryptography import x509

_ALERT = 0.5
"""Seconds to wait for a broker's alert about the own certificate, which comes after the handshake."""
# X509_V_ERR_... of OpenSSL's x509_vfy.h
_NOT_YET, _ENDED, _OTHER_HOST, _OTHER_ADDRESS = 9, 10, 62, 64


class Untrusted(Exception):
    """The broker or the client refuses the other's certificate; the text is a clause."""


def check_own(broker: BrokerSettings, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
    """Raise Untrusted if the own certificate has expired or is not valid yet."""
    if broker.certificate is not None:
        begins, ends = lifetime(broker.certificate)
        words = _wrong_time(begins, ends, now())
        if words is not None:
            raise Untrusted(f"the own certificate {broker.certificate} {words}")


@contextmanager
def encrypted(asked: socket.socket, broker: BrokerSettings, host: str) -> Iterator[ssl.SSLSocket]:
    """Encrypt the connection. Raises Untrusted, OSError."""
    context = tls_context(broker)
    if context is None:
        raise ValueError(f"security {broker.security} has no TLS")
    address = asked.getpeername()
    try:
        tls_socket = context.wrap_socket(asked, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise Untrusted(_why(error, broker, _shown(address), host)) from None
    except ssl.SSLError as error:
        raise _refused(error, broker) or error from None
    with tls_socket:
        _hear(tls_socket, broker)
        yield tls_socket


def _hear(connection: ssl.SSLSocket, broker: BrokerSettings) -> None:
    """Wait for an alert of the broker. If none comes in time, the certificate counts as accepted."""
    patience = connection.gettimeout()
    connection.settimeout(_ALERT)
    try:
        connection.recv(1)
    except TimeoutError:
        connection.settimeout(patience)
    except ssl.SSLError as error:
        raise _refused(error, broker) or error from None


def _refused(error: ssl.SSLError, broker: BrokerSettings) -> Untrusted | None:
    """Return what an alert of the broker means, if it is about certificates."""
    alert = (error.reason or "").lower().replace("_", " ").rpartition("alert ")[2]
    if broker.certificate is None:
        demanded = "certificate" in alert or "handshake failure" in alert
        return Untrusted("demands a certificate: certificate and key are missing") if demanded else None
    if "certificate" not in alert and "unknown ca" not in alert:
        return None
    question = "is it from a CA that the broker trusts, and is the broker's clock right?"
    return Untrusted(f"refuses the own certificate {broker.certificate} ({alert}): {question}")


def _why(
    error: ssl.SSLCertVerificationError, broker: BrokerSettings, shown: "x509.Certificate | None", host: str
) -> str:
    """Return why the client refuses the broker's certificate."""
    code, now = error.verify_code, datetime.now(UTC)
    if shown is not None and code in {_OTHER_HOST, _OTHER_ADDRESS}:
        return f"the broker's certificate names {_names(shown)}, not {host}: servers must have its name"
    if shown is not None and code in {_NOT_YET, _ENDED}:
        words = _wrong_time(shown.not_valid_before_utc, shown.not_valid_after_utc, now)
        return (
            f"the broker's certificate {words}" if words else f"the CA's certificate: {error.verify_message}"
        )
    if code in {_NOT_YET, _ENDED, _OTHER_HOST, _OTHER_ADDRESS}:
        return f"the broker's certificate is refused: {error.verify_message}"
    issuer = "" if shown is None else f" but from {shown.issuer.rfc4514_string()}"
    store = broker.ca or "the system's certificates"
    return f"the broker's certificate is not from a CA in {store}{issuer} ({error.verify_message})"


def _wrong_time(begins: datetime, ends: datetime, now: datetime) -> str | None:
    clock = f"or is this machine's clock wrong? It says {now:%Y-%m-%d %H:%M} UTC"
    if now >= ends:
        return f"ended on {ends:%Y-%m-%d %H:%M} UTC: it must be renewed, {clock}"
    if now < begins:
        return f"begins on {begins:%Y-%m-%d %H:%M} UTC: is it the right one, {clock}"
    return None


def _names(shown: "x509.Certificate") -> str:
    from cryptography import x509  # noqa: PLC0415 # loaded for TLS alone

    try:
        alternative_names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return "no host"
    return ", ".join(str(name.value) for name in alternative_names) or "no host"


def _shown(address: tuple[str, int]) -> "x509.Certificate | None":
    """Return the certificate that a broker shows, unverified. Nothing is sent after the handshake."""
    from cryptography import x509  # noqa: PLC0415 # as above

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection(address[:2], _ALERT) as plain_socket,
            context.wrap_socket(plain_socket) as connection,
        ):
            certificate = connection.getpeercert(binary_form=True)
        return None if certificate is None else x509.load_der_x509_certificate(certificate)
    except (OSError, ValueError):
        return None


# Finds out why a Kafka client gets no answer from an address: which server listens there, if any.

SILENT = "the broker does not answer"
_WAIT = 1.0
_VERSIONS, _METADATA = 18, 3  # keys of requests in Kafka's protocol
_MOST = 1 << 16
_TLS_ALERT = b"\x15\x03"


def listens(broker: BrokerSettings) -> bool:
    """Return whether one of the servers accepts a connection. It waits at most a second for each."""
    return any(_accepts(host, port) for host, port in _places(broker))


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _WAIT).close()
    except (OSError, OverflowError, ValueError):
        return False
    return True


def why_silent(broker: BrokerSettings) -> str:
    """Return a clause on the first server that accepts a connection, within a few seconds.

    Raises Untrusted if the server and the client refuse each other's certificates.
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
    """Return a clause on the server at this address. Raises OSError if none accepts a connection."""
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
    """Return a clause that names the problem (None if no Kafka broker answers), and the first answer."""
    answer = _answer(asked, _VERSIONS, 0, b"")
    version = _version(answer)
    if version is None:
        return None, answer
    body = struct.pack(">i", 0) + (b"\0" if version >= 4 else b"")  # an empty list of topics; create none
    if broker.users or _answer(asked, _METADATA, version, body):
        return SILENT, answer
    return f"{SILENT} without credentials: username and password are missing", answer


def _answer(asked: socket.socket, key: int, version: int, body: bytes) -> bytes:
    """Send a request. Return the answer with its size prefix; it is cut where no more bytes came in time."""
    name = b"mirrormesh"
    request = struct.pack(f">hhih{len(name)}s", key, version, key, len(name), name) + body
    asked.sendall(struct.pack(">i", len(request)) + request)
    head = _received(asked, 4)
    size = int.from_bytes(head, "big")
    return head + _received(asked, size) if len(head) == 4 and size <= _MOST else head


def _received(asked: socket.socket, size: int) -> bytes:
    """Return `size` bytes, or fewer if no more come in time. `_WAIT` is the time for all of them."""
    received, until = b"", time.monotonic() + _WAIT
    with suppress(OSError):
        while len(received) < size and (seconds_left := until - time.monotonic()) > 0:
            asked.settimeout(seconds_left)
            chunk = asked.recv(size - len(received))
            if not chunk:
                break
            received += chunk
    return received


def _version(answer: bytes) -> int | None:
    """Return the oldest version of a request for metadata that a Kafka broker's answer offers."""
    if len(answer) < 14 or struct.unpack_from(">ih", answer, 4) != (_VERSIONS, 0):
        return None
    for key, least, _ in struct.iter_unpack(">hhh", answer[14 : 14 + (len(answer) - 14) // 6 * 6]):
        if key == _METADATA:
            return int(least)
    return None


# Reports when a process's certificates expire; warns two weeks ahead.
#
# The certificates are read once, when the process starts, because the clients also read them only then.

SOON = timedelta(days=14)


class Expiry:
    """When the certificates in some brokers' settings expire. `brokers`: by the name of their setting.

    Of a file of CAs the last certificate to expire counts. Of the own certificate and those between it and
    its CA the first to expire counts.
    """

    def __init__(self, brokers: Mapping[str, BrokerSettings]) -> None:
        self._ends: dict[str, datetime] = {}
        for name, broker in brokers.items():
            if broker.ca is not None:
                self._ends[f"{name}.ca"] = max(_ends(broker.ca))
            if broker.certificate is not None:
                self._ends[f"{name}.certificate"] = min(_ends(broker.certificate))

    @property
    def first(self) -> float:
        """When the first of the certificates expires, in seconds since 1970; +Inf: there is none."""
        return min((end.timestamp() for end in self._ends.values()), default=inf)

    def soon(self) -> str | None:
        """Return a sentence on the certificates that expire within two weeks; None if none does."""
        now = datetime.now(UTC)
        near = {name: end for name, end in self._ends.items() if end < now + SOON}
        lines = [
            f"{name} {'ends' if end > now else 'ended'} on {end:%Y-%m-%d %H:%M} UTC"
            for name, end in near.items()
        ]
        return f"{', '.join(lines)}: renew it and restart" if lines else None


def _ends(path: str) -> list[datetime]:
    return [certificate.not_valid_after_utc for certificate in certificates(path)]
