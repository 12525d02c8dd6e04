"""Scores a topic with a model file, or with the decisions of a node."""

import json
import re
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from nodes.losses.evaluation import predicted
from nodes.losses.losses import Loss
from nodes.values import FloatArray
from streams.bus.bus import BusError, Denied, UnknownTopic, Unreachable
from streams.bus.connection import LOGGER, consumer_settings
from streams.bus.errors import Cure, bus_error, cure, given_by
from streams.bus.logs import Logs, reached
from streams.bus.preflight import preflight
from streams.bus.registry import SchemaRegistry
from streams.bus.rights import Access, access_of_all
from streams.codec.topics import LONGEST_TOPIC, SCORE, ScoreTopics
from streams.live.serving import warn_of_open
from streams.mesh.errors import MeshFileError, UsageError
from streams.mesh.file import MeshFile
from streams.mesh.model_file import VectorName, read_model
from streams.mesh.settings.algorithm import LossSettings
from streams.mesh.settings.base import Address
from streams.mesh.settings.brokers import BrokerSettings, RegistrySettings
from streams.mesh.settings.node import FileSettings, ScoreSettings, TopicSettings
from streams.mesh.settings.parties import score_user
from streams.metrics.endpoint import Endpoint
from streams.metrics.registry import PrivateRegistry
from streams.records.decoder import SchemaDecoder
from streams.records.schema_files import Refuser, header_columns
from streams.records.sources import message_decoder
from streams.runtime.process import Stop, retry_until_reachable
from streams.tools.model.predicting import ModelFile, check_fits, check_threshold
from streams.tools.model.writing import promised_of_all, weakest
from streams.tools.score.figures import ScoreCounts, ScoreFigures
from streams.tools.score.processor import Route, SchemaFetcher, ScoreProcessor
from streams.tools.score.scorer import FixedModel, Models, ModelVersion, Scorer

_LONGEST = LONGEST_TOPIC - len(".deadletter")
_TOPIC = re.compile(rf"[A-Za-z0-9._-]{{1,{_LONGEST}}}")
_NEITHER = "--model: must be given, or a mesh file and a node of it"


@dataclass(frozen=True, slots=True)
class Scoring:
    """The settings of scoring. `model`: a model file; None: the decisions of the node. `node`: a mesh and its
    node.

    `vector`: None is the newest decision, of a model or of a node. `run`: the run whose
    decisions count. `columns`: messages are CSV lines of these columns. `registry`: messages are Avro by its
    schemas.
    """

    model: Path | None = None
    node: tuple[MeshFile, str] | None = None
    vector: VectorName | None = None
    run: str | None = None
    threshold: float | None = None
    columns: tuple[str, ...] | None = None
    registry: RegistrySettings | None = None


def score(
    scoring: Scoring,
    route: Route,
    stop: Stop,
    tell: Callable[[str], None],
    endpoint: Address | None = None,
) -> ScoreCounts:
    """Score `route.input` until the process is asked to stop.

    While the broker is away the process waits for it. When all is ready to score, `tell` is called with a
    line that names the topics and the group. `endpoint`: where to serve metrics. Raises UsageError,
    MeshFileError, BusError, NotServed, and ProcessStopped if the process is asked to stop before it scores.
    """
    _check_names(route)
    reading = reading_of(scoring, route.input)  # mistakes that need no broker are reported without one
    check_outputs(scoring, route)
    with ExitStack() as stack:
        served = None if endpoint is None else stack.enter_context(Endpoint(*endpoint))
        warn_of_open("metrics of scores", endpoint, LOGGER)
        retry_until_reachable(stop, lambda: check_topics(scoring, route))
        fetcher = _fetcher(reading)
        if fetcher is not None:
            stack.enter_context(closing(fetcher)).check()
        scorer, models = retry_until_reachable(stop, lambda: scorer_of(scoring, route, reading))
        stack.enter_context(closing(models))
        processor = stack.enter_context(closing(ScoreProcessor(route, scorer, models, stop, fetcher)))
        if served is not None:
            figures = ScoreFigures(PrivateRegistry(**_labels(scoring)), processor.counts)
            processor.figures = figures
            served.show(figures.registry, figures.missing, figures.stalled)
        tell(f"{route.input} to {route.output}, as group {route.group}")
        processor.run()
    return processor.counts


def _labels(scoring: Scoring) -> dict[str, str]:
    if scoring.node is not None:
        return {"mesh": scoring.node[0].mesh.name, "node": scoring.node[1]}
    return {"mesh": _model_file(scoring).model.mesh}


def _fetcher(reading: "MessageReading") -> SchemaFetcher | None:
    schemas, source = reading.decoder.schemas, reading.settings
    if schemas is None or source.registry is None:
        return None
    return SchemaFetcher(source, SchemaRegistry(source.registry), schemas)


