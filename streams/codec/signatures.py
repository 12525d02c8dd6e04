"""Signed messages in bytes: a message, who has signed it, and the signature.

version u8, kind u8, signer (u8 length, ASCII), signature 64, the message. The signature is Ed25519 over:
`mirrormesh signature 1`, the kind of the message u8, mesh, run and signer (u8 length, ASCII), digest 16, the
message, which holds its instance and round. Releases and heartbeats are signed by their node, records of
plans by a scheduler.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from streams.codec.fields import LONGEST_ID, VERSION, Kind, Reason, Refused, check_version, packed_ids

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

DOMAIN = b"mirrormesh signature 1"
SIGNATURE = 64
OVERHEAD = 3 + LONGEST_ID + SIGNATURE
"""The most bytes that a signature adds to a message."""


@dataclass(frozen=True)
class Envelope:
    """Puts messages on the bus, and takes them from it, as they are: signatures are off."""

    @property
    def signs(self) -> bool:
        """Whether it is known who has written a message."""
        return False

    def sealed(self, message: bytes) -> bytes:
        """Return what is sent for a message."""
        return message

    def of_node(self, value: bytes, node: str) -> bytes:  # noqa: ARG002 # for those that are signed
        """Return the message that a node has sent. Raises Refused if another may have."""
        return value

    def of_scheduler(self, value: bytes) -> bytes:
        """Return the message that a scheduler has sent. Raises Refused if another may have."""
        return value

    def unverified(self, value: bytes) -> bytes:
        """Return the message, whoever has sent it; what is too short for one as it is."""
        return value


PLAIN = Envelope()


@dataclass(frozen=True)
class SignedEnvelope(Envelope):
    """Signs messages, and takes those alone that are rightly signed.

    `nodes`, `schedulers`: their public keys (32 bytes) by name. `signer`: the own name, and what signs; None:
    it only reads. A signature that was right once is remembered with all that it was made of, so a message is
    verified once for all readers in a process.
    """

    mesh: str
    run: str
    digest: bytes
    nodes: Mapping[str, bytes]
    schedulers: Mapping[str, bytes]
    signer: tuple[str, Callable[[bytes], bytes]] | None = None

    def __post_init__(self) -> None:
        packed_ids(self.mesh, self.run, *self.nodes, *self.schedulers)  # they are names

    @property
    def signs(self) -> bool:
        """Whether it is known who has written a message."""
        return True

    def signing(self, name: str, sign: Callable[[bytes], bytes]) -> "SignedEnvelope":
        """Return an envelope that also signs, as `name`; `sign` returns the 64 bytes for what is signed."""
        return replace(self, signer=(name, sign))

    def sealed(self, message: bytes) -> bytes:
        """Return a message with its signature. Raises RuntimeError without a signer."""
        if self.signer is None:
            raise RuntimeError("nobody is here to sign")
        name, sign = self.signer
        signer = packed_ids(name)
        return bytes([VERSION, Kind.SIGNED]) + signer + sign(self._signed(message, signer)) + message

    def of_node(self, value: bytes, node: str) -> bytes:
        """Return the message that a node has signed. Raises Refused."""
        signer, signature, message = _parts(value)
        if signer != packed_ids(node):
            raise Refused(Reason.SIGNATURE, f"not signed as {node}")
        return self._verified(self.nodes.get(node), signer, signature, message)

    def of_scheduler(self, value: bytes) -> bytes:
        """Return the message that one of the schedulers has signed. Raises Refused."""
        signer, signature, message = _parts(value)
        key = next((key for name, key in self.schedulers.items() if packed_ids(name) == signer), None)
        return self._verified(key, signer, signature, message)

    def unverified(self, value: bytes) -> bytes:
        """Return the message, whoever has signed it; what is too short for one as it is."""
        try:
            return _parts(value)[2]
        except Refused:
            return value

    def _verified(self, key: bytes | None, signer: bytes, signature: bytes, message: bytes) -> bytes:
        if key is None or not _is_right(key, signature, self._signed(message, signer)):
            raise Refused(Reason.SIGNATURE, "wrong")
        return message

    def _signed(self, message: bytes, signer: bytes) -> bytes:
        kind = message[1:2]
        return b"".join((DOMAIN, kind, packed_ids(self.mesh, self.run), signer, self.digest, message))


def _parts(value: bytes) -> tuple[bytes, bytes, bytes]:
    """Return (signer with its length, signature, message). Raises Refused."""
    check_version(value)
    if len(value) < 3 or value[1] != Kind.SIGNED:
        raise Refused(Reason.SIGNATURE, "not signed")
    end = 3 + value[2]
    if len(value) < end + SIGNATURE + 2:
        raise Refused(Reason.SIGNATURE, "cut off")
    return value[2:end], value[end : end + SIGNATURE], value[end + SIGNATURE :]


def _is_right(key: bytes, signature: bytes, signed: bytes) -> bool:
    """Return whether the signature is right; only a right one is remembered."""
    try:
        return _check(key, signature, signed)
    except ValueError:
        return False


@lru_cache(maxsize=8192)
def _public(key: bytes) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 # as below
        Ed25519PublicKey,
    )

    return Ed25519PublicKey.from_public_bytes(key)


@lru_cache(maxsize=256)  # readers in one process share the check: of all that it depends on
def _check(key: bytes, signature: bytes, signed: bytes) -> bool:
    """Return True. Raises ValueError for a wrong signature."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 # where signatures are on

    try:
        _public(key).verify(signature, signed)
    except InvalidSignature:
        raise ValueError("wrong") from None
    return True
