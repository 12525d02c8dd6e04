"""`mirrormesh export`: writes what runs a mesh elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.arguments import MeshArgument
from streams.mesh.errors import UsageError
from streams.tools.export import kubernetes as on_kubernetes
from streams.tools.export.folder import write_folder
from streams.tools.export.images import check_image
from streams.tools.export.parties import party as found_party
from streams.tools.export.raw_mesh import read

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)

PartyOption = Annotated[
    str | None,
    typer.Option("--party", metavar="NAME", help="Write this party's nodes.", show_default=False),
]
OperatorOption = Annotated[
    bool, typer.Option("--mesh-operator", help="Write what the mesh's operator runs: the scheduler.")
]
OutputOption = Annotated[
    Path,
    typer.Option(
        "--output",
        metavar="DIR",
        help="The folder to write: empty, an earlier export, or not there yet.",
        show_default=False,
    ),
]
ImageOption = Annotated[
    str, typer.Option("--image", metavar="IMAGE", help="The image, with its digest.", show_default=False)
]


@app.callback()
def _export() -> None:
    """Write what runs a mesh elsewhere: on Kubernetes.

    Each party exports its own nodes, and the mesh's operator the rest. An export holds nothing of another
    party's own part, and no secret: a mesh file with a secret in it is refused.

    \b
    Example:
      mirrormesh export kubernetes mesh.yaml --party bank-1 --output bank-1 --image IMAGE
    """  # noqa: D301 # \b is click's mark: no new line breaks


@app.command()
def kubernetes(
    mesh: MeshArgument,
    *,
    output: OutputOption,
    image: ImageOption,
    party: PartyOption = None,
    mesh_operator: OperatorOption = False,
) -> None:
    """Write Kubernetes manifests and a kustomization.

    \b
    Examples:
      mirrormesh export kubernetes mesh.yaml --party bank-1 --output bank-1 --image IMAGE
      mirrormesh export kubernetes mesh.yaml --mesh-operator --output operator --image IMAGE
    """  # noqa: D301 # \b is click's mark: no new line breaks
    check_side(party, mesh_operator=mesh_operator)
    warning, raw = check_image(image), read(mesh)
    if party is None:
        written = on_kubernetes.operator(raw, image)
    else:
        written = on_kubernetes.party(raw, found_party(raw.file.mesh, party), image)
    write_folder(output, written)
    if warning is not None:
        typer.echo(warning, err=True)
    typer.echo(f"{output}: {len(written)} files")


def check_side(party: str | None, *, mesh_operator: bool) -> None:
    """Raise UsageError unless exactly one of both is asked for."""
    if (party is None) != mesh_operator:
        raise UsageError("must be one of --party NAME and --mesh-operator")
