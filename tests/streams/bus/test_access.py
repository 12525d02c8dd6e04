"""The rights of each user, in Kafka's words: what its processes need, and nothing of anybody else's."""

from itertools import permutations

import pytest

from streams.bus.rights import Rule, data_users, mesh_users, node_on_mesh, rules, scheduler
from streams.bus.topic_specs import data_specs, mesh_specs
from streams.codec.topics import DataTopics, MeshTopics, all_of, edges_of
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
    assert Rule("group", DataTopics("n1").group, "literal", READ) in me.rules
    assert Rule("topic", "data.n1", "literal", ("Read", "Write", "DescribeConfigs")) in feeder.rules
    assert ("Write", "data.n1") not in allowed(me, data_specs(mesh.settings, "n1"))
    for node in ALIKE:
        specs = data_specs(mesh.settings, node)
        assert bool(allowed(me, specs)) == (node in {"n1", "n"})
        assert bool(allowed(feeder, specs)) == (node == "n1")
    assert me.quota is feeder.quota is None


def test_no_rule_is_for_anything_but_topics_and_one_group_each(tmp_path):
    mesh = resolved(tmp_path)
    found = [rule for user in (*mesh_users(mesh), *data_users(mesh, "abcd")) for rule in user.rules]
    assert {word for rule in found for word in rule.operations} == {"Read", "Write", "DescribeConfigs"}
    assert {rule.pattern for rule in found if rule.kind == "group"} == {"literal"}
    assert rules([]) == ()
