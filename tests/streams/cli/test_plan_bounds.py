"""`plan` says what theorems promise, and what they need that a mesh does not have."""

import re

import pytest

from streams.mesh.file import load
from streams.mesh.theory import windows
from streams.terminal.plan_text import theory_of
from tests.streams.cli.test_plan import MESHES, change, facts


def said(call, mesh, *options):
    """The facts, and all lines as one text."""
    outcome = call("plan", mesh, *options)
    return facts(outcome), re.sub(r"\s+", " ", outcome.out)


def loss(mesh, name):
    """Give the mesh another loss; its nodes' own parts are elsewhere."""
    change(mesh, ("loss: range", f"loss: {name}"))
    mesh.write_text(mesh.read_text().partition("nodes:\n")[0])


def test_the_range_loss_is_promised_nothing(call):
    found, text = said(call, MESHES / "tracking.yaml")
    assert found["bound"].startswith("first-order regret of the network after 2,000 rounds at most 2.76e+04,")
    assert "(no decisions have more than 3.6e+04)" in text  # 6 nodes, 2,000 rounds, theta 0.5, eta 6
    assert "no promise: the range loss has no beta nearer to a sensor" in text
    assert found["printed"].startswith("Zhou, Li 2025, Theorem 2: 2.1e+10")
    assert "the range loss is not smooth at a sensor" in text
    assert "steps are not 1/(6 sqrt(t))" in text
    assert "the noise is on the gradient, not on the parameters" in text
    assert "weight of every node on itself" not in text


def test_a_bound_that_says_nothing_is_called_so(call):
    _, text = said(call, MESHES / "tracking-paper.yaml")
    assert re.search(r"that says nothing, as no decisions have more than \S+ an expectation", text)
    assert "steps are not" not in text
    assert "needs a weight of every node on itself" in text
    assert "the noise is that of the step that made a release" in text


def test_a_convex_loss_has_a_bound_on_losses_and_its_average(call, mesh):
    loss(mesh, "linear")
    found, text = said(call, mesh)
    assert found["bound"].startswith("regret of the network after 40 rounds at most")
    assert "a node's average decision: expected loss at most" in text
    assert "no promise" not in text


def test_the_printed_bound_is_the_promise_s(call, mesh):
    loss(mesh, "linear")
    found, _ = said(call, mesh)
    file = load(mesh)
    theory = theory_of(file, windows(file.resolved.schedule, 40), 40)
    assert f"at most {theory.bound():.3g}, {theory.bound() / 120:.3g} a round and node" in found["bound"]
    assert found["printed"] == f"Zhou, Li 2025, Theorem 2: {theory.zhou_li():.3g}"


@pytest.mark.parametrize(("name", "where"), [("hinge", "at its kink"), ("absolute", "at its kink")])
def test_kinks_are_named(call, mesh, name, where):
    loss(mesh, name)
    found, text = said(call, mesh)
    assert found["bound"].startswith("regret of the network")
    assert f"no value: beta: the {name} loss has none" in text
    assert f"the {name} loss is not smooth {where}" in text


def test_dola_has_theorems_5_and_7(call, mesh):
    loss(mesh, "linear")
    change(mesh, ("name: dpdo-nc", "name: dola"))
    found, text = said(call, mesh)
    assert re.match(r"Li et al\. 2018, Theorem 5: \S+, which is no bound", found["printed"])
    change(mesh, ("mechanism: laplace", "mechanism: gaussian, delta: 1.0e-6"))
    found, text = said(call, mesh)
    assert "Theorem 7: no value: it gives its noise up to a constant alone" in text
    assert "calibrated to the gradient" in text


def test_a_mesh_that_never_agrees_has_no_bound(call, mesh):
    change(mesh, ("graph: ring", "graph: {edges: [[a, b]]}"))
    found, _ = said(call, mesh)
    assert found["bound"] == "none: nodes that are not connected never agree"
    assert "printed" not in found


def test_a_directed_cycle_that_only_passes_on_has_no_bound(call, mesh):
    change(mesh, ("graph: ring", "graph: {matrix: [[0, 1, 0], [0, 0, 1], [1, 0, 0]]}"))
    _, text = said(call, mesh)
    assert "none: all of the disagreement between nodes may stay" in text
    assert "weight of every node on itself" in text


def test_the_end_of_learning_ends_the_bound(call, mesh):
    change(mesh, ("epsilon: 1,", "epsilon: 1, budget: 30,"))
    found, _ = said(call, mesh)
    assert "after 30 rounds at most" in found["bound"]
    assert "after 20 rounds at most" in said(call, mesh, "--rounds", 20)[0]["bound"]


def test_an_estimated_mixing_makes_an_estimated_bound(call, mesh):
    change(mesh, ("{graph: ring}", "{graph: ring, switching: 0.5}"))
    assert "an estimate, as the mixing is one" not in said(call, mesh)[1]
    change(mesh, ("rounds: 40", "rounds: none"))
    found, text = said(call, mesh)
    assert "after 1,000 rounds" in found["bound"]
    assert "an estimate, as the mixing is one" in text


def test_without_privacy_the_noise_is_not_held_against_it(call, mesh):
    change(mesh, ("mechanism: laplace", "mechanism: none"), ("a: 0.5", "a: 0.3333333333333333"))
    found, _ = said(call, mesh)
    assert found["not met"].startswith("the range loss is not smooth at a sensor")
    assert ";" not in found["not met"]


COLUMNS = {
    "in [0, 1]": ("{x: {bounds: [0, 10]}, y: {categories: [red, blue]}}", "", 2.0),  # sqrt(2) each, squared
    "an intercept": ("{x: {bounds: [0, 10]}}", "intercept: true, ", 2.0),
    "a norm": ("{x: number, y: number}", "norm: 3, ", 9.0),
    "any number": ("{x: number, y: number}", "", None),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_the_longest_features_follow_from_the_schema(call, mesh, tmp_path, case):
    features, more, squared = COLUMNS[case]
    (tmp_path / "rows.csv").write_text("x,y,label\n1,2,3\n")
    schema = f"{{features: {features}, {more}label: {{column: label}}}}"
    source = f"{{source: {{kind: csv, path: rows.csv, schema: {schema}}}}}"
    loss(mesh, "squared")
    mesh.write_text(f"{mesh.read_text()}nodes:\n" + "".join(f"  {name}: {source}\n" for name in "abc"))
    change(mesh, ("dimension: 2", f"dimension: {3 if 'categories' in features else 2}"))
    found, _ = said(call, mesh)
    file = load(mesh)
    theory = theory_of(file, windows(file.resolved.schedule, 40), 40)
    if squared is None:
        assert "it needs the longest features" in found["printed"]
    else:
        assert theory.longest**2 == pytest.approx(squared)
        assert found["printed"] == f"Zhou, Li 2025, Theorem 2: {theory.zhou_li():.3g}"
