"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

MeshArgument = Annotated[Path, typer.Argument(metavar="MESH", help="The mesh file.", show_default=False)]
PilotOption = Annotated[
    Path | None,
    typer.Option(
        "--pilot",
        metavar="FILE",
        help="Public records, in the format of the first party here that reads a file.",
    ),
]
CodeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--code",
        metavar="MODULE:NAME",
        help="Let this loss or source that the mesh file names run; may be repeated. Entry points need none.",
        show_default=False,
    ),
]
OtherDataOption = Annotated[
    bool,
    typer.Option(
        "--other-data",
        help="You state that a new run reads other data than all earlier runs in --state, although names or "
        "paths agree.",
    ),
]
RoundsOption = Annotated[
    int | None, typer.Option("--rounds", min=1, help="Rounds, in place of the mesh file's.", metavar="T")
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="The seed of data order, schedule and simulated noise, in place of the file's.",
        metavar="N",
    ),
]
