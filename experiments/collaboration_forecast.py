"""Does the forecast hold? Over a 4 x 4 grid of (n, epsilon), three owners alike, both algorithms.

The constants are fitted to runs on the public part alone, by the product's own fit: once at the middle of the
grid over all of its noise, and at each point over noise within a factor of four. The slopes are those of a
plane in (ln epsilon, ln n) through ln psi of all points, and through what the noise adds to the run without.
"""

import math
from collections.abc import Iterator

import numpy as np

from experiments.harness.figures import Curve, draw, table
from experiments.harness.star import BOUND, OWNERS, QUERIES, SIZES, alike, cost, measured, noises, psi, step
from experiments.harness.star_figures import CLIPPING
from experiments.harness.study import Study
from nodes.collaboration.forecast import Fit, Power, Share, fit, stages
from nodes.values import FloatArray

EPSILONS = {"loans": (2.0, 5.0, 10.0, 20.0), "cards": (0.2, 0.5, 1.0, 5.0)}
LEVELS, RUNS = 7, 16


def main(study: Study) -> None:
    """Write collaboration-forecast and collaboration-slopes, and draw the forecast of the loans."""
    cells: list[list[object]] = []
    slopes: list[list[object]] = []
    for name in EPSILONS:
        for algorithm in (1, 2):
            for clipped in (True, False) if name in CLIPPING else (True,):
                found = _grid(study, name, algorithm, clipped=clipped)
                slopes.append([name, algorithm, "yes" if clipped else "no", *_slopes(found)])
            cells += _forecasts(study, name, algorithm)
    table(
        study.output,
        "collaboration-slopes",
        ["data", "algorithm", "clipped", "epsilon", "n", "epsilon_of_noise", "n_of_noise"],
        slopes,
    )
    header = [
        "data",
        "algorithm",
        "records",
        "epsilon",
        "noise",
        "psi",
        "whole_grid",
        "near",
        "error_of_mean",
    ]
    table(study.output, "collaboration-forecast", header, cells)
    _errors(study, cells)
    _sketch(study, [row for row in cells if row[:2] == ["loans", 2]])


def _grid(study: Study, name: str, algorithm: int, *, clipped: bool = True) -> FloatArray:
    """Return rows (n, epsilon, mean psi, mean psi without noise)."""
    few = 2 if study.quick else 4
    points = [(n, e) for n in SIZES[name][:few] for e in EPSILONS[name][:few]]
    cases = {f"{n}, {e}": alike(name, n, e, algorithm, clipped=clipped) for n, e in points}
    clear = {f"{n}": alike(name, n, math.inf, algorithm, clipped=clipped) for n in SIZES[name]}
    once = {label: {**one, "quick": study.quick, "runs": 1} for label, one in clear.items()}
    without = {label: run["psi"].item() for label, run in study.repeated(measured, once, 1).items()}
    found = psi(study, cases)
    return np.array([[n, e, found[f"{n}, {e}"][-1].mean(), without[f"{n}"]] for n, e in points])


def _slopes(found: FloatArray) -> list[float]:
    """Return the slopes in epsilon and n of ln psi, and of ln of what the noise adds."""
    n, epsilon, fitness, without = found.T
    plane = np.stack([np.ones_like(n), np.log(epsilon), np.log(n)], 1)
    slopes = []
    for values in (fitness, fitness - without):
        solved = np.linalg.lstsq(plane, np.log(np.maximum(values, 1e-12)), rcond=None)[0]
        slopes += [float(solved[1]), float(solved[2])]
    return slopes


def _forecasts(study: Study, name: str, algorithm: int) -> list[list[object]]:
    """Return what is forecast at each point, beside what runs reach."""
    found = _grid(study, name, algorithm)
    levels = [_noise(name, int(n), float(e)) for n, e, *_ in found]
    whole = _fitted(study, name, algorithm, np.geomspace(min(levels), max(levels), LEVELS))
    rows: list[list[object]] = []
    for (n, e, fitness, _), noise in zip(found.tolist(), levels, strict=True):
        near = _fitted(study, name, algorithm, noise * np.geomspace(0.25, 4.0, LEVELS))
        rows.append([name, algorithm, int(n), e, noise, fitness, whole.at(noise), near.at(noise), near.error])
    return rows


def _noise(name: str, n: int, epsilon: float) -> float:
    return float(np.hypot.reduce(noises([n] * OWNERS, [epsilon] * OWNERS, BOUND[name], QUERIES)))


def _fitted(study: Study, name: str, algorithm: int, levels: FloatArray) -> Fit:
    """Return the better fit to runs on 1,900 records of the public part, as `mirrormesh forecast` does."""
    made, least = cost(name, 900 if study.quick else 1_900, quick=study.quick, public=True)
    shares = {
        f"owner-{k}": Share("laplace", levels[:, None] / math.sqrt(OWNERS)) for k in range(1, OWNERS + 1)
    }
    chosen = step(name, made.dimension, algorithm)
    *_, last = stages(made, chosen, BOUND[name], shares, (len(levels), 4 if study.quick else RUNS), 1)
    reached = np.maximum(made.at(last.average) / least - 1, 1e-12)
    return min((fit(levels, reached, 0.0, power) for power in _POWERS), key=lambda one: one.error)


_POWERS: tuple[Power, ...] = (2, 1)


def _errors(study: Study, cells: list[list[object]]) -> None:
    """Write the median and the largest |log10(forecast/psi)| of each grid."""
    rows: list[list[object]] = [[*key, *errors] for key, errors in _by_grid(cells)]
    header = ["data", "algorithm", "whole_median", "whole_largest", "near_median", "near_largest"]
    table(study.output, "collaboration-errors", header, rows)


def _by_grid(cells: list[list[object]]) -> Iterator[tuple[tuple[str, int], list[float]]]:
    for name in EPSILONS:
        for algorithm in (1, 2):
            grid = np.array([row[5:8] for row in cells if row[:2] == [name, algorithm]], np.float64)
            errors = np.abs(np.log10(grid[:, 1:] / grid[:, :1]))
            spread = np.stack([np.median(errors, 0), errors.max(0)], 1)  # of each forecast
            yield (name, algorithm), spread.ravel().tolist()


def _sketch(study: Study, cells: list[list[object]]) -> None:
    """Draw psi and the forecast against epsilon, for the least and the largest n."""
    curves = {}
    sizes = [row[2] for row in cells]
    for n in (sizes[0], sizes[-1]):
        rows = np.array([row[3:8] for row in cells if row[2] == n], np.float64)
        curves[f"n = {n:,}"] = Curve(rows[:, 0], rows[:, 2])
        curves[f"n = {n:,}, forecast"] = Curve(rows[:, 0], rows[:, 4])
    draw(
        study.output,
        "collaboration-forecast-loans",
        curves,
        title="Loans, Algorithm 2: mean of 100 runs, and the forecast from a pilot",
        x="epsilon of each owner",
        y="relative fitness, psi",
        scales=("log", "log"),
        points=True,
    )
