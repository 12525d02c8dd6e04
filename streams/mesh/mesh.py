"""What a process knows of its mesh."""

from dataclasses import dataclass

from nodes.accounting.guarantee import Guarantee
from streams.codec import Expected
from streams.codec.topics import MeshTopics
from streams.mesh import building as build
from streams.mesh.file import MeshFile


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a node must know of its mesh. `round_timeout` and `silence` None: nobody is given up."""

    topics: MeshTopics
    digest: bytes
    horizon: int
    round_timeout: float | None
    silence: float | None
    own: Expected
    expected: dict[str, Expected]
    targets: tuple[str, ...]


def surroundings(file: MeshFile, node: str) -> Surroundings:
    """Return the topics, the neighbours of a node, and what it accepts of them."""
    mesh = file.mesh
    sources, targets = build.schedule(mesh, mesh.seed).graph.neighbours(node)
    topics, digest = MeshTopics(mesh.name, mesh.run), file.digest()

    def expected(name: str) -> Expected:
        made = build.learner(mesh, name, build.sampler(mesh, name, mesh.seed))
        return Expected(mesh.run, name, digest, mesh.dimension, made.release_bound)

    heard = {source: expected(source) for source in sources}
    waits = mesh.round_timeout, mesh.silence
    return Surroundings(topics, digest, mesh.horizon, *waits, expected(node), heard, targets)


def promise(file: MeshFile, node: str) -> Guarantee:
    """Return the guarantee of a node of the mesh file, whose brokers it knows."""
    return build.guarantee(file.mesh, node, trusted_broker=file.trusts_broker(node))
