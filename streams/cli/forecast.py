"""`mirrormesh forecast`: is a collaboration worth it, and to whom?"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console

from nodes.collaboration.forecast import Owner
from nodes.values import FloatArray
from streams.cli.command_line import CodeOption, MeshArgument, PilotOption, RoundsOption, cautioned
from streams.collaboration.file import CollaborationFile
from streams.collaboration.settings import OwnerTerms
from streams.local.results import save_whole
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile, load_any
from streams.mesh.kind import dispatch
from streams.terminal.plots import MISSING, installed, plot_forecast
from streams.terminal.report import say, say_facts, table
from streams.terminal.text import counted
from streams.tools.tuning.forecasting import (
    RUNS,
    Estimate,
    Fewer,
    ForecastValue,
    constants_of,
    fewer,
    forecast_with,
)

WhatIfOption = Annotated[
    list[str] | None,
    typer.Option("--what-if", metavar="OWNER.epsilon=N", help="Suppose other terms; may be repeated."),
]


def forecast(
    mesh: MeshArgument,
    *,
    pilot: PilotOption = None,
    synthetic: Annotated[bool, typer.Option("--synthetic", help="Use made-up records instead.")] = False,
    constants: Annotated[
        Path | None,
        typer.Option(
            "--constants", metavar="FILE", help="Take the constants of an earlier --output; no runs."
        ),
    ] = None,
    what_if: WhatIfOption = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the cost over all epsilons (PNG).")
    ] = None,
    as_tree: Annotated[bool, typer.Option("--json", help="Write JSON, with the constants.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write the JSON to a file, beside the table."),
    ] = None,
    rounds: RoundsOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="The seed of pilot and noise.")] = 1,
    code: CodeOption = None,
) -> None:
    """Say whether a collaboration is worth it, and to whom.

    Costs are relative fitness: how far the model's cost is above the least cost, as a share of the least
    cost. Relative fitness depends on the owners' sizes and epsilons only through the noise of an answer (Wu
    et al. 2020, Theorems 2 and 3). This dependence is fitted to runs on a pilot, which must be PUBLIC or
    made-up records. No owner's records are read, and nothing is spent. A fitted value is not a bound; the
    output calls bounds by that name.

    For each owner the table shows the cost that the others reach without it, the cost that all reach if it
    doubles its epsilon, and the cost that it reaches alone on its own records without noise. It also shows
    the owner's epsilon at which learning alone is as good, if all owners' epsilons change by one factor. For
    a mesh of nodes, with --rounds, the output is an estimate of the contribution of the mesh's last node.

    \b
    Examples:
      mirrormesh forecast lending.yaml --synthetic
      mirrormesh forecast lending.yaml --pilot lending/public.csv.gz --output constants.json
      mirrormesh forecast lending.yaml --constants constants.json --what-if bank-a.epsilon=4
    """  # noqa: D301 # \b is click's mark: no new line breaks
    if plot is not None and not installed():
        raise UsageError(f"--plot: matplotlib is missing. {MISSING}")
    options = ForecastOptions(pilot, constants, tuple(what_if or ()), plot, output, rounds, seed)
    file = cautioned(load_any(mesh, code=code or ()))
    dispatch("forecast", file, options, synthetic=synthetic, as_tree=as_tree)


class ForecastOptions(NamedTuple):
    """The user's options, as the command has them."""

    pilot: Path | None
    constants: Path | None
    what_if: tuple[str, ...]
    plot: Path | None
    output: Path | None
    rounds: int | None
    seed: int


def forecast_nodes(file: MeshFile, options: ForecastOptions, *, synthetic: bool, as_tree: bool) -> None:
    """Estimate what one more node contributes to a mesh, on a pilot or otherwise on made-up records."""
    del synthetic
    values = {"--constants": options.constants, "--what-if": options.what_if, "--plot": options.plot}
    for name, value in (values | {"--json": as_tree, "--output": options.output}).items():
        if value:
            raise UsageError(f"{name}: is for a collaboration; {file.path} is a mesh of nodes")
    estimated = fewer(file, options.rounds, options.seed, options.pilot)
    say_facts(Console(highlight=False), mesh_facts(estimated, len(file.mesh.nodes)))


