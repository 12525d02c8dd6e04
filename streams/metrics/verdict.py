"""Judges by one owner's records whether decisions are better than guessing and than the owner's model alone.

A verdict depends on records and has no noise, so it is for the owner alone, as regret is. Nothing of a
verdict may reach a release, a plan, a log, an exit code, or a model that others get.

What a verdict rests on, best first:

1. The closing decision on records that were kept back.
2. The closing decision on the owner's own records, where noise of an epsilon up to `HARMLESS` kept it from
   learning them by heart.
3. In runs of at least 20 rounds, the run's records, each predicted before it was learnt from.
4. The closing decision on the records that it learnt from. This may be too optimistic.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from nodes.alone import SPREAD, fits, fitted, out_of_fold
from nodes.intervals import LEAST_BLOCKS, Interval, RunningMoments, area, area_gain, precisions
from nodes.losses.losses import Loss
from nodes.prequential import Figures, LabelScorer, Prequential, Task, task_of
from nodes.sparse import Rows, SparseRows, dense
from nodes.values import BoolArray, FloatArray, Observations
from streams.mesh.mesh import MeshNode

HARMLESS = 1.0
"""The largest epsilon of a record at which a decision's score of the very records that it learnt from was
measured not to flatter it: the area changed by -0.004 to -0.001, on income with 250 to 7,733 records."""
MOST_NUMBERS = 1 << 20
"""The most numbers of an owner's own records that are kept for the verdict, the newest: 8 MiB, or, of sparse
rows, some 24 MiB."""
MOST_FITTED = 1 << 22
"""The most numbers, zeros too, of the records that a model is fitted to: a second's work, or two."""


class Basis(StrEnum):
    """The records that a verdict rests on."""

    KEPT_BACK = "records that it never learnt from"
    OWN = "the records that it learnt from"
    BEFORE = "records before they were learnt from"


