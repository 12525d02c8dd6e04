"""The figures of Wu et al. 2020, section 4, for one data set."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from experiments.harness.figures import STYLE, Curve, Scale, draw, save, table
from experiments.harness.star import EPSILONS, OWNERS, SIZES, alike, case, psi
from experiments.harness.study import Study
from nodes.values import FloatArray

SCENARIOS = {
    "1: small, reluctant": (0, 0.1),
    "2: small, eager": (0, 10.0),
    "3: large, reluctant": (-1, 0.1),
    "4: large, eager": (-1, 10.0),
}
"""Owners 2 and 3: which of the sizes they have, and their epsilon."""
CLIPPING = {"loans"}
"""Where the clip matters: no transaction's gradient is ever longer than Xi."""
PSI = "relative fitness, psi"


def quartiles(x: FloatArray, runs: FloatArray) -> Curve:
    """Return the median of runs (points, R), in a band of the paper's boxes: the 25th to 75th percentile."""
    low, middle, high = np.percentile(runs, [25, 50, 75], axis=1)
    return Curve(x, middle, low, high)


def means(x: FloatArray, runs: FloatArray) -> Curve:
    """Return the mean of runs (points, R), in a band from the 25th to the 75th percentile."""
    low, high = np.percentile(runs, [25, 75], axis=1)
    return Curve(x, runs.mean(1), low, high)


def sketch(
    study: Study, figure: str, curves: Mapping[str, Curve], title: str, x: str, *, middle: str, points: bool
) -> None:
    """Draw curves on two log axes, and write their numbers with the names of what the band is."""
    draw(study.output, figure, curves, title=title, x=x, y=PSI, scales=_LOGS, points=points)
    rows: list[list[object]] = []
    for label, curve in curves.items():
        columns = [curve.x, curve.middle, curve.low, curve.high]
        numbers = np.stack([column for column in columns if column is not None], -1)
        rows += [[label, *row] for row in numbers.tolist()]
    table(study.output, figure, ["curve", "x", middle, "p25", "p75"], rows)


def trajectories(study: Study, name: str, what: str) -> None:
    """Draw psi against k, at the largest n (figures 2 and 7)."""
    size = SIZES[name][-1]
    found = psi(study, {f"epsilon = {one:g}": alike(name, size, one, whole=True) for one in EPSILONS})
    k = np.arange(1.0, 1.0 + len(next(iter(found.values()))))
    curves = {label: quartiles(k, np.maximum(runs, 1e-9)) for label, runs in found.items()}
    title = f"{what}: three owners of {size:,} records (median, quartiles of 100 runs)"
    sketch(study, f"collaboration-{name}-queries", curves, title, "query k", middle="median", points=False)


def against_epsilon(study: Study, name: str, what: str) -> None:
    """Draw psi against epsilon, a line for each n (figures 4 and 9), and one that is not clipped."""
    grid = np.geomspace(0.1, 10.0, 2 if study.quick else 5)
    curves = {}
    for size in (SIZES[name][0], SIZES[name][2], SIZES[name][3]):
        curves[f"n = {size:,}"] = _line(study, name, grid, [(size, one) for one in grid])
    size = SIZES[name][-1]
    if name in CLIPPING:
        curves[f"n = {size:,}, not clipped"] = _line(
            study, name, grid, [(size, one) for one in grid], clipped=False
        )
    title = f"{what}: T = 100, against epsilon (mean, quartiles)"
    sketch(
        study,
        f"collaboration-{name}-epsilon",
        curves,
        title,
        "epsilon of each owner",
        middle="mean",
        points=True,
    )


def against_size(study: Study, name: str, what: str) -> None:
    """Draw psi against n, a line for each epsilon (figures 5 and 10)."""
    sizes = np.array(SIZES[name], np.float64)
    curves = {
        f"epsilon = {one:g}": _line(study, name, sizes, [(size, one) for size in SIZES[name]])
        for one in EPSILONS
    }
    if name in CLIPPING:
        curves["epsilon = 1, not clipped"] = _line(
            study, name, sizes, [(size, 1.0) for size in SIZES[name]], clipped=False
        )
    title = f"{what}: T = 100, against n (mean, quartiles)"
    sketch(
        study,
        f"collaboration-{name}-size",
        curves,
        title,
        "records of each owner, n",
        middle="mean",
        points=True,
    )


