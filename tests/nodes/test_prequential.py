import math
from statistics import fmean

import numpy as np
import pytest

from nodes.losses.losses import (
    Absolute,
    Hinge,
    Huber,
    Linear,
    Logistic,
    RangeLoss,
    Softmax,
    Squared,
    Weighted,
)
from nodes.losses.own_loss import OwnLoss
from nodes.prequential import _BLOCK, LAST, LabelScorer, PageHinkley, Prequential, Task, task_of
from nodes.sparse import SparseRows
from nodes.values import Observations

WEIGHTED = Weighted(Hinge(), np.array([-1.0, 1.0]), np.array([1.0, 9.0]))


@pytest.mark.parametrize(
    ("loss", "task"),
    [
        (Hinge(), Task.TWO),
        (Logistic(), Task.TWO),
        (WEIGHTED, Task.TWO),
        (Softmax(3), Task.CLASSES),
        (Squared(), Task.NUMBERS),
        (Absolute(), Task.NUMBERS),
        (Huber(1.0), Task.NUMBERS),
        (Linear(), None),
        (RangeLoss(), None),
        (OwnLoss(Squared()), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_a_label_to_guess_has_a_task(loss, task):
    assert task_of(loss) == task
    if task is None:
        with pytest.raises(ValueError, match="predicts no label"):
            LabelScorer(loss)


def slots(random, loss, rounds, size, p=3):
    """Yield decisions and slots, some records of which are not there."""
    task = task_of(loss)
    classes = 3 if task is Task.CLASSES else 1
    for _ in range(rounds):
        features = random.normal(size=(size, p))
        signal = features[:, 0] + random.normal(size=size)
        if task is Task.TWO:
            labels = np.where(signal > 0.6, 1.0, -1.0)
        elif task is Task.CLASSES:
            labels = np.digitize(signal, [-0.5, 0.9]).astype(float)
        else:
            labels = signal + 4.0
        yield random.normal(size=classes * p), Observations(features, labels, random.random(size) < 0.9)


def by_hand(loss, run):
    """Return (accuracy, its gain, loss, its gain, pairs in order over pairs) record by record."""
    seen, rights, gains, losses, loss_gains, in_order, pairs = [], [], [], [], [], 0.0, 0
    for decision, (features, labels, present) in run:
        rows = [(a, y) for a, y, here in zip(features, labels, present, strict=True) if here]
        if seen:
            for a, y in rows:
                if isinstance(loss, Softmax):
                    scores = decision.reshape(3, -1) @ a
                    guess = max(range(3), key=lambda k: (seen.count(k), -k))
                    shares = [(seen.count(k) + 0.5) / (len(seen) + 1.5) for k in range(3)]
                    is_right, guessed = int(np.argmax(scores)) == y, guess == y
                    cost = math.log(sum(math.exp(s) for s in scores)) - scores[int(y)]
                    guess_cost = -math.log(shares[int(y)])
                elif task_of(loss) is Task.TWO:
                    s, many = decision @ a, sum(y > 0 for y in seen)
                    guess = 1.0 if many > len(seen) - many else -1.0
                    is_right, guessed = (1.0 if s > 0 else -1.0) == y, guess == y
                    share = ((many if y > 0 else len(seen) - many) + 0.5) / (len(seen) + 1.0)
                    cost, guess_cost = math.log1p(math.exp(-y * s)), -math.log(share)
                else:
                    is_right = guessed = False
                    power = 2 if isinstance(loss, Squared) else 1
                    cost, guess_cost = abs(decision @ a - y) ** power, abs(fmean(seen) - y) ** power
                rights.append(is_right)
                gains.append(int(is_right) - int(guessed))
                losses.append(cost)
                loss_gains.append(guess_cost - cost)
            for a, y in rows:
                for b, z in rows:
                    if y > 0 > z and task_of(loss) is Task.TWO:
                        in_order += decision @ a > decision @ b
                        pairs += 1
        seen += [y for _, y in rows]
    return len(rights), *map(fmean, (rights, gains, losses, loss_gains)), in_order / max(1, pairs)


@pytest.mark.parametrize("loss", [Logistic(), WEIGHTED, Softmax(3), Squared(), Absolute(), Huber(0.5)])
@pytest.mark.parametrize(("rounds", "size"), [(3, 12), (30, 5), (45, 1)])
def test_scores_by_hand(loss, rounds, size):
    run = list(slots(np.random.default_rng(1), loss, rounds, size))
    scores = Prequential(LabelScorer(loss))
    for decision, observations in run:
        scores.add(decision, observations)
    number, accuracy, gain, cost, cost_gain, area = by_hand(loss, run)
    figures, task = scores.figures(), task_of(loss)
    assert figures.records == number
    if task is Task.NUMBERS:
        assert figures.accuracy is figures.accuracy_gain is figures.auc is figures.positives is None
    else:
        assert figures.accuracy.value == pytest.approx(accuracy)
        assert figures.accuracy_gain.value == pytest.approx(gain)
    if loss is WEIGHTED:  # a hinge has no log loss
        assert figures.loss is figures.loss_gain is None
    else:
        assert figures.loss.value == pytest.approx(cost)
        assert figures.loss_gain.value == pytest.approx(cost_gain)
    if task is Task.TWO and size > 1:
        assert figures.auc.value == pytest.approx(area)
        assert (figures.auc.low is None) == (rounds < 20)
    else:  # of one record a round there are no pairs
        assert figures.auc is figures.auprc is figures.auprc_chance is None
    assert scores.last_figures() == pytest.approx(figures) or number > LAST


def test_a_decision_is_scored_before_it_has_learnt():
    """A decision that knows the slot's labels is not scored on them: the caller gives the one before."""
    scores = Prequential(LabelScorer(Squared()))
    for value in (1.0, 2.0, 3.0):
        scores.add(
            np.array([value - 1.0]), Observations(np.ones((1, 1)), np.array([value]), np.ones(1, bool))
        )
    assert scores.figures().records == 2  # the first slot tells the guess what there is
    assert scores.figures().loss.value == 1.0
    assert scores.figures().loss_gain.value == pytest.approx(fmean([1.0, 1.5**2]) - 1.0)


def test_slots_without_a_label_are_no_slots():
    scores = Prequential(LabelScorer(Logistic()))
    for size in (0, 4):
        none = Observations(np.zeros((size, 2)), np.zeros(size), np.zeros(size, bool))
        scores.add(np.zeros(2), none)
    assert scores.figures() is scores.last_figures() is None
    assert scores.rounds == 0


def test_scores_of_two_decisions_are_not_compared():
    """Pairs of one round are in order; those of two rounds are not: pooled, the area would be chance's."""
    scores, random = Prequential(LabelScorer(Logistic())), np.random.default_rng(3)
    for round in range(40):
        labels = np.where(random.random(20) < 0.5 * (round % 2) + 0.2, 1.0, -1.0)
        features = np.stack([labels + random.normal(size=20), np.ones(20)], -1)
        decision = np.array([1.0, 50.0 * ((round + 1) % 2)])  # larger where positives are rare
        scores.add(decision, Observations(features, labels, np.ones(20, bool)))
    assert scores.figures().auc.low > 0.85


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308])
@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Softmax(2), Squared(), Absolute()])
def test_no_record_makes_a_score_no_number(loss, value):
    scores = Prequential(LabelScorer(loss))
    for _ in range(40):
        observations = Observations(np.array([[value], [1.0]]), np.array([1.0, value]), np.ones(2, bool))
        scores.add(np.full(2 if isinstance(loss, Softmax) else 1, 1e10), observations)
    figures = scores.figures()
    estimates = (figures.accuracy, figures.accuracy_gain, figures.loss, figures.loss_gain, figures.auc)
    for estimate in estimates:
        assert estimate is None or math.isfinite(estimate.value)


