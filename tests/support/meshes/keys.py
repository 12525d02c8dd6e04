"""Keys for signed meshes, and what somebody else's messages look like there."""

from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from streams.mesh.settings.keys import public_of

PLANNER = "planner"


def private(mark):
    """A private key that is always the same for one mark."""
    return Ed25519PrivateKey.from_private_bytes(mark.encode().ljust(32, b"."))


def write_private_key(path, mark):
    """Write the private key of a mark to a file of its owner's alone."""
    path.write_bytes(private(mark).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)


def signed(tree):
    """The mesh file, with signatures and a key a node; the scheduler is called `planner`."""
    nodes = {name: {"key": public_of(private(name))} for name in tree["mesh"]["nodes"]}
    planners = {PLANNER: public_of(private(PLANNER))}
    return tree | {"mesh": tree["mesh"] | {"nodes": nodes, "signatures": "required", "schedulers": planners}}


def envelope(file, name, key=None):
    """How `name` signs in that mesh; `key`: whose key it uses."""
    return file.resolved.envelope.signing(name, private(key or name).sign)


def signing(parts, file):
    """The parts of a mesh in memory, each of which signs for itself."""
    envelopes = {name: envelope(file, name) for name in file.mesh.nodes}
    return replace(parts, envelopes=envelopes, planner=envelope(file, PLANNER))
