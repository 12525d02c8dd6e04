"""Commands that run one long process on a broker: a node, a scheduler, an owner, a learner."""

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from streams.bus.bus import BusError
from streams.bus.preflight import PreflightFailed
from streams.cli.command_line import CodeOption, MeshArgument, OtherDataOption, cautioned, member_names
from streams.collaboration.file import CollaborationFile, load_collaboration
from streams.live.log import name_run, start_logging
from streams.log_events import LogEvent
from streams.mesh.errors import UsageError, writable_folder
from streams.mesh.file import MeshFile, load
from streams.mesh.settings.base import Address
from streams.mesh.settings.base import address as parsed
from streams.metrics.endpoint import NotServed
from streams.runtime.process import BEGINS_AGAIN, ProcessExit, ProcessStopped, StartWatch, Stop
from streams.state.folder import JournalError
from streams.state.journal_file import JournalLocked

# Shared by the commands that run a process on a broker: options, log, exit codes.


class LogFormat(StrEnum):
    """The format of a log line."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The level of detail of the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogOption = Annotated[LogFormat, typer.Option("--log", help="The format of log lines.")]
LevelOption = Annotated[LogLevel, typer.Option("--log-level", help="The lowest level in the log.")]
PAUSE = 0.5
"""Seconds before a process begins again."""
StateOption = Annotated[
    Path, typer.Option("--state", metavar="DIR", help="The folder of the journal.", show_default=False)
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics", metavar="[ADDRESS:]PORT", help="Serve the shared metrics there (127.0.0.1 unless given)."
    ),
]
PrivateMetricsOption = Annotated[
    str | None,
    typer.Option(
        "--private-metrics",
        metavar="[ADDRESS:]PORT",
        help="Serve the private metrics there: they reveal something of the data.",
    ),
]

StayOption = Annotated[
    bool,
    typer.Option(
        "--stay",
        help="At the end of the run, stay ready and idle until a signal: for a manager that would start the "
        "process again.",
    ),
]


def existing(state: Path) -> Path:
    """Return a state folder. Raises UsageError if the path is no folder."""
    if not state.is_dir():
        raise UsageError(f"--state {state}: is no folder: must be the folder of the journal")
    return state


def address(option: str, text: str | None) -> Address | None:
    """Return the (address, port) in `text`; None for None. Raises UsageError."""
    try:
        return None if text is None else parsed(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from None


F = TypeVar("F", MeshFile, CollaborationFile)


def described(file: F, log: logging.Logger) -> F:
    """Return a process's mesh file, name it in all lines from now on, and log its warnings."""
    name_run(file.mesh.name, file.mesh.run)
    return cautioned(file, partial(log.warning, extra=LogEvent.CAUTION.of()))


def live(
    log: logging.Logger,
    work: Callable[[Stop], None],
    form: LogFormat,
    level: LogLevel,
    *,
    watched: bool = True,
    stays: bool = False,
) -> None:
    """Call `work` until it ends or is asked to stop; then exit with the code.

    `work` is called again if a log of the broker was cut meanwhile, or a client has failed. `watched`: the
    process ends at once if its start hangs. `stays`: at the end of the run it waits
    until it is asked to stop.
    """
    start_logging(json=form is LogFormat.JSON, level=level.value)
    with Stop(stays=stays) as stop:
        try:
            while _begins_again(work, stop, log, watched=watched):
                stop.asked.wait(PAUSE)
        except ProcessStopped:
            log.info("stopped, as asked", extra=LogEvent.STOPPED.of())
        except ProcessExit as ended:
            kind = logging.ERROR if ended.exit_code else logging.INFO
            log.log(kind, "%s", ended.reason, extra=LogEvent.ENDED.of())
            raise typer.Exit(ended.exit_code) from None
        except PreflightFailed as failed:
            for line in failed.lines:
                log.error("%s", line, extra=LogEvent.ENDED.of())  # noqa: TRY400 # a line for the operator, not a traceback
            raise typer.Exit(1) from None
        except JournalLocked:
            raise  # a mistake in the input
        except (BusError, NotServed, JournalError) as error:
            log.error("%s", error, extra=LogEvent.ENDED.of())  # noqa: TRY400 # as above
            raise typer.Exit(1) from None
    raise typer.Exit(stop.exit_code)


def _begins_again(work: Callable[[Stop], None], stop: Stop, log: logging.Logger, *, watched: bool) -> bool:
    """Call `work`; return whether it ended with an error that a new call can mend."""
    with StartWatch(stop, log) if watched else nullcontext():
        try:
            work(stop)
        except BEGINS_AGAIN as failed:
            if stop.asked.is_set():
                raise
            log.warning("%s: begins again", str(failed), extra=LogEvent.BEGINS_AGAIN.of())  # a kind is a text
            stop.forget()
            return True
    return False