def test_sparse_records_are_scored_as_the_same_ones_dense():
    random = np.random.default_rng(3)
    sparse_scores, dense_scores = (Prequential(LabelScorer(Logistic())) for _ in range(2))
    for _ in range(25):
        rows = SparseRows(np.arange(0, 21, 2), np.tile([1, 4, 0, 8], 5), random.normal(size=20), 9)
        labels, present = np.where(random.random(10) < 0.4, 1.0, -1.0), random.random(10) < 0.8
        decision = random.normal(size=9)
        sparse_scores.add(decision, Observations(rows, labels, present))
        dense_scores.add(decision, Observations(rows.dense(), labels, present))
    assert sparse_scores.figures() == dense_scores.figures()


def test_memory_does_not_grow_with_records():
    scores, random = Prequential(LabelScorer(Logistic())), np.random.default_rng(4)
    for decision, observations in slots(random, Logistic(), 3_000, 2):
        scores.add(decision, observations)
    assert sum(len(scored.columns) for scored in scores._last) < LAST + _BLOCK
    assert scores._waiting_records < _BLOCK
    assert scores.last_figures().records >= LAST
    assert len(scores._blocks._sums) <= 40


@pytest.mark.parametrize("loss", [Logistic(), Softmax(3), Squared()])
def test_scores_are_the_same_however_often_they_are_read(loss):
    often, rarely = (Prequential(LabelScorer(loss)) for _ in range(2))
    for k, (decision, observations) in enumerate(slots(np.random.default_rng(7), loss, 700, 9)):
        often.add(decision, observations)
        rarely.add(decision, observations)
        if not k % 13:
            often.figures()
    assert rarely._waiting_records
    for read, expected in (
        (often.figures(), rarely.figures()),
        (often.last_figures(), rarely.last_figures()),
    ):
        assert flat(read) == pytest.approx(flat(expected), nan_ok=True)
    assert often.last_figures().records < LAST + 9
    assert often.alarms == rarely.alarms


