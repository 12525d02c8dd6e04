"""What everyone may see of a node, from the reports of a real machine."""

from fractions import Fraction
from math import inf

import numpy as np
import pytest

from nodes.geometry.constraints import L1Ball
from nodes.machine.events import Decided, Evidence, Notice
from nodes.protocol import Noticed, Stepped
from nodes.regret import LocalRegret
from nodes.values import Decision, Release
from streams.codec import Reason
from streams.local.mesh import MemoryMesh
from streams.local.recorder import Recorder
from streams.local.run import mesh_parts
from streams.metrics.node_metrics import Timing, told_between
from streams.metrics.node_metrics import told as reported
from streams.metrics.registry import PrivateRegistry, SharedRegistry
from streams.records.localisation import target_path
from streams.terminal.demo import distances
from tests.support.meshes.files import changed, loaded
from tests.support.nodes.machines import learner, machine, of, plans, release, run_rounds, started
from tests.support.nodes.metrics import metrics, private, shared, shown, told


def test_rounds_are_counted_from_the_machine():
    clock = [1_700_000_000.05]
    node, figures = machine(), metrics(clock=lambda: clock[0])
    told(figures, started(node, *plans(1, 4)))
    assert shared(figures, "round") == shared(figures, "last_round_timestamp_seconds") == 0
    for round, clock[0] in enumerate((1_700_000_001.19, 1_700_000_001.2, 1_700_000_001.39), 1):
        told(figures, run_rounds(node, round, round))
    assert shared(figures, "round") == shared(figures, "rounds_total") == 3
    assert shared(figures, "last_round_timestamp_seconds") == 1_700_000_001.3  # to a tenth
    assert shared(figures, "round_interval_seconds_count") == 2
    assert shared(figures, "round_interval_seconds_bucket", "0.005") == 0
    assert shared(figures, "round_interval_seconds_bucket", "0.02") == 1
    assert shared(figures, "round_interval_seconds_bucket", "0.2") == 2
    assert shared(figures, "round_interval_seconds_sum") == pytest.approx(0.2)  # of the tenths
    assert shared(figures, "edges_on") == 2


def test_a_process_that_comes_back_shows_where_its_journal_stands():
    node = machine(learner(budget="5"))
    record = of([*started(node, *plans(1, 4)), *run_rounds(node, 1, 3)], Stepped)[-1].record
    figures = metrics(learner(budget="5"), record)
    assert shared(figures, "round") == 3
    assert shared(figures, "rounds_total") == 0
    assert shared(figures, "epsilon_spent", "stream") == 3
    assert shared(figures, "epsilon_left", "stream") == 2


def test_a_node_shows_what_it_knows_of_the_mesh():
    """For a party that scrapes its own nodes alone: members, plans, its lead, and when it heard whom."""
    clock = [1_700_000_000.05]
    node, figures = machine(), metrics(clock=lambda: clock[0])
    names = ("mesh_nodes", "plan_members", "plan_round", "plan_lead_rounds")
    assert [shared(figures, name) for name in names] == [3, 0, 0, 0]
    four = plans(1, 4)
    told(figures, started(node, *four))
    figures.planned(four[-1].plan)
    assert [shared(figures, name) for name in names] == [3, len(four[-1].plan.members), 4, 4]
    told(figures, run_rounds(node, 1, 3))
    assert shared(figures, "plan_lead_rounds") == 1
    assert shared(figures, "neighbour_last_heard_timestamp_seconds", "b") == 0
    figures.received("b")
    assert shared(figures, "neighbour_last_heard_timestamp_seconds", "b") == 1_700_000_000.0
    assert shared(figures, "neighbour_last_heard_timestamp_seconds", "c") == 0


def test_the_gap_is_the_furthest_release_heard():
    figures = metrics()
    assert shared(figures, "consensus_gap") == 0
    own, near, far = (Release(np.array(at)) for at in ([0.0, 0.0], [1.0, 0.0], [3.0, -4.0]))
    figures.report(Decided(1, Decision(own), own, (near, far)))
    assert shared(figures, "consensus_gap") == 5
    figures.report(Decided(2, Decision(own), own, ()))
    assert shared(figures, "consensus_gap") == 0


def test_what_is_noticed_is_counted_by_its_source():
    node, figures = machine(deadlines=True), metrics()
    effects = started(node, *plans(1, 4), release("b", 1, (3.0, 0.0)))
    effects += node.handle(release("b", 1, (3.0, 0.0)))
    effects += node.handle(release("b", 2, (1.0, 0.0)))
    effects += node.handle(release("b", 2, (2.0, 0.0)))
    told(figures, effects)
    assert len(of(effects, Evidence)) == 1
    assert shared(figures, "releases_ignored_total", "b") == shared(figures, "evidence_total", "b") == 1
    assert shared(figures, "evidence_total", "c") == 0
    figures.report(Noticed(Notice.STALE, "c", 1))
    figures.report(Noticed(Notice.OVERFULL, "c", 1))
    assert shared(figures, "releases_ignored_total", "c") == 2
    for notice, name in [(Notice.GIVEN_UP, "releases_given_up"), (Notice.CORRECTED, "late_corrections")]:
        figures.report(Noticed(notice, "c", 1))
        assert (shared(figures, f"{name}_total", "c"), shared(figures, f"{name}_total", "b")) == (1, 0)
    for notice, name in [(Notice.PLAN_IGNORED, "plans_ignored"), (Notice.JOINING, "joins_asked")]:
        figures.report(Noticed(notice, "a", 1))
        assert shared(figures, f"{name}_total") == 1
    figures.report(Noticed(Notice.LISTENED, "a", 1))


