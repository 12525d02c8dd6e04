"""The parts of every message: version, kind, ids and signature; and the dead letter of a refused message."""

import base64
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from nodes.values import FloatArray
from streams.codec.topics import ID_PATTERN

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


# What all messages share: version, kind, ids, and the reasons to refuse a message.

VERSION = 1
LONGEST_ID = 255
LAST_ROUND = 2**63 - 1
"""The last round: rounds fit the journal's signed 64-bit integers."""
LARGEST = sys.float_info.max
"""The bound of a vector that has no other bound, so that its norm is finite."""


class Kind(IntEnum):
    """The second byte of a message."""

    RELEASE = 1
    PLAN = 2
    HEARTBEAT = 3
    QUERY = 4
    RESPONSE = 5
    PLANS = 6
    SIGNED = 7


class Reason(Enum):
    """The reason to refuse a message, under which it is counted and kept as a dead letter."""

    TOO_LONG = "too-long"
    VERSION = "version"
    KIND = "kind"
    LENGTH = "length"
    RUN = "run"
    SOURCE = "source"
    DIGEST = "digest"
    FLAGS = "flags"
    NOT_FINITE = "not-finite"
    OUT_OF_BOUND = "out-of-bound"
    MALFORMED = "malformed"
    SECOND_VALUE = "second-value"
    UNREADABLE = "unreadable"
    SIGNATURE = "signature"
    AHEAD = "ahead"


class Refused(ValueError):
    """The bytes of a peer are not the expected message."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)
        self.reason = reason


def unpacked(data: bytes, header: Struct, kind: Kind, longest: int) -> tuple[Any, ...]:
    """Return the header's fields after version and kind. Raises Refused."""
    if len(data) > longest:
        raise Refused(Reason.TOO_LONG, f"{len(data)} bytes, at most {longest} are allowed")
    check_version(data)
    if len(data) < header.size:
        raise Refused(Reason.LENGTH, f"{len(data)} bytes, the header has {header.size}")
    fields = header.unpack_from(data)
    if fields[1] != kind:
        raise Refused(Reason.KIND, f"{fields[1]}, expected {kind.value}")
    return fields[2:]


def check_version(data: bytes) -> None:
    """Raise Refused unless the bytes begin like a message of this version."""
    if not data:
        raise Refused(Reason.UNREADABLE, "an empty record, or one that no client can read")
    if data[0] != VERSION:
        raise Refused(Reason.VERSION, f"{data[0]}, this program speaks {VERSION}")


@lru_cache(maxsize=16384)
def packed_ids(*ids: str) -> bytes:
    """Return each id as its length (one byte) and its ASCII. Raises ValueError for a bad id."""
    for text in ids:
        if re.fullmatch(ID_PATTERN, text) is None or len(text) > LONGEST_ID:
            raise ValueError(f"the id {text!r} must match {ID_PATTERN}, with at most {LONGEST_ID} characters")
    return b"".join(bytes([len(text)]) + text.encode("ascii") for text in ids)


def checked_ids(data: bytes, at: int, expected: Iterable[tuple[str, Reason]]) -> int:
    """Return the position after the ids that start at `at`. Raises Refused for the first unexpected one."""
    for text, reason in expected:
        end = at + 1 + data[at] if at < len(data) else at + 1
        if end > len(data):
            raise Refused(Reason.LENGTH, "an id is cut off")
        if data[at + 1 : end] != text.encode("ascii"):
            raise Refused(reason, f"expected {text}")
        at = end
    return at


def check_digest(digest: bytes, expected: bytes) -> None:
    """Raise Refused for a message made under other shared settings."""
    if digest != expected:
        raise Refused(Reason.DIGEST, f"settings {digest.hex()}, ours are {expected.hex()}")


def checked_digest(digest: bytes) -> bytes:
    """Return the digest. Raises ValueError unless it has 16 bytes."""
    if len(digest) != 16:
        raise ValueError(f"a digest of {len(digest)} bytes: must have 16")
    return digest


def packed_vector(values: FloatArray) -> bytes:
    """Return a vector (d,) as float64, bit for bit."""
    return values.astype("<f8", copy=False).tobytes()


def vector(data: bytes, start: int, bound: float) -> FloatArray:
    """Return the vector that begins at `start`, read-only. Raises Refused if its L2 norm is above `bound`."""
    # a copy, as numpy would sum the message's unaligned numbers in another order
    values = np.frombuffer(data[start:], "<f8").astype(np.float64, copy=False)
    numbers = values.tolist()
    if math.hypot(*numbers) <= bound:  # hypot neither overflows nor warns
        return values
    finite = all(map(math.isfinite, numbers))
    raise Refused(Reason.OUT_OF_BOUND if finite else Reason.NOT_FINITE)


