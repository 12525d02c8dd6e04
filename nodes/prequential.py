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

from nodes.intervals import LEAST_RECORDS, Blocks, Interval, RunningMoments, ranked_slots
from nodes.losses.evaluation import curve_of, predicted, unweighted
from nodes.losses.losses import Absolute, Hinge, Huber, Logistic, Loss, Softmax, Squared
from nodes.sparse import Rows
from nodes.values import BoolArray, FloatArray, IntArray, Observations

LAST = 1_000
"""The last records, in whole slots, whose scores stand beside those of all."""
_BLOCK = 4 * LAST
"""The records that are scored at once: a slot alone has few, and each numpy call costs a microsecond."""
_LARGEST = 1e100  # a loss above it, or none, counts as this: squares of it are numbers still
_AREA, _PRECISION, _CHANCE = range(3)


class Task(StrEnum):
    """What a loss predicts."""

    TWO = "two classes"
    CLASSES = "classes"
    NUMBERS = "numbers"


def task_of(loss: Loss) -> Task | None:
    """Return what the loss predicts; None if it predicts no label, or is an own loss."""
    match curve_of(loss):
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
class _Scored:
    """The scores of S slots in a row, of n records in all.

    `sizes`, `positives`: records of each slot, and positive ones. `columns` (n, 4): see
    `LabelScorer.columns`. `parts`, `weights` (S, 3): sums of pairs and precisions.
    """

    sizes: IntArray
    positives: IntArray
    columns: FloatArray
    parts: FloatArray
    weights: FloatArray

    def last(self, slots: int) -> "_Scored":
        """Return the last slots, at least one."""
        records = int(self.sizes[-slots:].sum())
        return _Scored(
            self.sizes[-slots:],
            self.positives[-slots:],
            self.columns[-records:],
            self.parts[-slots:],
            self.weights[-slots:],
        )


class Guess:
    """Guesses the commonest class, the classes' shares, or the mean, by all labels so far."""

    def __init__(self, task: Task, classes: int = 2) -> None:
        self._task = task
        self.number = 0
        self._slot: IntArray | int = 0  # of each record, the row of the labels before it
        self._means, self._counts = np.zeros(1), np.zeros((1, classes))

    def learn(self, labels: FloatArray) -> None:
        """Count labels (n,). Of two classes, the positive class has the labels above 0."""
        if labels.size:
            self.before(labels, np.array([labels.size]))

    def before(self, labels: FloatArray, sizes: IntArray) -> "Guess":
        """Count the labels (n,) of slots of `sizes` (S,); return the guesses before each slot."""
        guesses = Guess(self._task, self._counts.shape[1])
        slots = len(sizes)
        guesses._slot = np.repeat(np.arange(slots), sizes)
        if self._task is Task.NUMBERS:
            sums = np.add.reduceat(labels - self._means[0], np.add.accumulate(sizes) - sizes)
            numbers = self.number + np.add.accumulate(sizes)
            means = self._means[0] + np.add.accumulate(sums) / numbers
            guesses._means, self._means = np.concatenate([self._means, means[:-1]]), means[-1:]
        else:
            classes = self._counts.shape[1]
            places = guesses._slot * classes + self._kinds(labels)
            counts = np.bincount(places, minlength=slots * classes).reshape(slots, classes)
            totals = self._counts + np.add.accumulate(counts)
            guesses._counts, self._counts = np.concatenate([self._counts, totals[:-1]]), totals[-1:]
        self.number += labels.size
        return guesses

    def right(self, labels: FloatArray) -> FloatArray:
        """Return 1 for each label that is the commonest class, else 0."""
        is_commonest: BoolArray = self._kinds(labels) == np.argmax(self._counts, -1)[self._slot]
        return is_commonest.astype(np.float64)

    def shares(self, labels: FloatArray) -> FloatArray:
        """Return the log loss of guessing the classes' shares (Krichevsky, Trofimov 1981)."""
        counts = self._counts + 0.5
        losses: FloatArray = -np.log(counts / counts.sum(-1, keepdims=True))[self._slot, self._kinds(labels)]
        return losses

    def numbers(self, labels: FloatArray) -> FloatArray:
        """Return the mean so far, as the prediction of each label."""
        return np.broadcast_to(self._means[self._slot], labels.shape)

    def _kinds(self, labels: FloatArray) -> IntArray:
        if self._task is Task.TWO:
            return (labels > 0.0).astype(np.int64)
        return np.clip(np.nan_to_num(labels), 0, self._counts.shape[1] - 1).astype(np.int64)


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
        return _finite(self.scores(decision, features))

    def scores(self, decision: FloatArray, features: Rows) -> FloatArray:
        """Return `predictions` as they are computed, which may be no numbers."""
        loss = self.loss
        if isinstance(loss, Softmax):
            return loss.scores(decision, features)
        return predicted(loss, decision, features)

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
        return residuals * residuals if isinstance(curve_of(self.loss), Squared) else np.abs(residuals)


