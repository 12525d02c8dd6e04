"""Says why a broker and a client refuse each other's certificates, which Kafka's clients do not tell."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from streams.bus.connection import tls_context
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.pem import lifetime

if TYPE_CHECKING:
    from cryptography import x509

_ALERT = 0.5
"""Seconds for the broker's verdict on the own certificate, which comes after the handshake."""
# X509_V_ERR_... of OpenSSL's x509_vfy.h
_NOT_YET, _ENDED, _OTHER_HOST, _OTHER_ADDRESS = 9, 10, 62, 64


class Untrusted(Exception):
    """One of the two refuses the other's certificate; the text is a clause."""


def check_own(broker: BrokerSettings, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
    """Raise Untrusted if the own certificate has ended, or begins later."""
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
    """Wait for the broker's verdict; silence is consent."""
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
    """Return the certificate that a broker shows, unverified: nothing is said to it."""
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
