"""A whole mesh in step, as arrays over nodes: for experiments, where one party has all data.

Nodes do what they do on a bus when nobody is late: the same `decide`, `update` and `privatise`, by the same
`Learner`, on (N, d) in place of (d,). Under the same seeded noise releases are the mesh's, bit for bit.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nodes.learner import Learner, Lesson
from nodes.mixing import Mixing
from nodes.privacy.private import Private
from nodes.values import Consensus, Decision, Observations, Release
from topology.schedules import Schedule


class Step(NamedTuple):
    """One round of all nodes: `releases` q_t, `consensus` z_t and `decision` x_t, all (N, d), and the lesson.

    `lesson.release` is q_{t+1}; its private counts are sums over the nodes.
    """

    round: int
    releases: Release
    consensus: Consensus
    decision: Decision
    lesson: Lesson


@dataclass(frozen=True, slots=True)
class Engine:
    """All nodes of a schedule, in bytes order, with one learner: its sampler draws for all of them."""

    learner: Learner
    schedule: Schedule

    def steps(self, slots: Iterable[Observations]) -> Iterator[Step]:
        """Yield the rounds 1, 2, ..., one a slot: observations with features (N, n, p), n <= batch size."""
        learner, algorithm = self.learner, self.learner.algorithm
        nodes = self.schedule.graph.nodes
        releases = Release(np.tile(algorithm.start, (len(nodes), 1)))
        charged, secret = learner.charged_before, None
        mixing, last = None, None
        for round, observations in enumerate(slots, 1):
            weights = self.schedule.weights(round, nodes)
            if mixing is None or weights is not last:
                mixing, last = Mixing(weights), weights
            consensus = Consensus(mixing(releases))
            decision = algorithm.decide(round, consensus)
            lesson = learner.learn(round, consensus, decision, Private(observations), charged, secret)
            yield Step(round, releases, consensus, decision, lesson)
            releases, charged, secret = lesson.release, lesson.charged, lesson.secret
