"""`mirrormesh check`: names every mistake in a mesh file."""

import math
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from nodes.losses.check_loss import check_loss
from nodes.machine.slots import TimeSlots
from streams.bus.bus import Denied, Unreachable
from streams.bus.registry import SchemaRegistry
from streams.cli.command_line import CodeOption, MeshArgument
from streams.mesh.compatibility import by_time
from streams.mesh.errors import ABSENT, MeshFileError, Problem, told_once
from streams.mesh.file import MeshFile, ended_slots, load_any
from streams.mesh.kind import dispatch
from streams.mesh.settings.node import (
    FileSettings,
    LocalisationSettings,
    NodeSettings,
    OwnSourceSettings,
    TopicSettings,
)
from streams.mesh.settings.privacy import TimeSlotsSettings
from streams.records.decoder import SchemaDecoder
from streams.records.detection import proposals
from streams.records.faults import NO_TIME, Fault, FaultCounts
from streams.records.lint import findings, topic_lines
from streams.records.observed import has_truth, truth
from streams.records.record import Decoder
from streams.records.sources import decoder, open_source, records_to_score
from streams.terminal.text import counted, geometry, headline, left_out, listed, shared, withheld

_LOOKED_AT = 100
"""The number of records of a source that are checked."""
_DAY = 86_400
_PIPE = "is a pipe, which can be read only once: must be a file"

LastOption = Annotated[
    bool,
    typer.Option(
        "--last",
        help="With slots by time: also print the slot of the last record here, which tells when that was.",
    ),
]


def check(mesh: MeshArgument, *, last: LastOption = False, code: CodeOption = None) -> None:
    """Check a mesh file, and name every mistake.

    Each mistake is a line on standard error: the file, the key, its value, what is allowed. The files of
    sources must exist and begin with records that fit their schemas; if none does, the reasons are counted by
    column. Standard input is not read, and a pipe is refused. A user-defined loss is tested on random
    records: its shapes, its gradients against its values, and more. User-defined losses and sources that are
    no entry points are left out, unless --code allows their names. The output names nodes that read the same
    file, or files with equal content, because each of these nodes spends privacy on such a record.

    With slots by time whole files are read, and a source without records is valid. If the mesh file has no
    `rounds`, the output proposes the numbers of rounds in a day and in a week. The proposal depends on no
    record. The output also names parts of a file (`take`) that may be uneven.

    The command warns of settings that are allowed but probably not intended. In the first 10,000 records of a
    file these are: more than one malformed record in a hundred, with the reason; a listed category, class or
    label that never occurs, or that differs by case alone. It also warns of held-out records that a node
    learns from, and of a slot larger than the file. Like every command it warns of what settings alone show:
    a graph that is not connected over the horizon, motion that grows. With more than five files it checks
    fewer records of each.

    For a topic that others made, it checks the settings and the first 1,000 messages, if the broker answers:
    whether the topic exists and may be read, how many messages hold records, how many share a key. Avro
    messages are decoded with the schemas of their registry. A registry that does not answer is a warning; a
    registry that refuses the user is a mistake.

    Each owner's set in a collaboration is read whole. It must hold its public number of records, and every
    record must be readable.

    \b
    Example:
      mirrormesh check mesh.yaml && mirrormesh run mesh.yaml
    """  # noqa: D301 # \b is click's mark: no new line breaks
    dispatch("check", load_any(mesh, code=code or ()), last=last)


def check_nodes(file: MeshFile, *, last: bool) -> None:
    """Check what a mesh's file names."""
    topics = topic_lines(file)
    wrong = faulty_loss(file) + unreadable(file) + topics.wrong
    if wrong:
        raise MeshFileError(told_once([*wrong, *proposals(file)]))
    refused, away = registries(file)
    if refused:
        raise MeshFileError(refused)
    odd = findings(file) + topics.odd + away
    last_lines = [last_slot(file)] if last else []
    weakest = geometry(file.resolved)
    last_lines += [] if weakest is None else [weakest]
    typer.echo(f"{file.path}: right")
    if file.unallowed:
        typer.echo(left_out(file))
    typer.echo(headline(file.mesh))
    ended = ended_slots(file, file.mesh.rounds, time.time()) if file.names_brokers else None
    lines = [
        *shared(file),
        *withheld(file),
        *uneven_parts(file),
        *proposed_rounds(file),
        *topics.looked_at,
        *last_lines,
    ]
    for line in [*lines, *([] if ended is None else [ended])]:
        typer.echo(line)
    for line in odd:
        typer.echo(f"Warning: {line}")
    absent = [name for name in file.mesh.nodes if name not in file.nodes]
    if absent:
        typer.echo(f"the own part of {listed(absent)} is not here: its owner has it")


