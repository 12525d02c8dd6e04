"""Checks that the settings of a mesh file fit together. Each setting has passed its own check before."""

import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

from pydantic import ValidationError

from nodes.checks import OutOfRange, as_text
from streams.codec.topics import DataTopics, MeshTopics, all_of
from streams.mesh.algorithm import check_place, constraint, loss, mirror_map
from streams.mesh.compatibility import (
    Fitted,
    by_time,
    feature_problems,
    label_problems,
    loss_at,
    part_of,
    sparse_problems,
    untimed_problems,
)
from streams.mesh.errors import ABSENT, Problem, one_of, problems
from streams.mesh.mesh import Mesh
from streams.mesh.settings.base import Settings, spelt
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import (
    FileSettings,
    FrameSettings,
    LocalisationSettings,
    NodeSettings,
    OwnSourceSettings,
    TopicSettings,
)
from streams.mesh.settings.privacy import TimeSlotsSettings
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings, SparseSettings
from topology.scheduler import heartbeat_period


def shared_problems(file: str, whole: Mesh) -> list[Problem]:
    """Return the mistakes in the shared part. It builds what the settings describe."""
    attempt, mesh = partial(attempted, file), whole.settings
    algorithm = mesh.algorithm
    key = "mirror_map" if algorithm.gains is None else "gains"
    problems_so_far = attempt(("algorithm", key), getattr(algorithm, key), partial(mirror_map, mesh))
    problems_so_far += attempt(("algorithm", "constraint"), algorithm.constraint, partial(constraint, mesh))
    problems_so_far = problems_so_far or attempt(("algorithm",), None, lambda: whole.algorithm)
    problems_so_far += _loss_problems(file, whole, None)
    problems_so_far += attempt(("loss",), mesh.loss, partial(check_place, mesh.loss, mesh.loss_dimension))
    for name, node in mesh.nodes.items():
        if node.loss is not None:
            path = ("nodes", name, "loss")
            problems_so_far += _loss_problems(file, whole, name)
            if node.loss.bounds != mesh.loss.bounds:
                text = "differs: must be mesh.loss.bounds, as all nodes share one model"
                problems_so_far += [Problem(file, ("mesh", *path, "bounds"), text, node.loss.bounds)]
            problems_so_far += attempt(path, node.loss, partial(check_place, node.loss, mesh.loss_dimension))
    problems_so_far = problems_so_far or privacy_problems(file, whole)
    problems_so_far += _rule_problems(file, mesh)
    return problems_so_far + attempt(("topology",), mesh.topology, lambda: whole.schedule)


def _rule_problems(file: str, mesh: MeshSettings) -> list[Problem]:
    """Return the mistakes of a rule that settings beside it contradict."""
    rule, wrong = mesh.rule, list[Problem]()
    if rule is None:
        return wrong
    if rule.columns is not None and rule.columns > mesh.columns:
        text = f"must be at most {mesh.columns}, the number of features"
        wrong.append(Problem(file, ("mesh", "rule", "columns"), text, rule.columns))
    if rule.records is not None and mesh.slots.size > rule.records:
        text = f"must be at most {rule.records}, rule.records"
        wrong.append(Problem(file, ("mesh", "slots", "size"), text, mesh.slots.size))
    return wrong


def _loss_problems(file: str, whole: Mesh, node: str | None) -> list[Problem]:
    """Return the mistakes in a loss. A user's own loss is not loaded: reading a file runs no user code."""
    mesh, path = whole.settings, ("loss",) if node is None else ("nodes", node, "loss")
    settings = mesh.loss if node is None else mesh.loss_of(node)
    if settings.own is not None:
        return []
    return attempted(file, path, settings, partial(loss, mesh, node, whole.code))


def attempted(
    file: str,
    path: tuple[str, ...],
    settings: Settings | tuple[float, ...] | None,
    make: Callable[[], object],
) -> list[Problem]:
    """Call `make` and return its ValueError as the mistake at mesh.`path`; no mistake if it returns."""
    try:
        make()
    except ValueError as error:
        value: object = ABSENT if settings is None else settings
        if isinstance(settings, Settings):
            value = settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return [Problem(file, ("mesh", *path), str(error), value)]
    return []


