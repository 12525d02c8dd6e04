"""`mirrormesh model`: writes what a mesh has learnt to a file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streams.bus.bus import BusError
from streams.cli.arguments import MeshArgument
from streams.mesh.errors import UsageError, chosen, writable_folder
from streams.mesh.file import MeshFile, load_any
from streams.mesh.kind import serve
from streams.mesh.model_file import Model
from streams.terminal.report import say, say_facts
from streams.terminal.text import counted
from streams.tools.model.public import public_model
from streams.tools.model.writing import journal_model, model_paths, write_model


def model(
    mesh: MeshArgument,
    *,
    output: Annotated[
        Path, typer.Option("--output", metavar="PREFIX", help="Write PREFIX.npz and PREFIX.json.")
    ],
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="Take a node's own average from its journal there."),
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NAME", help="The node, with --state.")
    ] = None,
) -> None:
    """Write what a mesh has learnt, as npz and JSON.

    Each file holds everything that predictions need, and the model's guarantee. By default the model comes
    from the mesh broker, and needs a user who may read all edges: the mean of every member's newest release,
    and its average over the rounds that the topics still hold. With --state and --node it is one node's
    running average over its whole run, from its journal; the node may be running.

    \b
    Examples:
      mirrormesh model mesh.yaml --output fraud
      mirrormesh model mesh.yaml --output fraud --state /var/lib/mirrormesh --node east
    """  # noqa: D301 # \b is click's mark: no new line breaks
    serve("model", load_any(mesh), output, state, node)


def model_of_nodes(file: MeshFile, output: Path, state: Path | None, node: str | None) -> None:
    """Write the model of a mesh, or of one of its nodes."""
    if (state is None) != (node is None):
        raise UsageError("--state and --node: must be given both, or neither")
    check_output(output)
    try:
        if state is not None and node is not None:
            chosen(file.mesh.nodes, node)
            model_of_run = journal_model(file, state, node)
        else:
            model_of_run = public_model(file)
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    show_model(output, model_of_run)


def check_output(output: Path) -> None:
    """Raise UsageError unless the model can be written there."""
    if not output.name:
        raise UsageError(f"--output {output}: must be the beginning of a file's name")
    writable_folder(output.parent, (path.name for path in model_paths(output)))


def show_model(output: Path, model_of_run: Model) -> None:
    """Write the model, and say what it is."""
    console = Console(highlight=False)
    say_facts(console, _facts(model_of_run))
    for path in write_model(output, model_of_run):
        say(console, f"Wrote {path}.")


def _facts(model: Model) -> list[tuple[str, str]]:
    weakest = model.guarantee.epsilon
    protected = "NOTHING IS PROTECTED in some node's stream" if weakest is None else f"epsilon {weakest:g}"
    delta = f", delta {model.guarantee.delta!r}" if weakest is not None and model.guarantee.delta else ""
    return [
        ("model", f"{model.mesh}, run {model.run}, loss {model.loss}, dimension {model.dimension}"),
        ("newest", f"at round {model.round:,}, of {counted(model.nodes, 'node')}"),
        ("average", f"of {counted(model.rounds, 'round')}: {model.averaged}"),
        ("a record", f"{protected}{delta} (the weakest of all nodes; the sentences are in the file)"),
    ]
