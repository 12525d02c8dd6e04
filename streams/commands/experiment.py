"""`mirrormesh experiment`: the figures and tables of the papers, from a clone of the repository."""

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from streams.commands.usage import UsageError, writable_folder

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _experiment() -> None:
    """Reproduce the papers' figures and tables.

    Needs a clone of the repository.

    \b
    Examples:
      mirrormesh experiment list
      mirrormesh experiment run all --quick --output /tmp/figures
    """  # noqa: D301 # \b is click's mark: no new line breaks


@app.command(name="list")
def list_experiments() -> None:
    """List the experiments, and the figures that they are of.

    \b
    Example:
      mirrormesh experiment list
    """  # noqa: D301 # \b is click's mark: no new line breaks
    table = Table("name", "shows", "after", box=None)
    for name, experiment in _module("experiments.catalogue").EXPERIMENTS.items():
        table.add_row(name, experiment.shows, experiment.source)
    Console(highlight=False).print(table)


@app.command()
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `experiment list` says; or all.")],
    *,
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Where figures and data go.", show_default=False)
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A few short runs, to see that it works.")] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, metavar="N", help="Processes; all cores unless given.")
    ] = None,
) -> None:
    """Measure and draw. What was measured before by the same code is not measured again.

    \b
    Examples:
      mirrormesh experiment run tracking-regret --output experiments
      mirrormesh experiment run all --quick --output /tmp/figures
    """  # noqa: D301 # \b is click's mark: no new line breaks
    known = _module("experiments.catalogue").EXPERIMENTS
    if name != "all" and name not in known:
        raise UsageError(f"{name}: must be all or one of {', '.join(known)}")
    writable_folder(output)
    study = _module("experiments.harness.study").Study(output, quick, workers or os.cpu_count() or 1)
    writable_folder(study.kept)
    wanted = list(known) if name == "all" else [name]
    if not quick:
        needed = dict.fromkeys(data for chosen in wanted for data in known[chosen].data)
        _module("experiments.harness.available").check_data(needed)
    for chosen in wanted:
        typer.echo(f"{chosen}: {known[chosen].shows} ({known[chosen].source})")
        _module(known[chosen].module).main(study)


def _module(name: str) -> Any:  # a module that types know nothing of: it is not in the wheel
    try:
        found: ModuleType = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name in {"experiments", "joblib", "matplotlib"} or str(error.name).startswith("experiments"):
            raise UsageError(
                f"no {error.name} here: experiments need a clone of the repository, installed with "
                "`pip install --editable '.[experiments]'`"
            ) from None
        raise
    return found
