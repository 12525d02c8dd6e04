"""The rights of each user, in Kafka's words: what its processes need, and nothing of anybody else's."""

from itertools import permutations

import pytest

from streams.bus.rights import (
    FASTEST,
    LEAST_BYTES,
    LEAST_PERCENTAGE,
    NETWORK,
    ROOM,
    DesiredUsers,
    Grant,
    GrantGap,
    Quota,
    Rule,
    Scope,
    User,
    data_users,
    gap,
    grants,
    mesh_users,
    node_on_mesh,
    on_labels,
    principal,
    rounds_per_second,
    rules,
    scheduler,
)
from streams.bus.topic_specs import data_specs, mesh_specs, sizes
from streams.codec.topics import MeshTopics, all_of, edges_of
from streams.mesh.settings.node import ScoreSettings
from tests.support.meshes.files import changed, loaded

READ, WRITE, BOTH = ("Read",), ("Write",), ("Read", "Write")
ALIKE = ["n1", "n10", "n1-0", "n", "edge", "progress"]


def resolved(tmp_path, **shared):
    tree = changed(loss="squared", **shared)
    tree["nodes"] = {}
    return loaded(tmp_path, tree).resolved


def allows(rule, operation, topic):
    """What a broker decides by this rule."""
    named = topic == rule.name if rule.pattern == "literal" else topic.startswith(rule.name)
    return rule.kind == "topic" and operation in rule.operations and named


def allowed(user, specs):
    """What a user may do to the topics."""
    asked = [(operation, spec.name) for operation in ("Read", "Write") for spec in specs]
    return {ask for ask in asked if any(allows(rule, *ask) for rule in user.rules)}


def needed(access):
    return {("Read", topic) for topic in access.reads} | {("Write", topic) for topic in access.writes}


def test_a_node_has_a_prefix_for_its_own_edges_and_whole_names_for_the_rest(tmp_path):
    first = mesh_users(resolved(tmp_path))[0]
    assert (first.name, first.roles) == ("a", ("node a",))
    assert set(first.rules) == {
        Rule("topic", "tracking.run-1.topology", "literal", READ),
        Rule("topic", "tracking.run-1.progress.a", "literal", BOTH),
        Rule("topic", "tracking.run-1.deadletter.a", "literal", WRITE),
        Rule("topic", "tracking.run-1.edge.b.a", "literal", READ),
        Rule("topic", "tracking.run-1.edge.d.a", "literal", READ),
        Rule("topic", "tracking.run-1.edge.a.", "prefix", BOTH),
        Rule("topic", "tracking.run-1.progress.b", "literal", READ),
        Rule("topic", "tracking.run-1.progress.d", "literal", READ),
    }


@pytest.mark.parametrize("layout", ["edges", "outbox"])
@pytest.mark.parametrize("graph", ["ring", "star", "complete"])
def test_each_user_may_exactly_what_its_processes_do_however_names_begin(tmp_path, graph, layout):
    mesh = resolved(tmp_path, nodes=ALIKE, topology={"graph": graph}, layout=layout)
    specs, topics = mesh_specs(mesh), mesh.topics
    *nodes, planner, auditor = mesh_users(mesh)
    assert [user.name for user in nodes] == ALIKE
    for user in nodes:
        access = node_on_mesh(topics, user.name, *mesh.graph.neighbours(user.name))
        assert allowed(user, specs) == needed(access)
    assert (planner.name, planner.roles) == ("tracking-scheduler", ("scheduler",))
    assert allowed(planner, specs) == needed(scheduler(topics, ALIKE))
    assert (auditor.name, auditor.roles) == ("tracking-auditor", ("auditor",))
    assert allowed(auditor, specs) == {("Read", spec.name) for spec in specs}


