"""The forecast of a mesh file: of a collaboration by fitted constants, of a mesh by the engine."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from nodes.collaboration.forecast import (
    Cost,
    Fit,
    Forecast,
    Power,
    Share,
    fit,
    new_records,
    stages,
    theorem_2,
)
from nodes.collaboration.forecast import forecast as expected_of
from nodes.collaboration.steps import Averaged, StronglyConvex, noise_of
from nodes.geometry.constraints import Constraint
from nodes.losses.losses import Squared
from nodes.privacy.clipping import clip
from nodes.sparse import dense
from nodes.values import FloatArray, Observations
from streams.collaboration.file import CollaborationFile, load_collaboration
from streams.collaboration.settings import CollaborationSettings
from streams.collaboration.wire import Collaboration
from streams.mesh.errors import UsageError, as_count, as_path_or_none, check_type, one_of, problems, texts
from streams.mesh.file import MeshFile
from streams.mesh.mesh import Mesh
from streams.mesh.settings.files import read_small
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import NodeOverrides
from streams.tools.tuning.pilot import (
    Pilot,
    Resampled,
    cross_validated,
    from_file,
    labels_of,
    made_up_by_schema,
    plain_model,
)
from streams.tools.tuning.trials import Setting, Trials
from topology.keyed import generator

# Estimates what a mesh would reach, from runs on made-up records: never on a node's own.

RUNS, CLEAR_RUNS = 19, 2
"""The numbers of runs with and without privacy. The next run is between least and largest of 19 in 90 %."""
UNKNOWN_ROUNDS = 1_000
"""The number of rounds for a mesh without an end."""
MOST_ROUNDS, MOST_NUMBERS = 2_000, 20_000_000
"""The longest run, in rounds and in features read, so that an estimate takes seconds."""
MOST_FEATURES = 20_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """What `RUNS` runs reach: from `low` to `high`, and `open` on average without privacy.

    `measure`: the AUC of the last decisions on other made-up records, or the mean loss over all rounds. The
    runs have `rounds` rounds. `like`: the node whose schema the records follow; None: no schema was here.
    `noise`: its length in round 1 over that of the signal, the mean of the made-up records' clipped gradients
    at x_1; None without noise on gradients, or without records that stay the same. `alone`: what a plain
    model of the pilot reaches, without any node; None where there is none.
    """

    measure: str
    low: float
    high: float
    open: float
    rounds: int
    like: str | None
    noise: float | None
    alone: float | None = None


def estimate(
    file: MeshFile, rounds: int | None = None, seed: int = 1, records: Path | None = None
) -> Estimate:
    """Run the mesh on made-up records, or public ones in a file, with simulated noise, and without privacy.

    Every node has the shared privacy settings, and every slot is full. Raises UsageError if there are no
    made-up records for the mesh's loss or dimension.
    """
    mesh = file.mesh
    if mesh.dimension > MOST_FEATURES:
        raise UsageError(f"--estimate: dimension is {mesh.dimension:,}: must be at most {MOST_FEATURES:,}")
    like, pilot = (
        made_up_by_schema(file, seed, "--estimate") if records is None else (None, from_file(file, records))
    )
    held_out = None
    if mesh.loss.signed and isinstance(pilot, Resampled):
        pilot, held_out = _halves(pilot)
    size = mesh.slots.size
    planned = rounds or mesh.rounds or UNKNOWN_ROUNDS
    simulated = min(planned, MOST_ROUNDS, max(1, MOST_NUMBERS // (len(mesh.nodes) * size * mesh.dimension)))

    def reached(settings: MeshSettings, runs: int) -> list[float]:
        trials = Trials(settings, pilot, simulated * size, 1, seed, held_out, file.code)
        losses = [replace(trials, seed=seed + k).loss(Setting.of(settings)) for k in range(runs)]
        return losses if held_out is None else [1.0 - loss for loss in losses]

    private = reached(mesh, RUNS)
    clear = reached(without_privacy(mesh), CLEAR_RUNS)
    measure = "mean loss" if held_out is None else "AUC"
    reaches = min(private), max(private), fmean(clear)
    return Estimate(
        measure, *reaches, simulated, like, noise_over_signal(file, pilot), _alone(file, pilot, held_out)
    )


def _alone(file: MeshFile, pilot: Pilot, test: tuple[FloatArray, FloatArray] | None) -> float | None:
    """Return the AUC of a plain model of the pilot on other records, or its mean loss; None: none."""
    kind, loss = labels_of(file.mesh.loss), file.resolved.loss
    if kind is None or not isinstance(pilot, Resampled):
        return None
    if test is None:
        figures = cross_validated(loss, kind, pilot.features, pilot.labels)
        return None if figures is None else figures.loss
    figures = plain_model(loss, kind, (pilot.features, pilot.labels), test)
    return None if figures is None else figures.auc


def without_privacy(mesh: MeshSettings) -> MeshSettings:
    """Return the mesh without noise, clip and budget."""
    unlimited = mesh.privacy.model_copy(update={"budget": None})
    return mesh.model_copy(update={"privacy": unlimited.overridden(NodeOverrides(mechanism="none"))})


def noise_over_signal(file: MeshFile, pilot: Pilot) -> float | None:
    """Return the noise's length over the signal's."""
    mesh = file.mesh
    on_gradients = mesh.privacy.on == "gradient" and mesh.algorithm.steps
    if not isinstance(pilot, Resampled) or mesh.privacy.mechanism == "none" or not on_gradients:
        return None
    trial_mesh = Mesh(Setting.of(mesh).applied(mesh), code=file.code)
    signal = mean_gradient(trial_mesh, pilot)
    length = float(np.sqrt((signal * signal).sum()))
    return trial_mesh.node(min(mesh.nodes)).noise_length(1) / length if length else None


def mean_gradient(mesh: Mesh, pilot: Resampled) -> FloatArray:
    """Return the mean (d,) of the pilot's gradients at the first decision, each clipped."""
    present, privacy = np.ones(pilot.labels.shape, np.bool_), mesh.settings.privacy
    start = mesh.algorithm.observed(mesh.algorithm.start)
    gradients = mesh.loss.gradients(start, Observations(pilot.features, pilot.labels, present))
    clipped, _, _ = clip(dense(gradients), privacy.gradient_bound, privacy.norm)
    mean: FloatArray = clipped.mean(0)
    return mean


