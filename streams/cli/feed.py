"""`mirrormesh feed`: records to a node's data topic."""

import math
from typing import Annotated

import typer

from streams.bus.bus import BusError
from streams.cli.arguments import MeshArgument
from streams.live.process import Stopped
from streams.live.stopping import Stop
from streams.mesh.errors import UsageError
from streams.mesh.file import load
from streams.terminal.wording import counted
from streams.tools.feed.feed import Fed
from streams.tools.feed.feed import feed as feed_topic
from streams.tools.feed.feed_source import Wanted

NodeArgument = Annotated[str, typer.Argument(metavar="NAME", help="The node.", show_default=False)]
FileArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        help="In place of the file of the node's source, read as that one; - is standard input.",
        show_default=False,
    ),
]
RateOption = Annotated[
    float | None, typer.Option("--rate", metavar="R", help="R records a second. [default: full speed]")
]
TimestampsOption = Annotated[
    bool,
    typer.Option(
        "--timestamps", help="At the pace of the records' own times, which Kafka's timestamps then are."
    ),
]
RecordsOption = Annotated[
    int | None,
    typer.Option(
        "--records", min=1, metavar="N", help="The first N alone, with those that are there already."
    ),
]


def feed(
    mesh: MeshArgument,
    name: NodeArgument,
    file: FileArgument = None,
    *,
    rate: RateOption = None,
    timestamps: TimestampsOption = False,
    records: RecordsOption = None,
) -> None:
    """Feed a node's source to its data topic, each record once.

    They go in order. Started again, after whatever end, it goes on after the last line that the topic holds:
    a that is fed twice would be learnt from twice. So a topic takes one source, from its first line on,
    standard input included; shuffle and take of the mesh file hold. A generator gives what the mesh's rounds
    take.

    A record that cannot be decoded, or is too long, goes to the dead letters (data-deadletter.NAME) with its
    line and the reason, and an empty one keeps its place.

    The topic that provision makes keeps 1 GiB: do not feed further ahead of the node than that.

    With slots by time Kafka's timestamps are the records' own, and --timestamps sends each at its time. A
    file is put in order of time first, so that no record holds up one that is due before it; its lines and
    --records count in that order, and it ends with the last slot of the mesh's rounds. It is sent no further
    ahead of the clock than half of the horizon: nodes drop what is beyond all of it. Standard input goes as
    it comes and waits for no time: a record dated further ahead than the topic takes is in no slot.

    \b
    Examples:
      mirrormesh feed mesh.yaml bank-1
      mirrormesh feed mesh.yaml bank-1 records.csv.gz --rate 500
      zcat records.csv.gz | mirrormesh feed mesh.yaml bank-1 -
    """  # noqa: D301 # \b is click's mark: no new line breaks
    if rate is not None and timestamps:
        raise UsageError("--rate and --timestamps are two paces: must be one of them")
    if rate is not None and not 0 < rate < math.inf:
        raise UsageError(f"--rate is {rate:g}: must be a number above 0")
    wanted = Wanted(file, records, rate, timestamps)
    with Stop() as stop:
        try:
            fed = feed_topic(load(mesh), name, wanted, stop)
        except Stopped:
            raise typer.Exit(stop.exit_code) from None
        except BusError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
        typer.echo(_summary(fed))
        if fed.stopped:
            raise typer.Exit(stop.exit_code)


def _summary(fed: Fed) -> str:
    if not fed.records:
        return f"{fed.topic}: nothing fed; it holds {counted(fed.before, 'line')}"
    last, seconds = fed.before + fed.records, max(fed.seconds, 0.001)
    lines = f"lines {fed.before + 1:,} to {last:,}"
    speed = f"{fed.seconds:.1f} s, {fed.records / seconds:,.0f} records/s"
    return f"{fed.topic}: fed {counted(fed.records, 'record')} ({lines}), {fed.bad:,} bad, in {speed}"