def broker_of(named: BrokerSettings | None, node: tuple[MeshFile, str] | None) -> BrokerSettings:
    """Return the broker that options name, or that of a node's data. Raises UsageError, MeshFileError."""
    if named is not None:
        return named
    if node is None:
        raise UsageError("--servers or --broker: must be given with --model, as a model names no broker")
    file, name = node
    return file.brokers(name).data


def group_of(scoring: Scoring, topic: str) -> str:
    """Return the consumer group: `score.<mesh>.<node>.<input>`; of a model file `score.<mesh>.<input>`.

    No mesh is called `score`, so no run's group is one of these.
    """
    if scoring.node is not None:
        file, node = scoring.node
        return ScoreTopics(file.mesh.name, node, topic, "").group
    return f"{SCORE}.{_model_file(scoring).model.mesh}.{topic}"


def route_of(file: MeshFile, node: str, settings: ScoreSettings) -> Route:
    """Return where a node's messages come from and its scores go, as its own part says."""
    return Route(
        file.brokers(node).data,
        settings.input,
        settings.output,
        ScoreTopics(file.mesh.name, node, settings.input, settings.output).group,
        latest=settings.latest,
        transactions=settings.transactions,
        rights_from=given_by(score_user(node)),
    )


def why_not(file: MeshFile, node: str, settings: ScoreSettings) -> str | None:
    """Return why scoring by a node's own part would end at its start, in a line; None: it would not.

    A broker that is away is waited for.
    """
    scoring = Scoring(None, (file, node), settings.vector, threshold=settings.threshold)
    route = route_of(file, node, settings)
    try:
        reading_of(scoring, route.input)
        check_outputs(scoring, route)
        check_topics(scoring, route)
    except Unreachable:
        return None
    except (UsageError, MeshFileError, BusError) as error:
        return "; ".join(str(error).splitlines())
    return None


def _check_names(route: Route) -> None:
    for option, topic in (("--input", route.input), ("--output", route.output)):
        if _TOPIC.fullmatch(topic) is None or topic in {".", ".."}:
            text = f"must be the name of a topic: up to {_LONGEST} letters, digits, dots, - and _"
            raise UsageError(f"{option} {topic}: {text}")


def check_outputs(scoring: Scoring, route: Route) -> None:
    """Raise UsageError if scores would be written to what is scored, or to a topic of the node."""
    if route.input in {route.output, route.dead_letters}:
        text = f"--output {route.output}: scores, or their dead letters, would be written into --input"
        raise UsageError(f"{text}: must be another topic")
    if scoring.node is not None:
        file, node = scoring.node
        topics = file.data_topics(node)
        topics_of_node = {
            topics.records,
            topics.decisions,
            topics.predictions,
            topics.dead_letters,
            topics.spends,
        }
        labels = file.later_labels(node)
        if labels is not None and labels.topic is not None:
            topics_of_node.add(labels.topic)
        if topics_of_node & {route.output, route.dead_letters}:
            raise UsageError(f"--output {route.output}: is a topic of node {node}: must be another one")


def check_topics(scoring: Scoring, route: Route) -> None:
    """Raise UsageError unless the topics exist, PreflightFailed if rights are missing; or Unreachable."""
    _check_exist(route)
    _check_rights(scoring, route)


def _check_rights(scoring: Scoring, route: Route) -> None:
    """Raise PreflightFailed with a line for each missing right, except rights on transactions.

    No broker reports these before a transaction begins.
    """
    access = Access((route.input,), route.outputs, (route.group,))
    if scoring.node is not None:
        file, node = scoring.node
        topics = file.data_topics(node)
        if scoring.model is None:
            access = access_of_all([access, Access((topics.decisions, topics.spends), ())])
    preflight(route.broker, access, {}, access.topics, giver=route.rights_from)


def _check_exist(route: Route) -> None:
    """Raise UsageError unless the topics exist."""
    options = {route.input: "--input", route.output: "--output", route.dead_letters: "--output"}
    with closing(reached(route.broker)) as logs:
        for topic, option in options.items():
            try:
                with suppress(Denied):  # `_check_rights` reports them
                    logs.partitions([topic])
            except UnknownTopic:
                text = f"no topic {topic} on {route.broker.servers}: must be created first"
                raise UsageError(f"{option}: {text}") from None


class MessageReading(NamedTuple):
    """How messages become features and predictions. `file`: the model, if it is in a file."""

    file: ModelFile | None
    settings: TopicSettings
    decoder: SchemaDecoder
    loss: Loss
    classes: tuple[str, ...]


