"""Scores decisions on records before the records are learnt from (Dawid 1984), and compares with a guess.

A slot's records are scored by the decision that was made before the slot. The guess is the commonest class,
the share of each class, or the mean, by the labels of all earlier slots. The first slot with a label is not
scored, as neither the decision nor the guess has anything to go by. Scores depend on records, so they are
for the owner alone. Memory does not grow with the number of records.

| loss | task | scores |
|---|---|---|
| hinge, logistic | two classes | accuracy, logistic: log loss; AUC, AUPRC of pairs within a round |
| softmax | classes | accuracy, log loss |
| squared | numbers | squared error |
| absolute, Huber | numbers | absolute error |
| others | none | none |

AUC and AUPRC use pairs of records of one round, as scores by two decisions do not compare: one decision's
scores may all be the larger ones.
"""

import math
from collections import deque
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from nodes.intervals import LEAST_RECORDS, Blocks, Interval, RunningMoments, ranked
from nodes.losses.evaluation import predicted, unweighted
from nodes.losses.losses import Absolute, Hinge, Huber, Logistic, Loss, Softmax, Squared
from nodes.sparse import Rows
from nodes.values import BoolArray, FloatArray, IntArray, Observations

LAST = 1_000
"""The last records, in whole slots, whose scores stand beside those of all."""
_LARGEST = 1e100  # a loss above it, or none, counts as this: squares of it are numbers still
_AREA, _PRECISION, _CHANCE = range(3)


class Task(StrEnum):
    """What a loss predicts."""

    TWO = "two classes"
    CLASSES = "classes"
    NUMBERS = "numbers"


def task_of(loss: Loss) -> Task | None:
    """Return what the loss predicts; None if it predicts no label, or is an own loss."""
    match unweighted(loss):
        case Hinge() | Logistic():
            return Task.TWO
        case Softmax():
            return Task.CLASSES
        case Absolute() | Huber() | Squared():
            return Task.NUMBERS
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Figures:
    """Scores over records, each with its interval. Scores that the task does not have are None.

    `accuracy_gain`, `loss_gain`: the advantage over the guess, above 0 where the decision is better. `loss`:
    the mean log loss in nats, or the mean squared or absolute error. `auprc_chance`: the AUPRC of a ranking
    by chance.
    """

    task: Task
    records: int
    positives: int | None = None
    accuracy: Interval | None = None
    accuracy_gain: Interval | None = None
    loss: Interval | None = None
    loss_gain: Interval | None = None
    auc: Interval | None = None
    auprc: Interval | None = None
    auprc_chance: float | None = None

    @property
    def ranks(self) -> bool:
        """Whether the AUC has an interval. For two classes the AUC is the most telling score."""
        return self.auc is not None and self.auc.low is not None

    @property
    def against_chance(self) -> tuple[str, int] | None:
        """The deciding score's name, and 1 if it is better than guessing, 0 if undecided, -1 if worse.

        Undecided means that the score's interval contains the value of guessing. For two classes the AUC
        decides, where it has an interval, as accuracy says nothing of a rare class. None where no score has
        an interval.
        """
        for name, estimate, chance in (
            ("AUC", self.auc, 0.5),
            ("accuracy", self.accuracy_gain, 0.0),
            ("error", self.loss_gain if self.task is Task.NUMBERS else None, 0.0),
        ):
            side = None if estimate is None else estimate.side_of(chance)
            if side is not None:
                return name, side
        return None


@dataclass(frozen=True, slots=True)
class _Slot:
    """A slot's scores: moments of the columns of `LabelScorer.columns`, and sums of pairs and precisions."""

    number: int
    positives: int
    means: FloatArray
    squares: FloatArray
    parts: FloatArray
    weights: FloatArray


