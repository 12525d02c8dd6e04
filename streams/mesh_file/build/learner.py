"""One node's learner, and the slots that its records come in."""

from collections.abc import Callable

from nodes.learner import Learner
from nodes.losses import Absolute, Hinge, Huber, Linear, Logistic, Loss, RangeLoss, Squared
from nodes.privacy.mechanism import Sampler
from nodes.slots import CountSlots, Slots, TimeSlots
from streams.mesh_file.build.account import ledger
from streams.mesh_file.build.algorithm import algorithm
from streams.mesh_file.build.privacy import mechanism
from streams.mesh_file.settings.mesh import MeshSettings
from streams.mesh_file.settings.privacy import TimeSlots as TimeSlotSettings

_LOSSES: dict[str, Callable[[], Loss]] = {
    "range": RangeLoss,
    "hinge": Hinge,
    "logistic": Logistic,
    "squared": Squared,
    "absolute": Absolute,
    "linear": Linear,
}


def loss(mesh: MeshSettings) -> Loss:
    """Return the loss of one record."""
    settings = mesh.loss
    return _LOSSES[settings.name]() if settings.huber is None else Huber(settings.huber)


def learner(
    mesh: MeshSettings, node: str, sampler: Sampler, charged_before: int = 0, *, from_end: bool = False
) -> Learner:
    """Return a node's algorithm, loss, mechanism and account, put together."""
    return Learner(
        algorithm(mesh),
        loss(mesh),
        mechanism(mesh, node, sampler),
        ledger(mesh, node),
        mesh.slots.size,
        mesh.privacy.after_budget,
        charged_before,
        from_end,
    )


def slots(mesh: MeshSettings) -> Slots[bytes]:
    """Return empty slots for one node."""
    settings = mesh.slots
    if isinstance(settings, TimeSlotSettings):
        return TimeSlots(settings.size, settings.start, settings.period, settings.grace)
    return CountSlots(settings.size)
