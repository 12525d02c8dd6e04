"""One learner: combines algorithm, loss, mechanism and ledger into the step of a round.

`Engine` runs all learners of a mesh in step.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Literal, NamedTuple

import numpy as np

from nodes.accounting.guarantee import Ledger
from nodes.accounting.releases import GrowingSum
from nodes.algorithms import Algorithm
from nodes.losses.evaluation import mean_gradient, slot_gradients
from nodes.losses.losses import Loss
from nodes.privacy.mechanism import Mechanism, Privatised, Secret
from nodes.privacy.private import Private
from nodes.sparse import Rows, SparseRows
from nodes.values import (
    BoolArray,
    Consensus,
    Decision,
    FloatArray,
    Mixing,
    Observations,
    Release,
    rows_after,
    squares_of,
)
from topology.schedules import CACHED, Schedule
from topology.weights import Weights


class StepResult(NamedTuple):
    """The result of learning from one slot.

    `release` (d,) is public, `exact` if no noise was drawn. `charged` counts the charged rounds so far.
    `gradient` (m,) is the slot's mean gradient at the decision, before the clip, in the coordinates that the
    loss sees. `secret`: the noise's state.
    """

    release: Release
    exact: bool
    charged: int
    gradient: Private[FloatArray]
    clipped: Private[int]
    broken: Private[int]
    secret: Secret | None = None


def release_bound(algorithm: Algorithm, mechanism: Mechanism) -> float:
    """Return the public bound on a release's L2 norm; a projection in floats may exceed it by an ulp."""
    return (algorithm.reach + mechanism.release_slack) * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class Learner:
    """The settings of one node's learning, all public, and its step.

    `charged_before`: rounds that unknown runs have charged, as stated by the operator (`--spent`).
    `from_end`: a new journal reads its data from the topic's current end, not from its beginning.
    `release_bound`: the public bound on a release's L2 norm.
    Raises ValueError for charges whose price is unknown.
    """

    algorithm: Algorithm
    loss: Loss
    mechanism: Mechanism
    ledger: Ledger
    batch_size: int
    after_budget: Literal["relay", "leave"] = "relay"
    charged_before: int = 0
    from_end: bool = False
    release_bound: float = field(init=False)

    def __post_init__(self) -> None:
        if self.charged_before and isinstance(self.ledger.composition, GrowingSum):
            raise ValueError(
                f"charged_before is {self.charged_before}: must be 0 where epsilon grows: "
                f"rounds of other runs have no single price there"
            )
        object.__setattr__(self, "release_bound", release_bound(self.algorithm, self.mechanism))

    @property
    def leave_from(self) -> int | None:
        """The first round without this node: two after its last learning round, as its release is mixed."""
        last = self.ledger.last_learning_round
        return last + 2 if last is not None and self.after_budget == "leave" else None

    @np.errstate(all="ignore")  # data may overflow, and a warning would show it
    def learn(
        self,
        round: int,
        consensus: Consensus,
        decision: Decision,
        observations: Private[Observations],
        charged: int,
        secret: Secret | None = None,
        counts: Private[BoolArray | None] = Private(None),  # noqa: B008 # it cannot change
    ) -> StepResult:
        """Charge, clip, draw and step; after the last learning round only relay. Total over observations.

        `counts` (n,): which observations count (None: all). The gradients of the others are computed like any
        other, and then zero, so that the time of a step does not count them.

        q_{t+1} = update(z_t, privatise(gradients at x_t)), or `relay`. `secret`: the last step's; a relay
        needs none. The loss gets the observed coordinates alone, so nothing of a record is in others.
        """
        observed = self.algorithm.observed(decision)
        gradients, mean = self._of_the_slot(consensus, decision, observed, observations, counts)
        update = partial(self.algorithm.update, round, consensus)
        if self.ledger.may_learn(round, charged):
            privatised = self.mechanism.privatise(round, gradients, update, secret)
            exact = self.mechanism.epsilon is None
            charged += 1
        else:
            privatised = Privatised(self.relay(consensus), Private(0), Private(0))
            exact = True
        release = self.clamped(privatised.release)
        return StepResult(
            release, exact, charged, mean, privatised.clipped, privatised.broken, privatised.secret
        )

    def relay(self, consensus: Consensus) -> Release:
        """Return the next release (..., d) of a round without a lesson: z_t, or F z_t with a motion model.

        Nothing else changes it, not even a regulariser, so all relays together keep the mean of the releases
        that they mix.
        """
        dynamics = self.algorithm.dynamics
        if dynamics is None:
            return self.clamped(Release(consensus))
        return self.clamped(Release(self.algorithm.contain(dynamics.moved(consensus))))

    def _of_the_slot(
        self,
        consensus: Consensus,
        decision: Decision,
        observed: FloatArray,
        observations: Private[Observations],
        counts: Private[BoolArray | None],
    ) -> tuple[Private[Rows], Private[FloatArray]]:
        """Return what the mechanism sums, and the mean gradient at the decision; 0 where it sums rows."""
        if self.algorithm.rows is not None:
            rows = partial(self.algorithm.rows, decision)
            return observations.with_(counts, _present).map(rows), Private(np.zeros(observed.shape))
        at = self.algorithm.gradient_point(consensus, decision)
        point = observed if at is decision else self.algorithm.observed(at)
        gradients = observations.map(partial(slot_gradients, self.loss, point)).with_(counts, _counted)
        scored = (
            gradients
            if point is observed or np.array_equal(point, observed)
            else observations.map(partial(slot_gradients, self.loss, observed)).with_(counts, _counted)
        )
        return gradients, scored.map(lambda rows: mean_gradient(rows, self.batch_size))

    def clamped(self, release: Release) -> Release:
        """Return the release (..., d), scaled into the public bound if outside (post-processing)."""
        if release.ndim > 1:
            return self._clamped_rows(release)
        norm = math.hypot(*release.tolist())  # as the readers see it
        if norm <= self.release_bound:
            return release
        return Release(release * (self.release_bound / norm * (1 - 1e-12)))

    def _clamped_rows(self, releases: Release) -> Release:
        near = np.add.reduce(releases * releases, -1) > self.release_bound**2 * (1 - 1e-9)
        if not np.count_nonzero(near):
            return releases
        clamped = releases.copy()
        for row in np.argwhere(near):
            clamped[tuple(row)] = self.clamped(Release(releases[tuple(row)]))
        return Release(clamped)


