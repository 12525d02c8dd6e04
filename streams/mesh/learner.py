"""Makes the loss and the slots from their settings."""

from collections.abc import Callable

import numpy as np

from nodes.losses.losses import Absolute, Hinge, Huber, Linear, Logistic, Loss, RangeLoss, Squared
from nodes.losses.softmax import Softmax
from nodes.losses.weighted import Weighted
from nodes.machine.slots import CountSlots, Slots
from nodes.machine.time_slots import TimeSlots
from streams.mesh.plugins import own_loss
from streams.mesh.settings.loss import LossSettings
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import TimeSlots as TimeSlotSettings

_LOSSES: dict[str, Callable[[], Loss]] = {
    "range": RangeLoss,
    "hinge": Hinge,
    "logistic": Logistic,
    "squared": Squared,
    "absolute": Absolute,
    "linear": Linear,
}


def loss(mesh: MeshSettings, node: str | None = None) -> Loss:
    """Return the loss of one record, with its label's weight; `node`: the name to log failures under."""
    settings = mesh.loss
    if settings.own is not None:
        return own_loss(settings.own, node)
    made = _plain(settings)
    if mesh.class_weights is None:
        return made
    return Weighted(made, np.array(settings.labels), np.array(mesh.class_weights))


def _plain(settings: LossSettings) -> Loss:
    if settings.softmax is not None:
        return Softmax(settings.softmax)
    return _LOSSES[settings.name]() if settings.huber is None else Huber(settings.huber)


def slots(mesh: MeshSettings) -> Slots[bytes]:
    """Return empty slots for one node."""
    settings = mesh.slots
    if isinstance(settings, TimeSlotSettings):
        return TimeSlots(settings.size, settings.start, settings.period, settings.grace, mesh.horizon)
    return CountSlots(settings.size)
