"""Whose nodes an export is for."""

from dataclasses import dataclass

from streams.mesh.errors import UsageError, one_of
from streams.mesh.settings.mesh import MeshSettings


@dataclass(frozen=True, slots=True)
class Party:
    """A party and its nodes."""

    name: str
    nodes: tuple[str, ...]


def party(mesh: MeshSettings, name: str) -> Party:
    """Return a party of the mesh. Raises UsageError if there is none of that name."""
    known = parties(mesh)
    if name not in known:
        raise UsageError(f"--party {name}: {one_of(known, name)}")
    return known[name]


def parties(mesh: MeshSettings) -> dict[str, Party]:
    """Return the parties of a mesh: each node is one."""
    return {name: Party(name, (name,)) for name in mesh.nodes}
