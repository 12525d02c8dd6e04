"""`mirrormesh deadletters`: lists what a node has refused, and what could not be fed to it or read by it."""

import base64
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from streams.bus.bus import BusError, Stored
from streams.bus.logs import reached
from streams.cli.command_line import MeshArgument
from streams.codec import decode_dead_letter
from streams.collaboration.file import CollaborationFile
from streams.collaboration.wire import Wire
from streams.mesh.errors import chosen
from streams.mesh.file import MeshFile, load_any
from streams.mesh.kind import serve
from streams.mesh.settings.brokers import BrokerSettings
from streams.terminal.report import say
from streams.terminal.text import counted

# Reads a node's dead letters: messages of peers that it refused, and its own records that nobody can read.
#
# The latter could not be fed to it or read by it, or are stored broken.

BROKEN = "the letter itself cannot be read"


class Letter(NamedTuple):
    """One letter: its place in its topic, its time (seconds since 1970), and what was refused, why.

    `source`: the topic or the line of the source that `value` is from.
    """

    offset: int
    time: float
    source: str
    reason: str
    value: bytes


class LetterList(NamedTuple):
    """The last letters of a topic, which keeps `kept` of them."""

    topic: str
    kept: int
    last: tuple[Letter, ...]


def peers_letters(file: MeshFile, node: str, last: int) -> LetterList:
    """Return the `last` refused messages of peers, from the mesh broker. Raises BusError, MeshFileError."""
    return _read(file.brokers(node).mesh, file.resolved.topics.dead_letters(node), last, _of_a_peer)


def refused_messages(file: CollaborationFile, name: str, last: int) -> LetterList:
    """Return the `last` messages that the learner or an owner refused. Raises BusError, MeshFileError."""
    broker = file.mesh_broker if name == file.mesh.learner else file.mesh_broker_of(name)
    return _read(broker, Wire(file.resolved).topics.dead_letters(name), last, _of_a_peer)


def own_letters(file: MeshFile, node: str, last: int) -> LetterList:
    """Return the `last` records that could not be fed or read, from the node's own broker.

    For its owner's eyes. Raises BusError, MeshFileError.
    """
    return _read(file.brokers(node).data, file.data_topics(node).dead_letters, last, _of_its_own)


def _read(broker: BrokerSettings, topic: str, last: int, read: Callable[[Stored], Letter]) -> LetterList:
    with closing(reached(broker)) as logs:  # uncommitted: nobody's open transaction may hide a letter
        logs.partitions([topic])
        first, end = logs.span(topic)
        records = logs.stored({topic: max(first, end - last)})[topic]
    return LetterList(topic, end - first, tuple(_total(record, read) for record in records))


def _total(record: Stored, read: Callable[[Stored], Letter]) -> Letter:
    try:
        return read(record)
    except Exception:  # noqa: BLE001 # without users anybody may have written it
        return Letter(record.offset, record.timestamp, "", BROKEN, record.value)


def _of_a_peer(record: Stored) -> Letter:
    topic, value, reason = decode_dead_letter(record.value)
    return Letter(record.offset, record.timestamp, topic, reason, value)


def _of_its_own(record: Stored) -> Letter:
    fields = json.loads(record.value)
    if "faults" in fields:  # the summary of a node's process: streams/records/faults.py
        faults = [f"{reason} ({int(count):,})" for reason, count in fields["faults"].items()]
        source = f"{fields['topic']}, {int(fields['read']):,} records of {fields['run']}"
        return Letter(record.offset, record.timestamp, source, "; ".join(faults), b"")
    if "offsets" in fields:  # of a node: streams/live/data/letters.py
        first, last = map(int, fields["offsets"])
        source = f"{fields['topic']} [{int(fields['partition'])}], offsets {first:,} to {last:,}"
        many = f" ({counted(int(fields['records']), 'record')})" if "records" in fields else ""
        return Letter(record.offset, record.timestamp, source, f"{fields['reason']}{many}", b"")
    value = base64.b64decode(fields["value"], validate=True)
    return Letter(
        record.offset, record.timestamp, f"line {int(fields['line']):,}", str(fields["reason"]), value
    )


