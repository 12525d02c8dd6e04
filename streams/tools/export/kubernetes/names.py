"""Kubernetes names of what a mesh file names.

A name becomes lower case, with `-` for all but letters and digits, and none of them at its ends; a long one
is cut, and ends with part of a hash of the whole. Names that become one are refused.
"""

import hashlib
import re
from collections.abc import Iterable

from streams.mesh.errors import MeshFileError
from streams.mesh.file import CollaborationFile, MeshFile
from streams.mesh.settings.parties import Party
from streams.tools.export.kubernetes.cluster import LONGEST
from streams.tools.export.parties import StarParty

LONGEST_SET = 52
"""A StatefulSet's pods and revisions have labels that add eleven characters."""
OPERATOR = "operator"
_OTHER = re.compile(r"[^a-z0-9]+")
_HASHED = 8


def label(*parts: str, longest: int = LONGEST) -> str:
    """Return the name that `parts` make together; empty if they have no letter and no digit."""
    whole = "-".join(filter(None, (_OTHER.sub("-", part.lower()).strip("-") for part in parts)))
    if len(whole) <= longest:
        return whole
    digest = hashlib.sha256("-".join(parts).encode()).hexdigest()[:_HASHED]
    return f"{whole[: longest - _HASHED - 1].rstrip('-')}-{digest}"


def node_set(node: str) -> str:
    """Return the name of a node's StatefulSet, and of all else that is the node's alone."""
    return label("node", node, longest=LONGEST_SET)


def star_set(whose: StarParty) -> str:
    """Return the name of the StatefulSet of a collaboration's party, and of all else that is its alone."""
    return label(whose.kind, whose.name, longest=LONGEST_SET)


def namespace(mesh: str, party: str | None) -> str:
    """Return the namespace of a party; None: of the mesh's operator."""
    return label(mesh, OPERATOR if party is None else party)


def check(file: MeshFile) -> None:
    """Refuse a mesh file with two names that make one Kubernetes name. Raises MeshFileError."""
    mesh, parties = file.mesh, file.mesh.all_parties
    lines = _twice(
        file, [("the mesh's operator", namespace(mesh.name, None)), *_namespaces(mesh.name, parties)]
    )
    for party in parties:
        lines += _twice(file, [(f"node {node}", node_set(node)) for node in party.nodes])
    if lines:
        raise MeshFileError(lines)


def check_star(file: CollaborationFile) -> None:
    """Refuse a collaboration with two names that make one Kubernetes name. Raises MeshFileError."""
    mesh = file.mesh
    named = [(f"party {name}", namespace(mesh.name, name)) for name in (mesh.learner, *mesh.owners)]
    lines = _twice(file, [("the mesh's operator", namespace(mesh.name, None)), *named])
    if lines:
        raise MeshFileError(lines)


def _namespaces(mesh: str, parties: Iterable[Party]) -> list[tuple[str, str]]:
    return [(f"party {party.name}", namespace(mesh, party.name)) for party in parties]


def _twice(file: MeshFile | CollaborationFile, named: list[tuple[str, str]]) -> list[str]:
    earlier, lines = dict[str, str](), list[str]()
    for subject, name in named:
        if name in earlier:
            lines.append(
                f"{file.path}: {earlier[name]} and {subject} make one Kubernetes name, {name}: rename one"
            )
        earlier.setdefault(name, subject)
    return lines
