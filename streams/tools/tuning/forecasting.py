"""The forecast of a mesh file: of a collaboration by fitted constants, of a mesh by the engine."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nodes.collaboration.forecast import Forecast, noise_of, theorem_2
from nodes.collaboration.forecast import forecast as expected_of
from nodes.collaboration.steps import StronglyConvex
from streams.mesh.collaboration import Collaboration
from streams.mesh.collaboration_file import CollaborationFile
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile, load_any
from streams.mesh.settings.collaboration import CollaborationSettings
from streams.mesh.settings.mesh import MeshSettings
from streams.tools.tuning.constants import Constants, read_constants
from streams.tools.tuning.estimate import Estimate, estimate
from streams.tools.tuning.pilot import Resampled
from streams.tools.tuning.public_records import from_file, made_up_by_schema
from streams.tools.tuning.worth import measured, supposed, terms

HOW = (
    "a forecast needs constants: fit them with --pilot FILE (public records) or --synthetic (made-up ones), "
    "or give --constants FILE, which `forecast --output` has written"
)


@dataclass(frozen=True, slots=True)
class Worth:
    """What a collaboration is worth, with these settings and constants.

    `doubled`: psi + g/n if that owner's epsilon were twice as large. `bound`: Theorem 2's, over f*; None
    where it does not apply. `shared`: expected psi if `sharing` were one more; None: it is all owners.
    """

    settings: CollaborationSettings
    constants: Constants
    forecast: Forecast
    doubled: dict[str, float]
    bound: float | None
    shared: float | None

    @property
    def beyond(self) -> bool:
        """Whether the noise is outside of what the pilot tried, so that the fit is extended."""
        least, most = self.constants.noises
        return not least * (1 - 1e-9) <= self.forecast.noise <= most * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class Fewer:
    """A mesh as it is, with one node less, and one node alone; None: no such mesh can be."""

    all: Estimate
    fewer: Estimate | None
    alone: Estimate | None


def constants_of(
    file: CollaborationFile,
    *,
    pilot: Path | None = None,
    synthetic: bool = False,
    constants: Path | None = None,
    seed: int = 1,
) -> Constants:
    """Return the constants of exactly one of the three; UsageError, which says how to get them, otherwise."""
    options = {"--pilot": pilot, "--synthetic": synthetic or None, "--constants": constants}
    options_given = [name for name, value in options.items() if value is not None]
    if len(options_given) > 1:
        raise UsageError(f"{' and '.join(options_given)}: only one of them may be given")
    if not options_given:
        raise UsageError(HOW)
    if constants is not None:
        return read_constants(constants, file)
    if pilot is not None:
        records, like = from_file(file, pilot), f"the public records of {pilot.name}"
    else:
        owner, records = made_up_by_schema(file, seed, "--synthetic")
        like = "made-up records" + ("" if owner is None else f" with the features of {owner}'s schema")
    if not isinstance(records, Resampled):
        raise UsageError(f"--synthetic: there are no made-up records for loss {file.mesh.loss}: use --pilot")
    return measured(file, records, like, seed)


def forecast(
    mesh: Path | CollaborationFile,
    *,
    pilot: Path | None = None,
    synthetic: bool = False,
    constants: Path | None = None,
    what_if: Sequence[str] = (),
    seed: int = 1,
) -> Worth:
    """Return what the collaboration of a mesh file is worth, from exactly one of the three for constants.

    `pilot` is a file of public records, `synthetic` takes made-up ones, `constants` is what
    `mirrormesh forecast --output` has written. Raises UsageError and MeshFileError.
    """
    file = load_any(mesh) if isinstance(mesh, Path) else mesh
    if isinstance(file, MeshFile):
        raise file.refuse(("mesh", "kind"), "missing: must be collaboration for a forecast")
    fitted = constants_of(file, pilot=pilot, synthetic=synthetic, constants=constants, seed=seed)
    return worth(file, fitted, what_if)


def worth(file: CollaborationFile, constants: Constants, what_if: Sequence[str] = ()) -> Worth:
    """Return the forecast of the file's collaboration.

    `what_if` holds other terms of owners, as OWNER.epsilon=2; UsageError for wrong ones.
    """
    settings = supposed(file.mesh, what_if)
    whole = Collaboration(settings)
    expected = expected_of(terms(whole), constants.fit)
    doubled = {name: _new(_doubled(settings, name), constants) for name in settings.owners}
    bound = _bound(whole, expected.noise, constants)
    return Worth(settings, constants, expected, doubled, bound, _shared(settings, constants))


def fewer(file: MeshFile, rounds: int | None = None, seed: int = 1, pilot: Path | None = None) -> Fewer:
    """Estimate what one more party brings to a mesh: runs of it, of one node less, and of one node alone."""

    def of(nodes: int) -> Estimate | None:
        if not 1 <= nodes < len(file.mesh.nodes):
            return None
        try:
            return estimate(replace(file, mesh=_smaller(file.mesh, nodes)), rounds, seed, pilot)
        except ValueError:  # its topology names the nodes, or needs more of them
            return None

    count = len(file.mesh.nodes)
    return Fewer(estimate(file, rounds, seed, pilot), of(count - 1) if count > 2 else None, of(1))


def _smaller(mesh: MeshSettings, nodes: int) -> MeshSettings:
    first_nodes = dict(list(mesh.nodes.items())[:nodes])
    least = None if mesh.min_members is None else min(mesh.min_members, nodes)
    return MeshSettings.model_validate(dict(mesh) | {"nodes": first_nodes, "min_members": least})


def _doubled(settings: CollaborationSettings, owner: str) -> CollaborationSettings:
    settings_of_owner = settings.owners[owner]
    doubled = settings_of_owner.model_copy(update={"epsilon": 2 * settings_of_owner.epsilon})
    return settings.model_copy(update={"owners": dict(settings.owners) | {owner: doubled}})


def _shared(settings: CollaborationSettings, constants: Constants) -> float | None:
    if settings.sharing == len(settings.owners):
        return None
    more = Collaboration(settings.model_copy(update={"sharing": settings.sharing + 1}))
    return constants.fit.at(noise_of(terms(more).values()))


def _new(settings: CollaborationSettings, constants: Constants) -> float:
    try:
        return expected_of(terms(Collaboration(settings)), constants.fit).new
    except ValueError:  # so large an epsilon that its noise falls below the grid
        return math.nan


def _bound(whole: Collaboration, noise: float, constants: Constants) -> float | None:
    step = whole.step
    if not isinstance(step, StronglyConvex):
        return None
    bound = theorem_2(
        noise,
        rho=step.rho,
        convexity=constants.convexity,
        queries=step.queries,
        dimension=step.dimension,
    )
    return bound / constants.least
