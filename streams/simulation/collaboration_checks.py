"""What must hold in a simulated collaboration. The checks read topics and journals with code of their own.

* No process shows what is not durable: a query or answer on a topic is in the journal of its sender.
* An owner has one answer for a query, ever. It counts each answer once, and never more than T.
* An answer in the learner's record was sent by its owner. All owners have answered or are missing.
* theta moves by the paper's step (Wu, Farokhi, Smith, Kaafar 2020, Algorithms 1 and 2), computed here again.
* If nobody is left out and the noise is the same, the history's end is that of a run without faults, bit for
  bit.
"""

from collections.abc import Mapping, Sequence
from struct import Struct

import numpy as np

from nodes.collaboration.messages import QueryRecord, ResponseRecord
from nodes.values import FloatArray
from streams.collaboration.file import CollaborationFile
from streams.collaboration.local import OwnerMemory, run_collaboration
from streams.collaboration.wire import Wire
from streams.simulation.history import Violation

_HEADER = Struct("<BBB16s16sQ")  # version, kind, flags, digest, instance, number
_FINAL = 1
TOLERANCE = 1e-9


class CollaborationChecks:
    """The checks of one history. `learner` and `owners` are their journals."""

    def __init__(
        self,
        file: CollaborationFile,
        wire: Wire,
        learner: Sequence[QueryRecord],
        owners: Mapping[str, OwnerMemory],
    ) -> None:
        self._file, self._learner, self._owners = file, learner, owners
        self._query = wire.topics.query
        self._responses = {wire.topics.response(name): name for name in owners}
        self._answers: dict[tuple[str, int], bytes] = {}  # the answer's vector, by owner and query
        self._thetas: dict[int, bytes] = {}

    def appended(self, topic: str, value: bytes) -> None:
        """Check a record that has reached its topic. Raises Violation."""
        owner = self._responses.get(topic)
        if topic != self._query and owner is None:
            return
        *_, number = _HEADER.unpack_from(value)
        vector = value[-8 * self._file.mesh.dimension :]
        if owner is None:
            self._asked(number, vector)
        else:
            self._answered(owner, number, vector)

    def journalled(self, name: str, record: QueryRecord | ResponseRecord) -> None:
        """Check a record that has become durable. Raises Violation."""
        if isinstance(record, ResponseRecord):
            answers = len({answer.query for answer in self._owners[name].kept})
            if record.charged != answers or answers > self._file.mesh.queries:
                raise Violation(f"{name} counts {record.charged} charged queries: it has answered {answers}")
        else:
            self._check_step(record)

    def finish(self, *, everybody: bool, same_noise: bool) -> None:
        """Check the end of the history. `everybody`: no owner is ever left out. Raises Violation."""
        last, queries = self._learner[-1], self._file.mesh.queries
        if last.number != queries + 1:
            raise Violation(f"the learner ends after query {last.number - 1}: {queries} are asked")
        if everybody:
            for name, journal in self._owners.items():
                if [record.query for record in journal.kept] != list(range(1, queries + 1)):
                    raise Violation(f"{name} has not answered every query, and nobody is left out")
        if everybody and same_noise:
            expected = run_collaboration(self._file)
            is_same = expected.parameters.tobytes() == last.parameters.tobytes()
            if not is_same or expected.average.tobytes() != last.average.tobytes():
                raise Violation("the model is not that of a run without faults")

    def _asked(self, number: int, vector: bytes) -> None:
        records = {record.number: record.parameters.astype("<f8").tobytes() for record in self._learner}
        if records.get(number) != vector:
            raise Violation(f"query {number} is on its topic, and not in the learner's journal")
        if self._thetas.setdefault(number, vector) != vector:
            raise Violation(f"query {number} is asked at two values of theta")

    def _answered(self, owner: str, number: int, vector: bytes) -> None:
        records = {
            record.query: record.response.astype("<f8").tobytes() for record in self._owners[owner].kept
        }
        if self._answers.setdefault((owner, number), vector) != vector:
            raise Violation(f"{owner} has sent two values for query {number}")
        if records.get(number) != vector:
            raise Violation(f"{owner} has sent an answer to query {number} that is not in its journal")
        if number not in self._thetas:
            raise Violation(f"{owner} has answered query {number}, which nobody has asked")

    def _check_step(self, record: QueryRecord) -> None:
        if record.number == 1:
            return
        before = next(earlier for earlier in self._learner if earlier.number == record.number - 1)
        for answer in record.answers:
            vector = answer.response.astype("<f8").tobytes()
            if self._answers.get((answer.owner, before.number)) != vector:
                raise Violation(
                    f"the learner steps query {before.number} on an answer that {answer.owner} has not sent"
                )
        names = sorted([answer.owner for answer in record.answers] + list(record.missing))
        if names != sorted(self._owners):
            raise Violation(f"query {before.number} is over, and not every owner has answered or is missing")
        theta, average = self._moved(before, record)
        for quantity, due, value in (
            ("theta", theta, record.parameters),
            ("average", average, record.average),
        ):
            if not np.allclose(due, value, rtol=TOLERANCE, atol=TOLERANCE):
                raise Violation(f"{quantity} after query {before.number} is not the paper's")

    def _moved(self, before: QueryRecord, record: QueryRecord) -> tuple[FloatArray, FloatArray]:
        """Return theta and the average after a query, by the formulas of the paper."""
        mesh, k = self._file.mesh, before.number
        counts = {name: self._influence(name) for name in self._owners}
        total = sum(counts[answer.owner] for answer in record.answers)
        gradient = mesh.regulariser * before.parameters
        for answer in record.answers:
            gradient = gradient + counts[answer.owner] / total * answer.response
        if mesh.algorithm.name == "strongly-convex":
            theta = before.parameters - (mesh.algorithm.rho or 0.0) / (mesh.queries**2 * k) * gradient
            return theta, theta
        theta = before.parameters - (mesh.algorithm.step or 0.0) / np.sqrt(k) * gradient
        bounds, norm = mesh.constraint, float(np.sqrt(theta @ theta))
        if bounds is not None and bounds.l2_ball is not None:
            theta = theta * min(1.0, float(bounds.l2_ball) / norm) if norm else theta
        else:  # projections onto other sets are not computed here
            theta = record.parameters
        shift = 1 / np.sqrt(mesh.queries)
        average = (k - 1) / (shift + k) * before.average + (shift + 1) / (shift + k) * before.parameters
        return theta, np.asarray(average, dtype=np.float64)

    def _influence(self, owner: str) -> float:
        """Return how much an owner counts: its records, or one over the variance of its answer."""
        mesh, terms = self._file.mesh, self._file.mesh.owners[owner]
        if mesh.weights == "records":
            return terms.records
        deviation = self._file.resolved.mechanism(owner).noise_deviation  # calibration is not told again here
        return 1 / (mesh.dimension * deviation**2 + mesh.gradient_bound**2 / terms.records)
