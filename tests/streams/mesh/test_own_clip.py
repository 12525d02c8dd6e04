"""A node's own clip: by its noise against that of the mesh's privacy, and by nothing of who takes part."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.private import Private
from streams.mesh.mesh import Mesh
from streams.mesh.settings.mesh import MeshSettings
from streams.simulation.oracle.steps import NodeAccount
from tests.support.meshes.files import changed

BOUND = 0.5
LAPLACE = {"mechanism": "laplace", "epsilon": 1, "gradient_bound": BOUND}
GAUSSIAN = {"mechanism": "gaussian", "epsilon": 1, "delta": 1e-6, "gradient_bound": BOUND}
SPHERE = {"mechanism": "l2-sphere", "epsilon": 1, "gradient_bound": BOUND}
BISR = {"mechanism": "gaussian-bisr", "epsilon": 1, "delta": 1e-6, "bands": 4, "gradient_bound": BOUND}


def mesh(nodes, privacy=LAPLACE, **changes):
    tree = changed()["mesh"] | {"nodes": nodes} | changes
    return Mesh(MeshSettings.model_validate(tree | {"privacy": privacy | {"noise": "exact"}}))


def clips(nodes, privacy=LAPLACE, **changes):
    found = mesh(nodes, privacy, **changes)
    return {name: found.node(name).privacy.gradient_bound for name in nodes}


def test_with_laplace_a_clip_is_shorter_as_the_epsilon_is_smaller_and_never_longer():
    nodes = {"a": {}, "b": {"epsilon": 0.02}, "c": {"epsilon": 3}, "d": {"epsilon": 1}}
    assert clips(nodes) == {"a": 0.5, "b": 0.5 * 0.02, "c": 0.5, "d": 0.5}


def test_a_clip_that_a_node_names_is_kept():
    nodes = {"a": {}, "b": {"epsilon": 0.02, "gradient_bound": 0.5}, "c": {"gradient_bound": 4}}
    assert clips(nodes) == {"a": 0.5, "b": 0.5, "c": 4.0}


def lasting(node):
    """The root mean square of a round's noise, as it is in a sum over many rounds."""
    length, band = node.noise_length(1), node.mechanism.band
    if band is None:
        return length
    factors = [1.0, *(-band.matrix.weights * 2.0**-30)]
    return length / sum(factor**2 for factor in factors) ** 0.5 * sum(factors)


def test_noise_that_cancels_over_rounds_counts_by_what_remains():
    """A node that takes gaussian-bisr in place of gaussian has less noise in the end, and keeps its clip."""
    own = {"mechanism": "gaussian-bisr", "bands": 16}
    found = mesh({"a": {}, "b": own}, GAUSSIAN)
    assert found.node("b").noise_length(1) > found.node("a").noise_length(1) > lasting(found.node("b"))
    assert found.node("b").privacy.gradient_bound == BOUND
    assert found.cautions == []


@pytest.mark.parametrize("privacy", [LAPLACE, GAUSSIAN, SPHERE, BISR], ids=lambda one: one["mechanism"])
@pytest.mark.parametrize(
    "own",
    [
        {"epsilon": 0.1},
        {"mechanism": "laplace", "norm": "l1", "epsilon": 0.05},
        {"mechanism": "gaussian", "delta": 1e-9, "epsilon": 0.05},
        {"mechanism": "l2-sphere", "epsilon": 0.05},
    ],
    ids=["epsilon", "laplace", "gaussian", "sphere"],
)
def test_by_any_mechanism_a_longer_noise_becomes_as_long_as_that_of_the_meshs_own(privacy, own):
    found = mesh({"a": {}, "b": own, "c": {}}, privacy)
    lengths = [lasting(found.node(name)) for name in "ab"]
    assert found.node("b").privacy.gradient_bound < BOUND
    assert lengths[1] == pytest.approx(lengths[0], rel=1e-4)


def sigma(epsilon, delta):
    """The noise of sensitivity 1 (Balle, Wang 2018, Theorem 8), by halving."""

    def normal(x):
        return math.erfc(-x / math.sqrt(2)) / 2

    low, high = 1e-3, 1e3
    for _ in range(100):
        s = math.sqrt(low * high)
        spent = normal(1 / (2 * s) - epsilon * s) - math.exp(epsilon) * normal(-1 / (2 * s) - epsilon * s)
        low, high = (s, high) if spent > delta else (low, s)
    return high


def test_by_gaussian_noise_it_is_the_ratio_of_two_sigmas():
    clip = clips({"a": {}, "b": {"epsilon": 0.1, "delta": 1e-9}}, GAUSSIAN)["b"]
    assert clip == pytest.approx(BOUND * sigma(1.0, 1e-6) / sigma(0.1, 1e-9), rel=1e-4)


def test_totals_are_compared_by_the_epsilon_of_a_release():
    shared = LAPLACE | {"epsilon": {"total": 100, "rounds": 50}}
    assert clips({"a": {}, "b": {"epsilon": {"total": 25, "rounds": 100}}}, shared)["b"] == BOUND / 8
    assert clips({"a": {}, "b": {"epsilon": 0.5}}, shared)["b"] == BOUND / 4
    growing = {"total": 100, "rounds": 50, "schedule": "growing"}
    less = growing | {"total": 10}
    assert clips({"a": {}, "b": {"epsilon": less}}, LAPLACE | {"epsilon": growing})["b"] == BOUND / 10


def test_noise_on_parameters_shortens_the_clip_too():
    shared = LAPLACE | {"on": "parameters", "norm": "l2"}
    found = mesh({"a": {}, "b": {"epsilon": 0.1}}, shared)
    assert found.node("b").privacy.gradient_bound == BOUND / 10
    assert found.node("b").noise_length(3) == pytest.approx(found.node("a").noise_length(3), rel=1e-6)


