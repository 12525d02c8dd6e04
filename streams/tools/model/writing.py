"""Makes a model of what a node or a mesh has learnt, and writes it: each file whole, or not at all."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nodes.decimals import rounded_up
from nodes.values import Consensus, FloatArray
from streams.ledger import Promise, known_spends, promises_of
from streams.local.results import save_whole, write_whole
from streams.local.summary import Summary
from streams.mesh.file import MeshFile
from streams.mesh.model_file import FORMAT, Model, ModelGuarantee
from streams.mesh.settings.base import Settings
from streams.mesh.settings.node import FileSettings
from streams.state.folder import JournalError, StateFolder
from streams.state.journal_reader import JournalReader
from streams.state.spends_topic import written

_OF_ONE_PLACE: Mapping[str, bool | set[str]] = {
    "path": True,
    "take": True,
    "shuffle": True,
    "record": {"truth"},
}
"""Source fields left out of published models, because they are local to their owner."""


def model_of(
    file: MeshFile,
    promised: Mapping[str, Promise],
    newest: FloatArray,
    average: FloatArray,
    *,
    round: int,
    nodes: int,
    rounds: int,
    averaged: str,
    node: str | None = None,
) -> Model:
    """Return the model of vectors (d,), made from `nodes` nodes at `round`; `rounds` are in the average.

    `promised`: what is promised of all nodes whose releases are in it. `node`: the node whose own part tells
    how to read records (None: held_out, or the first part that is here).
    """
    mesh = file.mesh
    return Model(
        format=FORMAT,
        mesh=mesh.name,
        run=mesh.run,
        round=round,
        nodes=nodes,
        rounds=rounds,
        averaged=averaged,
        algorithm=mesh.algorithm.name,
        loss=mesh.loss,
        dimension=mesh.dimension,
        observes=mesh.algorithm.seen,
        source=_source(file, node),
        guarantee=weakest(promised),
        newest=tuple(newest.tolist()),
        average=tuple(average.tolist()),
    )


def model_paths(prefix: Path) -> tuple[Path, Path]:
    """Return the paths of the two files of a model."""
    return prefix.with_name(f"{prefix.name}.npz"), prefix.with_name(f"{prefix.name}.json")


def write_model(prefix: Path, model: Model) -> tuple[Path, Path]:
    """Write PREFIX.npz and PREFIX.json, each with the whole model; return their paths. Raises OSError."""
    arrays, text = model_paths(prefix)
    tree = model.model_dump(mode="json")
    vectors = {name: np.array(tree.pop(name)) for name in ("newest", "average")}
    about = np.array(json.dumps(tree, allow_nan=False))

    def save(unfinished: Path) -> None:
        np.savez(unfinished, allow_pickle=False, about=about, **vectors)

    save_whole(arrays, save)
    write_whole(text, f"{json.dumps(model.model_dump(mode='json'), indent=1, allow_nan=False)}\n".encode())
    return arrays, text


def promised_of_all(file: MeshFile, state: Path | None) -> dict[str, Promise]:
    """Return what is promised of every node, by the folder and the data brokers that the file names.

    Raises JournalError, BusError.
    """
    spends_written = written(file, file.nodes) if file.names_brokers else {}
    return promises_of(file, known_spends(file, file.mesh.nodes, state, spends_written))


def weakest(promised: Mapping[str, Promise]) -> ModelGuarantee:
    """Return the weakest promise of a node or owner: the model is a function of all their releases."""
    epsilons = [promise.epsilon for promise in promised.values()]
    finite = [epsilon for epsilon in epsilons if epsilon is not None]
    return ModelGuarantee(
        adjacency="event",
        epsilon=rounded_up(max(finite)) if len(finite) == len(epsilons) else None,
        delta=min(1.0, max(promise.delta for promise in promised.values())),
        nodes={name: promise.sentence for name, promise in promised.items()},
    )


def _source(file: MeshFile, node: str | None) -> dict[str, Any] | None:
    if node is not None:
        part = file.nodes.get(node)
        return source_of([part.source if part is not None else None])
    return source_of([file.held_out, *(part.source for part in file.nodes.values())])


def source_of(candidates: Iterable[Settings | None]) -> dict[str, Any] | None:
    """Return how records are read, by the first of these sources that is of a file with a schema."""
    for settings in candidates:
        if isinstance(settings, FileSettings):
            tree: dict[str, Any] = settings.model_dump(
                mode="json", by_alias=True, exclude_unset=True, exclude=_OF_ONE_PLACE
            )
            return tree
    return None


def journal_model(file: MeshFile, state: Path, node: str) -> Model:
    """Return the node's model. Raises JournalError: no journal, another's, or no round stepped yet."""
    path = StateFolder(state).journal(node)
    with JournalReader(path) as journal:
        life, records = journal.life, journal.records(1)
    if (life.run, life.node, life.digest) != (file.mesh.run, node, file.digest()):
        raise JournalError(f"{path} is of another node, run or settings than {node}'s in {file.mesh.run}")
    record = records[-1] if records else None
    if record is None or record.average is None:
        raise JournalError(f"{path}: no round was stepped yet, so there is no model")
    algorithm = file.resolved.algorithm
    newest = algorithm.decide(record.round, Consensus(algorithm.contain(record.release)))
    return model_of(
        file,
        promised_of_all(file, state),
        newest,
        record.average.mean,
        round=record.round,
        nodes=1,
        rounds=record.average.rounds,
        averaged=f"the running average of node {node}, over the whole run as its journal knows it",
        node=node,
    )


AVERAGED = "the mean of the nodes' running averages, each over its rounds in this run"


def mesh_model(file: MeshFile, summary: Summary) -> Model:
    """Return the means of the nodes' last decisions and of their averages, which the run's scores measure."""
    return model_of(
        file,
        {node.name: node.promise for node in summary.nodes},
        np.array(summary.decision),
        np.array(summary.average),
        round=summary.last_round,
        nodes=len(summary.nodes),
        rounds=min(node.averaged for node in summary.nodes),
        averaged=AVERAGED,
    )