def own_problems(
    file: str,
    mesh: MeshSettings,
    named: tuple[str, ...],
    nodes: Mapping[str, NodeSettings],
    held_out: FileSettings | SparseSettings | None,
) -> list[Problem]:
    """Return the mistakes where the nodes' own parts do not fit the shared part.

    `named` lists all nodes that the file's own part names, `nodes` has the settings of those that were read.
    """
    wrong = [
        Problem(file, ("nodes", name), f"not a node of the mesh: {one_of(mesh.nodes, name)}")
        for name in named
        if name not in mesh.nodes
    ]
    reading: list[str] = []
    least = 10 * heartbeat_period(mesh.silence)
    for name, part in nodes.items():
        if part.liveness < least:
            text = f"must be at least {least:g}, ten heartbeats"
            wrong.append(Problem(file, ("nodes", name, "liveness"), text, part.liveness))
        wrong += _late_problems(file, mesh, name, part)
        wrong += _labels_problems(file, mesh, name, part)
        path = ("nodes", name, "source")
        wrong += _unit_problems(file, path, mesh, part.source) + _place_problems(
            file, path, mesh, part.source
        )
        if isinstance(part.source, LocalisationSettings):
            wrong += _localisation_problems(file, mesh, name)
        elif isinstance(part.source, OwnSourceSettings):
            wrong += untimed_problems(file, mesh)
        elif isinstance(part.source, TopicSettings):
            wrong += _row_problems(file, path, mesh, part.source)
            wrong += _schema_problems(file, path, mesh, part.source)
            wrong += _topic_problems(file, path, mesh, part.source.topic)
        elif part.source is not None:
            wrong += _row_problems(file, path, mesh, part.source)
            wrong += file_problems(file, path, mesh, part.source)
            reading += [name] if part.source.path == "-" else []
    if len(reading) > 1:
        text = f"node {reading[0]} reads standard input already: must be a file"
        wrong.append(Problem(file, ("nodes", reading[1], "source", "path"), text, "-"))
    if held_out is not None:
        wrong += file_problems(file, ("held_out",), mesh, held_out)
    return wrong + _shared_topics(file, nodes)


def _unit_problems(file: str, path: tuple[str, ...], mesh: MeshSettings, source: Any) -> list[Problem]:
    """Return the mistakes of a source whose records have no units, or cannot have them."""
    unit = mesh.privacy.unit
    if unit is None or source is None:
        return []
    if getattr(source, "keep_back", None) is not None:
        text = "other records of the same unit are learnt from (mesh.privacy.unit): must not be given"
        return [Problem(file, (*path, "keep_back"), text)]
    if not isinstance(source, FileSettings | TopicSettings):
        text = f"its records have no column {unit.column} (mesh.privacy.unit): must be csv, json-lines, "
        return [Problem(file, (*path, "kind"), f"{text}parquet or topic", source.kind)]
    if unit.column == source.record.label.column:
        text = "names the units too (mesh.privacy.unit), and is what is protected: must be another column"
        return [Problem(file, (*path, "schema", "label", "column"), text, unit.column)]
    if isinstance(source, TopicSettings) and mesh.privacy.mechanism == "l2-sphere":
        for key in ("where", "where_headers"):
            if getattr(source, key) is not None:
                text = "l2-sphere with a unit counts every message: must not be given"
                return [Problem(file, (*path, key), text)]
    return []


def _place_problems(file: str, path: tuple[str, ...], mesh: MeshSettings, source: Any) -> list[Problem]:
    """Return the mistake of a source whose records show a position that is a setting."""
    if not mesh.public_places:
        return []
    if isinstance(source, OwnSourceSettings | LibsvmSettings | CsrSettings):
        text = "its records have features, and curvature: public has none: must be csv, json-lines, parquet, "
        return [Problem(file, (*path, "kind"), f"{text}topic or localisation", source.kind)]
    if isinstance(source, LocalisationSettings) and source.position is not None:
        text = "the sensor is at mesh.nodes' place: must not be given"
        return [Problem(file, (*path, "position"), text, list(source.position))]
    return []


def _topic_problems(file: str, path: tuple[str, ...], mesh: MeshSettings, topic: str) -> list[Problem]:
    """Return the mistake of a source whose topic belongs to the mesh, or begins like the run's topics.

    Kafka's rights on a run's topics are granted by that beginning (a prefix), so they would cover the source.
    """
    beginning = all_of(MeshTopics(mesh.name, mesh.run, mesh.layout))
    text = ""
    if topic.startswith(beginning):
        text = f"begins with {beginning}, so who may read the run's topics may read it: must be another"
    elif any(topic in DataTopics(mesh.name, node).all[1:] for node in mesh.nodes):  # all but its records'
        text = "a node of the mesh writes to it: must be another"
    return [Problem(file, (*path, "topic"), text, topic)] if text else []


