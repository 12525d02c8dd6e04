"""Draws plots. Only this module imports matplotlib, an extra, and only when needed."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from nodes.values import FloatArray
from streams.local.results import save_whole
from streams.local.tracking import Tracked

MISSING = "For the plots too: pip install 'mirrormesh[experiments]'"
PATHS, REGRET = "paths.png", "regret.png"
_FIRST, _LAST = 20, 100  # rounds whose path one can follow
# Okabe, Ito 2008: colour-blind people can tell them apart too.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")


def installed() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def plot_paths(
    path: Path, run: Tracked, names: Sequence[str], sensors: FloatArray, target: FloatArray
) -> None:
    """Draw the nodes' decisions against the target: the first rounds, the last, and the distance of all.

    `sensors` (N, 2) and `target` (T, 2) are positions. Raises OSError.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 # an extra, and slow to import

    figure = Figure(figsize=(13.5, 4.9), layout="constrained", dpi=150)
    first, last, apart = figure.subplots(1, 3)
    colours = [_COLOURS[k % len(_COLOURS)] for k in range(len(names))]
    for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
        first.plot(*run.decisions[:_FIRST, i].T, color=colour, linewidth=1)
        first.scatter(*sensors[i], marker="^", s=70, color=colour)
        first.annotate(name, sensors[i], (0, -14), textcoords="offset points", ha="center", fontsize="small")
    first.plot(*target[:_FIRST].T, color="black", linewidth=4)
    first.set(title=f"The first {_FIRST} rounds of each sensor (triangle)")
    first.margins(0.15)
    mean = run.decisions[-_LAST:].mean(axis=1)  # (at most _LAST, 2)
    rounds = np.arange(len(run.decisions) - len(mean), len(run.decisions)) + 1
    last.plot(*mean.T, color="0.7", linewidth=0.8)
    dots = last.scatter(*mean.T, c=rounds, cmap="viridis", s=12, zorder=2)
    last.scatter(*target[-1], marker="X", s=110, color="black", zorder=3)
    reach = 1.1 * np.abs(mean - target[-1]).max()
    last.set(xlim=target[-1, 0] + (-reach, reach), ylim=target[-1, 1] + (-reach, reach))
    last.set(title=f"Mean decision of the last {len(mean)} rounds")
    figure.colorbar(dots, ax=last, label="round", shrink=0.75)
    for plane, at in ((first, target[0]), (last, target[-1])):
        plane.set(xlabel="x", ylabel="y", aspect="equal")
        plane.annotate("target", at, (8, -14), textcoords="offset points", weight="bold")
    rounds, errors = np.arange(len(run.errors)) + 1, run.errors
    apart.fill_between(rounds, errors.min(axis=1), errors.max(axis=1), alpha=0.35, label="least to largest")
    apart.plot(rounds, np.median(errors, axis=1), linewidth=0.8, label="median of the sensors")
    apart.set(title="Distance to the target", xlabel="round", xscale="log", ylabel="distance", ylim=(0, None))
    apart.legend(fontsize="small")
    for axes in (first, last, apart):
        axes.grid(alpha=0.3)
    figure.suptitle("Where six sensors think the target is: private decisions")
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
    """Draw the expected cost, above the least, against a factor on all epsilons, and what each has alone.

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