class Cause(StrEnum):
    """Why nothing was learnt."""

    NOISE = "noise"
    CLIP = "clip"
    CLASS = "class"
    STEPS = "steps"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Facts:
    """Numbers of a run that may explain why nothing was learnt; for the owner alone.

    `noise`: the ratio of the noise's length to the length of a slot's mean gradient, both on average; None
    where gradients have no noise. `rarer`: the number of records of the rarer of two classes. `clipped`: the
    share of gradients that the clip shortened.
    """

    rounds: int
    records: int
    dimension: int
    nodes: int
    rarer: int | None = None
    empty: int = 0
    clipped: float = 0.0
    noise: float | None = None
    steps: bool = True

    def causes(self) -> list[Cause]:
        """Return up to two reasons why nothing was learnt, the likelier first.

        Each reason is rated by how far the run is beyond a limit, by rules of thumb: noise that falls with
        the root of rounds and nodes; ten records of the rarer class for each number learnt (Peduzzi et al.
        1996); 20 steps; half of all gradients clipped; a quarter of all slots empty.
        """
        rounds = max(1, self.rounds)
        rarer = math.inf if self.rarer is None else max(1, self.rarer * self.nodes)
        weights = {
            Cause.NOISE: (self.noise or 0.0) / math.sqrt(rounds * self.nodes),
            Cause.CLASS: 10 * self.dimension / rarer,
            Cause.STEPS: 20 / rounds if self.steps else 0.0,
            Cause.CLIP: 2 * self.clipped,
            Cause.EMPTY: 4 * self.empty / rounds,
        }
        ordered = sorted((reason for reason in Cause if weights[reason] >= 1.0), key=lambda r: -weights[r])
        return ordered[:2]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The scores of one owner's run. Unknown scores are None.

    `before`: the scores of all records but the first slot's, each predicted before it was learnt from, over
    `rounds` slots. `last`: such scores of the last records alone. `closing`: the scores of the run's last
    decision on the records of `basis`. `private`: whether noise kept the decision from learning its records
    by heart. `alone`: how much better, by area, accuracy or error, the closing decision is than a model of
    the owner's own records alone. `drifts`: how often a lasting rise of the loss was detected.
    """

    before: Figures | None
    rounds: int
    last: Figures | None
    closing: Figures | None
    basis: Basis
    private: bool
    alone: Interval | None
    drifts: int
    facts: Facts

    @property
    def is_optimist(self) -> bool:
        """Whether the closing decision is scored on records that it may have learnt by heart."""
        return self.basis is Basis.OWN and not self.private

    @property
    def decides(self) -> tuple[Basis, Figures] | None:
        """The best basis whose scores have an interval, and these scores; None where no basis has one."""
        closing, before = (self.basis, self.closing), (Basis.BEFORE, self.before)
        many = self.rounds >= LEAST_BLOCKS  # the decisions of the first few rounds say little of the last
        order = (before, closing) if self.is_optimist and many else (closing, before)
        decisive = [
            (basis, scores) for basis, scores in order if scores is not None and scores.against_chance
        ]
        ranked = [(basis, scores) for basis, scores in decisive if scores.ranks]
        return next(iter(ranked or decisive), None)

    @property
    def side(self) -> int | None:
        """1: better than guessing; 0: no better, as far as the records show; -1: worse; None: not known."""
        decides = self.decides
        if decides is None or (chance := decides[1].against_chance) is None:
            return None
        return chance[1]


class _Newest:
    """Labelled records of an owner, the newest that fit into `MOST_NUMBERS`."""

    def __init__(self) -> None:
        self._records: deque[tuple[Rows, FloatArray]] = deque()
        self._numbers, self._compacts = 0, False

    def add(self, observations: Observations, chosen: BoolArray | None = None) -> None:
        """Add the observations that are present; `chosen` (n,): of these alone."""
        chosen = observations.present if chosen is None else observations.present & chosen
        if not chosen.any():
            return
        features = _chosen(observations.features, chosen)
        features = _compact(features) if self._compacts else features
        self._records.append((features, observations.labels[chosen]))
        self._numbers += _size(features)
        if (
            self._numbers > MOST_NUMBERS and not self._compacts
        ):  # to look for zeros takes time: only where it must
            self._compacts = True
            self._records = deque((_compact(rows), of_rows) for rows, of_rows in self._records)
            self._numbers = sum(_size(rows) for rows, _ in self._records)
        while self._numbers > MOST_NUMBERS and len(self._records) > 1:
            self._numbers -= _size(self._records.popleft()[0])

    def joined(self) -> tuple[Rows, FloatArray] | None:
        """Return features (n, p) and labels (n,); None without a record."""
        if not self._records:
            return None
        features, labels = zip(*self._records, strict=True)
        return _joined(list(features)), np.concatenate(labels)


class OwnerScore:
    """Scores one owner's run slot by slot, and at the end.

    `observed`: returns the part of a decision that the loss sees. `private`: see `Verdict`. `calibrated`: see
    `LabelScorer`; False for algorithms without steps and gradients. `noise`: returns the length of a round's
    noise, where noise is on gradients. `has_units`: whether records that do not count are of units that
    others count of. Raises ValueError for a loss without a task: see `owner_score`.
    """

    def __init__(
        self,
        loss: Loss,
        observed: Callable[[FloatArray], FloatArray],
        *,
        nodes: int = 1,
        private: bool,
        calibrated: bool = True,
        noise: Callable[[int], float] | None = None,
        has_units: bool = False,
    ) -> None:
        self.scorer = LabelScorer(loss, calibrated=calibrated)
        self._observed, self._private, self._calibrated = observed, private, calibrated
        self._nodes, self._noise, self._has_units = nodes, noise, has_units
        self._progress = Prequential(self.scorer)
        self._records = _Newest()
        self._rounds = self._empty = self._clipped = self._learnt = self._positives = 0
        self._lengths, self._signal, self._noises = 0, 0.0, 0.0
        self._kept_back: tuple[Rows, FloatArray] | None = None
        self._own_kept_back = _Newest()

    def keep_back(self, features: Rows, labels: FloatArray) -> None:
        """Give records (n, p) with labels (n,) that are not learnt from, for scoring the closing decision.

        Records that the owner's source keeps back come before them.
        """
        self._kept_back = (features, labels) if labels.size else None

    @np.errstate(all="ignore")  # data may overflow, and a warning would show it
    def add(
        self,
        round: int,
        decision: FloatArray,
        observations: Observations,
        gradient: FloatArray,
        clipped: int,
        counts: BoolArray | None = None,
    ) -> None:
        """Score a slot by the decision made before it; `gradient`: the slot's mean before the clip.

        `counts` (n,): the observations that are learnt from; None: all. Those that are kept back wait for the
        verdict.
        """
        if counts is not None:
            if not self._has_units:  # else another record of the same unit may be learnt from
                self._own_kept_back.add(observations, ~counts)
            observations = observations._replace(present=observations.present & counts)
        self._progress.add(self._observed(decision), observations)
        self._rounds += 1
        labels = observations.labels[observations.present]
        self._empty += not labels.size
        self._clipped += clipped
        self._learnt += labels.size
        self._positives += int(np.count_nonzero(labels > 0.0))
        if self._noise is not None and self._calibrated:
            length = math.sqrt(gradient.dot(gradient))
            if math.isfinite(length):
                self._lengths += 1
                self._signal += length
                self._noises += self._noise(round)
        self._records.add(observations)

    @property
    def progress(self) -> Prequential:
        """The scores so far."""
        return self._progress

    @np.errstate(all="ignore")
    def verdict(self, closing: FloatArray | None) -> Verdict:
        """Return the verdict on the run; `closing` (d,): the run's last decision, None if there is none."""
        figures, gain = None, None
        kept_back = self._own_kept_back.joined() or self._kept_back
        records = self._records.joined()
        if closing is not None and records is not None:
            tested = kept_back or records
            predictions = self.scorer.predictions(self._observed(closing), tested[0])
            figures = fixed_figures(self.scorer, predictions, tested[1])
            gain = self._alone(records, tested, predictions, is_own=kept_back is None)
        return Verdict(
            self._progress.figures(),
            self._progress.rounds,
            self._progress.last_figures(),
            figures,
            Basis.OWN if kept_back is None else Basis.KEPT_BACK,
            self._private,
            gain,
            self._progress.alarms,
            self._facts(closing),
        )

    def _facts(self, closing: FloatArray | None) -> Facts:
        two = self.scorer.task is Task.TWO
        return Facts(
            self._rounds,
            self._learnt,
            0 if closing is None else len(self._observed(closing)),
            self._nodes,
            min(self._positives, self._learnt - self._positives) if two else None,
            self._empty,
            self._clipped / max(1, self._learnt),
            self._noises / self._signal if self._signal > 0.0 else None,
            self._calibrated,
        )

    def _alone(
        self,
        records: tuple[Rows, FloatArray],
        tested: tuple[Rows, FloatArray],
        predictions: FloatArray,
        *,
        is_own: bool,
    ) -> Interval | None:
        """Return how much better `predictions` are than those of a model fitted to `records` alone.

        `is_own`: the records are themselves those that `predictions` are of.
        """
        scorer, (rows, labels), (features, of_tested) = self.scorer, records, tested
        if len(labels) < 2 or not fits(rows.shape[1]) or rows.shape[0] * rows.shape[1] > MOST_FITTED:
            return None
        spread = 1.0
        try:
            if is_own:
                spread = SPREAD
                rivals = out_of_fold(scorer.task, scorer.classes, rows, labels)
            else:
                rivals = fitted(scorer.task, scorer.classes, rows, labels)(dense(features))
        except np.linalg.LinAlgError:  # records that are no numbers
            return None
        if scorer.task is Task.TWO:
            gain = area_gain(predictions, np.nan_to_num(rivals), of_tested > 0.0)
            return None if gain is None else gain.wider(spread)
        guess = scorer.guess()
        guess.learn(of_tested)
        column = 2 if scorer.task is Task.NUMBERS else 0
        first = scorer.columns(predictions, of_tested, guess)[:, column]
        second = scorer.columns(np.nan_to_num(rivals), of_tested, guess)[:, column]
        gains = RunningMoments(1)
        gains.add((second - first if scorer.task is Task.NUMBERS else first - second)[:, None])
        gain = gains.estimate(0)
        return None if gain is None else gain.wider(spread)


