"""Secrets, certificates and keys in the settings. They come from the environment or from files."""

import base64
import binascii
import os
import ssl
import stat
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo
from pydantic_core import PydanticCustomError

from streams.mesh.settings.base import refusal
from streams.mesh.settings.files import FromEnvironment, beside, from_environment, is_path, read_small

if TYPE_CHECKING:
    from cryptography import x509
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


# Secrets and paths in the settings of a broker: from the environment, or from files.


def _path(value: object, info: ValidationInfo) -> str:
    """Read a path, relative to the file that names it."""
    path = from_environment(value, info)
    if not isinstance(path, str) or not is_path(path) or "\n" in path:
        raise refusal("must be the path of a file, not what it holds")
    return beside(path, info)


def _whole(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if not text:
        raise refusal("is empty: must be the password")
    if "\0" in text or "\n" in text:
        raise refusal("must be one line")  # PLAIN ends a password with a zero byte
    return secret


FileName = Annotated[str, BeforeValidator(_path)]
"""The path of a file."""
PlainSecret = Annotated[SecretStr, Field(strict=False), FromEnvironment, AfterValidator(_whole)]
"""A secret, never shown; `${NAME}` is replaced from the environment."""


def read_secrets(value: Mapping[str, Any], keys: tuple[str, ...], info: ValidationInfo) -> dict[str, Any]:
    """Return the mapping with `key` added for each `key_file` that it has: the secret in that file."""
    with_secrets = dict(value)
    for key in keys:
        file_key = f"{key}_file"
        if with_secrets.get(file_key) is None:
            continue
        if with_secrets.get(key) is not None:
            raise refusal(f"{key} is there too: must be one of the two", file_key)
        try:
            path = _path(with_secrets[file_key], info)
        except PydanticCustomError as error:
            raise refusal(str(error), file_key) from None
        with_secrets[key] = SecretStr(_secret(path, file_key) if are_read(info) else f"what {file_key} holds")
    return with_secrets


def are_read(info: ValidationInfo) -> bool:
    """Return whether files of secrets are read. They are not if another host will use the mesh file."""
    return info.context is None or info.context.get("secrets", True)


def _secret(path: str, setting: str) -> str:
    try:
        text = read_small(path).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise refusal(f"{path}: is not text: must hold the password in one line", setting) from None
    except OSError as error:
        raise refusal(_unread(path, error), setting) from None
    if not text or "\n" in text or "\0" in text:
        wrong = "has several lines" if text else "is empty"
        raise refusal(f"{path}: {wrong}: must hold the password in one line", setting)
    return text


def _unread(path: str, error: OSError) -> str:
    """Return why a secret's file cannot be read.

    A path that does not exist is not repeated, because it may be the secret itself.
    """
    if os.path.lexists(path):
        return f"{path}: {why(error)}"
    folder = os.path.dirname(path)  # noqa: PTH120 # Path raises where a part may not be read
    place = f" in {folder}" if os.path.lexists(folder) else ""
    return f"there is no such file{place}: must be the path of a file that holds the password in one line"


def shown_to_others(path: str | Path) -> bool:
    """Return whether users other than this process's may read a file that only this process needs.

    False for a file of another owner, as in a container: this process itself may need the group's or others'
    right to read it. Raises OSError.
    """
    status = Path(path).stat()
    is_owner = os.geteuid() in {0, status.st_uid}
    return is_owner and bool(status.st_mode & (stat.S_IRGRP | stat.S_IROTH))


def why(error: OSError) -> str:
    """Return why a file cannot be read."""
    return f"cannot be read: {error.strerror or 'no such file'}"


# Checks certificates and keys when the mesh file is loaded, so that no client fails on them later.
#
# All clients read PEM, and nothing else.

_CERTIFICATE, _KEY = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"
_ANY = b"-----BEGIN "


def certificates(path: str) -> "list[x509.Certificate]":
    """Return the certificates in a file. Raises OSError; ValueError if there is none or one is damaged."""
    from cryptography import x509  # noqa: PLC0415 # loaded for TLS alone

    return x509.load_pem_x509_certificates(read_small(path))


def lifetime(path: str) -> tuple[datetime, datetime]:
    """Return the times between which a file's first certificate is valid. Raises OSError, ValueError."""
    first = certificates(path)[0]
    return first.not_valid_before_utc, first.not_valid_after_utc


def check_ca(path: str) -> None:
    """Refuse a file without a CA's certificate, and one with a private key, which only the CA may have."""
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


# Keys of signatures: public ones as text in the mesh file, private ones in files of their owners.

LENGTH = 32
"""Bytes of a public key."""

# A few points of the curve have an order of 8 or less. With such a point as the public key anybody can sign
# some messages; with the neutral element, all messages. No private key has one of them as its public key, but
# OpenSSL accepts them. They are listed by y, without the sign of x. y = 0 and y = 1 are listed as p and p + 1
# too, as in libsodium's list.
_P = 2**255 - 19
_Y8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_OF_SMALL_ORDER = {0, 1, _Y8, _P - _Y8, _P - 1, _P, _P + 1}
_MADE = "must be a private key for signatures, as mirrormesh key writes it"


def public_bytes(text: str) -> bytes:
    """Return the bytes of a public key. Raises ValueError."""
    decoded = base64.b64decode(text, validate=True)
    if len(decoded) != LENGTH:
        raise ValueError(f"{len(decoded)} bytes")
    return decoded


def _public(text: str) -> str:
    try:
        key = public_bytes(text)
    except (ValueError, binascii.Error):
        raise refusal("must be a public key, as mirrormesh key shows it") from None
    if int.from_bytes(key, "little") % 2**255 in _OF_SMALL_ORDER:
        allowed = "must be a public key, as mirrormesh key shows it"
        raise refusal(f"is a key under which anybody can sign: {allowed}")
    return text


PublicKey = Annotated[str, AfterValidator(_public)]
"""A public key for signatures (Ed25519): 32 bytes in base64."""


def public_of(key: "Ed25519PrivateKey") -> str:
    """Return the public key that belongs to a private one, as text."""
    return base64.b64encode(key.public_key().public_bytes_raw()).decode("ascii")


def private_key(path: str) -> "Ed25519PrivateKey":
    """Return the private key in a file. Raises the refusal that says what is wrong with `signing_key`."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 # where signatures are on
        Ed25519PrivateKey,
    )
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 # as above

    try:
        content, is_readable = read_small(path), shown_to_others(path)
    except OSError as error:
        raise refusal(f"{path}: {why(error)}", "signing_key") from None
    if is_readable:
        raise refusal(f"{path}: others may read it: must be its owner's alone (chmod 600)", "signing_key")
    try:
        key = load_pem_private_key(content, None)
    except Exception:  # noqa: BLE001 # ValueError, TypeError, UnsupportedAlgorithm, and a library's own
        raise refusal(f"{path}: {_MADE}", "signing_key") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise refusal(f"{path}: {_MADE}", "signing_key")
    return key
