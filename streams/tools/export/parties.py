"""Whose processes an export is for."""

from collections.abc import Collection
from typing import NamedTuple

from streams.mesh.errors import UsageError, one_of
from streams.mesh.settings.collaboration import CollaborationSettings
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.parties import Party


class Participant(NamedTuple):
    """A party of a collaboration: its learner, or an owner."""

    kind: str
    name: str

    @property
    def owner(self) -> bool:
        """Whether it has a set of records."""
        return self.kind == OWNER

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those of its processes that have an own part in the mesh file."""
        return (self.name,) if self.owner else ()


LEARNER, OWNER = "learner", "owner"


def party(mesh: MeshSettings, name: str) -> Party:
    """Return a party of the mesh. Raises UsageError if there is none of that name."""
    parties = {party.name: party for party in mesh.all_parties}
    return parties[_known(parties, name)]


def participant(settings: CollaborationSettings, name: str) -> Participant:
    """Return a party of a collaboration. Raises UsageError if there is none of that name."""
    member = _known((settings.learner, *settings.owners), name)
    return Participant(LEARNER if member == settings.learner else OWNER, member)


def _known(names: Collection[str], name: str) -> str:
    if name not in names:
        raise UsageError(f"--party {name}: {one_of(names, name)}")
    return name
