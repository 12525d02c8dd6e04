"""Puts a motion model into words."""

from collections.abc import Iterator

from streams.mesh.algorithm import dynamics
from streams.mesh.settings.mesh import MeshSettings

NO_BOUND = (
    "none is claimed with a motion model: theorems on moving targets (Hall, Willett 2013; Shahrampour, "
    "Jadbabaie 2018) need one that is non-expansive, and constant velocity or acceleration is so in no norm; "
    "those on fixed ones have none"
)


def motion_facts(mesh: MeshSettings) -> Iterator[tuple[str, str]]:
    """Yield (name, fact) of the mesh's motion model, if it has one."""
    settings, observed = mesh.algorithm.dynamics, mesh.algorithm.seen
    model = dynamics(mesh)
    if settings is None or observed is None or model is None:
        return
    if settings.model is None:
        description = f"a matrix of {mesh.dimension} rows, spectral radius {model.spectral_radius():.6g}"
    else:
        description = f"{settings.model} in {settings.dimensions}, period {settings.period:g}"
    yield "motion", f"{description}; public, and the same at every node"
    part, size = ", ".join(map(str, observed)), len(observed)
    yield (
        "",
        f"the loss sees coordinates {part} of {mesh.dimension}: gradients, clip and noise have {size}",
    )