def forecast_collaboration(
    file: CollaborationFile, options: ForecastOptions, *, synthetic: bool, as_tree: bool
) -> None:
    """Forecast the value of a collaboration for each owner."""
    pilot, constants, what_if, plot, output, rounds, seed = options
    console = Console(highlight=False)
    if rounds is not None:
        raise UsageError("--rounds: is for a mesh of nodes; the queries of a collaboration are in its file")
    fitted = constants_of(file, pilot=pilot, synthetic=synthetic, constants=constants, seed=seed)
    forecast_value = forecast_with(file, fitted)
    supposing = forecast_with(file, fitted, what_if) if what_if else None
    if plot is not None:
        plotted = forecast_value if supposing is None else supposing
        by_owner = {name: owner.alone for name, owner in plotted.forecast.owners.items()}
        plot_forecast(plot, *curve(plotted), by_owner)
    output_paths = [path for path in (plot, output) if path is not None]
    text = json.dumps(_tree(forecast_value, supposing), indent=2, allow_nan=False)
    if output is not None:
        save_whole(output, lambda path: path.write_text(text + "\n", "utf-8"))
    if as_tree:
        typer.echo(text)
    else:
        _say(console, forecast_value)
        if supposing is not None:
            say(console, f"What if {', '.join(what_if)}:", "bold")
            _say(console, supposing)
    for path in output_paths:
        typer.echo(f"Wrote {path}.", err=as_tree)


def _say(console: Console, found: ForecastValue) -> None:
    say_facts(console, facts(found))
    title = "Each owner: costs on new records, above the least"
    console.print(table(HEADINGS, list(rows(found)), title))
    for sentence in verdicts(found):
        say(console, sentence)


def _tree(found: ForecastValue, supposing: ForecastValue | None) -> dict[str, Any]:
    tree = as_json(found)
    return tree if supposing is None else tree | {"what_if": as_json(supposing)["forecast"]}


# Puts a forecast into words, a table, JSON and curves.

HEADINGS = ("owner", "records", "epsilon", "noise", "without", "epsilon\ntwice", "alone", "break-\neven")


def facts(found: ForecastValue) -> Iterator[tuple[str, str]]:
    """Yield the expected cost, the source of that number, and the theorem's bound."""
    settings, prediction = found.settings, found.forecast
    owners, total = (
        counted(len(settings.owners), "owner"),
        sum(owner.records for owner in settings.owners.values()),
    )
    records, sets = counted(total, "record"), counted(settings.sharing, "set")
    queries = "1 query" if settings.queries == 1 else f"{settings.queries:,} queries"
    band = f"8 of 10 runs from {_much(prediction.low)} to {_much(prediction.high)}"
    weighed = "" if settings.weights == "records" else f", weights: {settings.weights}"
    yield "mesh", f"{settings.name}: {owners}, {records}, {queries}, {settings.algorithm.name}{weighed}"
    yield "expected", f"a cost {_much(prediction.expected)} above the least (relative fitness); {band}"
    yield from _floor(found)
    yield (
        "new records",
        f"a cost {_much(prediction.new)} above the least, as {records} are not all that there are",
    )
    yield from _fitted(found)
    yield "bound", _bound(found)
    shared_text = "" if found.shared is None else f"; in one more: {_much(found.shared)} is expected"
    yield "sharing", f"a record is in at most {sets}{shared_text}"


def _floor(found: ForecastValue) -> Iterator[tuple[str, str]]:
    """Yield the cost that the steps leave without noise, if it is more than half of the expected cost."""
    floor, settings = found.constants.fit.floor, found.settings
    if 2 * floor > found.forecast.expected:
        leave = f"what {counted(settings.queries, 'step')} leave without any noise"
        step = "rho" if settings.algorithm.name == "strongly-convex" else "step"
        yield (
            "mostly",
            f"{_much(floor)} of it is {leave}: no epsilon lowers it; more queries or another {step} may",
        )


def _fitted(found: ForecastValue) -> Iterator[tuple[str, str]]:
    constants, noise = found.constants, found.forecast.noise
    fit, second_fit = constants.fit, constants.other
    form = f"{fit.floor:.3g} + {fit.slope:.3g} noise^{fit.power}"
    yield "noise", f"{noise:.3g} in a coordinate of the weighted answer, in standard deviations"
    yield "fit", f"{form}, off by {_off(fit.error)} (noise^{second_fit.power}: {_off(second_fit.error)})"
    yield "", f"from runs on a pilot, {counted(constants.records, 'record')} of {constants.like}; no promise"
    if found.beyond:
        min_noise, max_noise = constants.noises
        yield (
            "WARNING",
            f"THE PILOT TRIED NOISE FROM {min_noise:.3G} TO {max_noise:.3G}: THIS IS BEYOND, AND A GUESS",
        )


def _bound(found: ForecastValue) -> str:
    if found.bound is None:
        return "Theorem 3: a multiple of the noise, which the theorem does not name; nothing else is proven"
    if math.isinf(found.bound):
        return "none: Theorem 2 needs a strongly convex cost, as with a regulariser"
    floor_text = f"what {found.settings.queries:,} steps leave, in the fit {_much(found.constants.fit.floor)}"
    return f"at most {_much(found.bound)} (Theorem 2, if the convexity is the pilot's), beside {floor_text}"


