"""The catalogue against what processes show: all of it, and nothing else."""

import numpy as np
import pytest

from nodes.collaboration.messages import RecordSet, ResponseRecord
from nodes.losses.losses import Logistic
from streams.collaboration.metrics import LearnerMetrics, OwnerMetrics
from streams.metrics.catalogue import Metric, PrivateMetric, SharedMetric
from streams.metrics.registry import PrivateRegistry, SharedRegistry
from streams.metrics.scheduler_metrics import SchedulerMetrics
from streams.metrics.verdict import OwnerScore
from streams.runtime.process import Stop
from streams.tools.feed.figures import FeedFigures
from streams.tools.score.figures import ScoreCounts, ScoreFigures
from tests.support.collaborations.star import mechanism
from tests.support.nodes.machines import learner
from tests.support.nodes.metrics import metrics

OF_A_SCHEDULER = {SharedMetric.PUBLISHED, SharedMetric.LIVE}
OF_A_MESH = {
    SharedMetric.FILE_GENERATION,
    SharedMetric.LEAD,
    SharedMetric.MEMBERS,
    SharedMetric.NODES,
    SharedMetric.PLANNED,
    SharedMetric.PLAN_GENERATION,
}
"""Of its nodes and its schedulers."""
OF_EACH_NODE = {
    SharedMetric.HELD_OTHERS,
    SharedMetric.LAST_SEEN,
    SharedMetric.STARTS,
    SharedMetric.NODE_ROUND,
}
"""Of a scheduler too, by node."""
OF_THE_LEARNER = {SharedMetric.ANSWERED, SharedMetric.LEFT_OUT, SharedMetric.SECOND_RESPONSES}
OF_A_COLLABORATION = {SharedMetric.QUERY, SharedMetric.QUERIES}
OF_AN_OWNER = {
    SharedMetric.MECHANISM,
    SharedMetric.SPENT,
    SharedMetric.BUDGET,
    SharedMetric.LEFT,
    SharedMetric.SIMULATED,
    SharedMetric.QUERIES_REFUSED,
}
OF_EVERYONE = {
    SharedMetric.BUILD,
    SharedMetric.CERTIFICATE,
    SharedMetric.CONNECTED,
    SharedMetric.REFUSED,
    SharedMetric.RUN_OVER,
}
OF_SOME_SOURCES = {PrivateMetric.REGISTRY, PrivateMetric.LABELS, PrivateMetric.HELD_UP}
OF_SCORES = {
    PrivateMetric.SCORES,
    PrivateMetric.SCORE_LAG,
    PrivateMetric.SCORE_LATENCY,
    PrivateMetric.SCORE_ROUND,
    PrivateMetric.SCORE_MODEL,
}
"""Of a process that scores messages."""
OF_A_FEED = {
    PrivateMetric.FED,
    PrivateMetric.FEED_LINE,
    PrivateMetric.FEED_OTHERS,
    PrivateMetric.FEED_WAITING,
    PrivateMetric.FEED_OVER,
    PrivateMetric.FEED_FAILED,
}
"""Of a process that feeds records."""
EVERY = [*SharedMetric, *PrivateMetric]


def node():
    score = OwnerScore(Logistic(), lambda x: x, private=True)
    return metrics(learner(budget="5"), truth=True, score=score)


def scheduler():
    return SchedulerMetrics("tracking", "abc", connected=lambda: True)


def described(registry):
    """Every family shown: {name: (kind, help, labels)}."""
    found = {}
    for family in registry.collected.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = {frozenset(sample.labels) - {"le"} for sample in family.samples}
        assert len(labels) == 1
        found[name] = (family.type, family.documentation, labels.pop())
    return found


def expected(metrics, labels):
    return {
        f"mirrormesh_{metric.value.name}": (
            metric.value.kind,
            metric.value.help,
            frozenset({*labels, *metric.value.labels}),
        )
        for metric in metrics
    }


