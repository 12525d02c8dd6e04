"""Draws plots. Only this module imports matplotlib, an extra, and only when needed."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from nodes.values import FloatArray
from streams.local.results import save_whole
from streams.terminal.demo import Tracked

MISSING = "For the plots too: pip install 'mirrormesh[experiments]'"
PATHS, REGRET = "paths.png", "regret.png"
# The colours of Okabe, Ito 2008, which colour-blind people can tell apart too.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")


def installed() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def plot_paths(
    path: Path, runs: Sequence[Tracked], names: Sequence[str], sensors: FloatArray, target: FloatArray
) -> None:
    """Draw the nodes' estimates of the target's position in the first run, and the errors of all runs.

    `sensors` (N, 2) and `target` (T, 2) are positions. Raises OSError.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 # an extra, and slow to import

    figure = Figure(figsize=(13.5, 5.6), layout="constrained", dpi=150)
    plane, distances = figure.subplots(1, 2)
    believed = runs[0].decisions.mean(axis=1)  # (T, 2)
    rounds = np.arange(len(target)) + 1
    dots = plane.scatter(*believed.T, c=rounds, cmap="viridis", s=5, zorder=2, label="believed: mean of all")
    plane.plot(*target.T, color="black", linewidth=1.5, zorder=3, label="the target's way")
    plane.scatter(*target[-1], marker="X", s=110, color="black", zorder=4, label="the target at the end")
    for name, place in zip(names, sensors, strict=True):
        plane.scatter(*place, marker="^", s=70, color="0.4")
        plane.annotate(name, place, (0, -14), textcoords="offset points", ha="center", fontsize="small")
    plane.set(title=f"{runs[0].name}: {len(rounds):,} rounds", xlabel="x", ylabel="y", aspect="equal")
    plane.margins(0.12)
    plane.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)
    figure.colorbar(dots, ax=plane, label="round", shrink=0.75)
    for run, colour in zip(runs, _COLOURS, strict=False):
        distances.plot(rounds, np.median(run.errors, axis=1), color=colour, linewidth=0.8, label=run.name)
    ends = runs[0].errors
    distances.fill_between(rounds, ends.min(axis=1), ends.max(axis=1), color=_COLOURS[0], alpha=0.2)
    title = "Distance to the target, median of the sensors"
    distances.set(title=title, xlabel="round", ylabel="distance", yscale="log", ylim=(1e-3, None))
    distances.legend(fontsize="small")
    for axes in (plane, distances):
        axes.grid(alpha=0.3)
    figure.suptitle("Where six sensors believe a moving target to be")
    save_whole(path, partial(figure.savefig, format="png"))  # whatever the name


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
    save_whole(path, partial(figure.savefig, format="png"))  # whatever the name


def plot_forecast(path: Path, factors: FloatArray, costs: FloatArray, alone: Mapping[str, float]) -> None:
    """Draw the expected cost above the least against a factor on all epsilons, and each node's cost alone.

    Raises OSError.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 # an extra, and slow to import

    figure = Figure(figsize=(7.5, 4.8), layout="constrained", dpi=150)
    axes = figure.subplots()
    axes.plot(factors, 100 * costs, color="black", linewidth=2)
    axes.annotate("together", (factors[0], 100 * costs[0]), (6, 6), textcoords="offset points", weight="bold")
    for k, (name, cost) in enumerate(alone.items()):
        axes.axhline(100 * cost, color=_COLOURS[k % len(_COLOURS)], linestyle="--", linewidth=1)
        axes.annotate(
            f"{name} alone", (factors[-1], 100 * cost), (0, 3), textcoords="offset points", ha="right"
        )
    axes.axvline(1.0, color="0.7", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="all epsilons, times", ylabel="cost above the least, %")
    ticks = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks((), minor=True)
    axes.set_title("Forecast: cost on new records")
    axes.grid(which="both", alpha=0.2)
    save_whole(path, partial(figure.savefig, format="png"))  # whatever the name