def surface(study: Study, name: str, what: str) -> None:
    """Draw the mean psi over (n, epsilon) (figures 3 and 8)."""
    sizes, grid = SIZES[name], np.geomspace(0.1, 10.0, 2 if study.quick else 5)
    cases = {f"{n}, {e:g}": alike(name, n, float(e)) for n in sizes for e in grid}
    found = [float(runs[-1].mean()) for runs in psi(study, cases).values()]
    rows = [[n, float(e)] for n in sizes for e in grid]
    table(
        study.output,
        f"collaboration-{name}-grid",
        ["records", "epsilon", "psi"],
        [[*row, one] for row, one in zip(rows, found, strict=True)],
    )
    with plt.style.context(STYLE):
        figure, axes = plt.subplots()
        _heat(axes, sizes, grid, np.reshape(found, (len(sizes), len(grid))))
        axes.set(
            title=f"{what}: mean {PSI}, T = 100", xlabel="records of each owner", ylabel="epsilon of each"
        )
        save(study.output, f"collaboration-{name}-grid", figure)


def scenarios(study: Study, name: str, what: str) -> None:
    """Draw the mean psi over (n_1, epsilon_1), for four kinds of owners 2 and 3 (figures 6 and 11)."""
    sizes, grid = (
        (SIZES[name][0], SIZES[name][2], SIZES[name][3]),
        np.array(EPSILONS[: 1 if study.quick else 3]),
    )
    found: dict[str, FloatArray] = {}
    for label, (which, epsilon) in SCENARIOS.items():
        other = sizes[which]
        cases = {
            f"{n}, {e:g}": case(name, [n, *[other] * (OWNERS - 1)], [float(e), *[epsilon] * (OWNERS - 1)])
            for n in sizes
            for e in grid
        }
        values = [float(runs[-1].mean()) for runs in psi(study, cases).values()]
        found[label] = np.reshape(values, (len(sizes), len(grid)))
    figure = f"collaboration-{name}-scenarios"
    panels(study.output, figure, f"{what}: mean {PSI}, owners 2 and 3 as each title says", sizes, grid, found)
    rows: list[list[object]] = [
        [label, n, float(e), float(psis[i, j])]
        for label, psis in found.items()
        for i, n in enumerate(sizes)
        for j, e in enumerate(grid)
    ]
    table(study.output, figure, ["scenario", "records", "epsilon", "psi"], rows)


def panels(
    output: Path,
    name: str,
    title: str,
    sizes: Sequence[int],
    grid: FloatArray,
    found: Mapping[str, FloatArray],
) -> None:
    """Draw a panel of values (sizes, epsilons) for each scenario; a colour is the same value in all."""
    logs = np.log10(np.stack(list(found.values())))
    colours = Normalize(float(logs.min()), float(logs.max()))
    with plt.style.context(STYLE):
        figure, planes = plt.subplots(1, len(found), figsize=(14, 3.8), sharey=True)
        for axes, (label, values) in zip(planes, found.items(), strict=True):
            _heat(axes, sizes, grid, values, colours)
            axes.set(title=label, xlabel="records of owner 1")
        planes[0].set(ylabel="epsilon of owner 1")
        figure.suptitle(title)
        save(output, name, figure)


def _heat(
    axes: Axes, sizes: Sequence[int], grid: FloatArray, values: FloatArray, colours: Normalize | None = None
) -> None:
    """Draw values (sizes, epsilons) as a table of colours, each with its number.

    `colours`: of their logarithms to base 10; None: from the least of them to the largest.
    """
    axes.imshow(np.log10(values.T), origin="lower", aspect="auto", cmap="viridis_r", norm=colours)
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            axes.text(
                i,
                j,
                f"{value:.2g}",
                ha="center",
                va="center",
                fontsize=8,
                color="black",
                bbox={"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 1},
            )
    axes.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    axes.set_yticks(range(len(grid)), [f"{one:.2g}" for one in grid])
    axes.grid(visible=False)


def _line(
    study: Study, name: str, x: FloatArray, points: list[tuple[int, float]], *, clipped: bool = True
) -> Curve:
    cases = {f"{n}, {e:g}": alike(name, n, float(e), clipped=clipped) for n, e in points}
    return means(x, np.stack([runs[-1] for runs in psi(study, cases).values()]))


_LOGS: tuple[Scale, Scale] = ("log", "log")