def test_processes_show_the_whole_catalogue_and_nothing_else():
    assert described(node().shared) == expected(
        set(SharedMetric)
        - OF_A_SCHEDULER
        - OF_EACH_NODE
        - OF_A_COLLABORATION
        - OF_THE_LEARNER
        - {SharedMetric.QUERIES_REFUSED},
        ["mesh", "node"],
    )
    assert described(scheduler().shared) == expected(
        OF_EVERYONE | OF_A_SCHEDULER | OF_A_MESH | OF_EACH_NODE, ["mesh"]
    )
    private = described(node().private)
    process = {name for name in private if name.startswith("mirrormesh_process_")}
    assert {private.pop(name)[2] for name in process} == {frozenset(["mesh", "node"])}
    assert "mirrormesh_process_resident_memory_bytes" in process
    assert private == expected(
        set(PrivateMetric) - {PrivateMetric.PASS} - OF_SOME_SOURCES - OF_SCORES - OF_A_FEED, ["mesh", "node"]
    )
    scoring = ScoreFigures(PrivateRegistry(mesh="m", node="a"), ScoreCounts())
    assert described(scoring.registry) == expected(OF_SCORES, ["mesh", "node"])
    with Stop() as stop:
        feeding = FeedFigures(stop, mesh="m", node="a")
    assert described(feeding.registry) == expected(OF_A_FEED, ["mesh", "node"])


def test_learner_and_owner_show_these_of_it_and_nothing_else():
    labels = ["mesh", "node"]
    learner = LearnerMetrics("lending", "analyst", ["bank-a"], 12, 0, connected=lambda: True)
    assert described(learner.shared) == expected(OF_EVERYONE | OF_A_COLLABORATION | OF_THE_LEARNER, labels)
    made = owner_metrics()
    assert described(made.shared) == expected(OF_EVERYONE | OF_A_COLLABORATION | OF_AN_OWNER, labels)
    assert described(made.private) == expected(
        {PrivateMetric.PASS, PrivateMetric.JOURNAL, PrivateMetric.RUN_OVER}, labels
    )


def test_an_owner_spends_with_each_answer_and_never_more_than_its_epsilon():
    made, numbers = owner_metrics(), {}
    for query in range(1, 5):
        record = ResponseRecord(query, b"", np.zeros(2), query, 0.0, RecordSet("", (), 5))
        made.answered(record)
        numbers[query] = [
            made.shared.collected.get_sample_value(
                f"mirrormesh_{name}", {"mesh": "lending", "node": "bank-a", "adjacency": "event"}
            )
            for name in ("epsilon_spent", "epsilon_budget", "epsilon_left")
        ]
    assert numbers == {1: [2, 8, 6], 2: [4, 8, 4], 3: [6, 8, 2], 4: [8, 8, 0]}


def owner_metrics():
    return OwnerMetrics(
        "lending", "bank-a", mechanism("a"), None, connected=lambda: True, journal_bytes=lambda: 0
    )


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.value.name)
def test_names_are_in_base_units(metric):
    what = metric.value
    assert isinstance(what, Metric)
    assert (what.kind == "counter") == what.name.endswith("_total")
    stem = what.name.removesuffix("_total")
    if what.unit in {"seconds", "bytes"}:
        assert stem.endswith(what.unit)
    assert what.kind != "histogram" or what.unit == "seconds"
    assert what.help.endswith(".")
    assert not {"mesh", "round"} & set(what.labels)
    assert ("node" in what.labels) == (metric in OF_EACH_NODE)


def test_names_are_given_once():
    names = [metric.value.name for metric in EVERY]
    assert len(set(names)) == len(names)


def test_a_registry_makes_no_metric_of_the_other_type():
    with pytest.raises(TypeError, match="must be a SharedMetric"):
        SharedRegistry(mesh="m").gauge(PrivateMetric.REGRET, lambda: 1.0)
    with pytest.raises(TypeError, match="must be a SharedMetric"):
        SharedRegistry(mesh="m").counter(PrivateMetric.RECORDS)
    with pytest.raises(TypeError, match="must be a SharedMetric"):
        SharedRegistry(mesh="m").total(PrivateMetric.DROPPED, float)
    with pytest.raises(TypeError, match="must be a PrivateMetric"):
        PrivateRegistry(mesh="m").counter(SharedMetric.ROUNDS)


def test_a_registry_makes_each_metric_as_its_kind():
    with pytest.raises(TypeError, match=r"SharedMetric\.ROUND is a gauge: must be a counter"):
        SharedRegistry(mesh="m").counter(SharedMetric.ROUND)


def test_a_gauge_of_nothing_known_is_nan():
    registry = PrivateRegistry(mesh="m")
    registry.gauge(PrivateMetric.LAG, lambda: None)
    (family,) = registry.collected.collect()
    assert str(family.samples[0].value) == "nan"
