"""The command `mirrormesh`, and the arguments that its commands share. Its help says the exit codes."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from streams.mesh.file import AnyFile
    from streams.mesh.settings.brokers import BrokerSettings, RegistrySettings

F = TypeVar("F", bound="AnyFile")

# The commands by name, each loaded when it is called, as loading may take a second.

COMMANDS = {
    "demo": "Six sensors follow a moving target together, privately.",
    "run": "Run a mesh in this process, without a broker.",
    "simulate": "Search a mesh for bugs: seeded faults in virtual time.",
    "plan": "Show what a mesh would do, and what it promises to whom.",
    "check": "Check a mesh file, and name every mistake.",
    "schema": "Write a commented schema by looking at records.",
    "init": "Write a mesh file to start from, or an example with its data.",
    "tune": "Propose clip, step, slot size, mechanism from public records.",
    "forecast": "Say whether a collaboration is worth it, and to whom.",
    "model": "Write what a mesh has learnt, as npz and JSON.",
    "predict": "Predict the labels of a file's records, as CSV or JSON lines.",
    "score": "Score the messages of a topic, each once, while they come.",
    "provision": "Create topics and users of a mesh, or check existing ones.",
    "key": "Make a key that signs, and show the public one.",
    "scheduler": "Plan which edges are on in which round, ahead of the nodes.",
    "end": "End the run of a mesh, for all its nodes and for good.",
    "node": "Run nodes: each on its own data topic, with its neighbours.",
    "leave": "Announce that a node leaves the run, with a last round.",
    "owner": "Run a collaboration's owner: it answers queries about its set.",
    "learner": "Run a collaboration's learner: it asks the owners, and learns.",
    "feed": "Feed a node's source to its data topic, each record once.",
    "up": "Run a whole mesh on this machine, on Kafka.",
    "pardon": "Let a node that has sent two values for a round be heard again.",
    "budget": "Show the privacy that nodes have spent, and what is left.",
    "watch": "Watch a mesh that runs on a broker.",
    "deadletters": "List what a node refused, and what could not be fed to it.",
    "audit": "Search for violations of a mesh's privacy guarantee.",
    "export": "Write what runs a mesh: for Kubernetes, compose or bare hosts.",
    "broker": "Start and stop a Kafka broker for development on this machine.",
}
"""Each command's one-line help: the first line of its function's, or group's, docstring."""

FILES = {
    "key": "init",
    "schema": "init",
    "predict": "model",
    "scheduler": "processes",
    "node": "processes",
    "owner": "processes",
    "learner": "processes",
    "leave": "operate",
    "pardon": "operate",
    "end": "operate",
    "deadletters": "operate",
}
"""The files of commands that share one; any other command has a file of its name."""

UNREAD = 128 + signal.SIGPIPE
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Loaded(MutableMapping[str, Any]):
    """The commands by name. Each is imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        module = import_module(f"streams.cli.{FILES.get(name, name)}")
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.command(name)(getattr(module, name))
        command = get_command(app)
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("commands are defined in COMMANDS")

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands are defined in COMMANDS")


class LazyGroup(TyperGroup):
    """The group of all commands; its help lists them without loading them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Loaded()

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 # as typer calls it
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands and options that begin with the text, without loading any command."""
        loaded = self.commands
        self.commands = {name: TyperCommand(name, help=help_text) for name, help_text in COMMANDS.items()}
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = loaded

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        If the reader of its output is gone, it ends without a message, as SIGPIPE would end it.
        """
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            pass
        except typer.Exit:
            raise
        except Exception as error:
            from streams.mesh.kind import WrongKind  # noqa: PLC0415 # help needs none of it

            if isinstance(error, WrongKind):
                raise error.of_command(ctx.invoked_subcommand) from None
            raise
        except SystemExit as ended:
            if not isinstance(ended.__context__, BrokenPipeError):  # rich ends the process itself, with 1
                raise
        else:
            return result
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
        return ctx.exit(UNREAD)


