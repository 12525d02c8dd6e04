"""Figures: one look, colours that everyone can tell apart, and the numbers that were drawn beside them."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import ArrayLike

from experiments.harness.labels import name_lines
from nodes.values import FloatArray

Scale = Literal["linear", "log", "auto"]
"""`auto`: log where the lines go over a factor of ten or more, else linear."""

Numbers = tuple[Sequence[str], Sequence[Sequence[object]]]
"""A table's header and rows."""

_MOST_POINTS = 200
_FACTOR = 10.0
_FEW_DECADES = 2.5

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
        return cls.within(x, runs.mean(0), runs)

    @classmethod
    def within(cls, x: ArrayLike, middle: FloatArray, runs: FloatArray) -> "Curve":
        """Return `middle` (n,) in the band of runs (R, n), thinned in the same way."""
        every = slice(-1, None, -math.ceil(runs.shape[-1] / _MOST_POINTS))
        low, high = np.percentile(runs, [10, 90], axis=0)
        return cls(*(part[every][::-1] for part in (np.asarray(x, np.float64), middle, low, high)))


def draw(
    output: Path,
    name: str,
    curves: Mapping[str, Curve],
    *,
    title: str,
    x: str,
    y: str,
    scales: tuple[Scale, Scale] = ("linear", "linear"),
    points: bool = False,
    numbers: Numbers | None = None,
) -> list[Path]:
    """Write name.png and name.csv into `output`; return their paths. `x` and `y` have units.

    The CSV has what is drawn, or `numbers`: header and rows that say more.
    Each line is named where it ends, and dashed where it would hide another.
    """
    chosen = [
        _scale(asked, [getattr(curve, of) for curve in curves.values()])
        for asked, of in zip(scales, ("x", "middle"), strict=True)
    ]
    with plt.style.context(STYLE):
        figure, axes = plt.subplots()
        for label, curve in curves.items():
            add_line(axes, label, curve, points=points)
        axes.set(title=title, xlabel=x, ylabel=y, xscale=chosen[0], yscale=chosen[1])
        _tick(axes, chosen)
        name_lines(axes)
        written = save(output, name, figure)
    return [written, table(output, name, *(numbers or _numbers(curves)))]


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


def add_line(axes: Axes, label: str, curve: Curve, *, points: bool = False) -> None:
    """Draw a curve in its band."""
    (line,) = axes.plot(curve.x, curve.middle, label=label, marker="o" if points else None, markersize=4)
    if curve.low is not None and curve.high is not None:
        axes.fill_between(curve.x, curve.low, curve.high, color=line.get_color(), alpha=0.15, linewidth=0)


def _scale(asked: Scale, values: Sequence[FloatArray]) -> Literal["linear", "log"]:
    if asked != "auto":
        return asked
    drawn = np.concatenate(values)
    return "log" if drawn.min() > 0.0 and drawn.max() >= _FACTOR * drawn.min() else "linear"


def _tick(axes: Axes, scales: Sequence[str]) -> None:
    """Write 1, 2 and 5 of each decade as plain numbers where there are few; begin at 0 where it is near."""
    for axis, scale in zip((axes.xaxis, axes.yaxis), scales, strict=True):
        low, high = axis.get_view_interval()
        if scale == "log" and math.log10(high / low) <= _FEW_DECADES:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axis.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim()
    if scales[1] == "linear" and 0.0 < axes.dataLim.ymin < 0.5 * axes.dataLim.ymax:
        axes.set_ylim(0.0, high)


def _numbers(curves: Mapping[str, Curve]) -> Numbers:
    rows: list[list[object]] = []
    for label, curve in curves.items():
        low = curve.middle if curve.low is None else curve.low
        high = curve.middle if curve.high is None else curve.high
        columns = zip(curve.x.tolist(), curve.middle.tolist(), low.tolist(), high.tolist(), strict=True)
        rows += [[label, *numbers] for numbers in columns]
    return ("curve", "x", "mean", "p10", "p90"), rows