def test_an_edge_that_was_given_up_was_on():
    figures, own = metrics(), Release(np.zeros(2))
    figures.report(Noticed(Notice.GIVEN_UP, "c", 5))
    figures.report(Decided(5, Decision(own), own, (own,), ("b", "c")))
    assert [shared(figures, *what) for what in (("edges_on",), ("edge_on", "b"), ("edge_on", "c"))] == [
        2,
        1,
        1,
    ]
    figures.report(Decided(6, Decision(own), own, (own,), ("b",)))
    assert [shared(figures, *what) for what in (("edges_on",), ("edge_on", "b"), ("edge_on", "c"))] == [
        1,
        1,
        0,
    ]


def test_messages_are_counted():
    figures = metrics()
    figures.sent()
    figures.sent(2)
    figures.received("b")
    figures.refused(Reason.OUT_OF_BOUND)
    assert shared(figures, "releases_sent_total") == 3
    assert shared(figures, "releases_received_total", "b") == 1
    assert shared(figures, "releases_received_total", "c") == 0
    assert shared(figures, "messages_refused_total", "out-of-bound") == 1
    assert (
        sum(v for k, v in shown(figures.shared).items() if k[0] == "mirrormesh_messages_refused_total") == 1
    )


def test_the_broker_is_asked_at_each_scrape():
    there = [True]
    figures = metrics(connected=lambda: there[0])
    assert shared(figures, "broker_connected") == 1
    there[0] = False
    assert shared(figures, "broker_connected") == 0


def test_the_account_goes_down_to_relaying():
    parts = learner(budget="2")
    node, figures = machine(parts), metrics(parts)
    told(figures, started(node, *plans(1, 4)))
    seen = []
    for round in (1, 2, 3):
        now = shown(figures.shared)
        seen.append(
            tuple(
                now[f"mirrormesh_{name}", *labels]
                for name, *labels in (
                    ("epsilon_spent", "event"),
                    ("epsilon_spent", "stream"),
                    ("epsilon_left", "stream"),
                    ("relaying",),
                )
            )
        )
        told(figures, run_rounds(node, round, round))
    assert seen == [(0, 0, 2, 0), (1, 1, 1, 0), (1, 2, 0, 1)]
    assert shared(figures, "epsilon_spent", "stream") == shared(figures, "epsilon_budget", "stream") == 2
    assert shared(figures, "last_learning_round") == 2
    assert shared(figures, "simulated_noise") == 1


def test_a_node_that_was_away_stops_learning_in_the_same_round():
    parts = learner(budget="2")
    node = machine(parts)
    record = of([*started(node, *plans(1, 4)), *run_rounds(node, 1, 2)], Stepped)[-1].record
    for stepped, relaying in ((1, 0), (2, 1)):  # one of its two rounds is never used
        left = metrics(parts, record._replace(round=stepped + 1, stepped=stepped, charged=1))
        assert shared(left, "relaying") == shared(left, "budget_unused_rounds") == relaying
        assert shared(left, "epsilon_left", "stream") == 1


def test_without_privacy_all_is_spent_and_without_a_budget_there_is_no_limit():
    figures = metrics(learner())
    assert shared(figures, "epsilon_spent", "event") == shared(figures, "epsilon_spent", "stream") == inf
    assert shared(figures, "epsilon_left", "stream") == shared(figures, "epsilon_budget", "stream") == inf
    assert shared(figures, "last_learning_round") == inf
    assert shared(figures, "relaying") == shared(figures, "simulated_noise") == 0


def test_what_is_left_is_never_said_too_high():
    parts = learner(budget="1.1")  # its nearest float is above it
    for name in ("epsilon_budget", "epsilon_left"):
        value = shared(metrics(parts), name, "stream")
        assert Fraction(value) <= parts.ledger.budget
        assert value == pytest.approx(1.1)


# Where a round's time goes, by clocks of the test's own


WAITS = {"neighbour": SharedRegistry, "plan": SharedRegistry, "data": PrivateRegistry}


def waited(*moments):
    """Seconds of each wait, and of the step, after (moment, time), ...: plans are read up to a round."""
    now = [0.0]
    shared, private = SharedRegistry(mesh="m", node="a"), PrivateRegistry(mesh="m", node="a")
    timing = Timing(shared, private, lambda: 1e9 + now[0], lambda: now[0])
    for moment, at, *round in moments:
        now[0] = at
        getattr(timing, moment)(*round)
    found = shown(shared) | shown(private)
    waits = [found[f"mirrormesh_{wait}_wait_seconds_total",] for wait in WAITS]
    return pytest.approx([*waits, found["mirrormesh_step_seconds_sum",]])