def _present(observations: Observations, counts: BoolArray | None) -> Observations:
    """Return the observations, with those absent that do not count."""
    return observations if counts is None else observations._replace(present=observations.present & counts)


def _counted(gradients: Rows, counts: BoolArray | None) -> Rows:
    """Return the gradients (n, d), with zeros for those that do not count."""
    if counts is None:
        return gradients
    if isinstance(gradients, SparseRows):
        values = np.where(counts[gradients.rows], gradients.values, 0.0)
        return SparseRows(gradients.indptr, gradients.indices, values, gradients.dimension)
    return np.where(counts[:, None], gradients, 0.0)


# Runs a whole mesh in step, as arrays over nodes: for experiments, where one party has all data.
#
# The same `Learner` calls the same `decide`, `update` and `privatise` as on a bus where nobody is late, on
# (N, d) in place of (d,). With the same seeded noise its releases equal those of the mesh bit for bit.


class Step(NamedTuple):
    """One round of all nodes: `releases` q_t, `consensus` z_t, `decision` x_t, each (N, d), and the lesson.

    `lesson.release` is q_{t+1}; the lesson's private counts are sums over the nodes.
    """

    round: int
    releases: Release
    consensus: Consensus
    decision: Decision
    lesson: StepResult


class Closing:
    """Mixes and decides in the closing rounds of all nodes, of which `first` is the first one.

    Decisions go by the rounds of learning, so all of them are those of round `first`.
    """

    def __init__(self, algorithm: Algorithm, first: int) -> None:
        self._algorithm, self._first = algorithm, first
        self._nodes: tuple[str, ...] = ()
        self._rows: FloatArray | None = None

    def mix(self, weights: Weights, releases: Release) -> tuple[Consensus, Decision]:
        """Return z_t and x_t of the weights' nodes, shape (N, d) each."""
        mixed = Mixing(weights)
        consensus = Consensus(mixed(releases))
        if self._algorithm.rows is None:
            return consensus, self._algorithm.decide(self._first, consensus)
        self._rows = rows_after(self._rows if self._nodes == weights.nodes else None, weights)
        self._nodes = weights.nodes
        shares = mixed.shares if self._rows is None else squares_of(self._rows)
        return consensus, self._algorithm.decide(self._first, consensus, shares)


