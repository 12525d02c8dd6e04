"""Finds what an export writes: of a mesh or a collaboration, for one party or for who runs what all share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streams.mesh.errors import UsageError
from streams.mesh.settings.parties import Party
from streams.tools.export.parties import StarParty, party, star_party
from streams.tools.export.raw_mesh import RawCollaboration, RawMesh, read_any

Files = dict[str, str]


def _nothing(raw: Any, whose: Any) -> Iterable[str]:
    del raw, whose
    return ()


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """What one kind of export writes, by whom it is for; some write nothing for a collaboration's operator.

    `warnings` returns what is hardly meant, a line each.
    """

    party: Callable[[RawMesh, Party], Files]
    operator: Callable[[RawMesh], Files]
    star: Callable[[RawCollaboration, StarParty], Files]
    star_operator: Callable[[RawCollaboration], Files] | None = None
    warnings: Callable[[RawMesh | RawCollaboration, Party | StarParty | None], Iterable[str]] = _nothing


def files_for(
    mesh: Path, name: str | None, kind: ExportFormat, *, mesh_operator: bool, code: Iterable[str] = ()
) -> tuple[Files, Iterable[str]]:
    """Return the files for the party `name`, or for the operator, and what to warn of; `code` may run there.

    Raises UsageError, MeshFileError.
    """
    if (name is None) != mesh_operator:
        mistake = "neither is given" if name is None else f"--party {name} and --mesh-operator are both given"
        raise UsageError(f"{mistake}: must be one of --party NAME and --mesh-operator")
    raw = read_any(mesh, code)
    written: tuple[Files, Iterable[str]] = raw.file.kind.exported(raw, kind, name)
    return written


def nodes_files(raw: RawMesh, kind: ExportFormat, name: str | None) -> tuple[Files, Iterable[str]]:
    """Return the files for a party of a mesh, or for its operator, and what to warn of."""
    if name is None:
        return kind.operator(raw), kind.warnings(raw, None)
    node_party = party(raw.file.mesh, name)
    return kind.party(raw, node_party), kind.warnings(raw, node_party)


def collaboration_files(
    raw: RawCollaboration, kind: ExportFormat, name: str | None
) -> tuple[Files, Iterable[str]]:
    """Return the files for a party of a collaboration, or for its operator, and what to warn of."""
    if name is not None:
        member = star_party(raw.file.mesh, name)
        return kind.star(raw, member), kind.warnings(raw, member)
    if kind.star_operator is None:
        allowed = "a collaboration has no scheduler: must be --party, with its learner or an owner"
        raise UsageError(f"--mesh-operator: {allowed}")
    return kind.star_operator(raw), kind.warnings(raw, None)