def test_without_noise_there_is_nothing_to_be_as_long_as():
    assert clips({"a": {}, "b": {"mechanism": "none"}})["b"] == BOUND
    open_mesh = {"mechanism": "none", "gradient_bound": BOUND}
    own = {"mechanism": "laplace", "norm": "l1", "epsilon": 0.01}
    assert clips({"a": {}, "b": own}, open_mesh)["b"] == BOUND


def test_whoever_joins_or_leaves_or_changes_changes_nobody_elses_clip_bound_or_digest():
    few = {"a": {}, "b": {"epsilon": 0.02}, "c": {"epsilon": 0.5}}
    many = few | {"d": {"epsilon": 0.001}, "e": {"mechanism": "none"}, "f": {"gradient_bound": 9}}
    other = many | {"d": {"epsilon": 5}}
    meshes = [mesh(nodes, topology={"graph": "complete"}) for nodes in (few, many, other)]
    for name in few:
        assert len({found.node(name).privacy for found in meshes}) == 1
        assert len({found.node(name).expected.bound for found in meshes}) == 1
        assert len({found.node(name).price for found in meshes}) == 1
    assert len({found.settings.digest() for found in meshes}) == 1


def test_neighbours_and_the_node_have_one_bound_on_its_releases_and_it_is_no_wider_than_the_others():
    shared = LAPLACE | {"on": "parameters", "norm": "l2"}
    nodes = {"a": {}, "b": {"epsilon": 0.02}, "c": {}}
    bound = mesh(nodes, shared).node("a").context.expected["b"].bound
    node = mesh(nodes, shared).node("b")
    assert bound == node.context.own.bound == pytest.approx(node.learner.release_bound)
    assert bound == pytest.approx(mesh(nodes, shared).node("a").context.own.bound, rel=1e-6)
    wide = {"epsilon": 0.02, "gradient_bound": BOUND}
    assert bound < mesh(nodes | {"b": wide}, shared).node("b").expected.bound


def test_the_guarantee_is_that_of_the_nodes_epsilon_and_its_price_names_the_clip():
    node = mesh({"a": {}, "b": {"epsilon": 0.02}}).node("b")
    assert float(node.guarantee.epsilon) == 0.02
    assert dict(node.price.settings)["gradient_bound"] == "0.01"


def test_what_a_node_releases_has_no_gradient_beyond_its_clip():
    node = mesh({"a": {}, "b": {"epsilon": 0.01}}).node("b")
    far, none = (
        node.learner_with(SimulatedSampler(1, "b"))
        .mechanism.privatise(1, Private(np.full((1, 2), length)), np.array)
        .release
        for length in (100.0, 0.0)
    )
    assert np.abs(far - none).sum() == pytest.approx(BOUND / 100, rel=1e-6)


@pytest.mark.parametrize(
    "own", [{"epsilon": 0.3}, {"epsilon": 3}, {"epsilon": 0.3, "gradient_bound": 0.4}, {}]
)
def test_the_oracle_of_simulated_histories_reckons_the_same_noise(own):
    """It shares no code with the product, and holds each draw of a simulated node against its own figure."""
    tree = changed(nodes={"a": {}, "b": own, "c": {}})
    account = NodeAccount.of(SimpleNamespace(tree=tree), "b")
    assert account.scale == mesh(tree["mesh"]["nodes"]).node("b").mechanism.scale


WARNED = [
    ({"b": {"epsilon": 0.02, "gradient_bound": BOUND}}, "mesh.nodes.b: the noise here is at least 50 times"),
    ({"b": {"gradient_bound": 5}}, "mesh.nodes.b: the noise here is at least 10 times"),
    ({}, None),
    ({"b": {"epsilon": 0.02}}, None),
    ({"b": {"gradient_bound": 0.9}}, None),
]


@pytest.mark.parametrize(("own", "text"), WARNED)
def test_a_warning_names_the_node_whose_noise_is_most_of_all_and_the_clip_that_cures_it(own, text):
    lines = mesh({"a": {}, "b": {}, "c": {}, "d": {}} | own).cautions
    if text is None:
        assert lines == []
        return
    (line,) = lines
    assert line.startswith(f"{text} as long as that of the others, and reaches every node: gradient_bound ")
    clip = json.loads(line.split("gradient_bound ")[1].split()[0])
    assert mesh({"a": {}, "b": own["b"] | {"gradient_bound": clip}, "c": {}, "d": {}}).cautions == []
    cured = mesh({"a": {}, "b": own["b"] | {"gradient_bound": clip}})
    lengths = [cured.node(name).noise_length(1) for name in "ab"]
    assert lengths[1] == pytest.approx(lengths[0], rel=1e-2)


def test_two_such_nodes_are_named_together_and_one_of_many_is_not_most():
    loud = {"epsilon": 0.1, "gradient_bound": BOUND}
    (line,) = mesh({"a": {}, "b": loud, "c": {}, "d": loud}).cautions
    assert "(likewise d)" in line
    names = {f"n{k}": {} for k in range(120)} | {"n7": loud}
    assert mesh(names).cautions == []


def test_one_private_node_of_an_open_mesh_is_told_of():
    open_mesh = {"mechanism": "none", "gradient_bound": BOUND}
    own = {"mechanism": "laplace", "norm": "l1", "epsilon": 1}
    (line,) = mesh({"a": {}, "b": own, "c": {}}, open_mesh).cautions
    assert line.startswith("mesh.nodes.b: the noise here is all, and reaches every node")
