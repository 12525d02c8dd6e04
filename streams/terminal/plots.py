"""Draws the demo's plots. Only this module imports matplotlib, an extra, and only when needed."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from nodes.values import FloatArray
from streams.local.results import save_whole
from streams.local.tracking import Tracked

MISSING = "For the plots too: pip install 'mirrormesh[experiments]'"
PATHS, REGRET = "paths.png", "regret.png"
# Okabe, Ito 2008: colour-blind people can tell them apart too.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")


def installed() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def plot_paths(
    path: Path, run: Tracked, names: Sequence[str], sensors: FloatArray, target: FloatArray
) -> None:
    """Draw the nodes' decisions against the target: in the plane, and over the rounds.

    `sensors` (N, 2) and `target` (T, 2) are positions. Raises OSError.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 # an extra, and slow to import

    figure = Figure(figsize=(11.5, 5.4), layout="constrained", dpi=150)
    panels = figure.subplot_mosaic([["plane", "x"], ["plane", "y"]])
    plane = panels["plane"]
    colours = [_COLOURS[k % len(_COLOURS)] for k in range(len(names))]
    for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
        x, y = run.decisions[:, i, 0], run.decisions[:, i, 1]
        plane.plot(x, y, color=colour, linewidth=0.7, alpha=0.6)
        plane.scatter(
            sensors[i : i + 1, 0], sensors[i : i + 1, 1], marker="^", s=70, color=colour, label=name
        )
        panels["x"].plot(x, color=colour, linewidth=0.7, alpha=0.6)
        panels["y"].plot(y, color=colour, linewidth=0.7, alpha=0.6)
    plane.plot(target[:, 0], target[:, 1], color="black", linewidth=2.5, label="target")
    plane.set(
        title="In the plane, from (0, 0) on (triangles: sensors)", xlabel="x", ylabel="y", aspect="equal"
    )
    plane.legend(loc="lower left", fontsize="small")
    for k, name in enumerate(("x", "y")):
        panels[name].plot(target[:, k], color="black", linewidth=2, label="target")
        panels[name].set(title=f"{name} over the rounds", xlabel="round", ylabel=name)
        panels[name].legend(loc="lower right", fontsize="small")
    for axes in panels.values():
        axes.grid(alpha=0.3)
    figure.suptitle("Where six sensors think the target is: private decisions, one line a sensor")
    save_whole(path, figure.savefig)


def plot_regret(path: Path, runs: Sequence[Tracked]) -> None:
    """Draw each run's average network regret over the rounds. Raises OSError."""
    from matplotlib.figure import Figure  # noqa: PLC0415 # an extra, and slow to import

    figure = Figure(figsize=(7.5, 4.8), layout="constrained", dpi=150)
    axes = figure.subplots()
    for run, colour, line in zip(runs, _COLOURS, ("-", "--", ":"), strict=False):
        axes.plot(np.arange(1, len(run.regret) + 1), run.regret, color=colour, linestyle=line, label=run.name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rounds T")
    axes.set_ylabel("largest network regret of a node, R(T)/T")
    axes.set_title("Average regret against the best fixed decision (first order)")
    axes.grid(which="both", alpha=0.2)
    axes.legend()
    save_whole(path, figure.savefig)
