"""The result of a collaboration's run in this process, as a value."""

import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from nodes.collaboration.messages import QueryRecord
from nodes.sparse import Rows
from nodes.values import FloatArray
from streams.collaboration.file import CollaborationFile
from streams.collaboration.local import LocalCollaboration, StateJournals
from streams.collaboration.passes import fixed_sets
from streams.collaboration.settings import NoiseSettings
from streams.ledger import Promise, Reuse, known_spends, lives_of, promises_of
from streams.local.scoring import Score, score
from streams.mesh.errors import UsageError
from streams.records.sources import records_to_score

LAST, AVERAGE = "last theta", "average"


@dataclass(frozen=True, slots=True)
class OwnerOutcome:
    """What an owner's `charged` answers have spent about its `records`, and the promise for all T answers."""

    records: int
    charged: int
    epsilon_spent: float
    promise: Promise

    @property
    def guarantee(self) -> str:
        """The guarantee in words, with what other runs and owners mean for it."""
        return self.promise.sentence


@dataclass(frozen=True, slots=True)
class CollaborationOutcome:
    """The result of a run: theta (d,) after `queries`, and the `average` (d,), which is the model.

    With Algorithm 1, which does not average, both are the last theta. `scores`: the scores on the held-out
    records, if there are any, of the "last theta" and, with Algorithm 2, of the "average".
    """

    queries: int
    parameters: FloatArray
    average: FloatArray
    owners: dict[str, OwnerOutcome]
    scores: dict[str, Score]
    record: QueryRecord


def outcome_so_far(
    local: LocalCollaboration,
    test_records: tuple[Rows, FloatArray] | None,
    reuses: Mapping[str, Reuse] | None = None,
) -> CollaborationOutcome:
    """Return the result of a run so far, scored on features and labels (None: not scored).

    `reuses`: what is known of other spending on the owners' sets (None: what the mesh file tells).
    """
    collaboration, record = local.file.resolved, local.record
    if reuses is None:
        charges = {name: (owner.machine.charged, math.inf) for name, owner in local.owners.items()}
        reuses = known_spends(local.file, charges, own=lives_of(local.file, charges))
    promised = promises_of(local.file, reuses)
    owners = {
        name: OwnerOutcome(
            collaboration.records[name],
            owner.machine.charged,
            owner.machine.epsilon_spent,
            promised[name],
        )
        for name, owner in local.owners.items()
    }
    scores = {} if test_records is None or not local.answered else _scores(local.file, record, *test_records)
    return CollaborationOutcome(local.answered, record.parameters, record.average, owners, scores, record)


def _scores(
    file: CollaborationFile, record: QueryRecord, features: Rows, labels: FloatArray
) -> dict[str, Score]:
    vectors = {LAST: record.parameters}
    if file.mesh.algorithm.name == "averaged":
        vectors[AVERAGE] = record.average
    return {name: score(file.resolved.loss, vector, features, labels) for name, vector in vectors.items()}


def seeded(file: CollaborationFile, seed: int | None) -> CollaborationFile:
    """Return the file with another seed of its simulated noise. Raises UsageError if the noise is exact."""
    if seed is None:
        return file
    if file.mesh.noise.simulated is None:
        raise UsageError("--seed: goes with noise: {simulated: ...}, as exact noise has none")
    noise = NoiseSettings(simulated=seed)
    return replace(file, mesh=file.mesh.model_copy(update={"noise": noise}))


def collaboration_outcome(
    file: CollaborationFile,
    queries: int | None = None,
    seed: int | None = None,
    state: Path | None = None,
    *,
    other_data: bool = False,
) -> CollaborationOutcome:
    """Run a collaboration in this process for that many queries, or to its end; see `run`."""
    file = seeded(file, seed)
    test_records = records_to_score(file)
    sets = fixed_sets(file, sorted(file.mesh.owners))  # the check comes before a journal is made
    with ExitStack() as closing:
        journals = None if state is None else StateJournals(file, state, closing, other_data=other_data)
        local = LocalCollaboration(file, None if journals is None else journals.opened, sets)
        if journals is not None:
            journals.begin()
        while (queries is None or local.answered < queries) and local.advance():
            pass
    return outcome_so_far(local, test_records, None if journals is None else journals.reuses())