def test_the_prefix_of_one_node_s_edges_is_that_of_no_other_node_run_or_mesh():
    runs = [MeshTopics(mesh, run) for mesh in ("m", "m-1", "m1") for run in ("run-1", "run-10", "edge")]
    for one, other in permutations([(topics, node) for topics in runs for node in ALIKE], 2):
        prefix = edges_of(*one)
        assert not any(other[0].edge(other[1], target).startswith(prefix) for target in ALIKE)
        assert not other[0].progress(other[1]).startswith(prefix)
    for one, other in permutations(runs, 2):
        assert not other.topology.startswith(all_of(one))
        assert one.topology.startswith(all_of(one))


def test_the_nodes_of_one_user_share_its_rules_and_nobody_else_has_them(tmp_path):
    parties = {"bank": {"nodes": ["a", "c"], "user": "CN=bank"}}
    mesh = resolved(tmp_path, parties=parties)
    bank, b, d, *_ = mesh_users(mesh)
    assert (bank.name, bank.roles) == ("CN=bank", ("node a", "node c"))
    work = [node_on_mesh(mesh.topics, node, *mesh.graph.neighbours(node)) for node in "ac"]
    assert allowed(bank, mesh_specs(mesh)) == needed(work[0]) | needed(work[1])
    assert len({(rule.kind, rule.name, rule.pattern) for rule in bank.rules}) == len(bank.rules)
    assert (b.name, d.name) == ("b", "d")


def test_a_data_broker_knows_the_node_and_its_feeder(tmp_path):
    mesh = resolved(tmp_path, nodes=ALIKE, parties={"x": {"nodes": ["n1", "n"], "user": "me"}})
    me, feeder, other = data_users(mesh, ["n1", "n"])
    assert [user.name for user in (me, feeder, other)] == ["me", "n1-feeder", "n-feeder"]
    assert (me.roles, feeder.roles) == (("node n1", "node n"), ("feeder of n1",))
    assert Rule("group", f"{mesh.settings.name}.{mesh.settings.run}.n1", "literal", READ) in me.rules
    assert (
        Rule("topic", f"data.{mesh.settings.name}.n1", "literal", ("Read", "Write", "DescribeConfigs"))
        in feeder.rules
    )
    assert ("Write", f"data.{mesh.settings.name}.n1") not in allowed(me, data_specs(mesh.settings, "n1"))
    for node in ALIKE:
        specs = data_specs(mesh.settings, node)
        assert bool(allowed(me, specs)) == (node in {"n1", "n"})
        assert bool(allowed(feeder, specs)) == (node == "n1")
    assert me.quota is feeder.quota is None


def test_who_scores_has_a_user_of_its_own_on_the_data_broker_alone(tmp_path):
    mesh = resolved(tmp_path)
    scores = {"a": ScoreSettings(input="payments.new", output="payments.scored")}
    users = data_users(mesh, "ab", {}, scores)
    (scoring,) = [user for user in users if user.name.endswith(".score")]
    assert (scoring.name, scoring.roles, scoring.quota) == ("a.score", ("scorer of a",), None)
    name = mesh.settings.name
    group = f"score.{name}.a.payments.new"
    assert set(scoring.rules) == {
        Rule("topic", "payments.new", "literal", READ),
        Rule("topic", f"decisions.{name}.a", "literal", READ),
        Rule("topic", f"spends.data.{name}.a", "literal", READ),
        Rule("topic", "payments.scored", "literal", WRITE),
        Rule("topic", "payments.scored.deadletter", "literal", WRITE),
        Rule("group", group, "literal", READ),
        Rule("transactional id", f"{group}.", "prefix", ("Write", "Describe")),
    }
    assert "a.score" not in {user.name for user in mesh_users(mesh)}
    at_least_once = {"a": scores["a"].model_copy(update={"transactions": False})}
    kinds = {rule.kind for user in data_users(mesh, "ab", {}, at_least_once) for rule in user.rules}
    assert kinds == {"topic", "group"}