def _halves(pilot: Resampled) -> tuple[Resampled, tuple[FloatArray, FloatArray]]:
    """Return records to learn from, and others to score decisions on."""
    half = len(pilot.labels) // 2
    learnt = Resampled(pilot.features[:half], pilot.labels[:half])
    return learnt, (pilot.features[half:], pilot.labels[half:])


# The constants of a forecast: the results of a pilot, and their form as JSON.

_SHAPE = {"dimension", "loss", "regulariser", "constraint", "algorithm", "queries", "gradient_bound"}
"""The settings for which constants are valid: all but the owners' terms and `sharing`, which make the
noise."""


class Constants(NamedTuple):
    """The better of two fits, and the other; `least` is f*, `convexity` L, of the pilot.

    `noises`: the least and the largest noise tried. `records`, `like`: how many the pilot had, and what they
    were.
    """

    fit: Fit
    other: Fit
    least: float
    convexity: float
    noises: tuple[float, float]
    records: int
    like: str
    shape: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return what `read_constants` reads."""
        return self._asdict() | {"fit": self.fit._asdict(), "other": self.other._asdict()}


def shape_of(mesh: CollaborationSettings) -> dict[str, Any]:
    """Return the settings for which constants are valid, as JSON has them."""
    shape: dict[str, Any] = mesh.model_dump(mode="json", include=_SHAPE)
    return shape


def read_constants(path: Path, file: CollaborationFile) -> Constants:
    """Read the constants in the output of `forecast --output`.

    Raises UsageError if there are none, or if they are of other settings than the file's.
    """
    try:
        constants = _parsed(read_small(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(
            f"{path}: holds no constants: must be what `mirrormesh forecast --output` has written"
        ) from None
    shape = shape_of(file.mesh)
    for key in sorted(_SHAPE):
        if constants.shape.get(key) != shape[key]:
            raise UsageError(
                f"{path}: constants for {key} {json.dumps(constants.shape.get(key))}, "
                f"but {file.path} has {json.dumps(shape[key])}: make them anew with --pilot or --synthetic"
            )
    return constants


class _Output(BaseModel):
    """The output of `forecast --output`, as far as it is read here."""

    model_config = ConfigDict(strict=True)

    constants: Constants


def _parsed(text: bytes) -> Constants:
    """Raise ValueError unless the JSON has all constants, as finite numbers of at least 0."""
    constants = _Output.model_validate_json(text).constants
    numbers = [*constants.fit, *constants.other, constants.least, constants.convexity, *constants.noises]
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError("constants must be finite and at least 0")
    if constants.least == 0 or constants.records < 1:
        raise ValueError("a pilot has a record and a cost")
    return constants


# Runs a collaboration on a pilot, and forecasts from the results.
#
# The pilot's records are public or made up. The owners' own are not read, and nothing is spent.

MOST_RECORDS, PILOT_RUNS = 2_000, 16
WIDTH, LEVELS = 4.0, 7
"""The range of noise, from a quarter of the mesh's own to four times it, and the number of levels."""
_PARTS, _DRAWS, _ROUNDS = (8, 4), 3, 600
_LEAST = 1e-12  # of a relative fitness: below it is rounding