class Guess:
    """Guesses the commonest class, the classes' shares, or the mean, by all labels so far."""

    def __init__(self, task: Task, classes: int = 2) -> None:
        self._task = task
        self.number, self._mean = 0, 0.0
        self._counts = np.zeros(classes)

    def learn(self, labels: FloatArray) -> None:
        """Count labels (n,). Of two classes, the positive class has the labels above 0."""
        if not labels.size:
            return
        self.number += labels.size
        if self._task is Task.NUMBERS:
            self._mean += float((labels - self._mean).sum()) / self.number
        else:
            kinds = self._kinds(labels)
            self._counts += np.bincount(kinds, minlength=self._counts.size)[: self._counts.size]

    def right(self, labels: FloatArray) -> FloatArray:
        """Return 1 for each label that is the commonest class, else 0."""
        is_commonest: BoolArray = self._kinds(labels) == int(np.argmax(self._counts))
        return is_commonest.astype(np.float64)

    def shares(self, labels: FloatArray) -> FloatArray:
        """Return the log loss of guessing the classes' shares (Krichevsky, Trofimov 1981)."""
        shares = (self._counts + 0.5) / (self._counts.sum() + self._counts.size / 2)
        losses: FloatArray = -np.log(shares)[self._kinds(labels)]
        return losses

    def numbers(self, labels: FloatArray) -> FloatArray:
        """Return the mean so far, as the prediction of each label."""
        return np.full(labels.shape, self._mean)

    def _kinds(self, labels: FloatArray) -> IntArray:
        if self._task is Task.TWO:
            return (labels > 0.0).astype(np.int64)
        return np.clip(np.nan_to_num(labels), 0, self._counts.size - 1).astype(np.int64)


class LabelScorer:
    """Scores a decision on records (n, p) with labels (n,), for losses that have a task.

    `calibrated`: whether the decision minimises the loss. If not, its log loss has no meaning and is left
    out. Raises ValueError for a loss without a task.
    """

    def __init__(self, loss: Loss, *, calibrated: bool = True) -> None:
        task, loss = task_of(loss), unweighted(loss)
        if task is None:
            raise ValueError("the loss predicts no label")
        self.task, self.loss = task, loss
        self.classes = loss.classes if isinstance(loss, Softmax) else 2
        self.has_losses = task is Task.NUMBERS or (calibrated and isinstance(loss, Logistic | Softmax))

    def guess(self) -> Guess:
        """Return a guess that knows no label yet."""
        return Guess(self.task, self.classes)

    def predictions(self, decision: FloatArray, features: Rows) -> FloatArray:
        """Return the predictions (n,), or the classes' scores (n, C); NaN becomes 0."""
        loss = self.loss
        scores = (
            loss.scores(decision, features)
            if isinstance(loss, Softmax)
            else predicted(loss, decision, features)
        )
        if math.isfinite(np.add.reduce(scores, None)):
            return scores
        return np.nan_to_num(scores, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)

    def columns(self, predictions: FloatArray, labels: FloatArray, guess: Guess) -> FloatArray:
        """Return for each record: 1 if right, the gain of that, the loss, the gain of that; shape (n, 4)."""
        columns = np.zeros((labels.size, 4))
        if self.task is not Task.NUMBERS:
            columns[:, 0] = self._right(predictions, labels)
            columns[:, 1] = columns[:, 0] - guess.right(labels)
        if self.has_losses:
            losses = self._losses(predictions, labels)
            columns[:, 2] = _bounded(losses)
            columns[:, 3] = _bounded(self._guessed(labels, guess)) - columns[:, 2]
        return columns

    def figures(self, moments: RunningMoments) -> Figures:
        """Return the scores that are means of `columns`; a ranking's are not."""
        classes, losses = self.task is not Task.NUMBERS, self.has_losses
        return Figures(
            self.task,
            moments.number,
            accuracy=moments.estimate(0) if classes else None,
            accuracy_gain=moments.estimate(1) if classes else None,
            loss=moments.estimate(2) if losses else None,
            loss_gain=moments.estimate(3) if losses else None,
        )

    def _right(self, predictions: FloatArray, labels: FloatArray) -> FloatArray:
        is_right: BoolArray = (
            (predictions > 0.0) == (labels > 0.0)
            if self.task is Task.TWO
            else np.argmax(predictions, -1) == labels
        )
        return is_right.astype(np.float64)

    def _losses(self, predictions: FloatArray, labels: FloatArray) -> FloatArray:
        if self.task is Task.NUMBERS:
            return self._errors(predictions - labels)
        if self.task is Task.TWO:
            losses: FloatArray = np.logaddexp(0.0, -np.sign(labels) * predictions)
            return losses
        classes = np.clip(np.nan_to_num(labels), 0, self.classes - 1).astype(np.int64)
        totals: FloatArray = np.logaddexp.reduce(predictions, -1)
        return totals - predictions[np.arange(labels.size), classes]

    def _guessed(self, labels: FloatArray, guess: Guess) -> FloatArray:
        return (
            self._errors(guess.numbers(labels) - labels)
            if self.task is Task.NUMBERS
            else guess.shares(labels)
        )

    def _errors(self, residuals: FloatArray) -> FloatArray:
        return residuals * residuals if isinstance(self.loss, Squared) else np.abs(residuals)