app = typer.Typer(
    name="mirrormesh",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 # typer's callback takes it so
    if asked:
        from importlib.metadata import version  # noqa: PLC0415 # a tenth of a second that no other call needs

        typer.echo(f"mirrormesh {version('mirrormesh')}")
        raise typer.Exit


@app.callback()
def _mirrormesh(
    *,
    _: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Private, decentralised online learning on streams.

    Several parties, each with a private stream, learn one model together, without a server. In every round
    each party makes one mirror-descent step on its own records, and sends differentially private parameters
    to its neighbours.

    \b
    To begin:
      mirrormesh demo                 see it work: six sensors follow a target privately
      mirrormesh init mesh.yaml       write a mesh file to start from
      mirrormesh check mesh.yaml      is it right?
      mirrormesh plan mesh.yaml       what would happen, and what is promised?
      mirrormesh budget mesh.yaml     what is spent, and what is left?
      mirrormesh run mesh.yaml        run it here, all nodes in one process
      mirrormesh up mesh.yaml         run it here on Kafka, one process per node
      mirrormesh model mesh.yaml      write what it has learnt; predict: use it
      mirrormesh watch mesh.yaml      see how it is doing, wherever it runs

    Exit codes: 0 done, 2 a mistake in the input, 3 most records malformed, 130 interrupted, 141 output
    unread, 1 anything else.
    """  # noqa: D301 # \b is click's mark: no new line breaks


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends in SystemExit. Mistakes are lines on standard error, not tracebacks."""
    try:
        app(None if arguments is None else list(arguments), prog_name="mirrormesh")
    except Exception as error:
        lines, code = _mistake(error)
        if not lines:
            raise
        for line in lines:
            typer.echo(line, err=True)
        sys.exit(code)


def _mistake(error: Exception) -> tuple[Sequence[str], int]:
    """Return the lines of a user's mistake, and the exit code; no lines for a fault of the program."""
    from streams.mesh.errors import MeshFileError, UsageError  # noqa: PLC0415 # help needs none of these
    from streams.state.folder import JournalError  # noqa: PLC0415

    match error:
        case MeshFileError():
            return error.lines, 2
        case UsageError() | JournalError():
            return [str(error)], 2
        case OSError():
            return [f"{error.filename}: {error.strerror}" if error.filename else str(error)], 1
    return (), 1


# The warnings of `check` that depend on settings alone.


def to_standard_error(line: str) -> None:
    """Print a warning to standard error."""
    typer.echo(f"Warning: {line}", err=True)


def cautioned(file: F, warn: Callable[[str], object] = to_standard_error) -> F:
    """Return a mesh file that has just been read, and print the warnings that its settings alone give.

    Each command that takes a mesh file opens it in this way, unless its own report, or its log, has these
    lines.
    """
    for line in file.resolved.cautions:
        warn(line)
    return file


# Arguments and options that several commands share.


def member_names(ctx: Any, incomplete: str) -> list[str]:
    """Return the nodes or owners of the command's mesh file that the shell may complete; none if unreadable.

    It runs no code that the file names.
    """
    from streams.mesh.file import load_any  # noqa: PLC0415 # only Tab needs it

    mesh, earlier_names = ctx.params.get("mesh"), ctx.params.get("names") or ()
    try:
        members = load_any(mesh).members if mesh else ()
    except Exception:  # noqa: BLE001 # Tab says nothing of a mistake, and the command does
        return []
    return [name for name in members if name.startswith(incomplete) and name not in earlier_names]


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
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        metavar="T",
        help="Add the class: positive at a probability (logistic) or score (hinge) of at least T.",
    ),
]
RoundsOption = Annotated[
    int | None, typer.Option("--rounds", min=1, help="Rounds, in place of the mesh file's.", metavar="T")
]


class WatchOptions(NamedTuple):
    """What `watch` shows: a table once, lines alone, the owner's line, or the round of a number."""

    once: bool = False
    plain: bool = False
    owner: bool = False
    round: int | None = None


class EstimateOptions(NamedTuple):
    """What is supposed of each node's records: how many there are, and the share of positive ones."""

    records: int | None = None
    positive: float | None = None


SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="The seed of data order, schedule and simulated noise, in place of the file's.",
        metavar="N",
    ),
]


ServersOption = Annotated[
    str | None, typer.Option("--servers", metavar="HOST:PORT", help="The broker, without users.")
]
BrokerOption = Annotated[
    Path | None,
    typer.Option(
        "--broker", metavar="FILE", help="A YAML file of the broker's keys, as under brokers in a mesh file."
    ),
]
MessageColumnsOption = Annotated[
    str | None,
    typer.Option("--columns", metavar="A,B,C", help="Messages are CSV lines with these columns."),
]
RegistryOption = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL|FILE",
        help="Messages are Avro by this schema registry: its address, or a YAML file of its keys.",
    ),
]


# Names a broker, or a schema registry, in options, for commands that need no mesh file.

_PORTS = 1 << 16


def named_broker(servers: str | None, path: Path | None) -> "BrokerSettings | None":
    """Return the broker of --servers, or of the file of --broker; None if neither is given.

    Raises UsageError, MeshFileError.
    """
    from streams.mesh.errors import UsageError  # noqa: PLC0415 # few commands need these
    from streams.mesh.kind import FileReader  # noqa: PLC0415 # as above
    from streams.mesh.settings.brokers import BrokerSettings  # noqa: PLC0415 # as above
    from streams.mesh.settings.files import read_yaml  # noqa: PLC0415 # as above

    if servers is not None and path is not None:
        raise UsageError("--servers and --broker: must be one of them")
    if path is not None:
        return FileReader(os.environ).validated(BrokerSettings, read_yaml(path), path, ())
    if servers is None:
        return None
    for address in servers.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < _PORTS:
            raise UsageError(f"--servers {servers}: must be HOST:PORT, or several with commas between them")
    return BrokerSettings(servers=servers)


def named_registry(place: str | None) -> "RegistrySettings | None":
    """Return the schema registry at an address, or that of a file; None for none. Raises MeshFileError."""
    from streams.mesh.kind import FileReader  # noqa: PLC0415 # few commands need these
    from streams.mesh.settings.brokers import RegistrySettings  # noqa: PLC0415 # as above
    from streams.mesh.settings.files import read_yaml  # noqa: PLC0415 # as above

    if place is None:
        return None
    if "://" in place:
        return FileReader(os.environ).validated(RegistrySettings, {"url": place}, Path("--registry"), ())
    return FileReader(os.environ).validated(RegistrySettings, read_yaml(Path(place)), Path(place), ())
