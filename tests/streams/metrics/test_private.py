"""What a node's owner alone may see, and that nobody else does."""

from dataclasses import replace
from math import inf, isnan, nan

import numpy as np
import pytest

from nodes.losses.losses import Hinge
from nodes.losses.own_loss import OwnLoss
from nodes.machine.events import Scored
from nodes.privacy.private import Private
from nodes.values import Decision, Observations
from streams.metrics.private import MOST, DataCounts, LabelCounts
from streams.records.faults import NotARecord
from tests.support.meshes.classes import MOMENTS, tree_of
from tests.support.meshes.files import changed, loaded
from tests.support.meshes.following import PLACES, following
from tests.support.nodes.machines import learner
from tests.support.nodes.metrics import metrics, private, shown, told


def scored(values, *, present=True, gradient=(1.0, 0.0), clipped=0, broken=0, count=1, truth=None):
    observations = Observations(np.full((count, 2), values), np.full(count, values), np.full(count, present))
    return Scored(
        1,
        Decision(np.array([2.0, 0.0])),
        Private(observations),
        Private(np.array(gradient)),
        Private(clipped),
        Private(broken),
        Private(None if truth is None else np.array(truth)),
    )


@pytest.mark.parametrize(
    "report",
    [
        scored(1e6, clipped=1),
        scored(nan, gradient=(nan, inf), broken=1),
        scored(0.0, present=False, count=100),
        scored(0.0, count=0),
        scored(-1.0, gradient=(1e300, 1e300)),
        scored(0.0, gradient=(0.0, 0.0), truth=(5.0, 4.0)),
    ],
    ids=["large", "broken", "malformed", "empty", "immense", "tracked"],
)
def test_nothing_of_the_data_moves_a_shared_sample(report):
    counts = DataCounts()
    figures = metrics(learner(private=True), counts=lambda: Private(counts), truth=True)
    before, private_before = shown(figures.shared), shown(figures.private)
    told(figures, [report])
    counts.late = counts.early = counts.overfull = counts.lost = 7
    assert shown(figures.shared) == before
    moved = {name for (name, *_), value in shown(figures.private).items() if _of_data(name, value)}
    assert moved  # the owner does see it
    assert not any(_of_data(name, value) for (name, *_), value in private_before.items())


def _of_data(name, value):
    public = ("process", "decision", "journal_bytes", "certificate")
    return not any(word in name for word in public) and value != 0 and not isnan(value)


def test_what_a_slot_says_is_counted_for_its_owner():
    figures = metrics()
    told(figures, [scored(1.0, gradient=(1.0, 0.0), clipped=2, broken=1, count=3)])
    told(figures, [scored(1.0, present=False, gradient=(0.0, 0.0), count=4)])
    told(figures, [scored(1.0, gradient=(0.0, 0.0), count=0)])
    counted = ("records", "clipped_gradients", "broken_gradients", "empty_slots")
    assert [private(figures, f"{name}_total") for name in counted] == [7, 2, 1, 1]
    assert private(figures, "regret") == 2 + 100  # <g, x> + support(-g) on the ball of radius 100
    assert private(figures, "regret_average") == 34


def test_the_owner_alone_sees_what_came_of_labels_that_come_later():
    counts = LabelCounts(came=5, unreadable=2, late=3, unmatched=1, held_up=6)
    figures = metrics(labels=lambda: Private(counts))
    fates = ("came", "unreadable", "late", "unmatched")
    assert [private(figures, "later_labels_total", fate) for fate in fates] == [5, 2, 3, 1]
    assert private(figures, "records_held_up") == 6
    assert "later_labels" not in str(shown(figures.shared))
    assert "held_up" not in str(shown(figures.shared))
    assert "later_labels" not in str(shown(metrics().private))


