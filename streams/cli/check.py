"""`mirrormesh check`: names every mistake in a mesh file."""

import time
from dataclasses import replace
from itertools import islice

import typer

from nodes.losses.check_loss import check_loss
from nodes.machine.time_slots import TimeSlots
from streams.cli.arguments import MeshArgument
from streams.mesh.ended_slots import ended_slots
from streams.mesh.errors import MeshFileError, Problem
from streams.mesh.file import MeshFile, load
from streams.mesh.plugins import raw_loss
from streams.mesh.settings.node import (
    FileSettings,
    LocalisationSettings,
    NodeSettings,
    OwnSourceSettings,
)
from streams.records.record import RawRecord
from streams.records.slot_feed import has_truth, truth
from streams.records.sources import held_out, open_source
from streams.terminal.wording import counted, headline, listed, shared

_LOOKED_AT = 100
"""The number of records of a source that are checked."""


def check(mesh: MeshArgument) -> None:
    """Check a mesh file, and name every mistake.

    Each mistake is a line on standard error: the file, the key, its value, what is allowed. The files of
    sources must exist and begin with records that fit their schemas. Standard input is not read. An own loss
    is tried on random records: its shapes, its gradients against its values, and more. If several nodes read
    the same file, or equal ones, the output says so: such records pay in each node. With slots by time whole
    files are read, and if the mesh file has no rounds, the output proposes a number.

    \b
    Example:
      mirrormesh check mesh.yaml && mirrormesh run mesh.yaml
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = load(mesh)
    wrong = faulty_loss(file) + unreadable(file)
    if wrong:
        raise MeshFileError(wrong)
    typer.echo(f"{mesh}: right")
    typer.echo(headline(file.mesh))
    ended = ended_slots(file, file.mesh.rounds, time.time()) if file.names_brokers else None
    for line in [*shared(file), *proposed_rounds(file), *([] if ended is None else [ended])]:
        typer.echo(line)
    elsewhere = [name for name in file.mesh.nodes if name not in file.nodes]
    if elsewhere:
        typer.echo(f"the own part of {listed(elsewhere)} is not here: its owner has it")


def faulty_loss(file: MeshFile) -> list[str]:
    """Return a line for each mistake of an own loss on random records."""
    mesh, name = file.mesh, file.mesh.loss.own
    if name is None:
        return []
    schemas = [own.source.record for own in file.nodes.values() if isinstance(own.source, FileSettings)]
    width = schemas[0].width if schemas else mesh.dimension
    found = check_loss(
        raw_loss(name),
        mesh.dimension,
        width,
        labels=schemas[0].label.numbers if schemas else None,
        gradient_bound=mesh.privacy.gradient_bound,
        norm=mesh.privacy.norm,
    )
    return [Problem(str(file.path), ("mesh", "loss", "own"), problem, name).line for problem in found]


def unreadable(file: MeshFile) -> list[str]:
    """Return a line for each source's file that cannot be read, or holds no record."""
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


def proposed_rounds(file: MeshFile) -> list[str]:
    """Return a line that proposes `rounds`, if slots go by time and `run` would require them."""
    slots = file.resolved.slots()
    if not isinstance(slots, TimeSlots) or file.mesh.rounds is not None:
        return []
    last = 0
    for name, own in file.nodes.items():
        if isinstance(own.source, FileSettings) and own.source.path not in {None, "-"}:
            records = open_source(replace(file, nodes={name: _in_order(own)}), name, 0).records
            found = (slots.round_of(record.timestamp) for record in records if record.timestamp is not None)
            last = max(last, max(found, default=0))
    line = "rounds: none; with slots by time run needs them, as rounds in the mesh or --rounds"
    return [line if last == 0 else f"{line}: the last record here is of slot {last}"]


def _look_at(file: MeshFile, name: str) -> None:
    """Raise MeshFileError unless one of the source's first records can be decoded."""
    source, timed = open_source(file, name, 0), file.mesh.slots.by == "time"
    first, looked_at = list(islice(source.records, _LOOKED_AT)), 0
    while timed and first and _timeless(first):  # they come before those with a time
        looked_at += len(first)
        first = list(islice(source.records, _LOOKED_AT))
    if timed and looked_at and not first:
        allowed = f"reads no time in the first {counted(looked_at, 'record')}"
        raise file.refuse(("nodes", name, "source", "schema", "timestamp"), allowed)
    if not first:
        raise file.refuse(("nodes", name, "source"), "holds no record")
    longest = source.decoder.longest
    if all(len(record.value) > longest for record in first):
        allowed = f"each of the first {counted(len(first), 'record')} is longer than {longest} bytes"
        raise file.refuse(("nodes", name, "source", "max_record_bytes"), allowed)
    if all(source.decoder.decode(record.value) is None for record in first):
        allowed = f"fits none of the first {counted(len(first), 'record')}"
        raise file.refuse(("nodes", name, "source", *_decoding(file.own(name))), allowed)
    if has_truth(source.decoder) and all(truth((record.value,), source.decoder) is None for record in first):
        allowed = f"reads no truth in the first {counted(len(first), 'record')}"
        raise file.refuse(("nodes", name, "source", "schema", "truth"), allowed)


def _timeless(records: list[RawRecord]) -> bool:
    return all(record.timestamp is None for record in records)


def _decoding(own: NodeSettings) -> tuple[str, ...]:
    """Return the key of the source's schema; sparse sources have none."""
    match own.source:
        case FileSettings():
            return ("schema",)
        case OwnSourceSettings():
            return ("name",)
    return ()


def _in_order(own: NodeSettings) -> NodeSettings:
    """Return the settings without the shuffle, as the first records suffice."""
    if own.source is None or isinstance(own.source, LocalisationSettings):
        return own
    return own.model_copy(update={"source": own.source.model_copy(update={"shuffle": False})})