class Prequential:
    """The scores of one owner's records, slot by slot."""

    def __init__(self, scorer: LabelScorer) -> None:
        self._scorer, self._guess = scorer, scorer.guess()
        self._all, self._positives, self._blocks = RunningMoments(4), 0, Blocks()
        self._last: deque[_Slot] = deque()
        self._last_records = 0
        self.rounds = 0
        self.drift = PageHinkley()

    @np.errstate(all="ignore")  # data may overflow, and a warning would show it
    def add(self, decision: FloatArray, observations: Observations) -> None:
        """Score a slot's records by the decision made before the slot: the part that the loss sees, (m,)."""
        present = observations.present
        labels = observations.labels[present]
        if not labels.size:
            return
        if self._guess.number:
            predictions = self._scorer.predictions(decision, observations.features)[present]
            self._count(self._slot(predictions, labels))
        self._guess.learn(labels)

    def _slot(self, predictions: FloatArray, labels: FloatArray) -> _Slot:
        columns = self._scorer.columns(predictions, labels, self._guess)
        means = columns.mean(0)
        squares = ((columns - means) ** 2).sum(0)
        parts, weights, positives = np.zeros(3), np.zeros(3), 0
        if self._scorer.task is Task.TWO:
            positive = labels > 0.0
            positives = int(positive.sum())
            pairs = positives * (labels.size - positives)
            if pairs:
                parts[:] = ranked(predictions, positive)
                weights[:] = pairs, positives, positives
        return _Slot(labels.size, positives, means, squares, parts, weights)

    def _count(self, slot: _Slot) -> None:
        self.rounds += 1
        self._all.merge(slot.number, slot.means, slot.squares)
        self._positives += slot.positives
        self._blocks.add(slot.parts, slot.weights)
        measure = slot.means[2] if self._scorer.has_losses else 1.0 - slot.means[0]
        self.drift.add(float(measure))
        self._last.append(slot)
        self._last_records += slot.number
        while self._last_records - self._last[0].number >= LAST:
            self._last_records -= self._last.popleft().number

    def figures(self) -> Figures | None:
        """Return the scores of all records; None if none was scored."""
        return _figures(self._scorer, self._all, self._positives, self._blocks)

    def last_figures(self) -> Figures | None:
        """Return the scores of the last whole slots that have at least `LAST` records, or of all if fewer."""
        moments, blocks = RunningMoments(4), Blocks()
        for slot in self._last:
            moments.merge(slot.number, slot.means, slot.squares)
            blocks.add(slot.parts, slot.weights)
        return _figures(self._scorer, moments, sum(slot.positives for slot in self._last), blocks)


def _figures(scorer: LabelScorer, moments: RunningMoments, positives: int, blocks: Blocks) -> Figures | None:
    if not moments.number:
        return None
    if scorer.task is not Task.TWO:
        return scorer.figures(moments)
    chance = blocks.estimate(_CHANCE)
    return replace(
        scorer.figures(moments),
        positives=positives,
        auc=blocks.estimate(_AREA),
        auprc=blocks.estimate(_PRECISION),
        auprc_chance=None if chance is None else chance.value,
    )


def _bounded(losses: FloatArray) -> FloatArray:
    if np.add.reduce(np.abs(losses)) <= _LARGEST:
        return losses
    return np.nan_to_num(np.minimum(losses, _LARGEST), nan=_LARGEST)


class PageHinkley:
    """Detects that the mean of the slots' losses has risen (Page 1954; Gama et al. 2013, section 3.2).

    From each value the mean so far is subtracted; the difference is divided by the standard deviation so far,
    and the allowance is subtracted. An alarm is raised when the sum of these numbers exceeds its minimum so
    far by more than the threshold.
    """

    ALLOWANCE, THRESHOLD = 0.25, 25.0

    def __init__(self) -> None:
        self._number, self._mean, self._squares = 0, 0.0, 0.0
        self._sum = self._least = 0.0
        self.alarms = 0

    def add(self, value: float) -> bool:
        """Add a slot's mean loss; return whether it raises an alarm. An alarm resets the detector."""
        away = value - self._mean
        if self._number >= LEAST_RECORDS and self._squares > 0.0:
            self._sum += away / math.sqrt(self._squares / (self._number - 1)) - self.ALLOWANCE
            self._least = min(self._least, self._sum)
        self._number += 1
        self._mean += away / self._number
        self._squares += away * (value - self._mean)  # Welford 1962
        if self._sum - self._least <= self.THRESHOLD:
            return False
        self._number, self._mean, self._squares = 0, 0.0, 0.0
        self._sum = self._least = 0.0
        self.alarms += 1
        return True
