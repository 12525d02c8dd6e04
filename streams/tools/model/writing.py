"""Makes a model of what a node or a mesh has learnt, and writes it.

Each file is written whole, or not at all.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from nodes.algorithms import Algorithm
from nodes.checks import rounded_up
from nodes.collaboration.messages import QueryRecord
from nodes.collaboration.own_model import OwnModel
from nodes.machine.journal import JournalRecord
from nodes.values import Average, Consensus, Decision, FloatArray, averaged
from streams.bus.bus import BusError
from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog
from streams.collaboration.file import CollaborationFile
from streams.collaboration.journals import LearnerJournal
from streams.collaboration.outcome import CollaborationOutcome
from streams.ledger import Promise, known_spends, promises_of
from streams.local.results import Summary, save_whole, write_whole
from streams.local.run import Outcome, closing_decisions
from streams.mesh.errors import UsageError, as_count_or_none, as_path, as_path_or_none, check_type, refused
from streams.mesh.file import AnyFile, MeshFile
from streams.mesh.kind import check_file
from streams.mesh.model_file import FORMAT, Model, ModelGuarantee
from streams.mesh.settings.base import Settings
from streams.mesh.settings.node import FileSettings, TopicSettings
from streams.records.frames import with_records
from streams.state.folder import JournalError, StateFolder
from streams.state.journal_file import JournalReader
from streams.state.spends_topic import written
from topology.plans import Plan

_OF_ONE_PLACE: Mapping[str, bool | set[str]] = {
    "path": True,
    "take": True,
    "shuffle": True,
    "keep_back": True,
    "record": {"truth"},
    "topic": True,
    "broker": True,
    "registry": True,
    "partitions": True,
    "where": True,
    "where_headers": True,
    "lag": True,
    "labels": True,
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
    """Return the model of the vectors `newest` and `average` (d,).

    It is made from `nodes` nodes at `round`; `rounds`: the number of rounds in the average.

    `promised`: the promises of all nodes whose releases are in it. `node`: the node whose own part gives the
    settings for reading records (None: held_out, or the first part that is here). In a run of one round the
    newest decision replaces the average, as the round's own decision was made before its records.
    """
    mesh = file.mesh
    if rounds <= 1:
        average, averaged = newest, "the newest decision, as the only round's own was made before its records"
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


def write_model(prefix: str | Path, model: Model) -> tuple[Path, Path]:
    """Write PREFIX.npz and PREFIX.json, each with the whole model; return their paths.

    An owner's own model gets the mode 0600. Raises OSError, and UsageError for a wrong argument.
    """
    prefix = as_path("prefix", prefix)
    check_type("model", model, Model, "must be what run_model or read_model returns")
    arrays, text = model_paths(prefix)
    tree = model.model_dump(mode="json")
    vectors = {name: np.array(tree.pop(name)) for name in ("newest", "average")}
    about = np.array(json.dumps(tree, allow_nan=False))

    def save(unfinished: Path) -> None:
        np.savez(unfinished, allow_pickle=False, about=about, **vectors)

    content = f"{json.dumps(model.model_dump(mode='json'), indent=1, allow_nan=False)}\n".encode()
    save_whole(arrays, save, private=model.own is not None)
    write_whole(text, content, private=model.own is not None)
    return arrays, text


def promised_of_all(file: MeshFile, state: Path | None) -> dict[str, Promise]:
    """Return the promise of every node, by the folder and the data brokers that the file names.

    Raises JournalError, BusError.
    """
    return promises_of(file, known_spends(file, file.mesh.nodes, state, written(file, file.nodes)))


def weakest(promised: Mapping[str, Promise]) -> ModelGuarantee:
    """Return the weakest promise of a node or owner: the model is a function of all their releases."""
    epsilons = [promise.epsilon for promise in promised.values()]
    finite = [epsilon for epsilon in epsilons if epsilon is not None]
    return ModelGuarantee(
        adjacency="unit"
        if any(promise.guarantee.adjacency == "unit" for promise in promised.values())
        else "event",
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
    """Return the settings for reading records of the first of these sources that has a schema."""
    for settings in candidates:
        if isinstance(settings, FileSettings | TopicSettings):
            is_avro = isinstance(settings, TopicSettings) and settings.format == "avro"
            local = {**_OF_ONE_PLACE, "format": True} if is_avro else _OF_ONE_PLACE  # a registry is one's own
            tree: dict[str, Any] = settings.model_dump(
                mode="json", by_alias=True, exclude_unset=True, exclude=local
            )
            return tree
    return None


def journal_model(file: MeshFile, state: Path, node: str) -> Model:
    """Return the node's model.

    Raises JournalError if there is no journal, or another's, or no round is stepped.
    """
    record = _newest(file, state, node)
    if record is None or record.average is None:
        raise JournalError(
            f"{StateFolder(state).journal(node)}: no round was stepped yet, so there is no model"
        )
    newest = _closed(file, state, node, record)
    if newest is None:
        algorithm = file.resolved.algorithm
        learnt = record.round  # what a relay has mixed counts as the round after the last lesson
        if record.exact:
            learnt = min(learnt, record.average.rounds + 1)
        newest = algorithm.decide(learnt, Consensus(algorithm.contain(record.release)))
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


def _newest(file: MeshFile, state: Path, node: str) -> JournalRecord | None:
    """Return the newest record of a node's journal. Raises JournalError if it is not of this node and run."""
    path = StateFolder(state).journal(node)
    with JournalReader(path) as journal:
        life, records = journal.life, journal.records(1)
    if (life.run, life.node, life.digest) != (file.mesh.run, node, file.digest()):
        raise JournalError(f"{path} is of another node, run or settings than {node}'s in {file.mesh.run}")
    return records[-1] if records else None


