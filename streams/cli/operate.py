"""Commands of an operator: a node leaves, a node is pardoned, the run ends, refused messages are listed."""

import base64
import json
import secrets
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from streams.bus.bus import BusError, Stored
from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog
from streams.cli.command_line import MeshArgument, cautioned, member_names
from streams.cli.processes import LevelOption, LogFormat, LogLevel, LogOption, StateOption, existing, live
from streams.codec import decode_dead_letter
from streams.collaboration.file import CollaborationFile
from streams.collaboration.wire import Wire
from streams.live.scheduler_process import LOGGER, end_run
from streams.mesh.errors import UsageError, chosen
from streams.mesh.file import MeshFile, load, load_any
from streams.mesh.kind import dispatch
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.process import Stop
from streams.state.folder import StateFolder, read_wish, withdraw_wish, write_wish
from streams.state.journal import open_journal
from streams.state.journal_file import JournalLocked, locked
from streams.status.account import journal_charge_count
from streams.terminal.report import say
from streams.terminal.text import counted

# `mirrormesh leave`: takes a node out of a run in order.

# Announces that a node leaves. It finds a last round that no plan under way can exceed, and stores it.


class Leaving(NamedTuple):
    """The announcement that a node leaves. `last`: its last round; `planned`: the newest planned round.

    `works`: whether its process runs. `stepped`: the last round that it has stepped.
    """

    last: int
    planned: int
    stepped: int
    works: bool


def announce(file: MeshFile, node: str, state: Path) -> Leaving:
    """Announce that a node leaves H rounds after the newest plan. A repeated call changes nothing.

    The node's process reads the announcement within a second and forwards it to the schedulers. Raises
    UsageError if the node has no journal of this run in the folder, or the run is over; JournalError,
    BusError, MeshFileError.
    """
    charge_count = journal_charge_count(state, file, node)
    if charge_count is None:
        text = f"{state}: holds no journal of {node} in run {file.mesh.run}: must be its state folder"
        raise UsageError(f"--state {text}")
    planned = _planned(file, node)
    leave_from = read_wish(state, node, file.mesh.run)
    if leave_from is None:
        leave_from = planned + file.mesh.horizon + 1
        write_wish(state, node, file.mesh.run, leave_from)
    return Leaving(leave_from - 1, planned, charge_count.stepped, _works(state, node))


def _planned(file: MeshFile, node: str) -> int:
    """Return the newest planned round (0: none), read with the rights of the node's user."""
    with closing(reached(file.brokers(node).mesh)) as logs:
        plans = MeshLog.of(file, logs).valid_plans()
    newest = max(plans, default=0)
    if plans and plans[newest].ended:
        raise UsageError(f"{file.path}: run {file.mesh.run} is over: nobody needs to announce it")
    return newest


def _works(state: Path, node: str) -> bool:
    """Return whether a process has the node's journal open."""
    try:
        with locked(StateFolder(state).journal(node)):
            return False
    except JournalLocked:
        return True


