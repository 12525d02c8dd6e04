"""What is promised to the owner of a record: one value, of which every command makes its sentence."""

from nodes.privacy.guarantee import Guarantee
from streams.mesh_file import build
from streams.mesh_file.file import MeshFile


def promise(file: MeshFile, node: str) -> Guarantee:
    """Return the guarantee of a node of the mesh file, whose brokers it knows."""
    return build.guarantee(file.mesh, node, trusted_broker=file.trusts_broker(node))