class Prequential:
    """The scores of one owner's records, slot by slot; computed for many slots at once."""

    def __init__(self, scorer: LabelScorer) -> None:
        self._scorer, self._guess = scorer, scorer.guess()
        self._all, self._positives, self._blocks = RunningMoments(4), 0, Blocks()
        self._waiting: list[tuple[FloatArray, FloatArray]] = []
        self._waiting_records = 0
        self._last: deque[_Scored] = deque()
        self._drift = PageHinkley()
        self.rounds = 0

    @np.errstate(all="ignore")  # data may overflow, and a warning would show it
    def add(self, decision: FloatArray, observations: Observations) -> None:
        """Score a slot's records by the decision made before the slot: the part that the loss sees, (m,)."""
        features, labels, present = observations
        is_whole = bool(present.all())
        labels = labels if is_whole else labels[present]
        if not labels.size:
            return
        if not self._guess.number:
            self._guess.learn(labels)
            return
        scores = self._scorer.scores(decision, features)
        self._waiting.append((scores if is_whole else scores[present], labels))
        self._waiting_records += labels.size
        self.rounds += 1
        if self._waiting_records >= _BLOCK:
            self._score()

    @np.errstate(all="ignore")
    def _score(self) -> None:
        """Score the slots that wait."""
        if not self._waiting:
            return
        scores, labels = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        sizes = np.array([of_slot.size for _, of_slot in self._waiting])
        self._waiting, self._waiting_records = [], 0
        predictions = _finite(scores)
        columns = self._scorer.columns(predictions, labels, self._guess.before(labels, sizes))
        starts = np.add.accumulate(sizes) - sizes
        positives, parts = np.zeros(len(sizes), np.int64), np.zeros((len(sizes), 3))
        weights = np.zeros_like(parts)
        if self._scorer.task is Task.TWO:
            positive = labels > 0.0
            positives = np.add.reduceat(positive, starts, dtype=np.int64)
            parts = ranked_slots(predictions, positive, sizes)
            has_both = (positives > 0) & (positives < sizes)
            weights = np.stack([positives * (sizes - positives), positives, positives], 1) * has_both[:, None]
        self._all.add(columns)
        self._positives += int(positives.sum())
        self._blocks.extend(parts, weights)
        measure = columns[:, 2] if self._scorer.has_losses else 1.0 - columns[:, 0]
        for value in (np.add.reduceat(measure, starts) / sizes).tolist():
            self._drift.add(value)
        self._last.append(_Scored(sizes, positives, columns, parts, weights))
        while sum(len(scored.columns) for scored in self._last) - len(self._last[0].columns) >= LAST:
            self._last.popleft()

    @property
    def alarms(self) -> int:
        """How often a lasting rise of the loss was detected."""
        self._score()
        return self._drift.alarms

    def figures(self) -> Figures | None:
        """Return the scores of all records; None if none was scored."""
        self._score()
        return _figures(self._scorer, self._all, self._positives, self._blocks)

    def last_figures(self) -> Figures | None:
        """Return the scores of the last whole slots that have at least `LAST` records, or of all if fewer."""
        self._score()
        moments, blocks, positives, records = RunningMoments(4), Blocks(), 0, 0
        parts: list[_Scored] = []
        for scored in reversed(self._last):
            before = np.add.accumulate(scored.sizes[::-1]) - scored.sizes[::-1] + records
            slots = int((before < LAST).sum())
            if slots:
                parts.append(scored.last(slots))
                records += len(parts[-1].columns)
        for part in reversed(parts):
            moments.add(part.columns)
            blocks.extend(part.parts, part.weights)
            positives += int(part.positives.sum())
        return _figures(self._scorer, moments, positives, blocks)


def _finite(scores: FloatArray) -> FloatArray:
    """Return scores with 0 in place of NaN, and ends in place of infinite ones."""
    if math.isfinite(np.add.reduce(scores, None)):
        return scores
    return np.nan_to_num(scores, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)


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
