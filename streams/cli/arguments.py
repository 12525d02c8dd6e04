"""What several commands take from the command line."""

from pathlib import Path
from typing import Annotated

import typer

MeshArgument = Annotated[Path, typer.Argument(metavar="MESH", help="The mesh file.", show_default=False)]
RoundsOption = Annotated[
    int | None, typer.Option("--rounds", min=1, help="Rounds, in place of the mesh file's.", metavar="T")
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="Of data order, schedule and simulated noise, in place of the file's; exact noise has none.",
        metavar="N",
    ),
]
