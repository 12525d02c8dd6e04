"""`mirrormesh init`: a mesh file to start from."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from streams.commands.usage import UsageError

TargetArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")]


def init(file: TargetArgument = Path("mesh.yaml")) -> None:
    """Write a mesh file to start from, with a comment on every setting.

    It runs as it is, on made-up data. A file that is there is never overwritten.

    \b
    Example:
      mirrormesh init mesh.yaml && mirrormesh run mesh.yaml
    """  # noqa: D301 # \b is click's mark: no new line breaks
    text = files("streams.mesh_file").joinpath("starter.yaml").read_text("utf-8")
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except FileExistsError:
        raise UsageError(f"{file}: is there already: must be a new file") from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from None
    typer.echo(f"wrote {file}; next: mirrormesh plan {file}")
