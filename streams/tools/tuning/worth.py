"""Runs a collaboration on a pilot, and forecasts from what it says.

The pilot's records are public or made up: the owners' own are not read, and nothing is spent.
"""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from pydantic import ValidationError

from nodes.collaboration.cost import Cost
from nodes.collaboration.forecast import Fit, Power, Terms, fit, noise_of
from nodes.collaboration.steps import Averaged, StronglyConvex
from nodes.collaboration.trial import Share, stages
from nodes.geometry.constraints import Constraint
from nodes.losses.losses import Squared
from nodes.values import FloatArray
from streams.mesh.collaboration import Collaboration
from streams.mesh.collaboration_file import CollaborationFile
from streams.mesh.errors import UsageError, one_of, problems
from streams.mesh.settings.collaboration import CollaborationSettings
from streams.tools.tuning.constants import Constants, shape_of
from streams.tools.tuning.pilot import Resampled
from topology.keyed import generator

MOST_RECORDS, RUNS = 2_000, 16
WIDTH, LEVELS = 4.0, 7
"""Noise is tried from a quarter of the mesh's own to four times it, at that many levels."""
_PARTS, _DRAWS, _ROUNDS = (8, 4), 3, 600
_LEAST = 1e-12  # of a relative fitness: below it is rounding


def measured(file: CollaborationFile, pilot: Resampled, like: str, seed: int) -> Constants:
    """Run the collaboration on the pilot at several levels of noise, and fit.

    Raises UsageError or MeshFileError if the pilot has no cost to compare with, or runs on it diverge.
    """
    whole, settings = file.resolved, file.mesh
    rows = slice(MOST_RECORDS)
    cost = Cost(whole.loss, pilot.features[rows], pilot.labels[rows], settings.regulariser)
    within = whole.step.constraint if isinstance(whole.step, Averaged) else None
    _, least = cost.least(within)
    if not least > 0:
        raise UsageError(f"{like} can be fitted without any cost, and nothing is relative to it: take others")
    noise = noise_of(terms(whole).values())
    levels = np.geomspace(1 / WIDTH, WIDTH, LEVELS)
    fitness = np.maximum(_reached(cost, whole, levels, seed) / least - 1, _LEAST)
    if not np.isfinite(fitness).all():
        step = "rho" if isinstance(whole.step, StronglyConvex) else "step"
        raise file.refuse(("mesh", "algorithm", step), "runs on the pilot diverge: must be smaller")
    sampling = _sampling(cost, within, least, seed)
    powers: tuple[Power, ...] = (2, 1)
    better, second = sorted((fit(noise * levels, fitness, sampling, power) for power in powers), key=_error)
    tried = (noise / WIDTH, noise * WIDTH)
    return Constants(
        better, second, least, _convexity(cost), tried, len(cost.labels), like, shape_of(settings)
    )


def terms(whole: Collaboration) -> dict[str, Terms]:
    """Return n_l and the noise of each owner's answers."""
    return {name: Terms(n, whole.mechanism(name).noise_deviation) for name, n in whole.records.items()}


def supposed(settings: CollaborationSettings, changes: Iterable[str]) -> CollaborationSettings:
    """Return the settings with owners' terms as `owner.field=value` says. Raises UsageError."""
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
        terms(Collaboration(supposing))
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
    total, owners = sum(whole.records.values()), whole.settings.owners
    shares = {
        name: Share(owners[name].mechanism, levels[:, None] * owner.deviation * owner.records / total)
        for name, owner in terms(whole).items()
    }
    shape = (len(levels), RUNS)
    *_, last = stages(cost, whole.step, whole.settings.gradient_bound, shares, shape, seed)
    return cost.at(last.average)


def _sampling(cost: Cost, within: Constraint | None, least: float, seed: int) -> float:
    """Return g: the mean over draws of m records of psi at their best model, times m.

    They are drawn from the pilot's M, so psi is that of 1/m - 1/M.
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
