"""Records a mesh that one party runs in one process, round by round, in memory."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from nodes.machine.events import Decided, Report, Scored
from nodes.machine.journal import JournalRecord
from nodes.privacy.owner import disclosed_to_owner
from nodes.privacy.private import Private
from nodes.protocol import Stepped
from nodes.regret import LocalRegret
from nodes.sparse import Rows, dense
from nodes.values import BoolArray, Decision, FloatArray, Observations
from streams.metrics.verdict import OwnerScore, Verdict

T = TypeVar("T")


def for_the_owner(count: Private[T]) -> T:
    """Return a private count, for the party that runs all nodes."""
    return disclosed_to_owner(count)


@dataclass(slots=True)
class NodeHistory:
    """The rounds of one node in which it had a slot, in order; entry k of each list is round `rounds[k]`.

    `counts`: which observations are learnt from (None: all). `gaps`: max_j ||q_j - q_i|| over the releases it
    heard; `regrets`: local first-order regret R_T. `newest`: the newest record of its journal, of whichever
    round. `closed`: the decision of its last closing round, once the run has ended (`streams.local.run`).
    """

    regret: LocalRegret
    rounds: list[int] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    observations: list[Observations] = field(default_factory=list)
    counts: list[BoolArray | None] = field(default_factory=list)
    regrets: list[float] = field(default_factory=list)
    records: list[JournalRecord] = field(default_factory=list)
    newest: JournalRecord | None = None
    closed: Decision | None = None


class Recorder:
    """Collects the reports of all nodes of a run, and computes regret over those collected.

    `scores`: what scores each node's run for its owner; None for a loss without a label to predict.
    """

    def __init__(
        self, regrets: dict[str, LocalRegret], scores: Mapping[str, OwnerScore | None] | None = None
    ) -> None:
        self.nodes = {name: NodeHistory(regret) for name, regret in sorted(regrets.items())}
        self._scores = {} if scores is None else scores
        self._pending: dict[str, Decided] = {}

    def __call__(self, name: str, report: Report) -> None:
        """Handle one report."""
        node = self.nodes[name]
        match report:
            case Decided():
                self._pending[name] = report  # may come again after a crash; counts once stepped
            case Stepped(record=record):
                node.newest = record
            case Scored():
                self._scored(name, node, report)

    @property
    def common_rounds(self) -> int:
        """The number of rounds that every node has stepped."""
        return min(len(node.rounds) for node in self.nodes.values())

    def keep_back(self, records: tuple[Rows, FloatArray] | None) -> None:
        """Take records that no node has learnt from, for all verdicts; None: there are none."""
        for score in self._scores.values():
            if score is not None and records is not None:
                score.keep_back(*records)

    def verdict(self, name: str, closing: FloatArray) -> Verdict | None:
        """Return the verdict on a node's run, whose last decision is `closing` (d,); None without scores."""
        score = self._scores.get(name)
        return None if score is None else score.verdict(closing)

    def decisions(self) -> FloatArray:
        """Return the decisions of the common rounds, shape (T, N, d), nodes in bytes order."""
        common = self.common_rounds
        return np.stack([np.array(node.decisions[:common]) for node in self.nodes.values()], axis=1)

    def last_decisions(self) -> FloatArray:
        """Return the decisions of the last closing round, shape (N, d), nodes in bytes order.

        A node that left before has its last one. Of a run that did not come so far they are those of the last
        common round.
        """
        nodes = self.nodes.values()
        if all(node.closed is None for node in nodes):
            last: FloatArray = self.decisions()[-1]
            return last
        return np.stack([node.decisions[-1] if node.closed is None else node.closed for node in nodes])

    def observations(self, batch_size: int) -> Observations:
        """Return what nodes learnt from in the common rounds, over (T, N, h); other records are absent."""
        common, nodes = self.common_rounds, list(self.nodes.values())
        width = nodes[0].observations[0].features.shape[-1]
        features = np.zeros((common, len(nodes), batch_size, width))
        labels = np.zeros((common, len(nodes), batch_size))
        present = np.zeros((common, len(nodes), batch_size), dtype=np.bool_)
        for i, node in enumerate(nodes):
            for t, observed in enumerate(node.observations[:common]):
                counts, size = node.counts[t], observed.labels.size
                features[t, i, :size] = dense(observed.features)
                labels[t, i, :size] = observed.labels
                present[t, i, :size] = observed.present if counts is None else observed.present & counts
        return Observations(features, labels, present)

    def _scored(self, name: str, node: NodeHistory, scored: Scored) -> None:
        decided = self._pending.pop(name)
        node.rounds.append(scored.round)
        if node.newest is not None:
            node.records.append(node.newest)
        node.decisions.append(scored.decision)
        offsets = [release - decided.own for release in decided.heard]
        node.gaps.append(max([math.sqrt(np.add.reduce(q * q)) for q in offsets], default=0.0))
        node.observations.append(disclosed_to_owner(scored.observations))
        counts = disclosed_to_owner(scored.counts)
        node.counts.append(counts)
        if (score := self._scores.get(name)) is not None:
            gradient, clipped = disclosed_to_owner(scored.gradient), disclosed_to_owner(scored.clipped)
            score.add(scored.round, scored.decision, node.observations[-1], gradient, clipped, counts)
        node.regret.add(scored.gradient, scored.decision)
        node.regrets.append(disclosed_to_owner(node.regret.value()))
