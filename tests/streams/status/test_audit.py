"""What an audit finds in messages, made up or of whole runs in memory; which mechanisms it draws from."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from nodes.collaboration.messages import Query, Response
from nodes.privacy.exact import ExactSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.laplace_parameters import LaplaceParameters
from streams.bus.memory import Faults
from streams.codec import decode_plans, decode_release, encode_release
from streams.local.mesh import MemoryMesh
from streams.local.run import mesh_parts
from streams.status.audit import (
    DRAWS,
    PAIRS,
    EdgeRelease,
    FindingKind,
    Findings,
    ReleaseSource,
    Said,
    affordable,
    audit_releases,
    audit_responses,
    read_stored,
    subjects,
)
from streams.terminal.audits import release_facts, releases_json
from tests.support.meshes.files import changed, counted_ids, ignore, loaded
from topology.plans import Member, Plan

ONE, TWO = "1" * 32, "2" * 32
NOBODY = np.array([], dtype=np.int64)


def plan(round, follows=None, members=("a", "b"), listeners=(), **instances):
    """A plan of these members, of instance ONE unless said."""
    named = tuple(Member(name, instances.get(name, ONE), name not in listeners) for name in members)
    follows = round - 1 if follows is None else follows
    return Plan("run-1", round, follows, named, NOBODY, NOBODY, NOBODY.astype(float))


def told(round, source="a", target="b", instance=ONE, *, exact=False, simulated=False, value=b"x"):
    return EdgeRelease(source, target, round, instance, exact, simulated, value)


def audit(plans, tellings, last=None, *, protected=True, horizon=4, exact_noise=True, charged=None):
    sources = {name: ReleaseSource(protected, last) for name in "abc"}
    given = {"horizon": horizon, "exact_noise": exact_noise, "charged": charged}
    return audit_releases(plans, tellings, sources, **given)


def kinds(*args, **settings):
    """What is wrong: (kind, source, round)."""
    return [(one.kind, one.source, one.round) for one in audit(*args, **settings).findings]


PLANS = [plan(round) for round in range(1, 9)]
FIRST = told(1, exact=True)


def test_a_round_on_several_edges_several_times_is_one_release():
    found = audit(PLANS, [FIRST, told(2), told(2), told(2, target="c")])
    assert (found.findings, found.values, found.unjudged) == ((), 2, 0)


@pytest.mark.parametrize(("charges", "wrong"), [(2, []), (5, []), (1, [3]), (0, [3])])
def test_charges_are_never_fewer_than_the_releases_with_noise(charges, wrong):
    tellings = [FIRST, told(2), told(2, target="c"), told(3), told(4, "b")]
    found = audit(PLANS, tellings, charged={"a": charges, "b": 1})
    assert [(one.kind, one.source, one.round) for one in found.findings] == [
        (FindingKind.UNCHARGED, "a", round) for round in wrong
    ]
    assert audit(PLANS, tellings, charged={"a": 0, "b": 0}, protected=False).findings == ()


def test_a_second_value_is_told_with_its_edges():
    (found,) = audit(PLANS, [told(2), told(2, target="c", value=b"y"), told(2, target="d")]).findings
    assert (found.kind, found.source, found.round, found.instance) == (FindingKind.SECOND_VALUE, "a", 2, ONE)
    assert found.edges == ("b", "c", "d")
    assert found.detail == "2 values: to b, d; to c"


def test_a_round_that_is_not_planned():
    plans = [plan(1), plan(2), plan(5, follows=2)]
    tellings = [told(3), told(5), told(6)]
    assert kinds(plans, tellings) == [(FindingKind.UNPLANNED, "a", 3), (FindingKind.UNPLANNED, "a", 6)]
    assert kinds([], [FIRST]) == [(FindingKind.UNPLANNED, "a", 1)]


def test_of_two_plans_of_a_round_the_first_counts():
    assert kinds([plan(1), plan(2), plan(2, a=TWO), plan(3)], [told(2), told(3)]) == []
    assert kinds([plan(1), plan(2, a=TWO), plan(2)], [told(2)]) == [(FindingKind.UNNAMED, "a", 2)]


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        (plan(2, members=("b",)), "the plan does not name the node"),
        (plan(2, a=TWO), f"the plan names instance {TWO}"),
        (plan(2, listeners="a"), "the plan names it as a listener"),
    ],
)
def test_an_instance_that_the_plan_does_not_name(planned, said):
    (found,) = audit([plan(1), planned], [told(2)]).findings
    assert (found.kind, found.detail) == (FindingKind.UNNAMED, said)


def test_exact_is_right_in_the_first_plan_of_the_run_alone():
    assert kinds(PLANS, [FIRST, told(2, exact=True)]) == [(FindingKind.EXACT, "a", 2)]
    late = [plan(7, follows=0), plan(8)]
    assert kinds(late, [told(7, exact=True), told(8)]) == []


def test_exact_is_right_after_a_round_of_listening_as_this_instance():
    plans = [plan(1), plan(2, listeners="a", a=TWO), plan(3, a=TWO), plan(4, a=TWO)]
    told_by = [told(round, instance=TWO, exact=True) for round in (3, 4)]
    assert kinds(plans, told_by) == [(FindingKind.EXACT, "a", 4)]
    other = [plan(1), plan(2, listeners="a", a=ONE), plan(3, a=TWO)]
    assert kinds(other, told_by[:1]) == [(FindingKind.EXACT, "a", 3)]


def test_exact_is_right_for_what_was_made_after_the_last_learning_round():
    """Round 3 still learns, and makes the release for the next planned round; round 5 relays."""
    plans = [plan(1), plan(2), plan(3), plan(5, follows=3), plan(6, follows=5)]
    tellings = [FIRST, told(2), told(3), told(5), told(6, exact=True)]
    assert kinds(plans, tellings, last=3) == []
    assert kinds(plans, tellings, last=5) == [(FindingKind.EXACT, "a", 6)]
    assert kinds(plans, tellings) == [(FindingKind.EXACT, "a", 6)]


@pytest.mark.parametrize(
    ("plans", "one", "last"),
    [
        (PLANS, told(1), None),
        (PLANS, told(8), 6),
        ([plan(1), plan(2, listeners="a"), plan(3)], told(3), None),
    ],
)
def test_noise_where_none_may_be_drawn(plans, one, last):
    assert kinds(plans, [one], last=last) == [(FindingKind.DRAWN, "a", one.round)]


def test_of_a_node_that_protects_nothing_exact_says_nothing():
    assert kinds(PLANS, [told(2, exact=True), told(3)], protected=False) == []


def test_simulated_noise_is_wrong_where_the_file_says_exact():
    assert kinds(PLANS, [told(2, simulated=True)]) == [(FindingKind.SIMULATED, "a", 2)]
    assert kinds(PLANS, [told(2, simulated=True)], exact_noise=False) == []


def test_rounds_whose_plans_are_gone_are_not_judged_and_still_compared():
    """The first H plans that are left may be those of a scheduler that came second: not judged by."""
    plans = [plan(round) for round in range(11, 19)]
    bad = [told(5, exact=True), told(14, instance=TWO), told(15, instance=TWO), told(20)]
    found = audit(plans, bad)
    assert [one.round for one in found.findings] == [15, 20]
    assert found.unjudged == 2
    assert kinds(plans, [told(5), told(5, value=b"y")]) == [(FindingKind.SECOND_VALUE, "a", 5)]
    assert audit(plans[:2], [told(12, exact=True)]).unjudged == 1


def heard(mesh):
    """All plans and releases of a mesh in memory."""
    topics, run = mesh.parts.topics, mesh.parts.topics.run
    records = [decode_plans(value, run, mesh.parts.digest) for value in mesh.bus.read(topics.topology, 0)]
    plans = [plan for record in records for plan in record.plans]
    tellings = []
    for source in mesh.nodes:
        expected = mesh.parts.expected(source)
        for target in mesh.parts.scheduler.schedule.graph.neighbours(source)[1]:
            for value in mesh.bus.read(topics.edge(source, target), 0):
                message = decode_release(value, expected)
                flags = message.exact, message.simulated
                tellings.append(EdgeRelease(source, target, message.round, message.instance, *flags, value))
    return plans, tellings


def audited(mesh):
    sources = {}
    for name, node in mesh.parts.nodes.items():
        learner = node.learner
        sources[name] = ReleaseSource(
            learner.mechanism.epsilon is not None, learner.ledger.last_learning_round
        )
    charged = {name: node.journal.records()[-1].charged for name, node in mesh.nodes.items()}
    given = {"horizon": mesh.parts.horizon, "exact_noise": False, "charged": charged}
    return audit_releases(*heard(mesh), sources, **given)


@pytest.mark.parametrize("seed", range(3))
def test_a_run_with_crashes_losses_and_a_budget_is_clean(tmp_path, seed):
    """Everything that may make an exact release, and everything that sends one again."""
    nodes = {"a": {}, "b": {"epsilon": 2}, "c": {}, "d": {}}
    file = loaded(tmp_path, changed(nodes=nodes, rounds=80, privacy={"budget": 60, "epsilon": 1}))
    crashes = frozenset((name, n) for name in "ac" for n in range(20, 400, 37))
    faults = Faults(seed=seed, duplicate=0.1, slot_time=0.5, crash_before=crashes, restart_after=0.5)
    mesh = MemoryMesh(
        mesh_parts(file, round_timeout=5.0, silence=10.0), ignore, faults=faults, new_id=counted_ids()
    )
    while max((r.round for r in mesh.nodes["b"].journal.records()), default=0) < 20:
        assert mesh.advance()
    mesh.nodes["b"].stop()
    mesh.nodes["b"].journal.renew("f" * 32)
    mesh.broker.after(12.0, mesh.nodes["b"].start)
    mesh.run()
    assert mesh.done
    found = audited(mesh)
    assert found.findings == ()
    assert found.unjudged == 0
    exact = {(one.source, one.round) for one in heard(mesh)[1] if one.exact}
    assert any(source == "b" and round > 20 for source, round in exact)
    assert ("a", 1) in exact


def generations(folder):
    """The files of two generations: a complete graph of a, b, c, d; then c hears nobody, and d has left."""
    first = loaded(folder, changed(topology={"graph": "complete"}))
    tree = changed(nodes=["a", "b", "c"], topology={"graph": {"edges": [["a", "b"]]}}, generation=1)
    tree["nodes"] = {name: tree["nodes"][name] for name in "abc"}
    return first, loaded(folder, tree)


def test_edges_that_only_an_earlier_generation_has_are_read_too_or_named(tmp_path):
    first, second = generations(tmp_path)
    mesh = MemoryMesh(mesh_parts(first), ignore)
    mesh.run()
    topics, expected = mesh.parts.topics, mesh.parts.expected("a")
    lost = {("d", target) for target in "abc"}
    whole = read_stored(second, mesh.bus, lambda _: True)
    assert set(whole.unread) == lost
    assert {(told.source, told.target) for told in whole.releases} == {
        (source, target) for source in "abc" for target in "abcd" if source != target
    }
    message = decode_release(mesh.bus.read(topics.edge("a", "c"), 0)[3], expected)
    other_value = message._replace(simulated=not message.simulated)
    mesh.bus.send(topics.edge("a", "c"), encode_release(other_value, first.digest()))
    read = read_stored(second, mesh.bus, lambda _: True)
    findings = audit_releases(read.plans, read.releases, read.sources, horizon=4, exact_noise=False).findings
    assert [(one.kind, one.source, one.round) for one in findings] == [
        (FindingKind.SECOND_VALUE, "a", message.round)
    ]
    facts = dict(release_facts(second.mesh, Findings(findings, 0, 0), read))
    assert facts["not read"] == "3 edges of other generations of the file: d to a, d to b, d to c"
    gone = read_stored(second, mesh.bus, lambda topic: topic != topics.edge("c", "b"))
    assert set(gone.unread) == {*lost, ("c", "b")}
    rows = releases_json(second.mesh, Findings((), 0, 0), gone)["unread"]
    assert {"source": "c", "target": "b"} in rows
    assert read_stored(first, mesh.bus, lambda _: True).unread == ()


# The audit of a collaboration's messages finds each mistake, and none where there is none


LIFE, OTHER = "aa" * 16, "bb" * 16


def asked(number, theta=0.0, *, instance=LIFE, final=False):
    return Query("first", "analyst", instance, number, np.array([theta]), final)


def said(query, value=1.0, *, owner="bank-a", instance=LIFE, simulated=False):
    return Response("first", owner, instance, query, simulated, np.array([value]))


RIGHT = ([asked(1), asked(2), asked(3, final=True)], [said(1), said(1, owner="bank-b"), said(2), said(2)])


def found(queries, responses, *, exact=True):
    wrong = audit_responses(Said(queries, responses, Counter()), 2, exact_noise=exact)
    return [(one.kind, one.party, one.query) for one in wrong]


def test_nothing_is_wrong_with_a_run_whose_answers_came_again():
    assert found(*RIGHT) == []
    assert Said(*RIGHT, Counter()).answers == 3


@pytest.mark.parametrize(
    ("queries", "responses", "expected"),
    [
        ([asked(2, 0.5)], [], ("second value", "analyst", 2)),
        ([asked(2, -0.0)], [], ("second value", "analyst", 2)),
        ([asked(3)], [], ("out of order", "analyst", 3)),
        ([asked(2, final=True)], [], ("out of order", "analyst", 2)),
        ([asked(2, instance=OTHER)], [], ("another journal", "analyst", 2)),
        ([], [said(2, 1.5)], ("second value", "bank-a", 2)),
        ([], [said(3)], ("beyond T", "bank-a", 3)),
        ([], [said(2, instance=OTHER)], ("another journal", "bank-a", 2)),
        ([], [said(2, simulated=True)], ("simulated", "bank-a", 2)),
    ],
)
def test_each_mistake_is_found(queries, responses, expected):
    assert found(RIGHT[0] + queries, RIGHT[1] + responses) == [expected]


def test_a_run_may_end_early_at_its_last_query_and_nowhere_else():
    early = [asked(1), asked(1, final=True)]
    assert found(early, [said(1)]) == []
    assert found([asked(1), asked(2), asked(1, final=True)], []) == [("out of order", "analyst", 1)]
    assert found([*early, asked(1, 0.5, final=True)], []) == [("second value", "analyst", 1)]


def test_an_answer_to_a_query_that_nobody_asked_is_found():
    assert found([asked(1)], [said(1), said(2)]) == [("not asked", "bank-a", 2)]


def test_simulated_noise_is_right_where_the_mesh_file_says_so():
    assert found(RIGHT[0], [said(1, simulated=True)], exact=False) == []


# Which mechanisms are audited, and with how many draws.

EXACT = {"noise": "exact"}


def test_nodes_with_the_same_settings_are_audited_once(tmp_path):
    nodes = {"a": {}, "b": {"mechanism": "l2-sphere"}, "c": {}, "d": {"mechanism": "none"}}
    mesh = loaded(tmp_path, changed(nodes=nodes, privacy=EXACT)).resolved
    found = {subject.nodes: type(subject.mechanism) for subject in subjects(mesh, nodes)}
    assert found == {("a", "c"): LaplaceGradient, ("b",): L2Sphere, ("d",): type(None)}
    assert [subject.nodes for subject in subjects(mesh, ["c"])] == [("c",)]


def test_noise_on_the_parameters_and_with_a_delta_can_be_audited(tmp_path):
    privacy = EXACT | {"on": "parameters", "norm": "l2"}
    (subject,) = subjects(loaded(tmp_path, changed(privacy=privacy)).resolved, "a")
    assert type(subject.mechanism) is LaplaceParameters
    privacy = EXACT | {"mechanism": "gaussian", "delta": 1e-6}
    (subject,) = subjects(loaded(tmp_path, changed(privacy=privacy)).resolved, "a")
    assert type(subject.mechanism) is GaussianGradient


def test_of_an_epsilon_that_grows_the_round_with_the_least_noise_is_audited(tmp_path):
    epsilon = {"total": 10, "rounds": 25, "schedule": "growing"}
    mesh = loaded(tmp_path, changed(privacy=EXACT | {"epsilon": epsilon})).resolved
    (subject,) = subjects(mesh, "a")
    assert subject.round == 25
    assert type(subject.mechanism) is LaplaceGradient
    assert subject.mechanism.epsilon > Fraction(10, 25)


@pytest.mark.parametrize(
    ("batch", "dimension", "laplace", "sphere"),
    [
        (1, 2, (DRAWS, PAIRS), (DRAWS, PAIRS)),
        (8, 1000, (2000, PAIRS), (13_157, PAIRS)),
        (1, 10**6, (100, 10), (127, 12)),
    ],
)
def test_draws_that_take_long_are_fewer(batch, dimension, laplace, sphere):
    settings = (0.5, Fraction(1), batch, dimension, ExactSampler())
    assert affordable(LaplaceGradient(*settings)) == laplace
    assert affordable(L2Sphere(*settings)) == sphere