def scorer_of(scoring: Scoring, route: Route, reading: MessageReading) -> tuple[Scorer, Models]:
    """Return what makes scores, and the models that it uses. Raises UsageError, BusError."""
    if reading.file is not None:
        guarantee = reading.file.model.guarantee
        models: Models = FixedModel(reading.file, scoring.vector or "newest")
    else:
        mesh, node = _node(scoring)
        guarantee = weakest(promised_of_all(mesh, None))
        models = FollowedDecisions(mesh, node, route.broker, scoring.run, scoring.vector or "newest")
    scorer = Scorer(
        reading.decoder,
        reading.loss,
        guarantee,
        classes=reading.classes,
        threshold=scoring.threshold,
        whole=reading.settings.reads_whole,
    )
    return scorer, models


def reading_of(scoring: Scoring, topic: str) -> MessageReading:
    """Return how messages are read and predicted. Raises MeshFileError, UsageError; asks no broker."""
    file = None if scoring.model is None else _model_file(scoring)
    settings, refuser, path = _messages(scoring, file, topic)
    if file is not None:
        if scoring.run is not None:
            raise UsageError(f"--run {scoring.run}: goes with a node's decisions, not with --model")
        check_fits(file, settings, refuser, path)
        loss_settings = file.model.loss
        loss = file.loss(None if scoring.node is None else scoring.node[0])
    else:
        mesh, node = _node(scoring)
        loss_settings, loss = mesh.mesh.loss_of(node), mesh.resolved.node(node).learner.loss
    if scoring.threshold is not None:
        _check_threshold(scoring, scoring.threshold, loss_settings)
    _check_predicts(loss, settings, refuser, path)
    classes = (settings.record.label.classes or ()) if loss_settings.softmax else ()
    return MessageReading(file, settings, message_decoder(refuser, settings, path), loss, classes)


def _check_threshold(scoring: Scoring, threshold: float, loss: LossSettings) -> None:
    """Raise UsageError for a threshold that fits no score; MeshFileError, if the mesh file has it."""
    try:
        check_threshold(threshold, loss)
    except UsageError as error:
        if scoring.node is not None:
            mesh, node = scoring.node
            settings = mesh.own(node).score
            if settings is not None and settings.threshold == threshold:
                allowed = str(error).partition(": ")[2]
                raise mesh.refuse(("nodes", node, "score", "threshold"), allowed, threshold) from None
        raise


def _check_predicts(loss: Loss, settings: TopicSettings, refuser: Refuser, path: tuple[str, ...]) -> None:
    """Raise MeshFileError for an own loss that predicts nothing from so many features."""
    try:
        predicted(loss, np.zeros(refuser.dimension), np.zeros((1, settings.record.width)))
    except ValueError as error:
        raise refuser.refuse((*path, "schema"), str(error)) from None


def _node(scoring: Scoring) -> tuple[MeshFile, str]:
    if scoring.node is None:
        raise UsageError(_NEITHER)
    return scoring.node


def _model_file(scoring: Scoring) -> ModelFile:
    if scoring.model is None:
        raise UsageError(_NEITHER)
    return ModelFile(scoring.model, read_model(scoring.model))


def _messages(
    scoring: Scoring, model: ModelFile | None, topic: str
) -> tuple[TopicSettings, Refuser, tuple[str, ...]]:
    """Return how messages are read, and the file and the key path of that setting. Raises MeshFileError.

    Labels that come later are not asked for: a message may even lack the column by which they are joined.
    """
    settings, refuser, path = _labelled_messages(scoring, model, topic)
    unlabelled = {"labels": None, "record": settings.record.with_own_labels()}
    return settings.model_copy(update=unlabelled), refuser, path


def _labelled_messages(
    scoring: Scoring, model: ModelFile | None, topic: str
) -> tuple[TopicSettings, Refuser, tuple[str, ...]]:
    if scoring.node is not None:
        mesh, node = scoring.node
        path: tuple[str, ...] = ("nodes", node, "source")
        source = mesh.own(node).source
        if scoring.registry is not None and isinstance(source, TopicSettings | FileSettings):
            return _as_avro(source, scoring, topic), mesh, path
        if isinstance(source, TopicSettings):
            return source, mesh, path
        if isinstance(source, FileSettings):
            columns = scoring.columns or source.columns or header_columns(mesh, source, path)
            return _as_messages(source, columns, mesh, path, topic), mesh, path
        raise mesh.refuse(path, "must be of records with a schema, so that messages can be read as it does")
    if model is None:
        raise UsageError(_NEITHER)
    settings = model.messages(topic)
    if scoring.registry is not None:
        return _as_avro(settings, scoring, topic), model, ("source",)
    if isinstance(settings, TopicSettings):
        return settings, model, ("source",)
    return (
        _as_messages(settings, scoring.columns or settings.columns, model, ("source",), topic),
        model,
        ("source",),
    )


