"""`mirrormesh feed`: writes records to a node's data topic."""

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streams.bus.bus import BusError
from streams.cli.command_line import CodeOption, MeshArgument, cautioned, member_names, to_standard_error
from streams.cli.processes import LogFormat, LogOption, PrivateMetricsOption, address
from streams.ledger import data_of
from streams.live.log import start_logging
from streams.log_events import LogEvent
from streams.mesh.errors import UsageError
from streams.mesh.file import AnyFile, MeshFile, load_any, refuse_ended
from streams.mesh.kind import dispatch
from streams.metrics.endpoint import NotServed
from streams.runtime.process import ProcessStopped, Stop
from streams.state.spends import keep_fed
from streams.terminal.malformed import MALFORMED, malformed_line, say_malformed
from streams.terminal.text import counted
from streams.tools.feed.feed import Fed
from streams.tools.feed.feed import feed as feed_topic
from streams.tools.feed.figures import LOGGER, FeedFigures, FeedServing
from streams.tools.feed.lines import FeedOptions

NodeArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The node or owner, as in the mesh file.",
        show_default=False,
        autocompletion=member_names,
    ),
]
FileArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        help="A file to read in place of the source's path; kind and schema stay. -: standard input.",
        show_default=False,
    ),
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--rate", metavar="R", help="With slots by count: send R records a second. [default: full speed]"
    ),
]
TimestampsOption = Annotated[
    bool,
    typer.Option(
        "--timestamps",
        help="Send each record at its own time (schema: timestamp), which becomes Kafka's timestamp. With "
        "slots by count past records keep their intervals.",
    ),
]
ShiftOption = Annotated[
    float, typer.Option("--shift", metavar="SECONDS", help="Add SECONDS to the time of every record.")
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="The state folder of the node or owner: it keeps which FILE was fed, so that its use adds up.",
    ),
]
RecordsOption = Annotated[
    int | None,
    typer.Option(
        "--records",
        min=1,
        metavar="N",
        help="With slots by count: stop when the topic holds N, those already there included. [default: all]",
    ),
]


def feed(
    mesh: MeshArgument,
    name: NodeArgument,
    file: FileArgument = None,
    *,
    rate: RateOption = None,
    timestamps: TimestampsOption = False,
    shift: ShiftOption = 0.0,
    records: RecordsOption = None,
    state: StateOption = None,
    private_metrics: PrivateMetricsOption = None,
    log: LogOption = LogFormat.TEXT,
    stay: Annotated[
        bool,
        typer.Option(
            "--stay",
            help="When all is fed, stay ready and idle until a signal: for a manager that would start the "
            "process again.",
        ),
    ] = False,
    code: CodeOption = None,
) -> None:
    """Feed a node's source to its data topic, each record once.

    Reads the source that the mesh file gives the node, and writes each record as a message of
    data.MESH.NAME, on the node's data broker. `mirrormesh provision` creates that topic; `mirrormesh up`
    needs no feed. A line is sent unchanged, without a CSV header; rows of Parquet become JSON lines, rows of
    csr libsvm lines. `shuffle` and `take` apply. A generator produces as many records as the mesh's rounds
    need.

    To continue after Ctrl-C or any other interruption, call the command again in the same way. It continues
    after the last line that the topic holds, because the node would learn twice from a record that is fed
    twice. For the same reason a topic belongs to one source, read from its first line on, standard input
    included. To feed another source, delete the topic, provision it, and give the run a new name. While the
    broker does not answer, the feed waits. Behind records that others have written to the topic it goes on,
    and says how many there are; if another feed writes to it, the feed ends.

    A record that cannot be decoded, or is too long, goes to the dead letters (data-deadletter.MESH.NAME)
    with its line and the reason; an empty record takes its place. If more than 1 % of the records are
    affected, the last line of output gives their number and the reasons. If more than half are, the exit code
    is 3.

    The topic that `provision` creates keeps 1 GiB. Do not feed further ahead of the node than that.

    With slots by time a message's Kafka timestamp is the time of its record. A file is sorted by time first,
    so that no record delays an earlier one. Its lines are numbered in that order, and the feed ends with the
    last slot of the mesh's rounds. --rate and --records are refused, because one additional record would
    change when other records are fed, or whether they are. A source without records is valid. The feed runs
    at most half of the horizon ahead of the clock, as nodes drop records beyond the horizon. Standard input
    is sent as it arrives, without waiting; a record dated further ahead than the topic accepts is in no slot.
    If all slots of the mesh's rounds have ended, nothing is fed.

    In a collaboration NAME is an owner whose source has no path, and FILE, which is required, becomes its set
    in the topic data.MESH.NAME. FILE is first read whole. Nothing is fed unless it holds the owner's number
    of records and each can be read, so there are no dead letters.

    With FILE, also give --state. The folder then records that this node or owner learns from the file, and
    its spending is added to that of any other node or owner that learns from the same file.

    With --shift old records are fed as new ones. Choose one number for all nodes, and derive it from nobody's
    records.

    \b
    Examples:
      mirrormesh feed mesh.yaml bank-1
      mirrormesh feed mesh.yaml bank-1 records.csv.gz --rate 500
      mirrormesh feed mesh.yaml bank-1 --timestamps
      zcat records.csv.gz | mirrormesh feed mesh.yaml bank-1 -
      mirrormesh feed lending.yaml bank-a loans.jsonl.gz
    """  # noqa: D301 # \b is click's mark: no new line breaks
    if rate is not None and timestamps:
        raise UsageError("--rate and --timestamps are two paces: must be one of them")
    if rate is not None and not 0 < rate < math.inf:
        raise UsageError(f"--rate is {rate:g}: must be a number above 0")
    if not math.isfinite(shift):
        raise UsageError(f"--shift is {shift:g}: must be a number of seconds")
    options = FeedOptions(file, records, rate, timestamps, shift)
    if log is LogFormat.JSON:
        start_logging(json=True, level="info")
    serving = FeedServing(address("--private-metrics", private_metrics), log is LogFormat.JSON, stay)
    warn = partial(LOGGER.warning, extra=LogEvent.CAUTION.of()) if serving.json else to_standard_error
    dispatch("feed", cautioned(load_any(mesh, code=code or ()), warn), name, options, state, serving)