def test_sums_of_records_have_no_regret_and_as_many_coordinates_as_a_decision(tmp_path):
    learner_of_sums = loaded(tmp_path, tree_of(tmp_path, MOMENTS)).resolved.node("a").learner
    figures = metrics(learner_of_sums)
    names = [name for name, *_ in shown(figures.private)]
    assert not any("regret" in name for name in names)
    assert names.count("mirrormesh_decision") == 3 < learner_of_sums.algorithm.dimension
    report = scored(0.5, gradient=(0.0, 0.0, 0.0))
    observations = Observations(np.full((1, 3), 0.5), np.ones(1), np.ones(1, np.bool_))
    told(figures, [report._replace(decision=Decision(np.ones(3)), observations=Private(observations))])
    assert private(figures, "records_total") == 1


def test_who_follows_by_public_directions_has_an_error_and_no_regret(tmp_path):
    follower = loaded(tmp_path, following(changed())).resolved.node("a").learner
    figures = metrics(follower, truth=True)
    assert not any("regret" in name for name, *_ in shown(figures.private))
    observations = Observations(np.zeros((1, 0)), np.array([2.0]), np.ones(1, np.bool_))
    report = scored(0.5, gradient=(0.0, 0.0), truth=(5.0, 4.0))
    decision = Decision(np.array([2.0, 0.0, 0.1, 0.1]))
    told(figures, [report._replace(decision=decision, observations=Private(observations))])
    assert private(figures, "tracking_error") == 5.0
    distance = np.hypot(2.0 - PLACES["a"][0], PLACES["a"][1])
    assert private(figures, "loss_average") == pytest.approx((distance - 2.0) ** 2 / 2)


def test_the_owner_alone_sees_whether_the_schema_registry_answers():
    answers = True
    figures = metrics(registry=lambda: answers)
    assert private(figures, "registry_answers") == 1
    answers = False
    assert private(figures, "registry_answers") == 0
    assert "registry" not in str(shown(figures.shared))
    assert "registry" not in str(shown(metrics().private))


def test_calls_of_an_own_loss_that_fail_are_counted_for_its_owner_alone():
    own = OwnLoss(Hinge())
    figures = metrics(replace(learner(), loss=own))
    before = shown(figures.shared)
    own.value(np.zeros(2), Observations(np.ones((1, 3)), np.ones(1), np.ones(1, bool)))  # 3 features of 2
    assert private(figures, "own_loss_failures_total") == 1
    assert shown(figures.shared) == before
    assert private(metrics(), "own_loss_failures_total") == 0


def test_the_target_is_the_last_slots_and_its_distance_from_the_decision_the_error():
    figures = metrics(truth=True)
    assert all(map(isnan, tracked(figures)))
    told(figures, [scored(1.0, truth=(5.0, 4.0))])  # the decision is (2, 0)
    assert tracked(figures) == [5, 4, 5]
    told(figures, [scored(1.0, truth=(1e308, -1e308))])
    assert tracked(figures) == [1e308, -1e308, pytest.approx(2**0.5 * 1e308)]
    told(figures, [scored(1.0)])
    assert all(map(isnan, tracked(figures)))


def tracked(figures):
    coordinates = [private(figures, "target", str(number)) for number in (0, 1)]
    return [*coordinates, private(figures, "tracking_error")]


def quantiles(figures):
    return [private(figures, "tracking_error_minute", share) for share in ("50", "95")]


def test_quantiles_of_the_error_are_over_the_last_minute():
    now = [0.0]
    figures = metrics(truth=True, steady=lambda: now[0])
    assert all(map(isnan, quantiles(figures)))
    for k in range(21):  # errors 0, 1, ..., 20: the decision is (2, 0)
        told(figures, [scored(1.0, truth=(2.0, float(k)))])
    assert quantiles(figures) == [10, 19]
    now[0] = 59.0
    told(figures, [scored(1.0, truth=(2.0, 7.0)), scored(1.0)])
    assert quantiles(figures)[0] == 9.5
    now[0] = 60.5
    assert quantiles(figures) == [7, 7]
    now[0] = 120.0
    assert all(map(isnan, quantiles(figures)))