def test_what_a_scorer_had_before_is_too_much(tmp_path):
    mesh = resolved(tmp_path)
    settings = ScoreSettings(input="new", output="out")
    users, name = data_users(mesh, "a", {}, {"a": settings}), mesh.settings.name
    wanted = DesiredUsers(users, Scope.of(name, "a", shared=False), tls=False)
    there = [*wanted.grants()]
    assert gap(wanted, there, {}) == GrantGap()
    earlier = [topic("older", user="User:a.score"), topic("older.out", "Write", user="User:a.score")]
    by_hand = Grant("User:a.score", "topic", "*", "literal", "Read")
    found = gap(wanted, [*there, *earlier, by_hand, topic("older", user="User:other")], {})
    assert found == GrantGap(excess=tuple(earlier), wider=(by_hand,))
    without = DesiredUsers(data_users(mesh, "a"), Scope.of(name, "a", shared=False), tls=False)
    assert gap(without, there, {}).excess == tuple(
        grant for grant in there if grant.principal == "User:a.score"
    )


def test_no_rule_is_for_anything_but_topics_and_one_group_each(tmp_path):
    mesh = resolved(tmp_path)
    found = [rule for user in (*mesh_users(mesh), *data_users(mesh, "abcd")) for rule in user.rules]
    assert {word for rule in found for word in rule.operations} == {"Read", "Write", "DescribeConfigs"}
    assert {rule.pattern for rule in found if rule.kind == "group"} == {"literal"}
    assert rules([]) == ()


# What is missing and too much of a mesh's rights on a broker that serves others too


EDGES = Rule("topic", "m.r.edge.a.", "prefix", ("Read", "Write"))
BEATS = Rule("topic", "m.r.progress.a", "literal", ("Read",))
QUOTA = Quota(1, 2, 3)
LIMITS = QUOTA._asdict()
A = User("a", ("node a",), (EDGES, BEATS), QUOTA)
ON_MESH = DesiredUsers((A,), Scope.of("m", [], shared=True), tls=False)
OWN = User("a", ("node a",), (Rule("topic", "data.m.a", "literal", ("Read",)),), None)
ON_DATA = DesiredUsers((OWN,), Scope.of("m", ["a"], shared=False), tls=False)


def topic(name, operation="Read", pattern="literal", user="User:a", **more):
    return Grant(user, "topic", name, pattern, operation, **more)


RIGHT = (
    topic("m.r.edge.a.", "Read", "prefix"),
    topic("m.r.edge.a.", "Write", "prefix"),
    topic("m.r.progress.a"),
)


def test_a_broker_that_is_right_has_no_gap_and_an_empty_one_lacks_everything():
    assert gap(ON_MESH, RIGHT, {"a": LIMITS}) == GrantGap()
    assert gap(ON_MESH, (), {}) == GrantGap(missing=RIGHT, quotas={"a": QUOTA})
    assert gap(ON_MESH, RIGHT[1:], {"a": LIMITS}).missing == RIGHT[:1]


@pytest.mark.parametrize(
    "denial",
    [
        topic("m.r.progress.a"),
        topic("m.r.progress.a", "All", user="User:*"),
        topic("m.r.progress.a", "Describe", host="10.0.0.1"),
        topic("m.r.edge.a.b", "Write"),
        topic("m.r.edge.a.b", "Write", "prefix"),
        topic("m.", "Read", "prefix"),
        topic("*", "Read"),
    ],
)
def test_a_rule_that_denies_what_is_wanted_is_named_whatever_is_allowed(denial):
    assert gap(ON_MESH, RIGHT, {"a": LIMITS}, [denial]) == GrantGap(denied=(denial,))


@pytest.mark.parametrize(
    "denial",
    [
        topic("m.r.progress.a", "Write"),
        topic("m.r.progress.a", user="User:b"),
        topic("m.r.progress.b"),
        topic("m.r.edge.b.", "Read", "prefix"),
        topic("m.r.edge.a.", "Delete", "prefix"),
        Grant("User:a", "group", "*", "literal", "Read"),
    ],
)
def test_a_rule_that_denies_something_else_is_none_of_the_mesh_s_business(denial):
    assert gap(ON_MESH, RIGHT, {"a": LIMITS}, [denial]) == GrantGap()