def measured(file: CollaborationFile, pilot: Resampled, like: str, seed: int) -> Constants:
    """Run the collaboration on the pilot at several levels of noise, and fit.

    Raises UsageError or MeshFileError if the pilot has no cost to compare with, or runs on it diverge.
    """
    collaboration, settings = file.resolved, file.mesh
    rows = slice(MOST_RECORDS)
    cost = Cost(collaboration.loss, pilot.features[rows], pilot.labels[rows], settings.regulariser)
    within = collaboration.step.constraint if isinstance(collaboration.step, Averaged) else None
    _, least = cost.least(within)
    if not least > 0:
        raise UsageError(f"{like} can be fitted without any cost, and nothing is relative to it: take others")
    noise = noise_of(collaboration.terms.values(), collaboration.weigh)
    levels = np.geomspace(1 / WIDTH, WIDTH, LEVELS)
    fitness = np.maximum(_reached(cost, collaboration, levels, seed) / least - 1, _LEAST)
    if not np.isfinite(fitness).all():
        step = "rho" if isinstance(collaboration.step, StronglyConvex) else "step"
        raise file.refuse(("mesh", "algorithm", step), "runs on the pilot diverge: must be smaller")
    sampling = _sampling(cost, within, least, seed)
    powers: tuple[Power, ...] = (2, 1)
    better, second = sorted((fit(noise * levels, fitness, sampling, power) for power in powers), key=_error)
    tried = (noise / WIDTH, noise * WIDTH)
    return Constants(
        better, second, least, _convexity(cost), tried, len(cost.labels), like, shape_of(settings)
    )


def supposed(settings: CollaborationSettings, changes: Iterable[str]) -> CollaborationSettings:
    """Return the settings with the owners' terms changed as `owner.field=value` gives. Raises UsageError."""
    owners = {name: dict(owner_settings) for name, owner_settings in settings.owners.items()}
    for change in changes:
        place, _, text = change.partition("=")
        owner, _, field = place.partition(".")
        form = "must be OWNER.epsilon=NUMBER, or delta or records in place of epsilon"
        if owner not in owners:
            raise UsageError(f"--what-if {change}: {one_of(owners, owner)}; {form}")
        if field not in {"epsilon", "delta", "records"}:
            raise UsageError(f"--what-if {change}: {form}")
        try:
            owners[owner][field] = {"epsilon": Fraction, "delta": float, "records": int}[field](text)
        except (ValueError, ZeroDivisionError):
            raise UsageError(f"--what-if {change}: {text!r} is no number: {form}") from None
    try:
        supposing = CollaborationSettings.model_validate(dict(settings) | {"owners": owners})
        _ = Collaboration(supposing).terms
    except ValidationError as error:
        first = problems("--what-if", (), {"owners": owners}, error)[0]
        raise UsageError(replace(first, path=first.path[1:]).line) from None
    except ValueError as error:
        raise UsageError(f"--what-if: {error}") from None
    return supposing


def _error(found: Fit) -> float:
    return found.error


@np.errstate(all="ignore")  # steps that are far too large
def _reached(cost: Cost, whole: Collaboration, levels: FloatArray, seed: int) -> FloatArray:
    """Return f of the models, shape (levels, runs)."""
    owners, influence, total = whole.settings.owners, whole.influence, sum(whole.influence.values())
    shares = {
        name: Share(owners[name].mechanism, levels[:, None] * owner.deviation * influence[name] / total)
        for name, owner in whole.terms.items()
    }
    shape = (len(levels), PILOT_RUNS)
    *_, last = stages(cost, whole.step, whole.settings.gradient_bound, shares, shape, seed)
    return cost.at(last.average)