def test_dynamic_regret_is_shown_beside_the_static_one_where_the_target_is_known():
    figures = metrics(truth=True)
    told(figures, [scored(1.0, gradient=(1.0, 0.0), truth=(5.0, 4.0))])  # the decision is (2, 0)
    assert private(figures, "regret_dynamic") == -3
    assert private(figures, "regret") == 2 + 100


OF_A_TARGET = {"target", "tracking_error", "tracking_error_minute", "regret_dynamic"}


def test_data_that_says_nothing_of_a_target_has_no_such_series():
    names = {name for name, *_ in shown(metrics().private)}
    assert not names & {f"mirrormesh_{name}" for name in OF_A_TARGET}


def test_of_many_coordinates_the_error_alone_is_shown():
    wide = learner(dimension=9)
    names = {name for name, *_ in shown(metrics(wide, truth=True).private)}
    assert "mirrormesh_tracking_error" in names
    assert not names & {"mirrormesh_target", "mirrormesh_decision"}


def test_reports_wait_until_they_are_worked_out_and_not_many_do():
    figures = metrics()
    for report in [scored(1.0)] * (MOST - 1):
        figures.report(report)
    assert private(figures, "records_total") == private(figures, "regret") == 0
    figures.catch_up()
    assert private(figures, "records_total") == MOST - 1
    for report in [scored(1.0)] * MOST:
        figures.report(report)
    assert private(figures, "records_total") == 2 * MOST - 1


def test_what_the_data_stream_knows_is_asked_at_each_scrape():
    lag, counts = [None], DataCounts()
    figures = metrics(lag=lambda: Private(lag[0]), counts=lambda: Private(counts))
    reasons = ("late", "early", "overfull", "lost")
    assert isnan(private(figures, "data_lag_records"))
    assert [private(figures, "dropped_records_total", why) for why in reasons] == [0, 0, 0, 0]
    lag[0], counts.late, counts.early, counts.overfull, counts.lost = 12, 1, 4, 2, 3
    assert private(figures, "data_lag_records") == 12
    assert [private(figures, "dropped_records_total", why) for why in reasons] == [1, 4, 2, 3]
    assert private(figures, "malformed_records_total") == 0
    counts.malformed = 5
    assert private(figures, "malformed_records_total") == 5


def test_messages_that_hold_no_record_are_told_apart_from_those_that_cannot_be_read():
    counts = DataCounts()
    figures = metrics(counts=lambda: Private(counts))
    counts.leave_out(NotARecord.TOMBSTONE, 2)
    counts.leave_out(NotARecord.LEFT_OUT, 3)
    reasons = ("tombstones", "left_out")
    assert [private(figures, "dropped_records_total", why) for why in reasons] == [2, 3]
    assert private(figures, "malformed_records_total") == 0


def test_the_mean_loss_is_over_the_size_of_a_slot_and_what_is_no_number_counts_as_zero():
    figures = metrics(learner(private=True))
    told(figures, [scored(0.0)])  # <x, a> is 0 and the label too
    assert private(figures, "loss_average") == 0
    told(figures, [scored(2.0)])
    once = private(figures, "loss_average")
    assert once > 0
    told(figures, [scored(1e308)])
    assert private(figures, "loss_average") == pytest.approx(once * 2 / 3)


def test_predictions_made_before_learning_are_counted_where_there_are_classes():
    figures = metrics(learner(loss=Hinge()))
    assert outcomes(figures) == [0, 0]
    told(figures, [scored(1.0, count=3)])  # the decision (2, 0) says 1, and the label is 1
    told(figures, [scored(1.0, present=False, count=5)])
    told(figures, [scored(0.0, present=False, count=7)])  # would be wrong
    told(figures, [scored(-1.0, count=2)])  # features and label are -1
    told(figures, [scored(0.0, count=4)])  # a score of 0 says -1, the label is 0
    told(figures, [scored(nan, count=1)])
    assert outcomes(figures) == [5, 5]
    numbers = metrics()
    told(numbers, [scored(1.0, count=3)])
    assert outcomes(numbers) == [0, 0]


def outcomes(figures):
    return [private(figures, "predictions_total", outcome) for outcome in ("right", "wrong")]
