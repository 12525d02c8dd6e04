"""Keys of signatures: public ones as text in the mesh file, private ones in files of their owners."""

import base64
import binascii
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from streams.mesh.settings.base import refusal
from streams.mesh.settings.files import read_small
from streams.mesh.settings.secret_files import shown_to_others, why

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LENGTH = 32
"""Bytes of a public key."""

# A few points of the curve have an order of 8 or less. Under such a key anybody can sign some messages, and
# under that of the neutral element all; no private key leads to one, and OpenSSL takes them. Here they are
# by y, without the sign of x; y = 0 and 1 also as p and p + 1, as in libsodium's list.
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
