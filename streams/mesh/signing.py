"""Signs for one process of a mesh, with the private key of its broker's settings and under its name."""

from streams.codec.envelope import Envelope, SignedEnvelope
from streams.mesh.file import AnyFile, CollaborationFile, MeshFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.signing import private_key, public_of


def node_envelope(file: MeshFile, node: str) -> Envelope:
    """Return the envelope of a node's process. Raises MeshFileError if its key is missing, or another's."""
    public_key = file.mesh.nodes[node].key
    return _signing(file, file.brokers(node).mesh, {node: public_key or ""}, f"the node {node}")


def scheduler_envelope(file: MeshFile) -> Envelope:
    """Return the envelope of a scheduler's process. Raises MeshFileError, as `node_envelope` does."""
    return _signing(file, file.mesh_broker, file.mesh.schedulers, "a scheduler of mesh.schedulers")


def party_envelope(file: CollaborationFile, name: str) -> Envelope:
    """Return the envelope of the learner's or an owner's process. Raises as `node_envelope` does."""
    mesh = file.mesh
    if name == mesh.learner:
        return _signing(file, file.mesh_broker, {name: mesh.learner_key or ""}, f"the learner {name}")
    key = mesh.owners[name].key
    return _signing(file, file.mesh_broker_of(name), {name: key or ""}, f"the owner {name}")


def knows_writers(file: MeshFile, node: str) -> bool:
    """Return whether it is known who writes on the node's mesh broker: by signatures, or by its users."""
    return file.mesh.signatures == "required" or file.brokers(node).mesh.knows_writers


def _signing(file: AnyFile, broker: BrokerSettings, keys: dict[str, str], whose: str) -> Envelope:
    envelope = file.resolved.envelope
    if not isinstance(envelope, SignedEnvelope):
        return envelope
    place = ("brokers", "mesh", "signing_key")
    if broker.signing_key is None:
        raise file.refuse(place, f"missing: must be the private key of {whose}, as signatures are required")
    key = private_key(broker.signing_key)
    signer = next((name for name, public_key in keys.items() if public_key == public_of(key)), None)
    if signer is None:
        raise file.refuse(place, f"must be the private key of {whose}", broker.signing_key)
    return envelope.signing(signer, key.sign)