@pytest.mark.parametrize(
    "there", [{}, {"a": LIMITS | {"request_percentage": 2.0}}, {"a": {"producer_byte_rate": 1}}]
)
def test_a_quota_that_differs_is_set(there):
    assert gap(ON_MESH, RIGHT, there).quotas == {"a": QUOTA}


@pytest.mark.parametrize(
    "more",
    [
        topic("m.r.progress.a", "Write"),
        topic("m.earlier.progress.a"),
        topic("m.r.topology", "Write", user="User:gone"),
        topic("m.r.", "All", "prefix", user="User:gone"),
        topic("m.r.progress.a", host="10.0.0.1"),
        topic("m.r.topology", user="User:*"),
    ],
)
def test_what_the_mesh_file_does_not_give_on_a_mesh_s_topics_is_too_much_whoever_has_it(more):
    assert gap(ON_MESH, (*RIGHT, more), {"a": LIMITS}) == GrantGap(excess=(more,))


@pytest.mark.parametrize(
    "others",
    [
        topic("m2.r.topology", "Write"),
        topic("mm.", "Write", "prefix"),
        topic("data.m.a", user="User:application"),
        topic("m.shop", "Write"),
        topic("m.shop.orders", "Write"),
        topic("m.shop.orders.edge", "Write"),
        topic("x", "All", user="User:b"),
        Grant("User:b", "group", "g", "literal", "Read"),
        Grant("User:a", "cluster", "kafka-cluster", "literal", "IdempotentWrite"),
    ],
)
def test_what_is_of_others_is_left_alone(others):
    assert gap(ON_MESH, (*RIGHT, others), {"a": LIMITS}) == GrantGap()


@pytest.mark.parametrize(
    "wide",
    [
        topic("*", "Write"),
        topic("m", "Read", "prefix"),
        topic("*", "Write", user="User:*"),
        topic("*", "Read", user="User:ANONYMOUS"),
        Grant("User:a", "cluster", "kafka-cluster", "literal", "Alter"),
    ],
)
def test_a_right_for_more_than_the_mesh_is_too_much_for_its_users_and_for_everyone_but_never_taken(wide):
    assert gap(ON_MESH, (*RIGHT, wide), {"a": LIMITS}) == GrantGap(wider=(wide,))
    if wide.principal == "User:a":
        other = wide._replace(principal="User:backup")
        assert gap(ON_MESH, (*RIGHT, other), {"a": LIMITS}) == GrantGap(others=(other,))


def test_on_a_party_s_own_broker_only_what_its_nodes_have_is_the_mesh_s():
    right = topic("data.m.a")
    assert gap(ON_DATA, [right, topic("data.m.a", "Write", user="User:application")], {}) == GrantGap()
    more = [topic("data.m.a", "Write"), Grant("User:a", "group", "m.earlier.a", "literal", "Delete")]
    assert gap(ON_DATA, [right, *more], {}) == GrantGap(excess=tuple(more))
    others = [
        Grant("User:a", "group", name, "literal", "Read") for name in ("m.a", "n.r.a", "m.r.ab", "m.r.x.a")
    ]
    assert gap(ON_DATA, [right, topic("data.n.a"), *others], {}) == GrantGap()
    assert gap(ON_DATA, [right, topic("data.m.b"), topic("shop.orders", "Write")], {}) == GrantGap()


def test_rights_on_labels_that_the_file_no_longer_names_are_told_and_stay():
    user = User("a", (), rules([on_labels("disputes")]), None)
    scope = Scope.of("m", ["a"], {"a": "payments"}, {"a": "disputes"}, shared=False)
    wanted = DesiredUsers((user,), scope, tls=False)
    now = [topic("disputes", operation) for operation in ("Read", "DescribeConfigs")]
    before = [topic("chargebacks", operation) for operation in ("Read", "DescribeConfigs")]
    assert gap(wanted, now, {}) == GrantGap()
    assert gap(wanted, before, {}) == GrantGap(missing=tuple(now), unnamed=tuple(before))
    assert gap(wanted, [*now, *before, topic("chargebacks", "Write")], {}) == GrantGap(unnamed=tuple(before))
    of_others = [before[0], *(grant._replace(principal="User:b") for grant in before)]
    of_others += [topic("payments", operation) for operation in ("Read", "DescribeConfigs")]
    assert gap(wanted, [*now, *of_others], {}) == GrantGap()