def _closed(file: MeshFile, state: Path, node: str, record: JournalRecord) -> Decision | None:
    """Return the node's decision after the closing rounds; None unless the run was in one process.

    Such a run has no journal records of closing rounds. But all its journals are in the folder, and each ends
    with its node's last lesson, from which the closing rounds are computed.
    """
    folder = StateFolder(state)
    if not all(folder.journal(name).exists() for name in file.mesh.nodes):
        return None
    records = {name: _newest(file, state, name) for name in file.mesh.nodes}
    ends = {name: last for name, last in records.items() if last is not None and last.round == record.round}
    learners = {name: file.resolved.node(name).learner for name in file.mesh.nodes}
    # averages count no closing round: after those of a broker, which are journalled, nobody's is so far
    lessons = [
        last for last in ends.values() if last.average is not None and last.average.rounds == last.stepped
    ]
    if len(ends) < len(learners) or not lessons:
        return None
    return closing_decisions(learners, file.resolved.schedule, ends).get(node)


AVERAGED = "the mean of the nodes' running averages, each over its rounds in this run"


def mesh_model(file: MeshFile, summary: Summary) -> Model:
    """Return the means of the nodes' last decisions and of their averages, which the run's scores measure."""
    return model_of(
        file,
        {node.name: node.promise for node in summary.nodes},
        np.array(summary.decision),
        np.array(summary.average or summary.decision),
        round=summary.last_round,
        nodes=len(summary.nodes),
        rounds=min(node.averaged for node in summary.nodes),
        averaged=AVERAGED,
    )


# Makes the model of a collaboration, from the learner's newest record.

_AVERAGED = {
    "averaged": "Algorithm 2's average of theta over the queries",
    "strongly-convex": "Algorithm 1's last theta, which averages nothing",
}


def outcome_model(file: CollaborationFile, found: CollaborationOutcome) -> Model:
    """Return the model: `newest` is theta after `round` queries, `average` the algorithm's result."""
    return _model(file, found.record, {name: owner.promise for name, owner in found.owners.items()})


def _model(file: CollaborationFile, record: QueryRecord, promised: Mapping[str, Promise]) -> Model:
    mesh, queries = file.mesh, record.number - 1
    return Model(
        format=FORMAT,
        mesh=mesh.name,
        run=mesh.run,
        round=queries,
        nodes=len(mesh.owners),
        rounds=queries,
        averaged=_AVERAGED[mesh.algorithm.name],
        algorithm=mesh.algorithm.name,
        loss=mesh.loss,
        dimension=mesh.dimension,
        source=source_of([file.held_out, *(owner.source for owner in file.owners.values())]),
        guarantee=weakest(promised),
        newest=tuple(record.parameters.tolist()),
        average=tuple(record.average.tolist()),
    )


