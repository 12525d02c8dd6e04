import re
from pathlib import Path

import pytest

from tests.support.meshes.files import changed, written

MESHES = Path(__file__).parents[3] / "deploy" / "meshes"


def facts(outcome):
    assert (outcome.code, outcome.err) == (0, "")
    found = {}
    for line in outcome.out.splitlines():
        name, _, fact = line.partition(":")
        found.setdefault(name, fact.strip())
    return found


def change(mesh, *changes):
    text = mesh.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    mesh.write_text(text)


def test_a_plan_says_what_would_happen(call):
    found = facts(call("plan", MESHES / "tracking.yaml"))
    assert found["members"].startswith("east, north-east, ")
    assert "6 nodes must be there" in found["members"]
    assert found["edges"].startswith("ring, the same every round; 6 pairs")
    assert found["connected"] == "in every round"
    assert "at most 0.667 of" in found["mixing"]  # a ring of 6 with thirds: (1 + 2 cos 60 deg)/3
    assert "2,000 rounds, 1 record a round and node (count slots)" in found["mesh"]
    assert "clipped to 0.5 in l1" in found["mechanism"]
    assert "exact noise of scale 1 " in found["mechanism"]  # 2 theta/epsilon
    assert "at least 4 times as long as a slot's signal" in found["noise"]  # sqrt(2) sqrt(2) 1 over 0.5
    assert "1 of one record" in found["epsilon"]
    assert "2,000 of a node's whole stream after 2,000 rounds" in found["epsilon"]
    assert found["guarantee"].startswith("Each record of node east's stream is protected with epsilon = 1")
    assert found["guarantee"].endswith(
        "The same holds for north-east, north-west, west, south-west, south-east."
    )
    assert "WARNING" not in found


@pytest.mark.parametrize(
    ("size", "rounds", "text"),
    [
        (3, None, "a: the last 1 of 7 records fill no slot on a broker; `run` learns from them in a"),
        (9, 4, "a: the last 7 of 7 records fill no slot on a broker"),
        (3, 2, None),  # the rounds end before
        (7, None, None),
    ],
)
def test_records_that_fill_no_slot_are_counted(call, tmp_path, size, rounds, text):
    slots = {"by": "count", "size": size}
    tree = changed(loss="squared", slots=slots, rounds=rounds or "none")
    schema = {"features": {"x": "number", "z": "number"}, "label": {"column": "y"}}
    for name in tree["nodes"]:
        source = {"kind": "csv", "path": f"{name}.csv", "schema": schema}
        tree["nodes"][name] = {"source": source}
    (tmp_path / "a.csv").write_text("x,z,y\n" + "1,2,3\n" * 7)
    (tmp_path / "b.csv").write_text("x,z,y\n" + "1,2,3\n" * 9 * 7)  # no file of c is here
    left_over = facts(call("plan", written(tmp_path, tree))).get("left over")
    assert (left_over is None) is (text is None)
    assert text is None or left_over.startswith(text)


def test_it_says_how_many_closing_rounds_follow_and_after_which(call):
    what = "nodes mix what was learnt last, and learn and charge nothing"
    assert facts(call("plan", MESHES / "tracking.yaml"))["closing"] == f"1 round after round 2,000: {what}"
    short = facts(call("plan", MESHES / "tracking.yaml", "--rounds", "1"))["closing"]
    # thirds around a ring of 6: sqrt(2/6) (2/3)^c, about, is below 0.05 from c = 7 on
    assert short == f"7 rounds (the run is short for its graph) after round 1: {what}"


def test_outboxes_cost_rights_by_edge_and_no_more(call, mesh):
    assert "layout" not in facts(call("plan", mesh))
    change(mesh, ("  name: small", "  name: small\n  layout: outbox"))
    outcome = call("plan", mesh)
    assert facts(outcome)["layout"] == "outbox: 11 topics on the mesh broker, 33 replicas at 3 each"
    assert "with a topic an edge it would be 14 topics, 42 replicas" in outcome.out
    assert "rights are by node, not by edge" in outcome.out
    assert "the guarantee is the same" in outcome.out


def test_a_complete_graph_leaves_nothing_to_disagree_on(call, mesh):
    change(mesh, ("graph: ring", "graph: complete"))
    assert "after 1 round nothing of the disagreement" in facts(call("plan", mesh))["mixing"]


def test_nothing_is_run(call, mesh, tmp_path):
    call("plan", mesh)
    assert [path.name for path in tmp_path.iterdir()] == ["mesh.yaml"]


