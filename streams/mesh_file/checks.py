"""What no setting tells by itself: whether the settings of a mesh file go together."""

from collections.abc import Callable, Mapping
from functools import partial

from pydantic import ValidationError

from nodes.losses import takes_sparse
from nodes.privacy.simulated import SimulatedSampler
from streams.mesh_file import build
from streams.mesh_file.settings.base import Settings
from streams.mesh_file.settings.errors import ABSENT, Problem, problems
from streams.mesh_file.settings.mesh import MeshSettings
from streams.mesh_file.settings.node import FileSettings, LocalisationSettings, NodeSettings
from streams.mesh_file.settings.sparse import CsrSettings, LibsvmSettings, SparseSettings

_CLASSIFYING = ("hinge", "logistic")


def shared_problems(file: str, mesh: MeshSettings) -> list[Problem]:
    """Return what is wrong with the shared part, by building what it describes."""
    attempt = partial(_attempt, file)
    algorithm, topology = mesh.algorithm, mesh.topology
    found = attempt(
        ("algorithm", "mirror_map"), algorithm.mirror_map, partial(build.mirror_map, mesh)
    ) + attempt(("algorithm", "constraint"), algorithm.constraint, partial(build.constraint, mesh))
    found = found or attempt(("algorithm",), None, partial(build.algorithm, mesh))
    found = found or _privacy_problems(file, mesh)
    return found + attempt(("topology",), topology, partial(build.schedule, mesh, mesh.seed))


def _privacy_problems(file: str, mesh: MeshSettings) -> list[Problem]:
    found: list[Problem] = []
    overriding = {name for name, own in mesh.nodes.items() if own.model_fields_set}
    ordinary = [name for name in mesh.nodes if name not in overriding][:1]  # one speaks for all like it
    for name in [*ordinary, *sorted(overriding)]:
        path = ("nodes", name) if name in overriding else ("privacy",)
        try:
            mesh.privacy_of(name)
        except ValidationError as error:
            own = _written(mesh.privacy) | _written(mesh.nodes[name])
            found += problems(file, ("mesh", *path), own, error)
            continue
        sampler = SimulatedSampler(mesh.seed, name)
        found += _attempt(file, path, None, partial(build.mechanism, mesh, name, sampler))
        found += _attempt(file, path, None, partial(build.ledger, mesh, name))
    return found


def _written(settings: Settings) -> dict[str, object]:
    return settings.model_dump(mode="json", exclude_none=True)


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
    """Return what of the own parts does not fit the shared one; `named` are all that the file names."""
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
        elif own.source is not None:
            found += _file_problems(file, path, mesh, own.source)
            reading += [name] if own.source.path == "-" else []
    if len(reading) > 1:
        text = f"node {reading[0]} reads standard input already: must be a file"
        found.append(Problem(file, ("nodes", reading[1], "source", "path"), text, "-"))
    if held_out is not None:
        found += _file_problems(file, ("held_out",), mesh, held_out)
        if mesh.loss not in _CLASSIFYING:
            words = " or ".join(_CLASSIFYING)
            found.append(Problem(file, ("held_out",), f"goes with loss {words}, not with {mesh.loss}"))
    return found


def _localisation_problems(file: str, mesh: MeshSettings) -> list[Problem]:
    found = []
    if mesh.loss != "range":
        text = "localisation measures distances: must be range"
        found.append(Problem(file, ("mesh", "loss"), text, mesh.loss))
    if mesh.dimension != 2:
        text = "localisation is in the plane: must be 2"
        found.append(Problem(file, ("mesh", "dimension"), text, mesh.dimension))
    return found


def _file_problems(
    file: str, path: tuple[str, ...], mesh: MeshSettings, source: FileSettings | SparseSettings
) -> list[Problem]:
    if not isinstance(source, LibsvmSettings | CsrSettings):
        return _schema_problems(file, path, mesh, source)
    found = _label_problems(file, (*path, "label"), mesh, classes=source.label.positive is not None)
    if not takes_sparse(build.loss(mesh)):
        text = f"makes sparse records, and loss {mesh.loss} takes none: must be csv or json-lines"
        found.append(Problem(file, (*path, "kind"), text, source.kind))
    if mesh.slots.by == "time" and path[0] == "nodes":
        text = "has no times: must be csv, json-lines or localisation for slots by time"
        found.append(Problem(file, (*path, "kind"), text, source.kind))
    return found


def _label_problems(file: str, path: tuple[str, ...], mesh: MeshSettings, *, classes: bool) -> list[Problem]:
    if classes == (mesh.loss in _CLASSIFYING):
        return []
    need = "must say which labels are positive" if mesh.loss in _CLASSIFYING else "must be a number"
    return [Problem(file, path, f"{need}, for loss {mesh.loss}")]


def _schema_problems(
    file: str, path: tuple[str, ...], mesh: MeshSettings, source: FileSettings
) -> list[Problem]:
    found = []
    schema, path = source.record, (*path, "schema")
    if schema.width != mesh.dimension:
        text = f"makes {schema.width} features: must be {mesh.dimension}, the dimension of the mesh"
        found.append(Problem(file, path, text))
    found += _label_problems(file, (*path, "label"), mesh, classes=schema.label.positive is not None)
    if mesh.slots.by == "time" and schema.timestamp is None and path[0] == "nodes":
        found.append(Problem(file, (*path, "timestamp"), "missing: slots by time need a column"))
    return found
