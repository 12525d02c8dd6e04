"""What a process knows of its mesh."""

from dataclasses import dataclass

from nodes.accounting.guarantee import Guarantee
from nodes.learner import release_bound
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
    topics, heard = MeshTopics(mesh.name, mesh.run), {source: expected(file, source) for source in sources}
    waits = mesh.round_timeout, mesh.silence
    return Surroundings(topics, file.digest(), mesh.horizon, *waits, expected(file, node), heard, targets)


def expected(file: MeshFile, node: str) -> Expected:
    """Return what is accepted as a release of that node."""
    mesh = file.mesh
    mechanism = build.mechanism(mesh, node, build.sampler(mesh, node, mesh.seed))
    bound = release_bound(build.algorithm(mesh), mechanism)
    return Expected(mesh.run, node, file.digest(), mesh.dimension, bound)


def promise(file: MeshFile, node: str) -> Guarantee:
    """Return the guarantee of a node of the mesh file, whose brokers it knows."""
    return build.guarantee(file.mesh, node, trusted_broker=file.trusts_broker(node))
