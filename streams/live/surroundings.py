"""What a process knows of its mesh, from the shared part of the mesh file alone."""

from streams.codec import Expected
from streams.mesh_file import build
from streams.mesh_file.file import MeshFile
from streams.surroundings import Surroundings
from streams.topics import MeshTopics


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