def leave(
    mesh: MeshArgument,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The node.", show_default=False, autocompletion=member_names)
    ],
    *,
    state: StateOption,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="The node stays, or may come back.")] = False,
) -> None:
    """Announce that a node leaves the run, with a last round.

    The last round is H rounds (`horizon`) after the newest plan. The node's process reads the announcement
    within a second, forwards it to the schedulers, participates up to the last round, and ends with exit
    code 0. In its last round it learns nothing, and sends what it has learnt last. Call the command where the
    node's state folder is: the folder keeps the announcement over a restart. What the node has spent stays on
    record.

    \b
    Examples:
      mirrormesh leave mesh.yaml east --state /var/lib/mirrormesh
      mirrormesh leave mesh.yaml east --state /var/lib/mirrormesh --withdraw
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file, console = cautioned(load(mesh)), Console(highlight=False)
    file.own(name)
    if withdraw:
        withdraw_wish(existing(state), name)
        say(console, f"{name} stays in run {file.mesh.run}: start its process if it has ended.")
        return
    try:
        announced = announce(file, name, state)
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    for sentence in _sentences(name, file.mesh.run, announced):
        say(console, sentence)


def _sentences(name: str, run: str, found: Leaving) -> list[str]:
    sentences = [f"{name} leaves run {run} after round {found.last:,}; planned are {found.planned:,}."]
    if found.works:
        sentences.append("Its process takes part until then, and ends with exit code 0.")
    else:
        sentences.append(
            f"No process of it works with this folder: it has stepped round {found.stepped:,}, schedulers "
            "plan without it once it is silent, and a process that is started leaves as announced."
        )
    return [*sentences, "What it has spent stays on record, in the folder and on its data broker."]


# `mirrormesh pardon`: lets a node that has sent two values for a round be heard again.


def pardon(
    mesh: MeshArgument,
    node: Annotated[
        str,
        typer.Argument(
            metavar="NODE",
            help="The node that is to be heard again.",
            show_default=False,
            autocompletion=member_names,
        ),
    ],
    *,
    state: StateOption,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="NAME", help="The node that hears it again. [default: all in the folder]"
        ),
    ] = None,
) -> None:
    """Let a node that has sent two values for a round be heard again.

    A neighbour that receives the node's releases keeps the evidence against it in the neighbour's own
    journal. So the owner of a neighbour calls this command while that neighbour is stopped, and each
    neighbour's owner decides alone. Later evidence counts again. The node is also heard again once it joins
    as a new instance. Exit code 1: no journal here counts the node as silent.

    \b
    Examples:
      mirrormesh pardon mesh.yaml west --state /var/lib/mirrormesh
      mirrormesh pardon mesh.yaml west --state /var/lib/mirrormesh --by east
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = cautioned(load(mesh))
    chosen(file.mesh.nodes, node)
    readers = file.resolved.graph.neighbours(node)[1] if by is None else chosen(file.mesh.nodes, by)
    folder, pardoned = StateFolder(existing(state)), 0
    for reader in readers:
        if not folder.journal(reader).exists():
            continue
        context = file.resolved.node(reader).context
        with open_journal(state, reader, context, secrets.token_hex(16)) as journal:
            for instance in journal.pardon(node):
                pardoned += 1
                typer.echo(f"{reader} hears {node} again: evidence against instance {instance} is forgiven")
    if not pardoned:
        typer.echo(f"{state}: no journal of {', '.join(readers)} here counts {node} as silent", err=True)
        raise typer.Exit(1)


# `mirrormesh end`: ends the run of a mesh on its broker.

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def end(
    mesh: MeshArgument,
    *,
    yes: YesOption = False,
    log: LogOption = LogFormat.TEXT,
    level: LevelOption = LogLevel.INFO,
) -> None:
    """End the run of a mesh, for all its nodes and for good.

    The command plans the first closing round, after the schedulers' plans. Nodes finish the rounds before it,
    and mix what they have learnt last in the closing rounds. Then the run's last plan follows, nodes,
    schedulers and this command report that the run is over, and exit with 0. If no node is live, or no plan
    follows within 60 s, the command publishes the last plan at once. It needs the rights of a scheduler.
    Nothing of the run is deleted. Running it twice is harmless.

    Silence never ends a run. A run without `rounds` continues until this command, or until all its nodes have
    left.

    \b
    Example:
      mirrormesh end mesh.yaml --yes
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = cautioned(load(mesh))
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


# `mirrormesh deadletters`: lists the peers' messages that a node refused, and the node's own unreadable
# records: those that could not be fed to it, that it could not read, or that are stored broken.

BROKEN = "the letter itself cannot be read"


class Letter(NamedTuple):
    """One dead letter: its place in its topic, its time (seconds since 1970), the refused value, the reason.

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
    return _letters(file.brokers(node).mesh, file.resolved.topics.dead_letters(node), last, _of_a_peer)


def refused_messages(file: CollaborationFile, name: str, last: int) -> LetterList:
    """Return the `last` messages that the learner or an owner refused. Raises BusError, MeshFileError."""
    broker = file.mesh_broker if name == file.mesh.learner else file.mesh_broker_of(name)
    return _letters(broker, Wire(file.resolved).topics.dead_letters(name), last, _of_a_peer)


def own_letters(file: MeshFile, node: str, last: int) -> LetterList:
    """Return the `last` records that could not be fed or read, from the node's own broker.

    For its owner's eyes. Raises BusError, MeshFileError.
    """
    return _letters(file.brokers(node).data, file.data_topics(node).dead_letters, last, _of_its_own)


