"""Checks that the settings of a mesh file fit together, each being right by itself."""

from collections.abc import Callable, Mapping
from functools import partial

from streams.mesh.algorithm import constraint, mirror_map
from streams.mesh.errors import ABSENT, Problem
from streams.mesh.fits import label_problems, own_source_problems, sparse_problems, width_problems
from streams.mesh.mesh import Mesh
from streams.mesh.privacy_checks import privacy_problems
from streams.mesh.settings.base import Settings
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import (
    FileSettings,
    LocalisationSettings,
    NodeSettings,
    OwnSourceSettings,
)
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings, SparseSettings


def shared_problems(file: str, whole: Mesh) -> list[Problem]:
    """Return the mistakes in the shared part, found by building what it describes."""
    attempt, mesh = partial(_attempt, file), whole.settings
    own = mesh.algorithm
    found = attempt(("algorithm", "mirror_map"), own.mirror_map, partial(mirror_map, mesh))
    found += attempt(("algorithm", "constraint"), own.constraint, partial(constraint, mesh))
    found = found or attempt(("algorithm",), None, lambda: whole.algorithm)
    found += attempt(("loss",), mesh.loss, lambda: whole.loss)
    found = found or privacy_problems(file, whole)
    return found + attempt(("topology",), mesh.topology, lambda: whole.schedule)


def _attempt(
    file: str, path: tuple[str, ...], settings: Settings | None, make: Callable[[], object]
) -> list[Problem]:
    try:
        make()
    except ValueError as error:
        value = ABSENT
        if settings is not None:
            value = settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return [Problem(file, ("mesh", *path), str(error), value)]
    return []


def own_problems(
    file: str,
    mesh: MeshSettings,
    named: tuple[str, ...],
    nodes: Mapping[str, NodeSettings],
    held_out: FileSettings | SparseSettings | None,
) -> list[Problem]:
    """Return the mistakes where own parts do not fit the shared part; `named`: all nodes in the file."""
    known = ", ".join(mesh.nodes)
    found = [
        Problem(file, ("nodes", name), f"not a node of the mesh: must be one of {known}")
        for name in named
        if name not in mesh.nodes
    ]
    reading: list[str] = []
    for name, own in nodes.items():
        path = ("nodes", name, "source")
        if isinstance(own.source, LocalisationSettings):
            found += _localisation_problems(file, mesh)
        elif isinstance(own.source, OwnSourceSettings):
            found += own_source_problems(file, name, mesh, own.source)
        elif own.source is not None:
            found += _file_problems(file, path, mesh, own.source)
            reading += [name] if own.source.path == "-" else []
    if len(reading) > 1:
        text = f"node {reading[0]} reads standard input already: must be a file"
        found.append(Problem(file, ("nodes", reading[1], "source", "path"), text, "-"))
    if held_out is not None:
        found += _file_problems(file, ("held_out",), mesh, held_out)
    return found


def _localisation_problems(file: str, mesh: MeshSettings) -> list[Problem]:
    found = []
    if not (mesh.loss.range_ or mesh.loss.own):
        text = "localisation measures distances: must be range, or an own loss"
        found.append(Problem(file, ("mesh", "loss"), text, mesh.loss.model_dump()))
    if mesh.dimension != 2:
        text = "localisation is in the plane: must be 2"
        found.append(Problem(file, ("mesh", "dimension"), text, mesh.dimension))
    return found


def _file_problems(
    file: str, path: tuple[str, ...], mesh: MeshSettings, source: FileSettings | SparseSettings
) -> list[Problem]:
    if isinstance(source, LibsvmSettings | CsrSettings):
        return sparse_problems(file, path, mesh, source)
    return _schema_problems(file, path, mesh, source)


def _schema_problems(
    file: str, path: tuple[str, ...], mesh: MeshSettings, source: FileSettings
) -> list[Problem]:
    found = []
    schema, path = source.record, (*path, "schema")
    found += width_problems(file, path, mesh, schema.width)
    found += label_problems(file, (*path, "label"), mesh.loss, schema.label)
    if schema.truth is not None and len(schema.truth) != mesh.dimension:
        text = f"must be {mesh.dimension}, one for each coordinate of the decision"
        named = f"names {len(schema.truth)} columns"
        found.append(Problem(file, (*path, "truth"), f"{named}: {text}", list(schema.truth)))
    if mesh.slots.by == "time" and schema.timestamp is None and path[0] == "nodes":
        found.append(Problem(file, (*path, "timestamp"), "missing: slots by time need a column"))
    return found
