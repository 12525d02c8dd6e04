"""The models that are learnt: `mirrormesh model` writes one, `mirrormesh predict` uses it."""

import csv
import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from streams.bus.bus import BusError
from streams.cli.command_line import (
    BrokerOption,
    CodeOption,
    MeshArgument,
    MessageColumnsOption,
    RegistryOption,
    ServersOption,
    ThresholdOption,
    cautioned,
    named_broker,
    named_registry,
)
from streams.local.results import write_whole
from streams.mesh.errors import UsageError, chosen, writable_folder
from streams.mesh.file import MeshFile, load, load_any
from streams.mesh.kind import WrongKind, dispatch
from streams.mesh.model_file import Model, VectorName
from streams.mesh.settings.brokers import BrokerSettings, RegistrySettings
from streams.metrics.judgement import compared
from streams.terminal.malformed import MALFORMED, most_often
from streams.terminal.report import say, say_facts, scored
from streams.terminal.text import counted, listed
from streams.tools.model.predicting import PredictionWriter
from streams.tools.model.predicting import predict as predictions_of
from streams.tools.model.writing import journal_model, model_paths, public_model, write_model

# `mirrormesh model`: writes what a mesh has learnt to a file.


def model(
    mesh: MeshArgument,
    *,
    output: Annotated[
        Path, typer.Option("--output", metavar="PREFIX", help="Write PREFIX.npz and PREFIX.json.")
    ],
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="Take a node's own average from its journal there."),
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", metavar="NAME", help="The node, with --state.")
    ] = None,
    own: Annotated[
        str | None,
        typer.Option("--own", metavar="OWNER", help="Fit this owner's own model, which stays with it."),
    ] = None,
    star: Annotated[
        Path | None,
        typer.Option("--star", metavar="MODEL", help="The collaboration's model, with --own."),
    ] = None,
) -> None:
    """Write what a mesh has learnt, as npz and JSON.

    Each file holds everything that predictions need, and the model's guarantee. By default the model is read
    from the mesh broker, by a user who may read all edges. It is the mean of every member's newest release,
    and the average of that mean over the rounds that the topics still hold. With --state and --node the model
    is one node's running average over its whole run, read from its journal; the node may be running.

    In a collaboration --own fits an owner's own model to its own records without noise, near the
    collaboration's model, which --star names. It is not private: it stays where the records are.

    \b
    Examples:
      mirrormesh model mesh.yaml --output fraud
      mirrormesh model mesh.yaml --output fraud --state /var/lib/mirrormesh --node east
      mirrormesh model lending.yaml --own bank-c --star rates.json --output bank-c
    """  # noqa: D301 # \b is click's mark: no new line breaks
    dispatch("model", cautioned(load_any(mesh)), output, ModelOptions(state, node, own, star))


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The options that say which model of a file is meant."""

    state: Path | None
    node: str | None
    own: str | None
    star: Path | None


def model_of_nodes(file: MeshFile, output: Path, options: ModelOptions) -> None:
    """Write the model of a mesh, or of one of its nodes."""
    state, node = options.state, options.node
    if options.own is not None or options.star is not None:
        raise UsageError("--own, --star: are for a collaboration: a node's own model is its decision")
    if (state is None) != (node is None):
        raise UsageError("--state and --node: must be given both, or neither")
    check_output(output)
    try:
        if state is not None and node is not None:
            chosen(file.mesh.nodes, node)
            model_of_run = journal_model(file, state, node)
        else:
            model_of_run = public_model(file)
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    show_model(output, model_of_run)


def check_output(output: Path) -> None:
    """Raise UsageError unless the model can be written there."""
    if not output.name:
        raise UsageError(f"--output {output}: must be the beginning of a file's name")
    writable_folder(output.parent, (path.name for path in model_paths(output)))


def show_model(output: Path, model_of_run: Model) -> None:
    """Write the model, and print a description of it."""
    console = Console(highlight=False)
    say_facts(console, _facts(model_of_run))
    for path in write_model(output, model_of_run):
        say(console, f"Wrote {path}.")


def _facts(model: Model) -> list[tuple[str, str]]:
    weakest = model.guarantee.epsilon
    protected = "NOTHING IS PROTECTED in some node's stream" if weakest is None else f"epsilon {weakest:g}"
    if model.own is not None:
        return [
            ("model", f"of {model.own} alone, loss {model.loss}, dimension {model.dimension}"),
            ("made as", model.averaged),
            ("a record", model.guarantee.nodes[model.own]),
        ]
    delta = f", delta {model.guarantee.delta!r}" if weakest is not None and model.guarantee.delta else ""
    return [
        ("model", f"{model.mesh}, run {model.run}, loss {model.loss}, dimension {model.dimension}"),
        ("newest", f"at round {model.round:,}, of {counted(model.nodes, 'node')}"),
        ("average", f"of {counted(model.rounds, 'round')}: {model.averaged}"),
        (
            "a record" if model.guarantee.adjacency == "event" else "a unit",
            f"{protected}{delta} (the weakest of all nodes; the sentences are in the file)",
        ),
    ]


# `mirrormesh predict`: predicts the labels of records with a model.


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model, JSON or npz.", show_default=False)],
    records: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="The records; -: standard input.", show_default=False),
    ] = None,
    *,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Predict messages of a topic, not a file.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="OFFSET|TIME",
            help="The first, by an offset of each partition or a time. [default: the first]",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", metavar="OFFSET|TIME", help="Before that. [default: all that are there]"),
    ] = None,
    servers: ServersOption = None,
    broker: BrokerOption = None,
    registry: RegistryOption = None,
    columns: MessageColumnsOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write the predictions there. [default: print]"),
    ] = None,
    vector: Annotated[
        VectorName, typer.Option("--vector", help="The newest decision, or the average over the rounds.")
    ] = "newest",
    mesh: Annotated[
        tuple[Path, str] | None,
        typer.Option(
            "--mesh", metavar="MESH NODE", help="Read records like that node, not as the model says."
        ),
    ] = None,
    threshold: ThresholdOption = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="Copy that column of each record, under the name id."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write a JSON object a line, not CSV.")] = False,
    code: CodeOption = None,
) -> None:
    """Predict the labels of a file's records, as CSV or JSON lines.

    The records must have the mesh's schema. Each output line has a record's line number and its prediction: a
    score (its sign is the class) for losses of two classes and of numbers, a distance for `range`, the
    class's index and name for `softmax`, or the prediction of a user-defined loss. The logistic loss adds the
    probability of a positive label; with class_weights that is the probability among records so weighted. If
    the file has labels, the model's accuracy is shown, and with --threshold its precision and recall. A
    record that cannot be read has no prediction; the output has only its line number, and its --id column if
    that can be read. The most frequent fault is named. If more than half of the records are faulty, the exit
    code is 3.

    With --topic the records are committed messages of a topic, decoded as `score` decodes them: all that are
    there, or those from --from on and before --to. With --mesh, and the topic of that node's source, they are
    those of the source's partitions, on the source's broker. Each output line has the message's partition and
    offset in place of a line number, in the order of reading.

    \b
    Examples:
      mirrormesh predict results/model.json new.csv
      mirrormesh predict fraud.npz new.jsonl --vector average --output predictions.csv
      mirrormesh predict fraud.json new.csv --threshold 0.2 --id payment --json
      mirrormesh predict fraud.json --topic payments --servers kafka:9092 --from 2026-11-27T04:00Z
    """  # noqa: D301 # \b is click's mark: no new line breaks
    of_topic = {"--from": since, "--to": until, "--servers": servers, "--broker": broker}
    _check_place(records, topic, of_topic | {"--registry": registry, "--columns": columns})
    if output is not None:
        writable_folder(output.parent, [output.name])
    try:
        trusted = None if mesh is None else (cautioned(load(mesh[0], code=code or ())), mesh[1])
    except WrongKind as error:
        raise error.of_command("predict --mesh") from None  # without the option it serves every kind
    if topic is None:
        records = records or "-"
        predicted = predictions_of(model, records, vector, trusted, id_column=id_column, threshold=threshold)
    else:
        records = topic
        places = named_broker(servers, broker), named_registry(registry)
        options = vector, None if columns is None else tuple(columns.split(",")), threshold, id_column
        predicted = _of_topic(model, topic, trusted, places, (since, until), options)
    text = _json_lines(_columns(predicted)) if as_json else _csv(_columns(predicted))
    if output is None:
        sys.stdout.writelines(text.splitlines(keepends=True))  # unbuffered, one long text may be cut off
    else:
        write_whole(output, text.encode())
    _say(Console(highlight=False, stderr=output is None), records, predicted, vector)
    if predicted.left_out.records.mostly:
        if output is not None:
            say(Console(highlight=False, stderr=True), _unread(records, predicted))
        raise typer.Exit(MALFORMED)


def _check_place(records: str | None, topic: str | None, of_topic: Mapping[str, object]) -> None:
    """Raise UsageError unless records are in a file or a topic, and its options fit."""
    if (records is None) == (topic is None):
        raise UsageError("FILE and --topic: must be one of them")
    for option, value in of_topic.items():
        if topic is None and value is not None:
            raise UsageError(f"{option} {value}: goes with --topic")


def _of_topic(
    model: Path,
    topic: str,
    trusted: tuple[MeshFile, str] | None,
    named: tuple[BrokerSettings | None, RegistrySettings | None],
    edges: tuple[str | None, str | None],
    options: tuple[VectorName, tuple[str, ...] | None, float | None, str | None],
) -> PredictionWriter:
    """Predict a range of a topic, between `edges`, on the broker that is `named`, or the node's own."""
    from streams.tools.score.ranges import edge, predict_range, range_of  # noqa: PLC0415 # files need none
    from streams.tools.score.score import Scoring  # noqa: PLC0415 # as above

    (broker, registry), (vector, columns, threshold, id_column) = named, options
    scoring = Scoring(model, trusted, None, None, threshold, columns, registry)
    since, until = edge("--from", edges[0]), edge("--to", edges[1])
    try:
        messages = range_of(topic, broker, trusted, since, until)
        return predict_range(scoring, messages, vector, id_column)
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