def flat(figures):
    """Return the numbers of figures, NaN for one that is not there."""
    numbers = [figures.records]
    for name in ("accuracy", "accuracy_gain", "loss", "loss_gain", "auc", "auprc"):
        interval = getattr(figures, name)
        ends = (None,) * 3 if interval is None else (interval.value, interval.low, interval.high)
        numbers += [math.nan if end is None else end for end in ends]
    return numbers


def test_the_last_records_are_apart_from_all():
    scores = Prequential(LabelScorer(Squared()))
    for k in range(30):
        labels = np.full(100, 1.0 if k < 15 else 3.0)
        scores.add(np.ones(1), Observations(np.ones((100, 1)), labels, np.ones(100, bool)))
    assert scores.figures().loss.value == pytest.approx(4.0 * 1500 / 2900)
    assert scores.last_figures().loss.value == 4.0
    assert scores.last_figures().records == LAST


def hinkley(values, allowance=0.25, threshold=25.0):
    """Return where the mean has risen, by definition over all prefixes."""
    alarms, first, total, least = [], 0, 0.0, 0.0
    for k, value in enumerate(values):
        past = values[first:k]
        if len(past) >= 30 and np.std(past) > 0.0:
            total += (value - np.mean(past)) / np.std(past, ddof=1) - allowance
            least = min(least, total)
        if total - least > threshold:
            alarms.append(k)
            first, total, least = k + 1, 0.0, 0.0
    return alarms


def test_drift_by_definition():
    random = np.random.default_rng(5)
    values = np.concatenate([random.normal(size=300), random.normal(size=200) + 1.0, np.full(60, 0.5)])
    test, alarms = PageHinkley(), []
    for k, value in enumerate(values):
        if test.add(value):
            alarms.append(k)
    assert alarms == hinkley(values)
    assert len(alarms) == test.alarms >= 1
    assert 300 < alarms[0] < 400


def test_what_does_not_drift_raises_no_alarm():
    random, tests = np.random.default_rng(6), [PageHinkley() for _ in range(20)]
    for test in tests:
        for value in random.normal(size=1_000) - np.linspace(0.0, 2.0, 1_000):  # it learns
            test.add(value)
        test.add(-2.0)
    assert sum(test.alarms for test in tests) == 0
