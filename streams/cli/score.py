"""`mirrormesh score`: scores the messages of a topic as they come, each one once."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streams.bus.bus import BusError
from streams.bus.connection import LOGGER
from streams.bus.errors import given_by
from streams.cli.command_line import (
    BrokerOption,
    CodeOption,
    MessageColumnsOption,
    RegistryOption,
    ServersOption,
    ThresholdOption,
    member_names,
    named_broker,
    named_registry,
)
from streams.cli.processes import LogFormat, LogOption, PrivateMetricsOption, address, described
from streams.live.log import start_logging
from streams.mesh.errors import UsageError
from streams.mesh.file import load
from streams.mesh.kind import WrongKind
from streams.mesh.model_file import VectorName
from streams.mesh.settings.parties import score_user
from streams.metrics.endpoint import NotServed
from streams.runtime.process import ProcessStopped, Stop
from streams.terminal.report import say
from streams.terminal.text import counted
from streams.tools.score.figures import ScoreCounts
from streams.tools.score.processor import Route
from streams.tools.score.score import Scoring, broker_of, group_of
from streams.tools.score.score import score as score_topic

_FAULTS = 6


def score(
    mesh: Annotated[
        Path | None, typer.Argument(metavar="MESH", help="The mesh file.", show_default=False)
    ] = None,
    node: Annotated[
        str | None,
        typer.Argument(
            metavar="NODE",
            help="The node whose decisions score.",
            show_default=False,
            autocompletion=member_names,
        ),
    ] = None,
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--input", metavar="TOPIC", help="The messages to score. [default: as the mesh file says]"
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", metavar="TOPIC", help="Write the scores there. [default: as the mesh file says]"
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="FILE", help="Score with this model, not with a node's decisions."),
    ] = None,
    servers: ServersOption = None,
    broker: BrokerOption = None,
    vector: Annotated[
        VectorName | None,
        typer.Option(
            "--vector",
            help="The newest decision, or the average. [default: newest]",
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="NAME", help="Score with this run's decisions. [default: the newest]"),
    ] = None,
    threshold: ThresholdOption = None,
    columns: MessageColumnsOption = None,
    registry: RegistryOption = None,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="NAME", help="The consumer group. [default: score.MESH.NODE.INPUT]"),
    ] = None,
    latest: Annotated[
        bool,
        typer.Option("--latest", help="A new group begins with what comes from now on, not with all."),
    ] = False,
    at_least_once: Annotated[
        bool,
        typer.Option("--at-least-once", help="Score sooner, without transactions; after a kill some twice."),
    ] = False,
    private_metrics: PrivateMetricsOption = None,
    log: LogOption = LogFormat.TEXT,
    code: CodeOption = None,
) -> None:
    """Score the messages of a topic, each once, while they come.

    With --model the model is a file. Without it MESH and NODE must be given: each message is then scored with
    the node's newest decision, read from its topic of decisions on the party's own broker. Messages are
    decoded by the schema of the node's source, or of the model: JSON objects, CSV lines or Avro, in envelopes
    too. If the node's own part of the mesh file has `score`, that supplies the options that are not given.

    A score has the key, the headers and the time of its message, and is written to the same partition if both
    topics have equally many. Its value is JSON: the prediction, for logistic loss the probability, the class
    if there is one, the round and run that the model is from, and the epsilon at which each record that the
    model was learnt from is protected. A message that cannot be read goes to OUTPUT.deadletter, with the
    reason in its headers. A tombstone has no score. All three topics must exist, on one broker.

    Scores and positions are written in transactions, so a reader of committed records gets each message's
    score once, even if a process dies. Start more of these processes to share the partitions. Ctrl-C or
    SIGTERM ends a process in order. If a process dies, its partitions wait ten seconds for another one.

    \b
    Examples:
      mirrormesh score --model fraud.json --input payments.new --output payments.scored --servers kafka:9092
      mirrormesh score mesh.yaml bank-1 --input payments.new --output payments.scored --threshold 0.2
      mirrormesh score mesh.yaml bank-1
    """  # noqa: D301 # \b is click's mark: no new line breaks
    if (mesh is None) != (node is None):
        raise UsageError("MESH and NODE: must be given both, or neither")
    start_logging(json=log is LogFormat.JSON, level="warning")
    try:
        file = None if mesh is None else described(load(mesh, code=code or ()), LOGGER)
    except WrongKind as error:
        raise error.of_command("score") from None
    trusted = None if file is None or node is None else (file, node)
    names = None if columns is None else tuple(columns.split(","))
    settings = None if trusted is None else trusted[0].own(trusted[1]).score
    if settings is not None:
        source, output = source or settings.input, output or settings.output
        vector = vector or (settings.vector if model is None else None)
        latest, at_least_once = latest or settings.latest, at_least_once or not settings.transactions
    if source is None or output is None:
        missing = "--input" if source is None else "--output"
        raise UsageError(f"{missing}: must be given, or `score` in the node's own part of a mesh file")
    if threshold is None and settings is not None:
        threshold = settings.threshold
    endpoint = address("--private-metrics", private_metrics)
    if endpoint is None and settings is not None:
        endpoint = settings.private_endpoint
    scoring = Scoring(model, trusted, vector, run, threshold, names, named_registry(registry))
    default_group = group_of(scoring, source)
    route = Route(
        broker_of(named_broker(servers, broker), trusted),
        source,
        output,
        group or default_group,
        latest=latest,
        transactions=not at_least_once,
        **({} if settings is None or node is None else {"rights_from": given_by(score_user(node))}),
    )
    console = Console(highlight=False)
    with Stop() as stop:
        try:
            counts = score_topic(scoring, route, stop, lambda line: say(console, line), endpoint)
        except (BusError, NotServed) as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
        except ProcessStopped:
            counts = ScoreCounts()
    say(console, _summary(route, counts))
    raise typer.Exit(stop.exit_code)


def _summary(route: Route, counts: ScoreCounts) -> str:
    letters = sum(counts.unreadable.values())
    parts = [f"{route.input}: {counted(counts.scored, 'score')} in {route.output}"]
    if letters:
        faults = ", ".join(
            f"{fault} ({number:,})" for fault, number in counts.unreadable.most_common(_FAULTS)
        )
        parts.append(f"{letters:,} in {route.dead_letters} ({faults})")
    if counts.no_record:
        parts.append(f"{counts.no_record:,} without a record")
    return ", ".join(parts)
