"""Checks that a source's features and labels fit the mesh."""

from streams.mesh.errors import Problem
from streams.mesh.settings.collaboration import CollaborationSettings
from streams.mesh.settings.loss import LossSettings
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.schema import LabelSettings, SparseSettings

Fitted = MeshSettings | CollaborationSettings
"""The shared parts that a source must fit."""


def loss_at(shared: Fitted, path: tuple[str, ...]) -> LossSettings:
    """Return the loss that the records of a source at `path` are for: a node's own, or the shared one."""
    return shared.loss_of(path[1]) if path[0] == "nodes" else shared.loss


def by_time(shared: Fitted) -> bool:
    """Return whether slots go by time, so that records need one."""
    return shared.by_time


def untimed_problems(file: str, mesh: MeshSettings) -> list[Problem]:
    """Return the mistake of slots by time with a user's own source."""
    if mesh.slots.by == "count":
        return []
    return [Problem(file, ("mesh", "slots", "by"), "an own source has no times: must be count", "time")]


def width_problems(file: str, path: tuple[str, ...], mesh: Fitted, width: int) -> list[Problem]:
    """Return the mistakes in a number of features; with an own loss any number fits."""
    dimension, loss = mesh.loss_dimension, loss_at(mesh, path)
    if loss.own is not None or loss.decisions_per_feature * width == dimension:
        return []
    if dimension != mesh.dimension:
        needed = loss.decisions_per_feature * width
        text = f"makes {width} features: the loss must see {needed} coordinates of the state, not {dimension}"
        return [Problem(file, path, text)]
    if loss.softmax is None:
        text = f"makes {width} features: must be {dimension}, the dimension of the mesh"
        return [Problem(file, path, text)]
    whole = f"{loss.softmax} classes of {width} features ({'.'.join(path)})"
    text = f"must be {loss.softmax * width}: {whole}"
    return [Problem(file, ("mesh", "dimension"), text, mesh.dimension)]


def label_problems(
    file: str, path: tuple[str, ...], loss: LossSettings, label: LabelSettings
) -> list[Problem]:
    """Return the mistakes in a schema's label; an own loss takes any."""
    if loss.own is not None:
        return []
    if loss.softmax is not None:
        if label.classes is None:
            return [Problem(file, path, f"must have classes, {loss.softmax} of them, for loss {loss}")]
        if len(label.classes) != loss.softmax:
            text = f"{len(label.classes)} classes: must be {loss.softmax}, for loss {loss}"
            return [Problem(file, (*path, "classes"), text)]
    elif label.classes is not None:
        return [Problem(file, (*path, "classes"), f"goes with loss softmax, not with {loss}")]
    else:
        return _sign_problems(file, path, loss, signed=label.positive is not None)
    return []


def sparse_problems(file: str, path: tuple[str, ...], mesh: Fitted, source: SparseSettings) -> list[Problem]:
    """Return the mistakes of a source of sparse records."""
    wrong, loss = [], loss_at(mesh, path)
    if loss.takes_sparse:
        wrong += _sign_problems(file, (*path, "label"), loss, signed=source.label.positive is not None)
    else:
        text = f"makes sparse records, and loss {loss} takes none: must be csv or json-lines"
        wrong.append(Problem(file, (*path, "kind"), text, source.kind))
    if by_time(mesh) and path[0] == "nodes":
        text = "has no times: must be csv, json-lines or localisation for slots by time"
        wrong.append(Problem(file, (*path, "kind"), text, source.kind))
    return wrong


def _sign_problems(file: str, path: tuple[str, ...], loss: LossSettings, *, signed: bool) -> list[Problem]:
    if signed == loss.signed:
        return []
    need = "must say which labels are positive" if loss.signed else "must be a number"
    return [Problem(file, path, f"{need}, for loss {loss}")]
