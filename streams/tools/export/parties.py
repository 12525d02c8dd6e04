"""Whose nodes an export is for."""

from streams.mesh.errors import UsageError, one_of
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.parties import Party


def party(mesh: MeshSettings, name: str) -> Party:
    """Return a party of the mesh. Raises UsageError if there is none of that name."""
    known = {party.name: party for party in mesh.all_parties}
    if name not in known:
        raise UsageError(f"--party {name}: {one_of(known, name)}")
    return known[name]