def rows(found: ForecastValue) -> Iterator[tuple[str, ...]]:
    """Yield a row of HEADINGS for each owner. A cost is on new records, minus the least possible cost."""
    for name, owner in found.forecast.owners.items():
        terms = found.settings.owners[name]
        yield (
            name,
            f"{terms.records:,}",
            f"{float(terms.epsilon):g}",
            f"{100 * owner.share:.0f} %",
            "" if owner.without is None else _much(owner.without),
            _much(found.doubled[name]),
            _much(owner.alone),
            break_even(owner, terms),
        )


def verdicts(found: ForecastValue) -> Iterator[str]:
    """Yield a sentence for each owner: whether it contributes anything, and whether it gains."""
    new = found.forecast.new
    for name, owner in found.forecast.owners.items():
        brings = "is the only one"
        if owner.without is not None:
            gain = owner.without - new
            brings = (
                f"brings {_much(gain)}" if gain > 0 else f"COSTS {_much(-gain)}: without it all do better"
            )
        gains = "gains" if owner.alone > new else f"gains nothing: learning alone is better{_whatever(owner)}"
        yield f"{name} {brings}; it {gains}."


def _whatever(owner: Owner) -> str:
    """Return a clause if an owner gains nothing even without noise, as the steps leave too large a cost."""
    return "" if owner.margin else ", at any epsilon: the steps alone leave more than that"


def break_even(owner: Owner, terms: OwnerTerms) -> str:
    """Return the owner's epsilon at which learning alone is as good, if all epsilons change by one factor."""
    if owner.margin == 0:
        return "none"
    return "any" if math.isinf(owner.margin) else f"{float(terms.epsilon) / owner.margin:.3g}"


def as_json(found: ForecastValue) -> dict[str, Any]:
    """Return all numbers, and the constants for `--constants`; what is infinite or unknown is null."""
    prediction = found.forecast
    terms = found.settings.owners
    owners = {
        name: {"records": terms[name].records, "epsilon": float(terms[name].epsilon)}
        | owner._asdict()
        | {"doubled": found.doubled[name]}
        for name, owner in prediction.owners.items()
    }
    tree = {
        "expected": prediction._asdict() | {"owners": owners},
        "bound": found.bound,
        "one_more_set": found.shared,
        "beyond_the_pilot": found.beyond,
    }
    return {"forecast": _finite(tree), "constants": found.constants.as_json()}


def curve(found: ForecastValue) -> tuple[FloatArray, FloatArray]:
    """Return factors on all epsilons, and at each the expected cost on new records, above the least."""
    factors = np.geomspace(0.125, 8.0, 61)
    return factors, np.array([found.cost_at(float(factor)) for factor in factors])


def mesh_facts(found: Fewer, nodes: int) -> Iterator[tuple[str, str]]:
    """Yield the estimates of a mesh, of one node less, and of one node alone."""
    clear = f"{_number(found.all, found.all.open)} without privacy"
    yield "estimate", f"{_span(found.all)} with {counted(nodes, 'node')}, {clear}"
    if found.fewer is not None:
        yield "", f"{_span(found.fewer)} with one node less: what the last one brings is the difference"
    if found.alone is not None:
        one_node = _number(found.alone, found.alone.open)
        yield "", f"{one_node} by one node alone, without privacy: what it must beat"
    if (pilot_alone := found.all.alone) is not None:
        yield (
            "",
            f"{_number(found.all, pilot_alone)} by the pilot alone: a plain model of its labelled records",
        )
    rounds = counted(found.all.rounds, "round")
    yield "", f"from {RUNS} runs each on public or made-up records, {rounds}; no promise"


def _span(found: Estimate) -> str:
    return f"{found.measure} {_number(found, found.low)} to {_number(found, found.high)}"


def _number(found: Estimate, value: float) -> str:
    return f"{value:.2f}" if found.measure == "AUC" else f"{value:.3g}"


def _much(share: float) -> str:
    """Return a share of the least cost."""
    if math.isnan(share):
        return ""
    return f"{100 * share:.3g} %" if share < 10 else f"{share:.3g} times"


def _off(error: float) -> str:
    return f"{100 * math.expm1(error):.0f} %" if error < 2 else f"{math.exp(min(error, 700.0)):.3g} times"


def _finite(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _finite(value) for key, value in tree.items()}
    return None if isinstance(tree, float) and not math.isfinite(tree) else tree