def _columns(made: PredictionWriter) -> dict[str, list[Any]]:
    """Return the columns to write, by heading; None where a record has no value."""
    has_prediction = [prediction is not None for _, prediction in made.records]
    columns: dict[str, list[Any]] = {"line": [line for line, _ in made.records]}
    if made.places is not None:
        partitions, offsets = zip(*made.places, strict=True)
        columns = {"partition": list(partitions), "offset": list(offsets)}
    if made.ids is not None:
        columns["id"] = made.ids
    return columns | {name: _among(has_prediction, values) for name, values in made.columns.items()}


def _among(read: list[bool], values: Iterable[object]) -> list[object]:
    """Return a value for each record that could be read, None for the others."""
    following = iter(values)
    return [next(following) if is_present else None for is_present in read]


def _csv(columns: dict[str, list[Any]]) -> str:
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([columns, *zip(*columns.values(), strict=True)])  # None is written as nothing
    # a record of JSON may contain half of a surrogate pair, which no output can represent
    return text.getvalue().encode(errors="replace").decode()


def _json_lines(columns: dict[str, list[Any]]) -> str:
    """Return an object a line; JSON has no infinite numbers, so they are null."""
    rows = (map(_finite, row) for row in zip(*columns.values(), strict=True))
    return "".join(f"{json.dumps(dict(zip(columns, row, strict=True)))}\n" for row in rows)


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _say(console: Console, records: str, predictions: PredictionWriter, vector: VectorName) -> None:
    left_out = predictions.left_out
    if left_out.records.malformed:
        say(console, _unread(records, predictions))
    reason = f", {most_often(left_out.labels)}" if left_out.labels.malformed else ""
    if predictions.score is None:
        if reason:
            say(console, f"No score: {counted(left_out.unlabelled, 'record')} left out{reason}.")
        return
    labelled = counted(predictions.score.records, "labelled record")
    without = f" ({left_out.unlabelled:,} left out{reason})" if left_out.unlabelled else ""
    subject = {"newest": "the newest decision", "average": "the average over the rounds"}[vector]
    say(console, f"{labelled}{without}, by {subject}: {scored(predictions.score)}.", "bold")
    if predictions.figures is not None:
        say(console, f"Verdict on the model: {compared(predictions.figures)}.", "bold")
    at_threshold = predictions.decided
    if at_threshold is not None:
        precision, recall = (
            "undefined" if share is None else f"{share:.4f}"
            for share in (at_threshold.precision, at_threshold.recall)
        )
        text = f"At {at_threshold.threshold:g} and above: {at_threshold.taken:,} of the {labelled}"
        say(console, f"{text}, precision {precision}, recall {recall}.", "bold")


def _unread(records: str, predictions: PredictionWriter) -> str:
    counts = predictions.left_out.records
    lines = [f"{number:,}" for number, prediction in predictions.records if prediction is None]
    places, kind = predictions.places, "line"
    if places is not None:
        without = [k for k, (_, prediction) in enumerate(predictions.records) if prediction is None]
        lines, kind = ["{}:{}".format(*places[k]) for k in without], "partition:offset"
    share = f"{counts.malformed:,} of {counted(counts.records, 'record')}"
    return f"{records}: {share} cannot be read ({most_often(counts)}): {kind} {listed(lines)}."
