"""What a node's process shows its owner of how well it predicts, and that nobody else sees it."""

from math import isnan

import numpy as np
import pytest

from nodes.losses.losses import Hinge, Squared
from nodes.machine.events import Decided, Scored
from nodes.privacy.private import Private
from nodes.values import Decision, Observations, Release
from streams.metrics.verdict import OwnerScore
from streams.state.folder import StateFolder, read_verdict, write_verdict
from tests.support.nodes.machines import learner
from tests.support.nodes.metrics import metrics, private, shown, told

RIGHT = Decision(np.array([1.0, 0.0]))


def reports(rounds, sign=1.0, loss=Hinge):
    random = np.random.default_rng(0)
    for round in range(1, rounds + 1):
        rows = random.normal(size=(20, 2))
        labels = np.sign(rows[:, 0] + random.normal(size=20)) * sign
        observations = Observations(rows, labels, np.ones(20, bool))
        nothing = Private(np.zeros(2)), Private(0), Private(0)
        yield Decided(round, RIGHT, Release(np.zeros(2)), ())
        yield Scored(round, RIGHT, Private(observations), *nothing)


def figures_of(loss, *, private=True):
    score = OwnerScore(loss, lambda x: x, private=private)
    return metrics(learner(loss=loss), score=score, clock=lambda: 1.0, steady=lambda: 1.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_owner_sees_how_well_records_were_predicted(sign):
    figures = figures_of(Hinge())
    assert isnan(private(figures, "before_learning_auc", "value"))
    told(figures, reports(10, sign))
    value = private(figures, "before_learning_auc", "value")
    assert (value > 0.5) == (sign > 0)
    assert isnan(private(figures, "before_learning_auc", "least"))  # of too few rounds
    assert private(figures, "before_learning_gain", "least") < private(
        figures, "before_learning_gain", "value"
    )
    told(figures, reports(30, sign))
    least, greatest = (private(figures, "before_learning_auc", end) for end in ("least", "greatest"))
    assert least < greatest
    assert least > 0.5 if sign > 0 else greatest < 0.5
    assert private(figures, "loss_rises_total") == 0


def test_nobody_else_sees_them():
    one, other = figures_of(Hinge()), figures_of(Hinge())
    told(one, reports(30))
    told(other, reports(30, -1.0))
    of_time = ("last_round_timestamp", "build")
    kept = [
        {key: value for key, value in shown(figures.shared).items() if not any(t in key[0] for t in of_time)}
        for figures in (one, other)
    ]
    assert str(kept[0]) == str(kept[1])
    assert not any("before_learning" in name or "rises" in name for name, *_ in kept[0])
    assert one.verdict()["judgement"] != other.verdict()["judgement"]


def test_where_there_is_no_label_nothing_is_shown():
    figures = metrics()  # its loss is a distance
    told(figures, reports(3))
    assert not any("before_learning" in name or "rises" in name for name, *_ in shown(figures.private))
    assert figures.verdict() is None


def test_numbers_have_no_ranking():
    figures = figures_of(Squared())
    told(figures, reports(30))
    assert not any("before_learning_auc" in name for name, *_ in shown(figures.private))
    assert private(figures, "before_learning_gain", "least") > 0.0


def test_the_verdict_is_the_owners_file(tmp_path):
    figures = figures_of(Hinge())
    write_verdict(tmp_path, "a", "run-1", figures.verdict())  # of no round: none
    assert read_verdict(tmp_path, "a", "run-1") is None
    told(figures, reports(30))
    write_verdict(tmp_path, "a", "run-1", figures.verdict())
    path = StateFolder(tmp_path).verdict("a")
    assert path.stat().st_mode & 0o077 == 0
    assert read_verdict(tmp_path, "a", "run-1")["judgement"].startswith("better than guessing: AUC 0.")
    assert read_verdict(tmp_path, "a", "run-2") is None
    assert read_verdict(tmp_path, "b", "run-1") is None
    path.write_text("{")
    assert read_verdict(tmp_path, "a", "run-1") is None
