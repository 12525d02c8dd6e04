"""`mirrormesh deadletters`: lists what a node has refused, and what could not be fed to it or read by it."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console

from streams.bus.bus import BusError
from streams.cli.arguments import MeshArgument
from streams.mesh.errors import chosen
from streams.mesh.file import MeshFile, load
from streams.terminal.report import say
from streams.terminal.wording import counted
from streams.tools.dead_letters import Letter, LetterList, own_letters, peers_letters

_KINDS: dict[str, Callable[[MeshFile, str, int], LetterList]] = {
    "peers": peers_letters,
    "records": own_letters,
}


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
    could not send, or that are stored broken (data broker). Each letter has its offset, time, origin and
    reason; content only with --content. Writes nothing. With users, the auditor may read the first topic, and
    the feeder the second.

    To learn from such a record after all, append it, mended, to the source, and feed again; by time it needs
    a time whose slot is still open. The bad one keeps its place, or every later record would be in another
    slot. So it touches two releases: what it says is protected at 2 epsilon.

    \b
    Examples:
      mirrormesh deadletters mesh.yaml east
      mirrormesh deadletters mesh.yaml east --last 100 --json
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file, console = load(mesh), Console(highlight=False)
    chosen(file.mesh.nodes, node)
    letters_by_kind, failed = dict[str, LetterList](), False
    for kind, read in _KINDS.items():
        try:
            letters_by_kind[kind] = read(file, node, last)
        except BusError as error:
            failed = True
            typer.echo(str(error), err=True)
    if as_json:
        trees = {kind: _json(letters, content=content) for kind, letters in letters_by_kind.items()}
        typer.echo(json.dumps({"node": node} | trees, indent=2))
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