def _letters(broker: BrokerSettings, topic: str, last: int, read: Callable[[Stored], Letter]) -> LetterList:
    with closing(reached(broker)) as logs:  # uncommitted, so that no open transaction can hide a letter
        logs.partitions([topic])
        first, end = logs.span(topic)
        records = logs.stored({topic: max(first, end - last)})[topic]
    return LetterList(topic, end - first, tuple(_any_letter(record, read) for record in records))


def _any_letter(record: Stored, read: Callable[[Stored], Letter]) -> Letter:
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
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="The node.", show_default=False, autocompletion=member_names)
    ],
    *,
    last: Annotated[int, typer.Option("--last", min=1, metavar="N", help="The newest of each topic.")] = 20,
    content: Annotated[bool, typer.Option("--content", help="Show what was refused: for its owner.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one object.")] = False,
) -> None:
    """List what a node refused, and what could not be fed to it.

    There are two topics. The first (mesh broker) has messages of peers that the node refused. The second
    (data broker) has the node's own records that its feed could not send, that the node could not read, or
    that are stored broken. Each letter has its offset, time, origin and reason, and its content only with
    --content. Writes nothing. If the brokers have users, the auditor may read the first topic, and the feeder
    the second.

    To learn from such a record after all, append it, mended, to the source, and feed again. With slots by
    time it needs a time whose slot is still open. The bad record keeps its place, as otherwise every later
    record would be in another slot. So the record touches two releases, and is protected at 2 epsilon.

    In a collaboration NODE is the learner or an owner, and only the first topic exists.

    \b
    Examples:
      mirrormesh deadletters mesh.yaml east
      mirrormesh deadletters mesh.yaml east --last 100 --json
    """  # noqa: D301 # \b is click's mark: no new line breaks
    dispatch("deadletters", cautioned(load_any(mesh)), node, last, content=content, as_json=as_json)


def node_letters(file: MeshFile, node: str, last: int, *, content: bool, as_json: bool) -> None:
    """List what a node has refused, and what could not be fed to it."""
    chosen(file.mesh.nodes, node)
    topics = {"peers": partial(peers_letters, file), "records": partial(own_letters, file)}
    _show_letters(node, last, topics, content=content, as_json=as_json)


def party_letters(file: CollaborationFile, name: str, last: int, *, content: bool, as_json: bool) -> None:
    """List what the learner or an owner has refused. A set is read whole, so it has no dead letters."""
    chosen((file.mesh.learner, *file.mesh.owners), name, "the learner or an owner of the collaboration")
    _show_letters(name, last, {"peers": partial(refused_messages, file)}, content=content, as_json=as_json)


def _show_letters(
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
    for kind, read_letters in topics.items():
        try:
            letters_by_kind[kind] = read_letters(name, last)
        except BusError as error:
            failed = True
            typer.echo(str(error), err=True)
    if as_json:
        trees = {kind: _letters_json(letters, content=content) for kind, letters in letters_by_kind.items()}
        typer.echo(json.dumps({"node": name} | trees, indent=2))
    else:
        for letters in letters_by_kind.values():
            for line in _letter_lines(letters, content=content):
                say(console, line)
    if failed:
        raise typer.Exit(1)


def _letter_lines(letters: LetterList, *, content: bool) -> list[str]:
    suffix = f", the last {len(letters.last):,} of them" if len(letters.last) < letters.kept else ""
    lines = [f"{letters.topic}: {counted(letters.kept, 'letter')}{suffix}"]
    for letter in letters.last:
        lines.append(f"  {letter.offset:>8}  {_letter_time(letter)}  {letter.source}: {letter.reason}")
        lines += [f"            {_letter_text(letter)}"] if content else []
    return lines


def _letters_json(letters: LetterList, *, content: bool) -> dict[str, object]:
    last = [
        {
            "offset": letter.offset,
            "time": _letter_time(letter),
            "source": letter.source,
            "reason": letter.reason,
        }
        | ({"content": _letter_text(letter)} if content else {})
        for letter in letters.last
    ]
    return {"topic": letters.topic, "kept": letters.kept, "last": last}


def _letter_time(letter: Letter) -> str:
    try:
        return datetime.fromtimestamp(letter.time, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):  # its sender says when
        return "at no time that a calendar has"


def _letter_text(letter: Letter) -> str:
    """Return the content as text; bytes that are none, and line ends, are escaped."""
    return letter.value.decode("utf-8", "backslashreplace").encode("unicode_escape").decode("ascii")