class ClosingStep(NamedTuple):
    """One closing round of all nodes: `releases` q_t, `consensus` z_t, `decision` x_t, each (N, d)."""

    round: int
    releases: Release
    consensus: Consensus
    decision: Decision


class State(NamedTuple):
    """What the next round begins from: its number, all releases (N, d), the charged rounds, the noise's."""

    round: int
    releases: Release
    charged: int
    secret: Secret | None = None

    @classmethod
    def after(cls, step: Step) -> "State":
        """Return the state after a round."""
        return cls(step.round + 1, step.lesson.release, step.lesson.charged, step.lesson.secret)


@dataclass(frozen=True, slots=True)
class Engine:
    """Runs all nodes of a schedule, in bytes order, with one learner whose sampler draws for all of them.

    `steps` learns; `closing_steps` carries what was learnt last to everybody, as the end of a run does.
    """

    learner: Learner
    schedule: Schedule

    def steps(self, slots: Iterable[Observations]) -> Iterator[Step]:
        """Yield rounds 1, 2, ..., one per slot of observations: features (N, n, p), n <= batch size."""
        return self.steps_from(self.start(), slots)

    def start(self) -> State:
        """Return the state before round 1."""
        releases = np.tile(self.learner.algorithm.start, (len(self.schedule.graph.nodes), 1))
        return State(1, Release(releases), self.learner.charged_before)

    def steps_from(self, state: State, slots: Iterable[Observations]) -> Iterator[Step]:
        """Yield the rounds from a state on, one per slot."""
        learner, algorithm, nodes = self.learner, self.learner.algorithm, self.schedule.graph.nodes
        first, releases, charged, secret = state
        mixing = lru_cache(CACHED)(Mixing)  # by identity: schedules return recurring weights as one object
        for round, observations in enumerate(slots, first):
            mixed = mixing(self.schedule.weights(round, nodes))
            consensus = Consensus(mixed(releases))
            shares = 1.0 if algorithm.rows is None else mixed.shares
            decision = algorithm.decide(round, consensus, shares)
            lesson = learner.learn(round, consensus, decision, Private(observations), charged, secret)
            yield Step(round, releases, consensus, decision, lesson)
            releases, charged, secret = lesson.release, lesson.charged, lesson.secret

    def closing_steps(self, state: State, rounds: int) -> Iterator[ClosingStep]:
        """Yield that many closing rounds from a state on: all nodes mix, decide and relay."""
        nodes, releases = self.schedule.graph.nodes, state.releases
        closing = Closing(self.learner.algorithm, state.round)
        for round in range(state.round, state.round + rounds):
            consensus, decision = closing.mix(self.schedule.weights(round, nodes), releases)
            yield ClosingStep(round, releases, consensus, decision)
            releases = self.learner.relay(consensus)

    def closed(self, last: Step, rounds: int) -> Decision:
        """Return the decisions (N, d) of the last of so many closing rounds after a step."""
        *_, closing = self.closing_steps(State.after(last), rounds)
        return closing.decision