ENTERED = ("planned", 0, 2), ("entered", 1)


def test_the_last_release_ends_the_wait_for_neighbours_and_steps():
    rest = ("began", 2), ("closed", 2), ("began", 5), ("decided", 5.15), ("stepped", 5.5, 2)
    assert waited(*ENTERED, *rest) == [4.1, 0, 0, 0.5]


def test_the_slot_ends_the_wait_for_records():
    rest = ("began", 2), ("decided", 2), ("began", 7), ("closed", 7), ("stepped", 7.25, 2)
    assert waited(*ENTERED, *rest) == [1, 0, 5, 0.25]


def test_the_next_plan_ends_the_wait_for_it():
    rest = ("began", 2), ("decided", 2), ("began", 3), ("closed", 3), ("began", 9), ("stepped", 10, 3)
    assert waited(*ENTERED, *rest) == [1, 7, 1, 1]  # for the plan from the last release on, slot or not


@pytest.mark.parametrize("closed", [3.0, 5.0, 9.0, 30.0])
def test_when_the_slot_comes_nothing_that_is_shared_tells(closed):
    moments = [("began", closed), ("closed", closed), ("began", 6), ("planned", 6, 3)]
    moments.sort(key=lambda moment: moment[1])
    step = ("stepped", max(closed, 6), 3)
    neighbours, plan, _, _ = waited(*ENTERED, ("began", 2), ("decided", 2), *moments, step).expected
    assert (neighbours, plan) == (1, 4)


def latency(*moments):
    """The decisions whose latency was taken, and their seconds."""
    now = [0.0]
    private = PrivateRegistry(mesh="m", node="a")
    timing = Timing(SharedRegistry(mesh="m", node="a"), private, lambda: now[0], lambda: now[0])
    for moment, at, *round in moments:
        now[0] = at
        getattr(timing, moment)(*round)
    found = shown(private)
    return [found[f"mirrormesh_decision_latency_seconds_{of}",] for of in ("count", "sum")]


def test_latency_is_from_a_slots_close_to_the_decision_that_it_changed():
    first = ("entered", 1), ("decided", 1.5), ("closed", 2), ("stepped", 2.25, 2)
    assert latency(*first) == [0, 0]  # nothing was learnt before the first
    second = ("entered", 2.25), ("closed", 2.5), ("decided", 2.75)  # the next slot closes before it
    assert latency(*first, *second) == [1, 0.75]
    assert latency(*first, *second, ("stepped", 3, 3), ("entered", 3), ("decided", 3.5)) == [2, 0.75 + 1]
    again = ("entered", 4), ("decided", 4.5)  # it joins anew: nothing was learnt since
    assert latency(*first, *second, *again) == [1, 0.75]


def test_a_round_without_in_edges_waits_for_nobody():
    rest = ("began", 1), ("entered", 1), ("decided", 1), ("began", 1), ("closed", 1), ("stepped", 1, 2)
    assert waited(ENTERED[0], *rest) == [0, 0, 0, 0]


def test_moments_are_told_to_a_tenth_of_a_second():
    assert reported(1_700_000_000.19) == 1_700_000_000.1
    assert reported(0.0) == 0.0
    assert told_between(1.19, 1.2) == pytest.approx(0.1)
    assert told_between(1.1, 1.19) == 0
    assert told_between(9.0, 2.0) == 0  # the clock was set back


# A node's metrics beside what a recorder of the same mesh has seen.


def test_a_whole_mesh_shows_what_it_did(tmp_path):
    tree = changed()
    for own in tree["nodes"].values():
        own["source"]["truth"] = True
    parts = mesh_parts(loaded(tmp_path, tree))
    figures = {name: metrics(node.learner, sources="abcd", truth=True) for name, node in parts.nodes.items()}
    recorder = Recorder({name: LocalRegret(L1Ball(2, 3.0)) for name in parts.nodes})

    def report(name, said):
        recorder(name, said)
        figures[name].report(said)
        figures[name].catch_up()

    mesh = MemoryMesh(parts, report)
    mesh.run()
    mesh.close()
    target = target_path(0, 12)[-1]
    for name, node in recorder.nodes.items():
        assert shared(figures[name], "rounds_total") == shared(figures[name], "round") == 12
        assert shared(figures[name], "consensus_gap") == pytest.approx(node.gaps[-1])
        assert shared(figures[name], "epsilon_spent", "stream") == node.records[-1].epsilon_spent == 12
        assert private(figures[name], "records_total") == 12
        assert private(figures[name], "regret") == node.regrets[-1]
        assert private(figures[name], "regret_average") == node.regrets[-1] / 12
        assert [private(figures[name], "target", k) for k in "01"] == target.tolist()
        error = distances(node.decisions[-1][None], target).item()
        assert private(figures[name], "tracking_error") == pytest.approx(error)