def feed_nodes(
    file: MeshFile, name: str, options: FeedOptions, state: Path | None, serving: FeedServing
) -> None:
    """Feed a node's topic."""
    refuse_ended(file, time.time())

    def work(stop: Stop, figures: FeedFigures) -> Fed:
        return feed_topic(file, name, options, stop, figures)

    feed_fully(file, name, options, state, serving, work)


def feed_fully(
    file: AnyFile,
    name: str,
    options: FeedOptions,
    state: Path | None,
    serving: FeedServing,
    work: Callable[[Stop, FeedFigures], Fed],
) -> None:
    """Feed by `work`; tell what was fed, and exit with the code."""
    if state is not None and options.path not in {None, "-"}:
        (fed_file,) = data_of(file, name, path=str(options.path))
        keep_fed(state, name, fed_file._replace(topic=file.data_topics(name).records))
    with Stop(stays=serving.stays) as stop:
        figures = FeedFigures(stop, json=serving.json, mesh=file.mesh.name, node=name)
        try:
            with figures.serve(serving.endpoint):
                fed = _fed(name, serving, lambda: work(stop, figures))
        except ProcessStopped:
            raise typer.Exit(stop.exit_code) from None
        except BusError:
            raise typer.Exit(1) from None
        except NotServed as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
        exit_code = stop.exit_code if fed.stopped else 0
        if exit_code or fed.counts.mostly:
            raise typer.Exit(exit_code or MALFORMED)


def _fed(name: str, serving: FeedServing, work: Callable[[], Fed]) -> Fed:
    """Return what `work` has fed. Tells it, or the broker's error, before the last reads are waited for."""
    try:
        fed = work()
    except BusError as error:
        if serving.json:
            LOGGER.error("%s", error, extra=LogEvent.ENDED.of())  # a line for the operator, not a traceback
        else:
            typer.echo(str(error), err=True)
        raise
    if serving.json:
        LOGGER.info("%s", _summary(fed), extra=LogEvent.FED.of())
        malformed = malformed_line({name: fed.counts})
        if malformed is not None:
            LOGGER.warning("%s", malformed, extra=LogEvent.FED.of())
    else:
        typer.echo(_summary(fed))
        say_malformed(Console(highlight=False), {name: fed.counts})
    return fed


def _summary(fed: Fed) -> str:
    foreign = f"; {counted(fed.others, 'record')} there are others'" if fed.others else ""
    if not fed.records:
        return f"{fed.topic}: nothing fed; it holds {counted(fed.before, 'line')}{foreign}"
    last, seconds = fed.before + fed.records, max(fed.seconds, 0.001)
    lines = f"lines {fed.before + 1:,} to {last:,}"
    speed = f"{fed.seconds:.1f} s, {fed.records / seconds:,.0f} records/s"
    bad = f"{fed.counts.malformed:,} bad"
    return f"{fed.topic}: fed {counted(fed.records, 'record')} ({lines}), {bad}, in {speed}{foreign}"
