"""Checks certificates and keys when the mesh file is loaded, so that no client fails on them later.

All clients read PEM, and nothing else.
"""

import ssl
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import SecretStr

from streams.mesh.settings.base import refusal
from streams.mesh.settings.files import read_small
from streams.mesh.settings.secret_files import why

if TYPE_CHECKING:
    from cryptography import x509

_CERTIFICATE, _KEY = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"
_ANY = b"-----BEGIN "


def certificates(path: str) -> "list[x509.Certificate]":
    """Return the certificates in a file. Raises OSError, ValueError (there is none, or one is damaged)."""
    from cryptography import x509  # noqa: PLC0415 # loaded for TLS alone

    return x509.load_pem_x509_certificates(read_small(path))


def lifetime(path: str) -> tuple[datetime, datetime]:
    """Return when the first certificate in a file begins and ends. Raises OSError, ValueError."""
    first = certificates(path)[0]
    return first.not_valid_before_utc, first.not_valid_after_utc


def check_ca(path: str) -> None:
    """Refuse a file that holds no CA's certificates, or a key: nobody but the CA may have its key."""
    content = _held(path, "ca")
    if _KEY in content:
        raise refusal(f"{path}: holds a private key: must hold certificates of CAs alone", "ca")
    certificates = _certificates(path, content, "ca")
    if not any(
        _may_sign(certificate) or certificate.issuer == certificate.subject for certificate in certificates
    ):
        raise refusal(f"{path}: holds no CA's certificate: must be the CA's, not the broker's or yours", "ca")


def check_pair(certificate: str, key: str, password: SecretStr | None) -> None:
    """Refuse a certificate and a key that cannot be read, or do not belong together."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 # loaded for TLS alone
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

    first = _certificates(certificate, _held(certificate, "certificate"), "certificate")[0]
    content = _held(key, "key")
    if _KEY not in content:
        raise refusal(f"{key}: holds no private key{_instead(content)}: must be one in PEM", "key")
    secret = None if password is None else password.get_secret_value().encode()
    try:
        private_key = load_pem_private_key(content, secret)
    except TypeError:
        if password is None:
            raise refusal("missing: the key is encrypted (or key_password_file)", "key_password") from None
        raise refusal("the key is not encrypted: must not be given", "key_password") from None
    except Exception:  # noqa: BLE001 # ValueError, UnsupportedAlgorithm, and a library's own
        wrong = "cannot be read" if password is None else "cannot be read: is key_password right?"
        raise refusal(f"{key}: {wrong}", "key") from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if private_key.public_key().public_bytes(*form) != first.public_key().public_bytes(*form):
        raise refusal(f"{key}: is not the key of {certificate}", "key")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, secret or b"")
    except ssl.SSLError as error:
        wrong = (error.reason or str(error)).lower().replace("_", " ")
        raise refusal(f"{certificate}: OpenSSL refuses it: {wrong}", "certificate") from None


def _held(path: str, setting: str) -> bytes:
    try:
        return read_small(path)
    except OSError as error:
        raise refusal(f"{path}: {why(error)}", setting) from None


def _certificates(path: str, held: bytes, setting: str) -> "list[x509.Certificate]":
    if _CERTIFICATE not in held:
        raise refusal(f"{path}: holds no certificate{_instead(held)}: must be one in PEM", setting)
    try:
        return certificates(path)
    except ValueError:
        raise refusal(f"{path}: a certificate in it is damaged", setting) from None


def _instead(held: bytes) -> str:
    if _KEY in held:
        return " but a private key"
    if _CERTIFICATE in held:
        return " but a certificate"
    return "" if _ANY in held else " in PEM"


def _may_sign(one: "x509.Certificate") -> bool:
    from cryptography import x509  # noqa: PLC0415 # loaded for TLS alone

    try:
        return bool(one.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except (x509.ExtensionNotFound, ValueError):
        return False