def named_once(names: Sequence[str]) -> Sequence[str]:
    """Return the names of the nodes that share a process. Raises UsageError for a name given twice."""
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UsageError(f"{repeated}: is given twice")
    return names


# `mirrormesh node`: runs one or more nodes of a party on a broker, in one process.

NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        help="The nodes, as the mesh file names them.",
        show_default=False,
        autocompletion=member_names,
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="All nodes whose own part is here.")]
ShareOption = Annotated[
    str | None,
    typer.Option(
        "--share", metavar="K/N", help="The K-th of N equal shares of the nodes whose own part is here."
    ),
]


def node(
    mesh: MeshArgument,
    names: NamesArgument = None,
    *,
    all_here: AllOption = False,
    share: ShareOption = None,
    state: StateOption,
    spent: Annotated[
        int | None,
        typer.Option(
            "--spent", min=0, metavar="N", help="Rounds charged by other runs that are not recorded anywhere."
        ),
    ] = None,
    begin: Annotated[
        Literal["end"] | None,
        typer.Option("--from", help="A new journal skips the records that are already there."),
    ] = None,
    data_reused: Annotated[
        bool, typer.Option("--data-reused", help="A new journal may read records that --spent was spent on.")
    ] = False,
    other_data: OtherDataOption = False,
    no_decisions: Annotated[
        bool, typer.Option("--no-decisions", help="Do not write decisions to the data broker.")
    ] = False,
    metrics: MetricsOption = None,
    private_metrics: PrivateMetricsOption = None,
    web: Annotated[
        str | None, typer.Option("--web", metavar="[ADDRESS:]PORT", help="Serve Faust's own pages there.")
    ] = None,
    code: CodeOption = None,
    stay: StayOption = False,
    log: LogOption = LogFormat.TEXT,
    level: LevelOption = LogLevel.INFO,
) -> None:
    """Run nodes: each on its own data topic, with its neighbours.

    A node never shows its records. It needs the topics (`mirrormesh provision`) and plans (`mirrormesh
    scheduler`). After a crash it continues where its journal ends. SIGTERM ends it in order.

    Several nodes of a party cost far less in one process than in a process each. They share connections, loop
    and endpoints, so they need the same brokers and users, and each needs a topic of its own. Each node has
    its own journal and lock. A node that has ended, failed or cannot start does not stop the others. The
    process ends with its last node, with exit code 1 if a node has failed. If a node's lock is taken or its
    topic is missing, the process waits for that while the other nodes run; then all nodes begin again. A
    failure of the broker's connections, or a bug, ends all nodes. Options apply to each node.

    \b
    Examples:
      mirrormesh node mesh.yaml east --state /var/lib/mirrormesh
      mirrormesh node mesh.yaml east --state state --metrics 9101 --private-metrics 127.0.0.1:9201
      mirrormesh node mesh.yaml east west --state state
      mirrormesh node mesh.yaml --share 2/4 --state state
    """  # noqa: D301 # \b is click's mark: no new line breaks
    if begin is not None and data_reused:
        raise UsageError("--from end reads nothing again: must not be given with --data-reused")
    from streams.live.node_process import NodeProcess, logger  # noqa: PLC0415 # a scheduler needs none of it
    from streams.live.spend import NodeOptions  # noqa: PLC0415

    options = NodeOptions(
        state,
        spent,
        "end" if begin else "reused" if data_reused else None,
        other_data=other_data,
        decisions=not no_decisions,
        metrics=address("--metrics", metrics),
        private_metrics=address("--private-metrics", private_metrics),
        web=address("--web", web),
    )

    file = load(mesh, code=code or ())
    chosen = nodes_of(file, names or [], all_here=all_here, share=share)
    file.make_code(chosen)

    @cache
    def process() -> NodeProcess:
        # one process object, which knows which nodes have failed for good
        return NodeProcess(described(file, logger(chosen)), chosen, options)

    def work(stop: Stop) -> None:
        process()
        writable_folder(state)
        process().run(stop)

    live(logger(chosen), work, log, level, stays=stay)


def nodes_of(file: MeshFile, names: Sequence[str], *, all_here: bool, share: str | None) -> tuple[str, ...]:
    """Return the nodes that the operator has chosen. Raises UsageError, MeshFileError for an unknown name."""
    options = [
        option for option, value in [("NAME", names), ("--all", all_here), ("--share", share)] if value
    ]
    if len(options) != 1:
        mistake = "none is given" if not options else f"{' and '.join(options)} are given"
        raise UsageError(f"the nodes: {mistake}: must be NAME, --all or --share K/N")
    for name in named_once(names):
        file.own(name)
    if names:
        return tuple(names)
    nodes_here = tuple(file.nodes)
    if not nodes_here:
        raise file.refuse(("nodes",), "missing: the own part of one node at least must be here")
    return nodes_here if share is None else part(nodes_here, share)