def _row_problems(file: str, path: tuple[str, ...], mesh: MeshSettings, source: Settings) -> list[Problem]:
    """Return the mistake of a source whose records class-sums and moments cannot use."""
    if not mesh.algorithm.alone:
        return []
    if isinstance(source, FileSettings | TopicSettings) and source.record.intercept and not mesh.features:
        text = f"{mesh.algorithm.name} has it in common alone: must be in mesh.features, or not be given"
        return [Problem(file, (*path, "schema", "intercept"), text, source.record.intercept)]
    if not isinstance(source, LibsvmSettings | CsrSettings):
        return []
    text = f"{mesh.algorithm.name} takes no sparse records: must be csv, json-lines or parquet"
    return [Problem(file, (*path, "kind"), text, source.kind)]


def _shared_topics(file: str, nodes: Mapping[str, NodeSettings]) -> list[Problem]:
    """Return a mistake for each node that reads the same partitions as another node.

    Their records would be learnt from twice.
    """
    wrong, readers = list[Problem](), list[tuple[str, TopicSettings, object]]()
    for name, part in nodes.items():
        source = part.source
        if not isinstance(source, TopicSettings):
            continue
        broker = source.broker or getattr(part.brokers, "data", None)  # None: the file's data broker
        for other_name, other_source, other_broker in readers:
            parts = part_of(source, by_time=False), part_of(other_source, by_time=False)
            if (source.topic, broker) == (other_source.topic, other_broker) and parts[0].overlaps(parts[1]):
                text = f"node {other_name} reads it too: their partitions must differ"
                wrong.append(Problem(file, ("nodes", name, "source", "topic"), text, source.topic))
        readers.append((name, source, broker))
    return wrong


def _late_problems(file: str, mesh: MeshSettings, node: str, own: NodeSettings) -> list[Problem]:
    late = own.late_policy
    record_limit = late.drop_oldest or late.sample
    if record_limit is None:
        return []
    path = ("nodes", node, "late_policy")
    if mesh.slots.by == "time":
        return [Problem(file, path, "goes with slots by count: by time late records are dropped", late.name)]
    if record_limit < mesh.slots.size:
        return [
            Problem(file, (*path, late.name), f"must be at least {mesh.slots.size}, slots.size", record_limit)
        ]
    return []


_MOST_AHEAD = 10_000_000
"""Records that a node may have in memory, with slots by time, until their labels have come."""


def _labels_problems(file: str, mesh: MeshSettings, node: str, own: NodeSettings) -> list[Problem]:
    """Return the mistakes in a node's settings of labels that come later than their records."""
    labels, slots = getattr(own.source, "labels", None), mesh.slots
    if labels is None:
        return []
    path = ("nodes", node, "source", "labels")
    if mesh.shift:
        text = "goes with records of the present: labels are not moved as slots.shift moves records"
        return [Problem(file, path, text)]
    if labels.path is not None and own.source is not None and getattr(own.source, "path", None) is None:
        text = "goes with records in a file: must be a topic, or give the source's path"
        return [Problem(file, (*path, "path"), text, labels.path)]
    owned = {topic for name in mesh.nodes for topic in DataTopics(mesh.name, name).all}
    if labels.topic in owned:
        return [Problem(file, (*path, "topic"), "is a topic of the mesh: must be another one", labels.topic)]
    if isinstance(slots, TimeSlotsSettings) and labels.path is None:
        records = math.ceil(labels.after / slots.period) * slots.size
        if records > _MOST_AHEAD:
            text = f"the slots until then may hold {records:,} records in memory: must be at most"
            return [Problem(file, (*path, "after"), f"{text} {_MOST_AHEAD:,}", spelt(labels.after))]
    return []


def _localisation_problems(file: str, mesh: MeshSettings, node: str) -> list[Problem]:
    wrong, loss = [], mesh.loss_of(node)
    if mesh.algorithm.height is not None:
        text = "localisation is in the plane: must not be given"
        wrong.append(Problem(file, ("mesh", "algorithm", "height"), text, mesh.algorithm.height))
    if loss.of_a_place is None and loss.own is None:
        node_path = () if mesh.nodes[node].loss is None else ("nodes", node)
        text = "localisation measures distances and angles: must be range, bearing, range-difference or own"
        wrong.append(Problem(file, ("mesh", *node_path, "loss"), text, loss.model_dump()))
    if mesh.loss_dimension != 2:
        wrong.append(_not_a_plane(file, mesh))
    return wrong


def _not_a_plane(file: str, mesh: MeshSettings) -> Problem:
    if mesh.algorithm.dynamics is not None:
        text = f"localisation is in the plane: the loss must see 2 coordinates, not {mesh.loss_dimension}"
        return Problem(file, ("mesh", "algorithm", "observes"), text, mesh.algorithm.observes or ABSENT)
    return Problem(file, ("mesh", "dimension"), "localisation is in the plane: must be 2", mesh.dimension)


