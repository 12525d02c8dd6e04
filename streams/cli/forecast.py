"""`mirrormesh forecast`: is a collaboration worth it, and to whom?"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from streams.cli.arguments import CodeOption, MeshArgument, PilotOption, RoundsOption
from streams.cli.forecast_words import HEADINGS, as_json, curve, facts, mesh_facts, rows, verdicts
from streams.local.results import save_whole
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile, load_any
from streams.terminal.plots import MISSING, installed, plot_forecast
from streams.terminal.report import say, say_facts
from streams.terminal.tables import table
from streams.tools.tuning.forecasting import Worth, constants_of, fewer, worth

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

    Costs are relative fitness: how far the model's cost is above the least, as a share of it. It depends on
    the owners' sizes and epsilons by one number, the noise of an answer (Wu et al. 2020, Theorems 2 and 3).
    How, is fitted to runs on a pilot, which must be PUBLIC or made-up records: no owner's own are read, and
    nothing is spent. A fit is no bound; bounds are called so.

    The table says for each owner what all reach without it, what they reach if it doubles its epsilon, what
    it reaches alone on its own records without noise, and the epsilon at which that is as good (all owners'
    changed alike). With --rounds, for a mesh of nodes: an estimate of what its last node brings.

    \b
    Examples:
      mirrormesh forecast lending.yaml --synthetic
      mirrormesh forecast lending.yaml --pilot lending/public.csv.gz --output constants.json
      mirrormesh forecast lending.yaml --constants constants.json --what-if bank-a.epsilon=4
    """  # noqa: D301 # \b is click's mark: no new line breaks
    if plot is not None and not installed():
        raise UsageError(f"--plot: matplotlib is missing. {MISSING}")
    console = Console(highlight=False)
    file = load_any(mesh, code=code or ())
    if isinstance(file, MeshFile):
        refused = {"--constants": constants, "--what-if": what_if, "--plot": plot, "--json": as_tree}
        options = [name for name, value in (refused | {"--output": output}).items() if value]
        _mesh(console, file, rounds, seed, pilot, options)
        return
    if rounds is not None:
        raise UsageError("--rounds: is for a mesh of nodes: a collaboration has queries in its file")
    fitted = constants_of(file, pilot=pilot, synthetic=synthetic, constants=constants, seed=seed)
    forecast_value = worth(file, fitted)
    supposing = worth(file, fitted, what_if) if what_if else None
    if plot is not None:
        plotted = forecast_value if supposing is None else supposing
        by_owner = {name: owner.alone for name, owner in plotted.forecast.owners.items()}
        plot_forecast(plot, *curve(plotted), by_owner)
    written = [path for path in (plot, output) if path is not None]
    text = json.dumps(_tree(forecast_value, supposing), indent=2, allow_nan=False)
    if output is not None:
        save_whole(output, lambda path: path.write_text(text + "\n", "utf-8"))
    if as_tree:
        typer.echo(text)
    else:
        _say(console, forecast_value)
        if supposing is not None:
            say(console, f"What if {', '.join(what_if or ())}:", "bold")
            _say(console, supposing)
    for path in written:
        typer.echo(f"Wrote {path}.", err=as_tree)


def _mesh(
    console: Console, file: MeshFile, rounds: int | None, seed: int, pilot: Path | None, refused: list[str]
) -> None:
    """Say what one more node brings to a mesh."""
    if refused:
        raise UsageError(f"{refused[0]}: is for a collaboration; {file.path} is a mesh of nodes")
    say_facts(console, mesh_facts(fewer(file, rounds, seed, pilot), len(file.mesh.nodes)))


def _say(console: Console, found: Worth) -> None:
    say_facts(console, facts(found))
    title = "Each owner: costs on new records, above the least"
    console.print(table(HEADINGS, list(rows(found)), title))
    for sentence in verdicts(found):
        say(console, sentence)


def _tree(found: Worth, supposing: Worth | None) -> dict[str, Any]:
    tree = as_json(found)
    return tree if supposing is None else tree | {"what_if": as_json(supposing)["forecast"]}
