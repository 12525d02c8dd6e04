"""`mirrormesh end`: ends the run of a mesh on its broker."""

import sys
from typing import Annotated

import typer

from streams.cli.arguments import MeshArgument
from streams.cli.process_command import LevelOption, LogFormat, LogLevel, LogOption, live
from streams.live.scheduler_process import LOGGER, end_run
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile, load
from streams.runtime.process import Stop

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def end(
    mesh: MeshArgument,
    *,
    yes: YesOption = False,
    log: LogOption = LogFormat.TEXT,
    level: LevelOption = LogLevel.INFO,
) -> None:
    """End the run of a mesh, for all its nodes and for good.

    It publishes the plan that ends the run, after those that the schedulers have made, and waits until that
    is the valid one. Nodes finish the rounds before it; then they and the schedulers say that the run is
    over, and exit with 0. It needs the rights of a scheduler. Nothing of the run is deleted. Running it twice
    is harmless.

    Silence never ends a run: one without rounds goes on until this, or until all its nodes have left.

    \b
    Example:
      mirrormesh end mesh.yaml --yes
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = load(mesh)
    if not yes:
        _confirm(file)

    def work(stop: Stop) -> None:
        last = end_run(file, stop)
        typer.echo(f"run {file.mesh.run} of mesh {file.mesh.name} ends before round {last.round}")

    live(LOGGER, work, log, level)


def _confirm(file: MeshFile) -> None:
    if not sys.stdin.isatty():
        raise UsageError("--yes: must be given where nobody can be asked")
    question = f"End run {file.mesh.run} of mesh {file.mesh.name}, for good?"
    typer.confirm(question, abort=True)