def test_graphs_in_turn_are_connected_over_a_window(call):
    found = facts(call("plan", MESHES / "tracking-paper.yaml"))
    assert found["connected"] == "over any 2 rounds in a row"
    assert "in round 1, " in found["mechanism"]  # noise on the parameters shrinks with the step
    assert "on the parameters" in found["mechanism"]
    # 0.173 from round 1 on; the window that begins with the second graph is slower
    assert "after any 2 rounds in a row at most 0.2 of" in found["mixing"]


def test_simulated_noise_is_said_loudly(call, mesh):
    found = facts(call("plan", mesh))
    assert "NOTHING IS PROTECTED" in found["WARNING"]
    assert found["guarantee"].startswith("Nothing in node a's stream is protected")


def test_nodes_that_never_meet_are_said_loudly(call, mesh):
    change(mesh, ("graph: ring", "graph: {edges: [[a, b]]}"))
    assert facts(call("plan", mesh))["connected"] == "NEVER"
    change(mesh, ("{graph: {edges: [[a, b]]}}", "{graph: {edges: [[a, b]]}, switching: 0.5}"))
    found = facts(call("plan", mesh))["connected"]
    assert re.fullmatch(r"NOT IN [\d,]+ ROUNDS \(LOOKED AT: ROUNDS 1 TO 40\)", found)


def test_switching_edges_are_looked_at_over_the_rounds(call, mesh):
    change(mesh, ("{graph: ring}", "{graph: ring, switching: 0.5}"))
    found = facts(call("plan", mesh))
    assert "each pair on with probability 0.5" in found["edges"]
    assert "(looked at: rounds 1 to 40)" in found["connected"]
    assert found["mixing"].endswith("between nodes is left")
    change(mesh, ("rounds: 40", "rounds: none"))
    found = facts(call("plan", mesh))
    assert found["mixing"].endswith(": an estimate, from those that begin in rounds 1 to 1,000")


@pytest.mark.parametrize(
    ("rounds", "words", "spent"),
    [(40, "up to round 30", "30 of a node's"), (20, "in every round: the budget of 30 pays for 30", "20 of")],
)
def test_a_budget_ends_the_learning(call, mesh, rounds, words, spent):
    change(mesh, ("epsilon: 1,", "epsilon: 1, budget: 30,"))
    found = facts(call("plan", mesh, "--rounds", rounds))
    assert words in found["learning"]
    assert f"event level); {spent}" in found["epsilon"]


def test_what_happens_after_the_budget(call, mesh):
    change(mesh, ("epsilon: 1,", "epsilon: 1, budget: 30, after_budget: leave,"))
    assert facts(call("plan", mesh))["learning"].endswith("then it leaves the mesh")


def test_nodes_that_do_otherwise_are_told_apart(call, mesh):
    change(
        mesh,
        ("nodes: [a, b, c]", "nodes: {a: {}, b: {epsilon: 2}, c: {mechanism: none}}"),
        ("simulated", "exact"),
    )
    out = call("plan", mesh).out
    assert "a: laplace on the gradient" in out
    assert "exact noise of scale 0.5 " in out
    assert "c: none; " in out
    assert out.count("guarantee: ") == 3
    assert "Nothing in node c's stream is protected" in out


def test_a_nodes_own_part_may_be_missing(call, mesh):
    change(mesh, ("  b: {source: {kind: localisation}}", "  b: b.yaml"))
    assert "b is not here" in facts(call("plan", mesh))["elsewhere"]


def test_what_a_power_cut_costs_is_told_where_it_costs_something(call, mesh):
    assert "durability" not in facts(call("plan", mesh))
    change(
        mesh,
        ("  b: {source: {kind: localisation}}", "  b: {source: {kind: localisation}, durability: process}"),
    )
    told = facts(call("plan", mesh))["durability"]
    assert told.startswith("b: the disk is not synced each round; a power cut costs a node up to ")
    assert told.endswith(" slots of 1 record, also of records to come, and their charges")


def test_without_rounds_the_price_of_one_is_told(call, mesh):
    change(mesh, ("rounds: 40", "rounds: none"), ("size: 1", "size: 4"))
    assert "costs 4 in one round (stream level, sum)" in facts(call("plan", mesh))["epsilon"]


def test_slots_by_time_are_explained(call, mesh):
    change(mesh, ("{by: count, size: 1}", "{by: time, period: 2, start: 0}"))
    found = facts(call("plan", mesh))
    assert found["slots"] == "2 s each, the first record of it; closed 0.2 s late"