def fixed_figures(scorer: LabelScorer, predictions: FloatArray, labels: FloatArray) -> Figures | None:
    """Return the scores of one fixed decision by its predictions; None without a record.

    The guess that they are compared with is by the labels of these records themselves.
    """
    if not labels.size:
        return None
    guess = scorer.guess()
    guess.learn(labels)
    moments = RunningMoments(4)
    moments.add(scorer.columns(predictions, labels, guess))
    if scorer.task is not Task.TWO:
        return scorer.figures(moments)
    positive = labels > 0.0
    positives = int(positive.sum())
    precision, chance = precisions(predictions, positive)
    has_both = 0 < positives < labels.size
    return replace(
        scorer.figures(moments),
        positives=positives,
        auc=area(predictions, positive),
        auprc=Interval(precision / positives) if has_both else None,
        auprc_chance=chance / positives if has_both else None,
    )


@np.errstate(all="ignore")
def figures_at(loss: Loss, decision: FloatArray, features: Rows, labels: FloatArray) -> Figures | None:
    """Return the scores of a decision (m,) on records (n, p) with labels (n,); None without a task."""
    if task_of(loss) is None:
        return None
    scorer = LabelScorer(loss)
    return fixed_figures(scorer, scorer.predictions(decision, features), labels)


def owner_score(node: MeshNode) -> OwnerScore | None:
    """Return an `OwnerScore` for this node's run from now on; None for a loss that predicts no label."""
    learner = node.learner
    if task_of(learner.loss) is None:
        return None
    epsilon, calibrated = learner.ledger.epsilon, learner.algorithm.rows is None
    noisy = epsilon is not None and calibrated and node.privacy.on == "gradient"
    return OwnerScore(
        learner.loss,
        learner.algorithm.observed,
        nodes=len(node.mesh.settings.nodes),
        private=epsilon is not None and epsilon <= HARMLESS,
        calibrated=calibrated,
        noise=node.noise_length if noisy else None,
        has_units=node.mesh.settings.privacy.unit is not None,
    )


