"""Figures: one look, colours that everyone can tell apart, and the numbers that were drawn beside them."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from nodes.values import FloatArray

_MOST_POINTS = 200

STYLE = Path(__file__).with_suffix(".mplstyle")


@dataclass(frozen=True)
class Curve:
    """A line with its band, each shape (n,), over x; low and high None: no band."""

    x: FloatArray
    middle: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None

    @classmethod
    def over(cls, x: ArrayLike, runs: FloatArray) -> "Curve":
        """Return the mean of runs (R, n), in a band from the 10th to the 90th percentile.

        Of more than 200 points every so manieth is drawn, the last among them.
        """
        every = slice(-1, None, -math.ceil(runs.shape[-1] / _MOST_POINTS))
        low, high = np.percentile(runs, [10, 90], axis=0)
        return cls(*(part[every][::-1] for part in (np.asarray(x, np.float64), runs.mean(0), low, high)))


def draw(
    output: Path,
    name: str,
    curves: Mapping[str, Curve],
    *,
    title: str,
    x: str,
    y: str,
    scales: tuple[str, str] = ("linear", "linear"),
    points: bool = False,
) -> list[Path]:
    """Write name.png and name.csv into `output`; return their paths. `x` and `y` have units."""
    with plt.style.context(STYLE):
        figure, axes = plt.subplots()
        for label, curve in curves.items():
            _line(axes, label, curve, points=points)
        axes.set(title=title, xlabel=x, ylabel=y, xscale=scales[0], yscale=scales[1])
        axes.legend()
        written = save(output, name, figure)
    return [written, table(output, name, *_numbers(curves))]


def save(output: Path, name: str, figure: Figure) -> Path:
    """Write a figure as PNG, and let go of it."""
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{name}.png"
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)
    return path


def table(output: Path, name: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    """Write name.csv, numbers to six digits; return its path."""
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    return path


def _line(axes: Axes, label: str, curve: Curve, *, points: bool) -> None:
    (line,) = axes.plot(curve.x, curve.middle, label=label, marker="o" if points else None, markersize=4)
    if curve.low is not None and curve.high is not None:
        axes.fill_between(curve.x, curve.low, curve.high, color=line.get_color(), alpha=0.15, linewidth=0)


def _numbers(curves: Mapping[str, Curve]) -> tuple[Sequence[str], list[list[object]]]:
    rows: list[list[object]] = []
    for label, curve in curves.items():
        low = curve.middle if curve.low is None else curve.low
        high = curve.middle if curve.high is None else curve.high
        columns = zip(curve.x.tolist(), curve.middle.tolist(), low.tolist(), high.tolist(), strict=True)
        rows += [[label, *numbers] for numbers in columns]
    return ("curve", "x", "mean", "p10", "p90"), rows
