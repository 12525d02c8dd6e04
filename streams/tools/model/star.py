"""Makes the model of a collaboration, from the learner's newest record."""

from collections.abc import Mapping
from pathlib import Path

from nodes.collaboration.messages import QueryRecord
from streams.ledger import Promise, known_spends, promises_of
from streams.local.star_outcome import CollaborationOutcome
from streams.mesh.file import CollaborationFile
from streams.mesh.model_file import FORMAT, Model
from streams.state.folder import JournalError, StateFolder
from streams.state.learner_journal import LearnerJournal
from streams.tools.model.writing import source_of, weakest

_AVERAGED = {
    "averaged": "Algorithm 2's average of theta over the queries",
    "strongly-convex": "Algorithm 1's last theta, which averages nothing",
}


def star_model(file: CollaborationFile, found: CollaborationOutcome) -> Model:
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
    """Return the model in the learner's journal. Raises JournalError: none, another's, or nothing learnt."""
    path = StateFolder(state).journal(file.mesh.learner)
    with LearnerJournal.read(path) as journal:
        life, records = journal.life, journal.records(1)
    if (life.run, life.node, life.digest) != (file.mesh.run, file.mesh.learner, file.digest()):
        raise JournalError(f"{path} is of another learner, run or settings than {file.mesh.run}'s")
    if not records or records[-1].number == 1:
        raise JournalError(f"{path}: no query is over yet, so there is no model")
    return _model(file, records[-1], promises_of(file, known_spends(file, file.mesh.owners, state)))
