"""`python -m experiments`: draws the figures and tables of the papers, and ours."""

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from experiments.catalogue import EXPERIMENTS
from streams.mesh.errors import UsageError, writable_folder

RESULTS = Path(__file__).with_name("results")

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback()
def _experiments() -> None:
    """Reproduce the papers' figures and tables.

    \b
    Examples:
      python -m experiments list
      python -m experiments run all --quick --output /tmp/figures
    """  # noqa: D301 # \b is click's mark: no new line breaks


@app.command(name="list")
def list_experiments() -> None:
    """List the experiments, and the figures that they are of.

    \b
    Example:
      python -m experiments list
    """  # noqa: D301 # \b is click's mark: no new line breaks
    table = Table("name", "shows", "after", box=None)
    for name, experiment in EXPERIMENTS.items():
        table.add_row(name, experiment.shows, experiment.source)
    Console(highlight=False).print(table)


@app.command()
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `list` says; or all.")],
    *,
    output: Annotated[
        Path,
        typer.Option("--output", metavar="DIR", help="Where figures and data go.", show_default=False),
    ] = RESULTS,
    quick: Annotated[bool, typer.Option("--quick", help="A few short runs, to see that it works.")] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, metavar="N", help="Processes; all cores unless given.")
    ] = None,
) -> None:
    """Measure and draw. What was measured before by the same code is not measured again.

    Writes into experiments/results unless told otherwise.

    \b
    Examples:
      python -m experiments run tracking-regret
      python -m experiments run all --quick --output /tmp/figures
    """  # noqa: D301 # \b is click's mark: no new line breaks
    from experiments.harness.available import check_data  # noqa: PLC0415 # `list` needs none of it
    from experiments.harness.study import Study  # noqa: PLC0415 # as above

    if name != "all" and name not in EXPERIMENTS:
        raise UsageError(f"{name}: must be all or one of {', '.join(EXPERIMENTS)}")
    writable_folder(output)
    study = Study(output, quick, workers or os.cpu_count() or 1)
    writable_folder(study.kept)
    wanted = list(EXPERIMENTS) if name == "all" else [name]
    if not quick:
        check_data(dict.fromkeys(data for chosen in wanted for data in EXPERIMENTS[chosen].data))
    for chosen in wanted:
        experiment = EXPERIMENTS[chosen]
        typer.echo(f"{chosen}: {experiment.shows} ({experiment.source})")
        importlib.import_module(experiment.module).main(study)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends in SystemExit. A mistake is a line on standard error, never a traceback."""
    try:
        app(None if arguments is None else list(arguments), prog_name="python -m experiments")
    except UsageError as error:
        _leave(str(error))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in {"joblib", "matplotlib"}:
            raise
        _leave(f"no {missing} here: experiments need `pip install --editable '.[experiments]'`")


def _leave(line: str) -> None:
    typer.echo(line, err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