@lru_cache(maxsize=16384)
def packed_hex(text: str) -> bytes:
    """Return the 16 bytes of an instance or boot. Raises ValueError unless it is 32 hexadecimal digits."""
    if re.fullmatch("[0-9a-f]{32}", text) is None:
        raise ValueError(f"the instance or boot {text!r} must be 32 hexadecimal digits, in lower case")
    return bytes.fromhex(text)


DOMAIN = b"mirrormesh signature 1"
SIGNATURE = 64
OVERHEAD = 3 + LONGEST_ID + SIGNATURE
"""The most bytes that a signature adds to a message."""


@dataclass(frozen=True)
class Envelope:
    """Passes messages to and from the bus unchanged, as signatures are off."""

    @property
    def signs(self) -> bool:
        """Whether the writer of a message is known."""
        return False

    def sealed(self, message: bytes) -> bytes:
        """Return the bytes to send for a message."""
        return message

    def of_node(self, value: bytes, node: str) -> bytes:  # noqa: ARG002 # for those that are signed
        """Return the message that a node has sent. Raises Refused if another process may have sent it."""
        return value

    def of_scheduler(self, value: bytes) -> bytes:
        """Return the message that a scheduler has sent.

        Raises Refused if another process may have sent it.
        """
        return value

    def unverified(self, value: bytes) -> bytes:
        """Return the message without a check of its sender.

        Bytes that are too short for a message are unchanged.
        """
        return value


PLAIN = Envelope()


@dataclass(frozen=True)
class SignedEnvelope(Envelope):
    """Signs messages, and accepts only messages with a right signature.

    `nodes`, `schedulers`: their public keys (32 bytes) by name. `signer`: the own name, and the function that
    signs; None: the envelope only reads. A right signature is cached with all that it covers, so a message is
    verified once for all readers in a process.

    version u8, kind u8, signer (u8 length, ASCII), signature 64, the message. The signature is Ed25519
    over: `mirrormesh signature 1`, the kind of the message u8, mesh, run and signer (u8 length, ASCII),
    digest 16, the message, which holds its instance and round. Releases and heartbeats are signed by
    their node, records of plans by a scheduler.
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
        """Whether the writer of a message is known."""
        return True

    def signing(self, name: str, sign: Callable[[bytes], bytes]) -> "SignedEnvelope":
        """Return an envelope that also signs, as `name`; `sign` returns a signature (64 bytes)."""
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
        """Return the message without a check of its signature.

        Bytes too short for a message are unchanged.
        """
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
    """Return whether the signature is right. Only right signatures are cached."""
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


@lru_cache(maxsize=256)  # readers in one process share the check, keyed by all that it depends on
def _check(key: bytes, signature: bytes, signed: bytes) -> bool:
    """Return True. Raises ValueError for a wrong signature."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 # where signatures are on

    try:
        _public(key).verify(signature, signed)
    except InvalidSignature:
        raise ValueError("wrong") from None
    return True


AROUND = 1024
"""The most bytes of a dead letter besides its value, with the longest detail and topic."""
_DETAIL = 300


def encode_dead_letter(topic: str, value: bytes, refused: Refused, longest: int | None = None) -> bytes:
    """Return the dead letter for `value`, which was read from `topic`.

    `longest`: the bytes that the letter may have; None: any number.

    {"topic": ..., "reason": ..., "detail": ..., "value": base64}, and {"bytes": ...} if only the first
    bytes of a longer value are kept.
    """
    head = value if longest is None else value[: max(0, longest - AROUND) // 4 * 3]
    content, detail = base64.b64encode(head).decode("ascii"), str(refused)[:_DETAIL]
    letter: dict[str, object] = {"topic": topic, "reason": refused.reason.value, "detail": detail}
    if len(head) < len(value):
        letter["bytes"] = len(value)
    return json.dumps(letter | {"value": content}).encode()


def decode_dead_letter(data: bytes) -> tuple[str, bytes, str]:
    """Return (topic, value, reason) of a dead letter. Raises ValueError or KeyError for other bytes.

    The reason is a `Reason`'s value, or one that a newer version has.
    """
    letter = json.loads(data)
    return letter["topic"], base64.b64decode(letter["value"], validate=True), str(letter["reason"])
