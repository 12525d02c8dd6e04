"""Certificates and keys of tests' own, and a server that shows one."""

import socket
import ssl
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from threading import Thread

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from streams.tools.broker.folder import Pair, issued

DAY = 86_400


class Authority:
    """A CA, made anew or that of `made`; it writes what it issues into `folder`."""

    def __init__(self, folder, name="ca", made=None):
        self.folder, self._ca = folder, made or trustme.CA(organization_name=name)
        self.ca = folder / f"{name}.crt"
        self.ca.write_bytes(self._ca.cert_pem.bytes())

    def issue(self, *hosts, user=None, name=None, **times):
        """Return the paths of a certificate, with those above it, and its key."""
        name = name or user or hosts[0]
        addresses = hosts or (f"{user}@localhost",)
        pair = Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        for path, text in zip(pair, issued(self._ca, *addresses, user=user, **times), strict=True):
            path.write_text(text)
        return pair


def encrypted(key, password):
    """Return the path of the key, encrypted."""
    own = load_pem_private_key(key.read_bytes(), None)
    path = key.with_suffix(".encrypted.key")
    closed = BestAvailableEncryption(password.encode())
    path.write_bytes(own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, closed))
    return path


def weak_pair(folder):
    """Return a certificate and its key, which are whole, and too short for today's OpenSSL."""
    key = rsa.generate_private_key(65_537, 1024)  # noqa: S505 # so that it is refused
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "weak")]), datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=30))
    pair = Pair(folder / "weak.crt", folder / "weak.key")
    pair.certificate.write_bytes(made.sign(key, SHA256()).public_bytes(Encoding.PEM))
    pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return pair


@contextmanager
def tls_server(pair, ca=None):
    """Shake hands with whoever comes, and demand a certificate of `ca`; yield the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    if ca is not None:
        context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=_serve, args=(listening, context))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listening, context):
    while True:
        try:
            asked, _ = listening.accept()
        except OSError:  # it is closed
            return
        asked.settimeout(2)
        with asked, suppress(OSError), context.wrap_socket(asked, server_side=True) as connection:
            connection.recv(1024)
