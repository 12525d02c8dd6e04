"""Checks every node's privacy settings, by making its mechanism and ledger."""

import json
from fractions import Fraction

from pydantic import ValidationError

from nodes.checks import OutOfRange
from nodes.decimals import as_text
from streams.mesh.errors import Problem, problems
from streams.mesh.mesh import Mesh
from streams.mesh.settings.base import Settings
from streams.mesh.settings.mesh import MeshSettings

_KEYS = {"theta": "gradient_bound", "the clip's bound": "gradient_bound"}
"""Settings that mechanisms name differently from a mesh file."""


def privacy_problems(file: str, whole: Mesh) -> list[Problem]:
    """Return the mistakes in the nodes' privacy settings, each being right by itself."""
    mesh, found = whole.settings, list[Problem]()
    overriding = {name for name, own in mesh.nodes.items() if own.model_fields_set}
    ordinary = [name for name in mesh.nodes if name not in overriding][:1]  # one stands for all alike
    for name in [*ordinary, *sorted(overriding)]:
        path = ("mesh", "nodes", name) if name in overriding else ("mesh", "privacy")
        try:
            _ = whole.node(name).ledger
        except ValidationError as error:
            found += problems(file, path, _written(mesh.privacy) | _written(mesh.nodes[name]), error)
        except OutOfRange as error:
            found.append(_out_of_range(file, mesh, name, error))
        except ValueError as error:
            found.append(Problem(file, path, str(error)))
    return found


def _out_of_range(file: str, mesh: MeshSettings, name: str, error: OutOfRange) -> Problem:
    """Return the mistake at its key: the node's own if it overrides it, else the shared one."""
    path, value = _place(mesh, name, _KEYS.get(error.name, error.name))
    allowed = error.allowed if error.value == value else str(error)  # a derived value is out of range
    if mesh.nodes[name].model_fields_set and "nodes" not in path:
        allowed = f"{allowed} (for node {name})"
    return Problem(file, ("mesh", *path), allowed, _shown(value))


def _place(mesh: MeshSettings, name: str, key: str) -> tuple[tuple[str, ...], object]:
    if key == "batch_size":
        return ("slots", "size"), mesh.slots.size
    if key == "dimension":
        return ("dimension",), mesh.dimension
    own = key in mesh.nodes[name].model_fields_set
    return ("nodes", name, key) if own else ("privacy", key), getattr(mesh.privacy_of(name), key)


def _shown(value: object) -> object:
    if isinstance(value, Settings):
        return {key: _shown(own) for key, own in value}
    return json.loads(as_text(value)) if isinstance(value, Fraction) else value


def _written(settings: Settings) -> dict[str, object]:
    return settings.model_dump(mode="json", exclude_none=True)