def part(names: Sequence[str], share: str) -> tuple[str, ...]:
    """Return the share `K/N` of the names, in their order. Raises UsageError."""
    k, slash, n = share.partition("/")
    count = len(names)
    numbers = [text for text in (k, n) if text.isdecimal() and len(text) <= len(str(count))]
    if not (slash and len(numbers) == 2 and 0 < int(k) <= int(n) <= count):
        raise UsageError(
            f"--share is {share!r}: must be K/N, with K from 1 to N and N at most {count}, the nodes here"
        )
    first, end = ((int(k) - back) * count // int(n) for back in (1, 0))
    return tuple(names[first:end])


# `mirrormesh scheduler`: plans the rounds of a mesh on its broker.


def scheduler(
    mesh: MeshArgument,
    *,
    metrics: MetricsOption = None,
    stay: StayOption = False,
    log: LogOption = LogFormat.TEXT,
    level: LevelOption = LogLevel.INFO,
) -> None:
    """Plan which edges are on in which round, ahead of the nodes. Any number may run: the first plan wins.

    A scheduler sees releases and heartbeats, never data. It continues after it was killed and started again.
    With slots by time a run whose slots have all ended before its first plan is refused.

    \b
    Example:
      mirrormesh scheduler mesh.yaml --metrics 9100
    """  # noqa: D301 # \b is click's mark: no new line breaks
    served = address("--metrics", metrics)
    from streams.live.scheduler_process import LOGGER, run_scheduler  # noqa: PLC0415 # a node needs none of it

    def work(stop: Stop) -> None:
        run_scheduler(described(load(mesh), LOGGER), stop, served)

    live(LOGGER, work, log, level, stays=stay)


# `mirrormesh owner`: runs one owner of a collaboration on a broker.


def owner(
    mesh: MeshArgument,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            help="The owners, as the mesh file names them.",
            show_default=False,
            autocompletion=member_names,
        ),
    ],
    *,
    state: StateOption,
    other_data: OtherDataOption = False,
    metrics: MetricsOption = None,
    private_metrics: PrivateMetricsOption = None,
    stay: StayOption = False,
    log: LogOption = LogFormat.TEXT,
    level: LevelOption = LogLevel.INFO,
) -> None:
    """Run a collaboration's owner: it answers queries about its set.

    Each answer is a mean gradient of the owner's set with noise, and nothing else leaves the owner. It
    answers each query once, up to the mesh file's number of queries, and spends no more than its epsilon. It
    needs the topics (`mirrormesh provision`). After a crash it continues where its journal ends; without its
    journal it cannot continue.

    Owners with the same settings for the shared broker can share a process. Each has a journal of its own,
    and ends independently of the others.

    \b
    Examples:
      mirrormesh owner mesh.yaml bank-a --state /var/lib/mirrormesh
      mirrormesh owner mesh.yaml bank-a bank-b --state state
      mirrormesh owner mesh.yaml bank-a --state state --metrics 9101 --private-metrics 127.0.0.1:9201
    """  # noqa: D301 # \b is click's mark: no new line breaks
    from streams.collaboration.processes import OwnerProcess, PartyOptions  # noqa: PLC0415 # as above

    options = PartyOptions(
        state,
        address("--metrics", metrics),
        address("--private-metrics", private_metrics),
        other_data=other_data,
    )

    logger = logging.getLogger(f"mirrormesh.owner.{names[0]}" if len(names) == 1 else "mirrormesh.owners")

    def work(stop: Stop) -> None:
        file = described(load_collaboration(mesh), logger)
        process = OwnerProcess(file, named_once(names), options)
        writable_folder(state)
        process.run(stop)

    # its start reads a whole set, however long that takes
    live(logger, work, log, level, watched=False, stays=stay)


# `mirrormesh learner`: runs the learner of a collaboration on a broker.


def learner(
    mesh: MeshArgument,
    *,
    state: StateOption,
    metrics: MetricsOption = None,
    stay: StayOption = False,
    log: LogOption = LogFormat.TEXT,
    level: LevelOption = LogLevel.INFO,
) -> None:
    """Run a collaboration's learner: it asks the owners, and learns.

    The learner sees no record. Owners that do not answer in time are left out of a query, and named in the
    log. After a crash the learner continues where its journal ends. It ends after the last query.

    \b
    Example:
      mirrormesh learner mesh.yaml --state state --metrics 9100
    """  # noqa: D301 # \b is click's mark: no new line breaks
    from streams.collaboration.processes import LearnerProcess, PartyOptions  # noqa: PLC0415 # as above

    options = PartyOptions(state, address("--metrics", metrics))

    logger = logging.getLogger("mirrormesh.learner")

    def work(stop: Stop) -> None:
        process = LearnerProcess(described(load_collaboration(mesh), logger), options)
        writable_folder(state)
        process.run(stop)

    live(logger, work, log, level, stays=stay)