def _size(features: Rows) -> int:
    return features.values.size if isinstance(features, SparseRows) else features.size


def _chosen(features: Rows, present: BoolArray) -> Rows:
    if present.all():
        return features
    if isinstance(features, SparseRows):
        rows = [features.row(k) for k in np.flatnonzero(present).tolist()]
        return SparseRows.of([(row.indices, row.values) for row in rows], features.dimension)
    return features[present]


def _compact(features: Rows) -> Rows:
    """Return rows as sparse rows if most of their numbers are 0, so that more rows fit in memory."""
    if isinstance(features, SparseRows) or 4 * np.count_nonzero(features) > features.size:
        return features
    return _sparse(features)


def _sparse(features: Rows) -> SparseRows:
    if isinstance(features, SparseRows):
        return features
    rows, columns = np.nonzero(features)
    indptr = np.searchsorted(rows, np.arange(len(features) + 1))
    return SparseRows(indptr, columns, features[rows, columns], features.shape[1])


def _joined(parts: list[Rows]) -> Rows:
    if not any(isinstance(part, SparseRows) for part in parts):
        return np.concatenate([dense(part) for part in parts])
    sparse = [_sparse(part) for part in parts]
    ends = np.cumsum([part.values.size for part in sparse])
    indptr = [part.indptr[1:] + end - part.values.size for part, end in zip(sparse, ends, strict=True)]
    return SparseRows(
        np.concatenate([np.zeros(1, np.int64), *indptr]),
        np.concatenate([part.indices for part in sparse]),
        np.concatenate([part.values for part in sparse]),
        sparse[0].dimension,
    )