def _sampling(cost: Cost, within: Constraint | None, least: float, seed: int) -> float:
    """Return g, the mean of psi/(1/m - 1/M) over draws of m of the pilot's M records.

    psi is the relative fitness, on all M records, of the best model of the m drawn ones.
    """
    count, excesses = len(cost.labels), []
    for part in _PARTS:
        m = max(1, count // part)
        for draw in range(_DRAWS):
            rows = generator("sampling", seed, part, draw).permutation(count)[:m]
            sample = Cost(cost.loss, cost.features[rows], cost.labels[rows], cost.regulariser)
            theta, _ = sample.least(within, _ROUNDS)
            excesses.append((float(cost.at(theta)) / least - 1) / (1 / m - 1 / count) if m < count else 0.0)
    return max(0.0, float(np.mean(excesses)))


def _convexity(cost: Cost) -> float:
    """Return L: the regulariser, and with the squared loss the least eigenvalue of the records' own."""
    if not isinstance(cost.loss, Squared):
        return cost.regulariser
    curvature: Any = np.linalg.eigvalsh(cost.features.T @ cost.features / len(cost.labels))
    return max(0.0, float(curvature[0])) + cost.regulariser


HOW = (
    "a forecast needs constants: fit them with --pilot FILE (public records) or --synthetic (made-up ones), "
    "or give --constants FILE, which `forecast --output` has written"
)


@dataclass(frozen=True, slots=True)
class ForecastValue:
    """The value of a collaboration with these settings and constants.

    `doubled`: psi + g/n if that owner's epsilon were twice as large. `bound`: Theorem 2's, over f*; None
    where it does not apply. `shared`: expected psi if `sharing` were one more; None: it is all owners.
    """

    settings: CollaborationSettings
    constants: Constants
    forecast: Forecast
    doubled: dict[str, float]
    bound: float | None
    shared: float | None

    def cost_at(self, factor: float) -> float:
        """Return psi + g/n if all epsilons were `factor` times as large, with noise in proportion."""
        collaboration = Collaboration(self.settings)
        terms = [*collaboration.terms.values()]
        return new_records(terms, self.constants.fit, collaboration.weigh, 1 / factor)

    @property
    def beyond(self) -> bool:
        """Whether the noise is outside of the pilot's range, so that the fit is extrapolated."""
        smallest, largest = self.constants.noises
        return not smallest * (1 - 1e-9) <= self.forecast.noise <= largest * (1 + 1e-9)


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
    """Return the constants from exactly one of the three.

    Otherwise raises UsageError with the way to get them.
    """
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
    mesh: str | Path | CollaborationFile,
    *,
    pilot: str | Path | None = None,
    synthetic: bool = False,
    constants: str | Path | None = None,
    what_if: Sequence[str] = (),
    seed: int = 1,
) -> ForecastValue:
    """Return the value of a mesh file's collaboration, from exactly one of the three sources of constants.

    `pilot` is a file of public records, `synthetic` takes made-up ones, `constants` is what
    `mirrormesh forecast --output` has written. Raises UsageError and MeshFileError.
    """
    file = load_collaboration(mesh) if isinstance(mesh, str | Path) else mesh
    allowed = "must be the path of the file of a collaboration, or what load_collaboration returns"
    check_type("mesh", file, CollaborationFile, allowed)
    check_type("synthetic", synthetic, bool, "must be True or False")
    fitted = constants_of(
        file,
        pilot=as_path_or_none("pilot", pilot),
        synthetic=synthetic,
        constants=as_path_or_none("constants", constants),
        seed=as_count("seed", seed, 0),
    )
    return forecast_with(file, fitted, texts("what_if", what_if))


def forecast_with(
    file: CollaborationFile, constants: Constants, what_if: Sequence[str] = ()
) -> ForecastValue:
    """Return the forecast of the file's collaboration.

    `what_if` has other terms of owners, as OWNER.epsilon=2. Raises UsageError for wrong ones.
    """
    settings = supposed(file.mesh, what_if)
    collaboration = Collaboration(settings)
    expected = expected_of(collaboration.terms, constants.fit, collaboration.weigh)
    doubled = {name: _new(_doubled(settings, name), constants) for name in settings.owners}
    bound = _bound(collaboration, expected.noise, constants)
    return ForecastValue(settings, constants, expected, doubled, bound, _shared(settings, constants))


def fewer(file: MeshFile, rounds: int | None = None, seed: int = 1, pilot: Path | None = None) -> Fewer:
    """Estimate the contribution of a further party: runs of the mesh, of one node less, of one node alone."""

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
    wider_collaboration = Collaboration(settings.model_copy(update={"sharing": settings.sharing + 1}))
    return expected_of(wider_collaboration.terms, constants.fit, wider_collaboration.weigh).expected


def _new(settings: CollaborationSettings, constants: Constants) -> float:
    try:
        collaboration = Collaboration(settings)
        return new_records([*collaboration.terms.values()], constants.fit, collaboration.weigh)
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