def file_problems(
    file: str, path: tuple[str, ...], mesh: Fitted, source: FileSettings | SparseSettings
) -> list[Problem]:
    """Return the mistakes of a source that does not fit the shared part."""
    wrong = []
    labels = source.labels if isinstance(source, FileSettings) and path[0] != "nodes" else None
    if labels is not None and (labels.path is None or path != ("held_out",)):
        text = "goes with the source of a node: its records have labels"
        wrong.append(Problem(file, (*path, "labels"), text))
    if source.keep_back is not None and path[0] != "nodes":
        text = "goes with the source of a node: must not be given"
        wrong.append(Problem(file, (*path, "keep_back"), text, source.keep_back))
    if by_time(mesh) and source.shuffle:
        text = "slots by time take records by their times, in no other order: must be false"
        wrong.append(Problem(file, (*path, "shuffle"), text, value=True))
    if isinstance(source, LibsvmSettings | CsrSettings):
        return wrong + sparse_problems(file, path, mesh, source)
    return wrong + _schema_problems(file, path, mesh, source)


NO_TIMES = "missing: slots by time need a column"


def _schema_problems(
    file: str, path: tuple[str, ...], mesh: Fitted, source: FileSettings | TopicSettings
) -> list[Problem]:
    wrong = []
    schema, path = source.record, (*path, "schema")
    # records that come by a broker have the timestamps of their Kafka messages
    is_live = isinstance(source, TopicSettings) or (
        source.path is None and not isinstance(source, FrameSettings)
    )
    wrong += feature_problems(file, path, mesh, schema)
    wrong += label_problems(file, (*path, "label"), loss_at(mesh, path), schema.label)
    if schema.truth is not None and len(schema.truth) != mesh.loss_dimension:
        text = f"must be {mesh.loss_dimension}, one for each coordinate of the decision that the loss sees"
        columns_text = f"names {len(schema.truth)} columns"
        wrong.append(Problem(file, (*path, "truth"), f"{columns_text}: {text}", list(schema.truth)))
    if by_time(mesh) and schema.timestamp is None and path[0] == "nodes" and not is_live:
        wrong.append(Problem(file, (*path, "timestamp"), NO_TIMES))
    return wrong


_KEYS = {"theta": "gradient_bound", "the clip's bound": "gradient_bound"}
"""Settings that mechanisms name differently from a mesh file."""


def privacy_problems(file: str, whole: Mesh) -> list[Problem]:
    """Return the mistakes in the nodes' privacy settings that show when their mechanism is built."""
    mesh, wrong = whole.settings, list[Problem]()
    overriding = {name for name, node_settings in mesh.nodes.items() if node_settings.overrides}
    ordinary = [name for name in mesh.nodes if name not in overriding][:1]  # check equal settings once
    for name in [*ordinary, *sorted(overriding)]:
        path = ("mesh", "nodes", name) if name in overriding else ("mesh", "privacy")
        try:
            _ = whole.node(name).ledger
        except ValidationError as error:
            wrong += problems(file, path, _written(mesh.privacy) | _written(mesh.nodes[name]), error)
        except OutOfRange as error:
            wrong.append(_out_of_range(file, mesh, name, error))
        except ValueError as error:
            wrong.append(Problem(file, path, str(error)))
    return wrong


def _out_of_range(file: str, mesh: MeshSettings, name: str, error: OutOfRange) -> Problem:
    """Return the mistake at the setting's key: under the node if it overrides it, else under mesh."""
    path, value = _place(mesh, name, _KEYS.get(error.name, error.name))
    # the values differ where what is out of range was derived from the setting; then the text names it
    allowed = error.allowed if error.value == value else str(error)
    if mesh.nodes[name].overrides and "nodes" not in path:
        allowed = f"{allowed} (for node {name})"
    return Problem(file, ("mesh", *path), allowed, printed(value))


def _place(mesh: MeshSettings, name: str, key: str) -> tuple[tuple[str, ...], object]:
    if key == "batch_size":
        return ("slots", "size"), mesh.slots.size
    if key == "dimension":
        return ("dimension",), mesh.dimension
    overridden = key in mesh.nodes[name].overrides
    return ("nodes", name, key) if overridden else ("privacy", key), getattr(mesh.privacy_of(name), key)


def printed(value: object) -> object:
    """Return a setting's value as a mesh file has it."""
    if isinstance(value, Settings):
        return {key: printed(inner) for key, inner in value}
    return json.loads(as_text(value)) if isinstance(value, Fraction) else value


def _written(settings: Settings) -> dict[str, object]:
    return settings.model_dump(mode="json", exclude_none=True)