def _as_messages(
    source: FileSettings, columns: tuple[str, ...] | None, refuser: Refuser, path: tuple[str, ...], topic: str
) -> TopicSettings:
    """Return the settings of messages with the content of a file's lines: CSV lines, or JSON objects."""
    if source.kind == "csv" and columns is None:
        text = "must name the columns of CSV lines in messages: give them with --columns a,b,c"
        raise refuser.refuse((*path, "columns"), text)
    if columns is not None and any(columns.count(name) != 1 for name in source.record.features):
        needed = ", ".join(source.record.features)
        raise UsageError(f"--columns {','.join(columns)}: must name each of these once: {needed}")
    tree = {
        "kind": "topic",
        "topic": topic,
        "format": "csv" if columns is not None else "json",
        "columns": columns,
        "dialect": source.dialect and source.dialect.model_copy(update={"line_breaks": False}),
        "schema": source.record,
        "max_record_bytes": source.max_record_bytes,
    }
    return TopicSettings.model_validate(tree)


def _as_avro(source: FileSettings | TopicSettings, scoring: Scoring, topic: str) -> TopicSettings:
    """Return the settings of Avro by the given registry, with a source's schema and envelope."""
    if scoring.columns is not None:
        raise UsageError(f"--columns {','.join(scoring.columns)}: are those of CSV lines, not of Avro")
    tree: dict[str, object] = {
        "kind": "topic",
        "topic": topic,
        "format": "avro",
        "registry": scoring.registry,
        "schema": source.record,
        "max_record_bytes": source.max_record_bytes,
    }
    if isinstance(source, TopicSettings):
        tree |= {"value": source.value, "where": source.where, "where_headers": source.where_headers}
    return TopicSettings.model_validate(tree)


# Follows a node's decisions.

_BATCH = 1_000


class FollowedDecisions:
    """The decisions of a node, read from their topic on the party's own broker as they come.

    The newest record counts. The last record of a round is final when a record of a later round follows
    (wire.md). `run`: the only run to follow; None: that of the newest decision. `vector`: every `horizon`-th
    decision has the average.
    """

    def __init__(
        self, file: MeshFile, node: str, broker: BrokerSettings, run: str | None, vector: VectorName
    ) -> None:
        self._topic = file.data_topics(node).decisions
        self._dimension = file.mesh.dimension
        self._observed = file.resolved.node(node).learner.algorithm.observed
        self._run, self._key = run, {"newest": "x", "average": "average"}[vector]
        self._newest: ModelVersion | None = None
        end = self._read_stored(broker)
        self._consumer = Consumer(consumer_settings(broker), logger=LOGGER)
        self._consumer.assign([TopicPartition(self._topic, 0, end)])

    def newest(self) -> ModelVersion | None:
        """Return the newest version, after reading the decisions that have come since the last call."""
        while messages := self._consumer.consume(_BATCH, 0):
            for message in messages:
                error = message.error()
                if error is None:
                    self._take(message.value())
                elif cure(error) is Cure.END:
                    raise bus_error(error, self._topic)
        return self._newest

    def close(self) -> None:
        """Stop following."""
        self._consumer.close()

    def _read_stored(self, broker: BrokerSettings) -> int:
        """Read all decisions that the topic has; return the offset behind them. Raises BusError."""
        with closing(Logs(broker)) as logs:
            first, end = logs.span(self._topic)
            for decision in logs.stored({self._topic: first})[self._topic]:
                self._take(decision.value)
                end = max(end, decision.offset + 1)
        return end

    def _take(self, value: bytes | None) -> None:
        decision = _object(value)
        run, round, vector = decision.get("run"), decision.get("round"), _vector(decision.get(self._key))
        if not isinstance(run, str) or not isinstance(round, int) or self._run not in {None, run}:
            return
        newest = self._newest
        if newest is not None and newest.run == run and round < newest.round:
            return  # a broker refused it for a moment, so it was sent again behind later ones
        if vector is not None and vector.shape == (self._dimension,):
            decided = decision.get("decided")
            moment = float(decided) if isinstance(decided, int | float) else None
            self._newest = ModelVersion(run, round, self._observed(vector), moment)


def _object(value: bytes | None) -> dict[str, Any]:
    """Return a JSON object; an empty one for other bytes."""
    try:
        tree = json.loads(value or b"")
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}


def _vector(numbers: object) -> FloatArray | None:
    """Return finite numbers as a vector; None if they are something else."""
    try:
        vector = np.array(numbers, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return vector if np.isfinite(vector).all() else None
