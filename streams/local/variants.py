"""The same mesh with one thing taken away: what the thing costs, or brings, is the difference."""

from dataclasses import replace

from streams.mesh_file.file import MeshFile
from streams.mesh_file.settings.topology import TopologySettings


def without_privacy(file: MeshFile) -> MeshFile:
    """Return the mesh without noise: the difference is what privacy costs. For data that may be shown."""
    privacy = file.mesh.privacy.model_copy(update={"mechanism": "none", "budget": None})
    nodes = {
        name: overrides.model_copy(update={"mechanism": None}) for name, overrides in file.mesh.nodes.items()
    }
    return replace(file, mesh=file.mesh.model_copy(update={"privacy": privacy, "nodes": nodes}))


def without_neighbours(file: MeshFile) -> MeshFile:
    """Return the nodes without an edge, each alone: the difference is what collaboration brings."""
    size = range(len(file.mesh.nodes))
    identity = [[float(i == j) for j in size] for i in size]
    topology = TopologySettings.model_validate({"graph": {"matrix": identity}})
    return replace(file, mesh=file.mesh.model_copy(update={"topology": topology}))