def learner_model(file: CollaborationFile, state: Path) -> Model:
    """Return the model in the learner's journal.

    Raises JournalError if there is no journal, or another's, or nothing is learnt; BusError for a damaged
    topic of spends.
    """
    path = StateFolder(state).journal(file.mesh.learner)
    with LearnerJournal.read(path) as journal:
        life, records = journal.life, journal.records(1)
    if (life.run, life.node, life.digest) != (file.mesh.run, file.mesh.learner, file.digest()):
        raise JournalError(f"{path} is of another learner, run or settings than {file.mesh.run}'s")
    if not records or records[-1].number == 1:
        raise JournalError(f"{path}: no query is over yet, so there is no model")
    reuses = known_spends(file, file.mesh.owners, state, written(file, file.owners))
    return _model(file, records[-1], promises_of(file, reuses))


def own_model_of(file: CollaborationFile, owner: str, star: Model, fitted: OwnModel) -> Model:
    """Return an owner's own model as a model file's content. It states that nothing protects the records."""
    theta = tuple(fitted.parameters.tolist())
    sentence = (
        f"Not private: fitted to {owner}'s own records without noise. Whoever has this model may learn what "
        "a record says. Keep it where the records are."
    )
    return star.model_copy(
        update={
            "averaged": f"{owner}'s own, drawn to {star.mesh}, run {star.run}, by m = {fitted.pull:g}",
            "nodes": 1,
            "source": source_of([file.own(owner).source]),
            "guarantee": ModelGuarantee(adjacency="event", epsilon=None, delta=0.0, nodes={owner: sentence}),
            "own": owner,
            "newest": theta,
            "average": theta,
        }
    )


# Runs a mesh file of any kind in this process, and makes the model of its run.


@overload
def run(
    file: MeshFile,
    *,
    rounds: int | None = None,
    seed: int | None = None,
    records: Mapping[str, Any] | None = None,
    state: str | Path | None = None,
    other_data: bool = False,
) -> Outcome: ...


@overload
def run(
    file: CollaborationFile,
    *,
    rounds: int | None = None,
    seed: int | None = None,
    records: Mapping[str, Any] | None = None,
    state: str | Path | None = None,
    other_data: bool = False,
) -> CollaborationOutcome: ...


def run(
    file: AnyFile,
    *,
    rounds: int | None = None,
    seed: int | None = None,
    records: Mapping[str, Any] | None = None,
    state: str | Path | None = None,
    other_data: bool = False,
) -> Outcome | CollaborationOutcome:
    """Run a mesh file's whole mesh, or its collaboration, in this process, to its end.

    Parameters
    ----------
    rounds, seed
        In place of the file's: in a collaboration the number of queries, at most the file's, and the seed of
        simulated noise.
    records
        Records by node or owner, or `held_out`, in place of their sources': data frames of pandas, polars or
        Arrow, or dicts of columns, alone or as `Named(name, frame)`.
    state
        The folder of the journals, as of `mirrormesh run --state`: it counts what all runs spend on the same
        records, which it knows by their files, or by the names that `records` must then have. Not given:
        nothing is kept on the disk, and what several runs spend on the same records is not counted.
    other_data
        You state that a new run reads other records than all earlier runs in `state`, although names agree.

    Raises
    ------
    MeshFileError
        A source cannot be read, or a schema does not fit.
    UsageError
        An argument is wrong, the run cannot continue in `state`, a collaboration's theta diverges, or its
        noise has no seed.
    JournalError
        A journal in `state` cannot be read or written.
    """
    check_file("file", file)
    rounds, seed = as_count_or_none("rounds", rounds, 1), as_count_or_none("seed", seed, 0)
    folder = as_path_or_none("state", state)
    check_type("other_data", other_data, bool, "must be True or False")
    if other_data and folder is None:
        raise refused("other_data", other_data, "goes with state")
    file = with_records(file, records, named=folder is not None)
    outcome: Outcome | CollaborationOutcome = file.kind.outcome(
        file, rounds, seed, folder, other_data=other_data
    )
    return outcome


@overload
def run_model(file: MeshFile, result: Outcome | Summary, /) -> Model: ...


@overload
def run_model(file: CollaborationFile, result: CollaborationOutcome, /) -> Model: ...


