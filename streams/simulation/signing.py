"""Signatures of simulated meshes. The keys are the same in every history: they protect nothing."""

import hashlib
from dataclasses import replace
from functools import cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from streams.codec.envelope import SignedEnvelope
from streams.local.mesh import MeshParts

PLANNER = "planner"
"""The name of all schedulers. (Nodes may have it too: each kind of message has its own signers.)"""


@cache
def key_of(whose: str) -> Ed25519PrivateKey:
    """Return the private key of a node, a scheduler or a stranger."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(whose.encode()).digest())


def signed(parts: MeshParts) -> MeshParts:
    """Return the parts of a mesh in which each node and scheduler signs."""
    topics = parts.topics
    nodes = {name: _public(f"node {name}") for name in parts.nodes}
    envelope = SignedEnvelope(topics.mesh, topics.run, parts.digest, nodes, {PLANNER: _public(PLANNER)})
    return replace(
        parts,
        envelopes={name: envelope.signing(name, key_of(f"node {name}").sign) for name in nodes},
        planner=envelope.signing(PLANNER, key_of(PLANNER).sign),
    )


def _public(whose: str) -> bytes:
    return key_of(whose).public_key().public_bytes_raw()