def test_with_certificates_a_user_is_its_subject_and_has_no_password():
    assert principal("a", tls=False) == "User:a"
    assert principal("a", tls=True) == "User:CN=a"
    for tls in (False, True):
        assert principal("CN=x,O=y", tls=tls) == "User:CN=x,O=y"
    subject = User("CN=x", (), (BEATS,), QUOTA)
    wanted = DesiredUsers((A, subject), Scope.of("m", [], shared=True), tls=True)
    assert wanted.logins() == ()
    assert set(wanted.quotas()) == {"CN=a", "CN=x"}
    assert DesiredUsers((A, subject), Scope.of("m", [], shared=True), tls=False).logins() == (A,)
    assert grants("User:CN=x", [BEATS]) == (topic("m.r.progress.a", user="User:CN=x"),)


# Quotas: at least ten times what a user's processes do, computed from the mesh


MILLION = 1_000_000


def timed(period):
    return {"by": "time", "period": period, "start": 0, "size": 1}


def quotas(mesh):
    return {user.name: user.quota for user in mesh_users(mesh)}


def test_the_rate_is_one_a_period_or_what_is_fastest_or_what_the_network_carries(tmp_path):
    assert rounds_per_second(resolved(tmp_path)) == FASTEST
    for period, rate in ((0.1, 10.0), (1.0, 1.0), (3600.0, 1.0)):
        assert rounds_per_second(slotted(tmp_path, period)) == pytest.approx(rate)
    mesh = resolved(tmp_path, dimension=MILLION)
    assert 2 * sizes(mesh).release * rounds_per_second(mesh) == pytest.approx(NETWORK, rel=0.01)


def slotted(tmp_path, period, **shared):
    tree = changed(loss="squared", **shared)
    tree["mesh"]["slots"], tree["nodes"] = timed(period), {}
    return loaded(tmp_path, tree).resolved


@pytest.mark.parametrize("dimension", [2, 10_000, MILLION])
@pytest.mark.parametrize("graph", ["ring", "star", "complete"])
def test_a_quota_is_at_least_ten_times_the_bytes_of_a_user_s_rounds(tmp_path, dimension, graph):
    mesh = resolved(tmp_path, dimension=dimension, topology={"graph": graph})
    rate, found, size = rounds_per_second(mesh), quotas(mesh), sizes(mesh)
    for node in "abcd":
        sources, targets = mesh.graph.neighbours(node)
        assert found[node].producer_byte_rate >= ROOM * rate * len(targets) * size.release
        assert found[node].consumer_byte_rate >= ROOM * rate * (len(sources) * size.release + size.plan)
    edges = mesh.graph.sources.size
    assert found["tracking-auditor"].consumer_byte_rate >= ROOM * rate * edges * size.release
    assert found["tracking-scheduler"].producer_byte_rate >= ROOM * rate * size.plan


def test_a_small_mesh_has_the_least_quotas_and_many_nodes_of_one_user_add_up(tmp_path):
    slow = quotas(slotted(tmp_path, 60.0))
    assert slow["a"] == (LEAST_BYTES, LEAST_BYTES, LEAST_PERCENTAGE)
    parties = {"x": {"nodes": ["a", "b"], "user": "x"}}
    alone, both = quotas(resolved(tmp_path)), quotas(resolved(tmp_path, parties=parties))
    assert both["x"].consumer_byte_rate == pytest.approx(
        alone["a"].consumer_byte_rate + alone["b"].consumer_byte_rate, abs=2
    )
    assert both["x"].request_percentage > alone["a"].request_percentage