def faulty_loss(file: MeshFile) -> list[str]:
    """Return a line for each mistake of a user-defined loss on random records."""
    mesh = file.mesh
    users: dict[str, list[str]] = {}
    for node in mesh.nodes:
        users.setdefault(mesh.loss_of(node).own or "", []).append(node)
    users.pop("", None)
    wrong: list[str] = []
    for name, nodes in users.items():
        try:
            wrong += _faults(file, name, nodes) if file.code.allows(name) else []
        except MeshFileError as error:
            wrong += error.lines
    return wrong


def _faults(file: MeshFile, name: str, nodes: list[str]) -> list[str]:
    mesh, owns = file.mesh, [part for node, part in file.nodes.items() if node in nodes]
    node = None if mesh.loss.own == name else nodes[0]
    schemas = [part.source.record for part in owns if isinstance(part.source, FileSettings)]
    width = schemas[0].width if schemas else mesh.loss_dimension
    faults = check_loss(
        file.code.raw_loss(name, node),
        mesh.loss_dimension,
        width,
        labels=schemas[0].label.numbers if schemas else None,
        gradient_bound=mesh.privacy.gradient_bound,
        norm=mesh.privacy.norm,
    )
    path = ("mesh", "loss", "own") if node is None else ("mesh", "nodes", node, "loss", "own")
    return [Problem(str(file.path), path, problem, name).line for problem in faults]


def unreadable(file: MeshFile) -> list[str]:
    """Return a line for each source's file that cannot be read or holds no record."""
    wrong = [line for name in file.nodes for line in _unreadable(file, name)]
    path = None if file.held_out is None else file.held_out.path
    if path is not None and Path(path).is_fifo():
        wrong += file.refuse(("held_out", "path"), _PIPE, path).lines
    elif file.held_out is not None and path != "-":
        try:
            records_to_score(file)
        except MeshFileError as error:
            wrong += error.lines
    return wrong


def _unreadable(file: MeshFile, name: str) -> Iterable[str]:
    """Return the mistakes of a node's source."""
    part = file.nodes[name]
    path = getattr(part.source, "path", None)
    if part.source is None or path == "-":
        return ()
    if isinstance(part.source, OwnSourceSettings) and not file.code.allows(part.source.name):
        return ()
    if path is not None and Path(path).is_fifo():
        return file.refuse(("nodes", name, "source", "path"), _PIPE, path).lines
    try:
        is_topic = isinstance(part.source, TopicSettings)
        if is_topic or (path is None and "path" in type(part.source).model_fields):  # others write its topic
            decoder(file, name)
        else:
            _look_at(replace(file, nodes={name: _in_order(part)}), name)
    except MeshFileError as error:
        return error.lines
    return ()


def registries(file: MeshFile) -> tuple[list[str], list[str]]:
    """Return a line for each schema registry that refuses the user here, and for each that is away."""
    refused, away = list[str](), list[str]()
    for name in file.nodes:
        source = file.existing_topic(name)
        if source is None or source.registry is None:
            continue
        path = ("nodes", name, "source", "registry")
        try:
            with closing(SchemaRegistry(source.registry)) as registry:
                registry.look()
        except Denied as error:
            refused += file.refuse(path, str(error)).lines
        except Unreachable as error:
            away.append(f"{'.'.join(path)}: {error}")
    return refused, away


def uneven_parts(file: MeshFile) -> list[str]:
    """Return a line that describes how sources are split, if slots go by time and a source is split."""
    if not by_time(file.mesh):
        return []
    names = [name for name, part in file.nodes.items() if getattr(part.source, "take", None) is not None]
    names += [] if file.held_out is None or file.held_out.take is None else ["held_out"]
    text = "with slots by time each record's own bytes choose its part: parts may be uneven"
    return [f"take of {listed(names)}: {text}, as identical records are all in one"] if names else []