def deadletters(
    mesh: MeshArgument,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node.", show_default=False)],
    *,
    last: Annotated[int, typer.Option("--last", min=1, metavar="N", help="The newest of each topic.")] = 20,
    content: Annotated[bool, typer.Option("--content", help="Show what was refused: for its owner.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one object.")] = False,
) -> None:
    """List what a node refused, and what could not be fed to it.

    Two topics: messages of peers that the node refused (mesh broker), and records of its own that its feed
    could not send, that it could not read, or that are stored broken (data broker). Each letter has its
    offset, time, origin and reason; content only with --content. Writes nothing. With users, the auditor may
    read the first topic, and the feeder the second.

    To learn from such a record after all, append it, mended, to the source, and feed again; by time it needs
    a time whose slot is still open. The bad one keeps its place, or every later record would be in another
    slot. So it touches two releases: what it says is protected at 2 epsilon.

    Of a collaboration NODE is the learner or an owner, and there is the first topic alone.

    \b
    Examples:
      mirrormesh deadletters mesh.yaml east
      mirrormesh deadletters mesh.yaml east --last 100 --json
    """  # noqa: D301 # \b is click's mark: no new line breaks
    serve("deadletters", load_any(mesh), node, last, content=content, as_json=as_json)


def node_letters(file: MeshFile, node: str, last: int, *, content: bool, as_json: bool) -> None:
    """List what a node has refused, and what could not be fed to it."""
    chosen(file.mesh.nodes, node)
    topics = {"peers": partial(peers_letters, file), "records": partial(own_letters, file)}
    _show(node, last, topics, content=content, as_json=as_json)


def party_letters(file: CollaborationFile, name: str, last: int, *, content: bool, as_json: bool) -> None:
    """List what the learner or an owner has refused. A set is read whole, so it has no dead letters."""
    chosen((file.mesh.learner, *file.mesh.owners), name, "the learner or an owner of the collaboration")
    _show(name, last, {"peers": partial(refused_messages, file)}, content=content, as_json=as_json)


def _show(
    name: str,
    last: int,
    topics: Mapping[str, Callable[[str, int], LetterList]],
    *,
    content: bool,
    as_json: bool,
) -> None:
    """Print the last letters of each topic, of those that can be read. Exit code 1: one cannot."""
    console = Console(highlight=False)
    letters_by_kind, failed = dict[str, LetterList](), False
    for kind, read in topics.items():
        try:
            letters_by_kind[kind] = read(name, last)
        except BusError as error:
            failed = True
            typer.echo(str(error), err=True)
    if as_json:
        trees = {kind: _json(letters, content=content) for kind, letters in letters_by_kind.items()}
        typer.echo(json.dumps({"node": name} | trees, indent=2))
    else:
        for letters in letters_by_kind.values():
            for line in _lines(letters, content=content):
                say(console, line)
    if failed:
        raise typer.Exit(1)


def _lines(letters: LetterList, *, content: bool) -> list[str]:
    more = f", the last {len(letters.last):,} of them" if len(letters.last) < letters.kept else ""
    lines = [f"{letters.topic}: {counted(letters.kept, 'letter')}{more}"]
    for letter in letters.last:
        lines.append(f"  {letter.offset:>8}  {_time(letter)}  {letter.source}: {letter.reason}")
        lines += [f"            {_text(letter)}"] if content else []
    return lines


def _json(letters: LetterList, *, content: bool) -> dict[str, object]:
    last = [
        {"offset": letter.offset, "time": _time(letter), "source": letter.source, "reason": letter.reason}
        | ({"content": _text(letter)} if content else {})
        for letter in letters.last
    ]
    return {"topic": letters.topic, "kept": letters.kept, "last": last}


def _time(letter: Letter) -> str:
    try:
        return datetime.fromtimestamp(letter.time, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):  # its sender says when
        return "at no time that a calendar has"


def _text(letter: Letter) -> str:
    """Return the content as text; bytes that are none, and line ends, are escaped."""
    return letter.value.decode("utf-8", "backslashreplace").encode("unicode_escape").decode("ascii")
