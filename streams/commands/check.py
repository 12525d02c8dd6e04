"""`mirrormesh check`: the mesh file is right, or what is wrong with it."""

from dataclasses import replace
from itertools import islice

import typer

from streams.commands.arguments import MeshArgument
from streams.mesh_file.file import MeshFile, load
from streams.mesh_file.settings.errors import MeshFileError
from streams.mesh_file.settings.node import FileSettings, LocalisationSettings, NodeSettings
from streams.sources.opening import held_out, open_source
from streams.terminal.wording import counted, headline, listed

_LOOKED_AT = 100
"""How many records of a source are looked at."""


def check(mesh: MeshArgument) -> None:
    """Say whether a mesh file is right, or what is wrong with it.

    Every mistake is a line on standard error: the file, the key, its value, what is allowed. The files that
    sources name must be there and begin with records that their schemas fit. Standard input is not read.

    \b
    Example:
      mirrormesh check mesh.yaml && mirrormesh run mesh.yaml
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = load(mesh)
    wrong = unreadable(file)
    if wrong:
        raise MeshFileError(wrong)
    typer.echo(f"{mesh}: right")
    typer.echo(headline(file.mesh))
    elsewhere = [name for name in file.mesh.nodes if name not in file.nodes]
    if elsewhere:
        typer.echo(f"the own part of {listed(elsewhere)} is not here: its owner has it")


def unreadable(file: MeshFile) -> list[str]:
    """Return a line for every file that a source names and that cannot be read, or holds no record."""
    wrong: list[str] = []
    for name, own in file.nodes.items():
        if own.source is None or getattr(own.source, "path", None) == "-":
            continue
        opened = replace(file, nodes={name: _in_order(own)})
        try:
            _look_at(opened, name)
        except MeshFileError as error:
            wrong += error.lines
    if file.held_out is not None and file.held_out.path != "-":
        try:
            held_out(file)
        except MeshFileError as error:
            wrong += error.lines
    return wrong


def _look_at(file: MeshFile, name: str) -> None:
    """Raise MeshFileError unless one of the source's first records can be decoded."""
    source, timed = open_source(file, name, 0), file.mesh.slots.by == "time"
    first = list(islice(source.records, _LOOKED_AT))
    if not first:
        raise file.refuse(("nodes", name, "source"), "holds no record")
    if all(source.decoder.decode(record.value) is None for record in first):
        allowed = f"fits none of the first {counted(len(first), 'record')}"
        key = ("schema",) if isinstance(file.own(name).source, FileSettings) else ()
        raise file.refuse(("nodes", name, "source", *key), allowed)
    if timed and all(record.timestamp is None for record in first):
        allowed = f"reads no time in the first {counted(len(first), 'record')}"
        raise file.refuse(("nodes", name, "source", "schema", "timestamp"), allowed)


def _in_order(own: NodeSettings) -> NodeSettings:
    """Return the settings without the shuffle: the first records are enough to see."""
    if own.source is None or isinstance(own.source, LocalisationSettings):
        return own
    return own.model_copy(update={"source": own.source.model_copy(update={"shuffle": False})})