def proposed_rounds(file: MeshFile) -> list[str]:
    """Return a line that proposes `rounds`, if slots go by time and `run` would require them.

    The numbers follow from the period alone. A number derived from records would reveal something of them,
    as it would be copied into the shared part, which every party reads.
    """
    slots = file.mesh.slots
    if not isinstance(slots, TimeSlotsSettings) or file.mesh.rounds is not None:
        return []
    day, week = (math.ceil(seconds / slots.period) for seconds in (_DAY, 7 * _DAY))
    needed = "rounds: none; with slots by time run needs them, as rounds in the mesh or --rounds"
    return [f"{needed}: {day:,} for a day, {week:,} for a week"]


def last_slot(file: MeshFile) -> str:
    """Return a line with the slot of the last record of the local files, for their owner.

    Raises MeshFileError for slots by count.
    """
    slots = file.resolved.slots()
    if not isinstance(slots, TimeSlots):
        raise file.refuse(("mesh", "slots", "by"), "--last is for slots by time: must be time", "count")
    last = 0
    for name, part in file.nodes.items():
        if isinstance(part.source, FileSettings) and part.source.path not in {None, "-"}:
            records = open_source(replace(file, nodes={name: _in_order(part)}), name, 0).records
            slot_numbers = (
                slots.round_of(record.timestamp) for record in records if record.timestamp is not None
            )
            last = max(last, max(slot_numbers, default=0))
    place = f"is of slot {last:,}" if last else "lies before the first slot, or there is none"
    return f"the last record here {place}: this tells when the last record was, so keep it to yourself"


def _look_at(file: MeshFile, name: str) -> None:
    """Raise MeshFileError unless one of the source's first records can be decoded.

    With slots by time all records of a file are tried. Which records come first depends on their times, so
    if only the first records were tried, a single record could change the result.
    """
    source, timed = open_source(file, name, 0), file.mesh.slots.by == "time"
    labels = source.decoder.label_counts if isinstance(source.decoder, SchemaDecoder) else None
    if labels is not None and labels.unreadable and not labels.came:
        text = f"holds no label that can be read, of {labels.unreadable:,}"
        raise file.refuse(("nodes", name, "source", "labels", "path"), text)
    reads_all = timed and isinstance(file.own(name).source, FileSettings)  # a generator may have no end
    records = list(source.records if reads_all else islice(source.records, _LOOKED_AT))
    first = [record for record in records if record.timestamp is not None] if reads_all else records
    if records and not first:
        timeless = FaultCounts()
        for record in records:
            timeless.add(_time_fault(source.decoder, record.value))
        allowed = f"reads no time in the first {_of(timeless.records)}: {timeless}"
        raise file.refuse(("nodes", name, "source", "schema", "timestamp"), allowed)
    if not first and timed:
        return  # an empty stream is valid: an error would reveal whether its only record exists
    if not first:
        path = getattr(file.own(name).source, "path", None)
        key = ("nodes", name, "source", *([] if path is None else ["path"]))
        raise file.refuse(key, "holds no record", ABSENT if path is None else path)
    longest = source.decoder.longest
    if all(len(record.value) > longest for record in first):
        allowed = f"each of the first {_of(len(first))} is longer than {longest} bytes"
        raise file.refuse(("nodes", name, "source", "max_record_bytes"), allowed)
    if all(source.decoder.decode(record.value) is None for record in first):
        faults = FaultCounts()
        for record in first:
            faults.add(source.decoder.fault(record.value))
        allowed = f"fits none of the first {_of(len(first))}: {faults}"
        raise file.refuse(("nodes", name, "source", *_decoding(file.own(name))), allowed)
    if has_truth(source.decoder) and all(truth((record.value,), source.decoder) is None for record in first):
        allowed = f"reads no truth in the first {_of(len(first))}"
        raise file.refuse(("nodes", name, "source", "schema", "truth"), allowed)


def _of(records: int) -> str:
    """Return how many records are left after `the first`."""
    return "record" if records == 1 else counted(records, "record")


def _time_fault(decoder: Decoder, value: bytes) -> Fault:
    fault = decoder.time_fault(value) if isinstance(decoder, SchemaDecoder) else None
    return fault or Fault(None, NO_TIME)


def _decoding(own: NodeSettings) -> tuple[str, ...]:
    """Return the key of the source's schema; sparse sources have none."""
    match own.source:
        case FileSettings():
            return ("schema",)
        case OwnSourceSettings():
            return ("name",)
    return ()


def _in_order(own: NodeSettings) -> NodeSettings:
    """Return the settings without the shuffle, as only the first records are read."""
    if own.source is None or isinstance(own.source, LocalisationSettings):
        return own
    return own.model_copy(update={"source": own.source.model_copy(update={"shuffle": False})})
