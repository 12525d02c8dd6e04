"""The time for which a node may delay the others by a mesh file, and why there may be no limit."""

from math import inf

from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import CountSlotsSettings
from topology.lag import LagLimits


def lag_limits(mesh: MeshSettings) -> LagLimits | None:
    """Return the limits on a broker. None: a node may hold the others for ever."""
    slots, slow = mesh.slots, mesh.lag_limit
    records = slots.timeout if isinstance(slots, CountSlotsSettings) else slots.period + slots.grace
    if mesh.silence is None or records is None or mesh.round_timeout is None:
        return None
    return LagLimits(
        max(slow or 0.0, mesh.silence, records + mesh.round_timeout), inf if slow is None else slow
    )


def why_for_ever(mesh: MeshSettings) -> str:
    """Return the first setting that lets a node hold the others for ever, as a mesh file has it."""
    for key in ("silence", "round_timeout"):
        if getattr(mesh, key) is None:
            return f"{key} is none"
    return "slots.timeout is none"