def run_model(file: AnyFile, result: Outcome | Summary | CollaborationOutcome, /) -> Model:
    """Return the model that a run has learnt.

    Of a mesh: the means of the nodes' last decisions and of their averages, which the run's scores measure,
    from `outcome` or `outcome.summary`. Of a collaboration: the last theta and the algorithm's result, from
    `outcome`. Raises UsageError for the result of the other kind.
    """
    check_file("file", file)
    model: Model = file.kind.model(file, result)
    return model


def nodes_model(file: MeshFile, result: object) -> Model:
    """Return the model of a mesh of nodes. Raises UsageError for an argument that is no result of its run."""
    if isinstance(result, Outcome):
        result = result.summary
    if not isinstance(result, Summary):
        raise _not_of_run(file, result)
    return mesh_model(file, result)


def collaboration_model(file: CollaborationFile, result: object) -> Model:
    """Return the model of a collaboration. Raises UsageError for an argument that is no result of its run."""
    if not isinstance(result, CollaborationOutcome):
        raise _not_of_run(file, result)
    return outcome_model(file, result)


def _not_of_run(file: AnyFile, result: object) -> UsageError:
    return refused("result", result, f"must be the outcome of a run of {file.kind.words}")


# Makes the model of a mesh from its broker, for users who may read every edge.


class _Sum(NamedTuple):
    """The sum of releases, added in the order of the nodes."""

    members: int
    total: FloatArray

    def plus(self, release: FloatArray) -> "_Sum":
        return _Sum(self.members + 1, self.total + release)


def public_model(file: MeshFile) -> Model:
    """Return the projected mean of all members' newest releases, and its average over the stored rounds.

    Releases of closing rounds are in no average. A member whose edges are all off in a round publishes
    nothing for it. Raises BusError, MeshFileError.
    """
    mesh = file.mesh
    algorithm = file.resolved.algorithm
    empty_sum = _Sum(0, np.zeros(mesh.release_dimension))
    newest, last, rounds = empty_sum, 0, defaultdict[int, _Sum](lambda: empty_sum)
    with closing(reached(file.mesh_broker)) as logs:
        log = MeshLog.of(file, logs)
        plans = log.valid_plans()
        members = next((plan.members for plan in reversed(plans.values()) if plan.members), ())
        for name in sorted(mesh.nodes):
            releases = _released(file, log, name, plans)
            for round, release in releases.items():
                if not plans[round].closing:
                    rounds[round] = rounds[round].plus(release)
            if releases and any(member.name == name for member in members):
                newest, last = newest.plus(releases[max(releases)]), max(last, *releases)
    if not newest.members:
        raise BusError(f"{mesh.name}, run {mesh.run}: no edge holds a release yet, so there is no model")
    average = _average(algorithm, rounds or {last: newest})
    closing_rounds = [plan.round for plan in plans.values() if plan.closing]  # decisions are the first one's
    return model_of(
        file,
        promised_of_all(file, None),
        _decided(algorithm, min([last, *closing_rounds]), newest),
        average.mean,
        round=last,
        nodes=newest.members,
        rounds=average.rounds,
        averaged="over the rounds that the topics still hold, of the mean of what was released for each",
    )


def _decided(algorithm: Algorithm, round: int, total: _Sum) -> Decision:
    mean = Consensus(algorithm.contain(total.total / total.members))
    return algorithm.decide(round, mean, 1 / total.members)


def _average(algorithm: Algorithm, rounds: Mapping[int, _Sum]) -> Average:
    (first, *rest) = sorted(rounds)
    average = averaged(None, _decided(algorithm, first, rounds[first]))
    for round in rest:
        average = averaged(average, _decided(algorithm, round, rounds[round]))
    return average


def _released(file: MeshFile, log: MeshLog, node: str, plans: Mapping[int, Plan]) -> dict[int, FloatArray]:
    """Return a node's releases by round, from the instance that the plan names.

    A round with two different values is left out, as it is unknown which one counts.
    """
    released: dict[int, FloatArray] = {}
    contradicted: set[int] = set()
    context = file.resolved.node(node).context
    for target in context.targets:
        for _, _, message in log.releases(context.own, [target]):
            plan = plans.get(message.round)
            member = None if plan is None else plan.member(node)
            if member is None or not member.full or member.instance != message.instance:
                continue
            first = released.setdefault(message.round, message.release)
            if first.tobytes() != message.release.tobytes():
                contradicted.add(message.round)
    return {round: release for round, release in released.items() if round not in contradicted}
