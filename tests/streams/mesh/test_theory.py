"""Bounds on regret against real runs of the engine, where their assumptions hold."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from nodes.bounds import with_noise_on_gradients, with_noise_on_parameters
from nodes.learner import Engine
from nodes.privacy.exact import SimulatedSampler
from nodes.regret import network_regret
from nodes.values import Observations
from streams.mesh.mesh import Mesh
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.theory import Mixes, NoBound, Theory, least, windows

RUNS, ROUNDS = 4, 60
BASE = {
    "name": "test",
    "run": "run",
    "nodes": ["a", "b", "c", "d"],
    "dimension": 3,
    "algorithm": {
        "name": "dpdo-nc",
        "constraint": {"l2-ball": 2},
        "step_size": {"rule": "inverse-sqrt", "a": 1},
    },
    "loss": "linear",
    "slots": {"by": "count", "size": 1},
    "privacy": {"mechanism": "laplace", "epsilon": 4, "gradient_bound": 1, "noise": "simulated"},
    "topology": {"graph": "ring"},
}
GAUSSIAN = {"mechanism": "gaussian", "delta": 1e-6}
PARAMETERS = {"on": "parameters", "norm": "l2", "epsilon": 8}
CYCLE = {"cycle": [{"directed-edges": [["a", "b"], ["b", "a"]]}, "star"]}
CASES = {
    "laplace": {},
    "open": {"privacy": {"mechanism": "none", "epsilon": None, "norm": "l2"}},
    "alone, noisy": {
        "nodes": ["a"],
        "algorithm": {"constraint": {"l2-ball": 0.5}},
        "privacy": {"epsilon": 0.1},
    },
    "alone, noisy parameters": {
        "nodes": ["a"],
        "algorithm": {"constraint": {"l2-ball": 0.5}},
        "privacy": PARAMETERS | {"epsilon": 0.1},
    },
    "gaussian": {"privacy": GAUSSIAN, "topology": {"graph": None} | CYCLE},
    "sphere": {
        "privacy": {"mechanism": "l2-sphere"},
        "slots": {"size": 3},
        "topology": {"switching": 0.6},
    },
    "entropy": {"algorithm": {"mirror_map": "entropy", "constraint": "simplex"}},
    "mahalanobis": {"algorithm": {"mirror_map": {"mahalanobis": [2, 0.5, 1]}}},
    "parameters": {"privacy": PARAMETERS},
    "parameters, mahalanobis": {
        "privacy": PARAMETERS,
        "algorithm": {"mirror_map": {"mahalanobis": [[2, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]}},
    },
    "parameters, dola": {"privacy": PARAMETERS, "algorithm": {"name": "dola"}},
    "range": {"loss": "range", "dimension": 2, "privacy": {"gradient_bound": 3}},
    "range, parameters": {"loss": "range", "dimension": 2, "privacy": PARAMETERS | {"gradient_bound": 2}},
    "strongly convex": {"algorithm": {"regulariser": 0.5, "step_size": {"rule": "inverse", "a": 2}}},
    "hinge": {"loss": "hinge"},
    "sparse-dola": {"loss": "hinge", "algorithm": {"name": "sparse-dola", "lasso": 0.1}},
    "squared": {"loss": "squared", "privacy": {"gradient_bound": 5}},
}


def merged(changes):
    """The base mesh with those settings; nested mappings are merged."""
    tree = dict(BASE)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(tree.get(key), dict)
        tree[key] = tree[key] | value if both else value
    return MeshSettings.model_validate(tree)


def records(settings, seed=5):
    """Slots (T, N, h): a common direction and a node's own, one that changes its mind half way."""
    rng = np.random.default_rng(seed)
    nodes, size, d = len(settings.nodes), settings.slots.size, settings.dimension
    shape = ROUNDS, nodes, size
    if settings.loss.range_:  # sensors far away: no decision is nearer than half of what they measure
        angles = np.arange(nodes) * 2 * np.pi / nodes
        places = 5 * np.stack([np.cos(angles), np.sin(angles)], -1)
        features = np.broadcast_to(places[:, None], (*shape, 2))
        distances = np.linalg.norm(features - np.array([1.2, 0.9]), axis=-1)
        return Observations(features, distances, np.ones(shape, np.bool_))
    features = np.array([1.0, -0.6, 0.4])[:d] + rng.normal(scale=0.4, size=(*shape, d))
    features += rng.normal(scale=0.5, size=(nodes, 1, d))
    features /= np.maximum(1.0, np.abs(features).sum(-1, keepdims=True))  # L1 at most the clip
    labels = np.where(rng.random(shape) < 0.8, 1.0, -1.0)
    return Observations(features, labels, np.ones(shape, np.bool_))


def decided(mesh, slots, seed=0):
    """The decisions (T, N, d) of one run of a mesh whose nodes are alike."""
    names = tuple(sorted(mesh.settings.nodes))
    learner = mesh.node(names[0]).learner_with(SimulatedSampler(seed, names))
    rounds = (Observations(*(part[t] for part in slots)) for t in range(len(slots.labels)))
    return np.array([step.decision for step in Engine(learner, mesh.schedule).steps(rounds)])


@cache
def runs(case):
    """The mesh, its slots, and the decisions (RUNS, T, N, d) of as many runs."""
    settings = merged(CASES[case])
    mesh, slots = Mesh(settings), records(settings)
    return mesh, slots, np.array([decided(mesh, slots, seed) for seed in range(RUNS)])


def theory(mesh, rounds=ROUNDS):
    """What theorems say of the mesh."""
    seen = windows(mesh.schedule, rounds)
    assert seen.whole
    return Theory(mesh, rounds, Mixes(seen.width, seen.rate, *least(mesh.schedule, seen)), 1.0)


def first_order(mesh, slots, decisions):
    """Definition 1: the maximum over x of the mean over runs, of the node with the largest."""
    each = []
    for run in decisions:
        regret = network_regret(mesh.loss, mesh.algorithm.constraint, run, slots)[-1]
        each.append(regret)
    return np.max(np.mean(each, 0))


def on_losses(mesh, slots, decisions):
    """The mean over runs of the losses, above those of the best point that gradient steps find."""
    pooled = Observations(*(part.reshape(1, -1, *part.shape[3:]) for part in slots))
    eta = mesh.settings.algorithm.regulariser
    size = slots.labels.shape[-1]
    count = slots.labels.size / size

    def paid(x):
        losses = mesh.loss.value(x, pooled)[0].sum(-1) / size
        return losses + eta / 2 * count * (x * x).sum(-1)

    x = mesh.algorithm.constraint.project(np.zeros(mesh.settings.dimension))
    best = paid(x)
    for step in range(1, 400):
        slope = mesh.loss.gradients(x, pooled)[0].sum(0) / size / count + eta * x
        x = mesh.algorithm.constraint.project(x - slope / np.sqrt(step))
        best = min(best, paid(x))
    values = []
    for run in decisions:  # (T, N, d) against the records (T, N, h) of all nodes
        spread = Observations(*(part[:, None].reshape(ROUNDS, 1, -1, *part.shape[3:]) for part in slots))
        losses = mesh.loss.value(run, spread).sum(-1) / size
        values.append((losses + eta / 2 * run.shape[1] * (run * run).sum(-1)).sum(0))
    return np.max(np.mean(values, 0)) - best


def regret(case):
    """The measured regret, of the kind that the bound is on."""
    mesh, slots, decisions = runs(case)
    return (on_losses if theory(mesh).convex else first_order)(mesh, slots, decisions)


@pytest.mark.parametrize("case", CASES)
def test_no_run_has_a_larger_regret_than_the_bound(case):
    assert 0 < regret(case) <= theory(runs(case)[0]).bound()


@pytest.mark.parametrize("case", ["alone, noisy", "alone, noisy parameters"])
def test_the_bound_without_its_noise_is_exceeded(case):
    found = theory(runs(case)[0]).network
    silent = replace(found, noise=lambda _: 0.0)
    assert max(bound(silent) for bound in (with_noise_on_gradients, with_noise_on_parameters)) < regret(case)


OPEN = {"privacy": {"mechanism": "none", "epsilon": None, "norm": "l2", "gradient_bound": 2}}


def one_number(slopes, **changes):
    """A mesh on [-1, 1] without privacy, and its slots, of one feature: slopes (T, N)."""
    algorithm = {"constraint": {"l2-ball": 1}, **changes.pop("algorithm", {})}
    settings = merged(OPEN | {"dimension": 1, "algorithm": algorithm} | changes)
    features = np.asarray(slopes, float)[:, :, None, None]
    labels = np.ones(features.shape[:3])
    return Mesh(settings), Observations(features, labels, np.ones(labels.shape, np.bool_))


def test_steps_that_are_too_small_pay_their_growth():
    tiny = {"step_size": {"rule": "inverse-sqrt", "a": 0.001}}
    mesh, slots = one_number(np.ones((60, 1)), nodes=["a"], algorithm=tiny)
    measured = on_losses(mesh, slots, decided(mesh, slots)[None])
    found = theory(mesh).network
    assert measured == pytest.approx(60, rel=0.02)
    assert found.geometry.divergence / 0.001 * np.sqrt(60) <= theory(mesh).bound()
    assert with_noise_on_gradients(replace(found, geometry=found.geometry._replace(divergence=0))) < measured


def test_steps_that_are_too_large_pay_their_squares():
    # x_t is 0, -a, 0, -a, ..., always on the wrong side: a/2 a round, half of theta^2 a at theta = 1
    slopes = np.tile([[1.0], [-1.0]], (30, 1))
    large = {"step_size": {"rule": "constant", "a": 0.5}}
    privacy = OPEN["privacy"] | {"gradient_bound": 1}
    mesh, slots = one_number(slopes, nodes=["a"], algorithm=large, privacy=privacy)
    measured = on_losses(mesh, slots, decided(mesh, slots)[None])
    assert measured == pytest.approx(0.5 * 60 / 2)
    assert theory(mesh).bound() == pytest.approx(measured + 2 / 0.5)  # D = 2


def test_nodes_that_hardly_hear_each_other_pay_for_it():
    # (x - 1)^2/2 at one, (x + 1)^2/2 at the other: 0 is best for both together
    slow = {"graph": {"matrix": [[0.99, 0.01], [0.01, 0.99]]}}
    mesh, slots = one_number(
        np.tile([[1.0, -1.0]], (3000, 1)),
        nodes=["a", "b"],
        loss="squared",
        topology=slow,
        algorithm={"step_size": {"rule": "constant", "a": 0.02}},
    )
    of_mesh = theory(mesh, 3000)
    together = Observations(*(part.reshape(1, -1, *part.shape[3:]) for part in slots))
    decisions = decided(mesh, slots)
    spread = Observations(*(part[:, None].reshape(3000, 1, -1, *part.shape[3:]) for part in slots))
    paid = mesh.loss.value(decisions, spread).sum((0, 2)).max()
    measured = paid - mesh.loss.value(np.zeros(1), together).sum()
    assert with_noise_on_gradients(replace(of_mesh.network, left=0.0)) < measured
    assert measured <= of_mesh.bound()


def test_theorem_5_of_li_as_printed_is_exceeded():
    # one direction for ever on a wide set: steps of 1/(2 sqrt(t)) never arrive, and R enters it with sqrt(T)
    steps = {"step_size": {"rule": "inverse-sqrt", "a": 0.5}, "constraint": {"l2-ball": 500}}
    privacy = OPEN["privacy"] | {"gradient_bound": 1}
    mesh, slots = one_number(np.ones((100, 2)), nodes=["a", "b"], algorithm=steps, privacy=privacy)
    decisions = decided(mesh, slots)
    measured = first_order(mesh, slots, decisions[None])
    assert measured == pytest.approx(2 * 100 * 500, rel=0.05)
    found = theory(mesh, 100)
    assert found.li() < measured / 3
    assert measured <= found.bound()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"loss": {"own": "tests.nodes.test_engine:Pinball"}}, "whether your own loss is convex"),
        ({"privacy": GAUSSIAN | {"mechanism": "gaussian-bisr", "bands": 4}}, "correlated over rounds"),
        (
            {
                "privacy": PARAMETERS | {"norm": "linf"},
                "algorithm": {"mirror_map": "entropy", "constraint": "simplex"},
            },
            "not smooth on the simplex's edge",
        ),
        ({"privacy": PARAMETERS, "algorithm": {"regulariser": 0.1}}, "regulariser's gradient"),
        (
            {"nodes": ["a", "b"], "topology": {"graph": {"matrix": [[0, 1], [1, 0]]}}},
            "disagreement between nodes may stay",
        ),
    ],
    ids=["own", "bisr", "edge", "regulariser", "swap"],
)
def test_what_is_missing_is_said(changes, words):
    with pytest.raises(NoBound, match=words):
        theory(Mesh(merged(changes))).bound()


def test_nodes_that_do_otherwise_count_by_their_number():
    own = {"a": {}, "b": {"epsilon": 0.5}, "c": {"gradient_bound": 2}, "d": {}}
    mesh = Mesh(merged({"nodes": own}))
    network = theory(mesh).network
    lengths = [mesh.node(name).noise_length(1) for name in own]
    assert network.noise(1) == pytest.approx(np.sqrt(np.mean(np.square(lengths))))
    assert network.gradient == pytest.approx(np.sqrt((1 + 0.125**2 + 4 + 1) / 4))  # of 4
    assert network.slope == 2


def test_the_theorems_at_the_mesh_s_constants():
    # two nodes, matrix of halves: x = a^(1 B) = 1/2, C = 2 (1 + 2)/(1/2) = 12, 1 - lambda = 1/2
    half = {"graph": {"matrix": [[0.5, 0.5], [0.5, 0.5]]}}
    mesh = Mesh(merged({"nodes": ["a", "b"], "topology": half, "privacy": {"epsilon": 2}}))
    eta, theta, beta, d, n, epsilon = 4, 1, 0, 3, 2, 2
    slope, agreement = beta * eta + 2 * theta, 12 / 0.5
    expected = 8 * np.sqrt(2 * n) * d * theta**2 / epsilon + 2 * np.sqrt(n) + eta**2 / 2
    expected += 8 * d**2 * theta**2 / epsilon**2
    expected += 8 * np.sqrt(2) * d**1.5 * n * agreement * theta * slope / epsilon
    expected += 4 * np.sqrt(d) * n * agreement * theta * slope
    assert theory(mesh).zhou_li() == pytest.approx(expected * np.sqrt(ROUNDS))
    # m = 2, eta = 1/2: theta = (32/31)^2, beta = 31/32
    apart = 3 * (31 / 32) * (32 / 31) ** 2 * 2 * 32
    steps = np.sqrt(ROUNDS) - 0.5
    noise = 2 * np.sqrt(2) * 2 * 3 / 2 * steps
    expected = 2 * (4 + apart + 6.5) * steps + (apart + 3 / 4) * noise + 2 * 4 / 2
    assert theory(mesh).li() == pytest.approx(expected)


def test_a_regulariser_makes_theorem_5_logarithmic():
    strong = {"algorithm": {"regulariser": 0.5, "step_size": {"rule": "inverse", "a": 2}}}
    by = {rounds: theory(Mesh(merged(strong)), rounds) for rounds in (100, 10_000)}
    assert by[10_000].li() < 2 * by[100].li()
    assert by[10_000].bound() < 2 * by[100].bound()


def test_what_a_theorem_needs_and_has_not_is_said():
    for changes, words in [
        ({"loss": "hinge"}, "beta: the hinge loss has none"),
        ({"algorithm": {"mirror_map": "entropy", "constraint": "simplex"}}, "M: the entropy"),
        ({"privacy": GAUSSIAN}, "Laplace's, not that of gaussian"),
    ]:
        with pytest.raises(NoBound, match=words):
            theory(Mesh(merged(changes))).zhou_li()
    unknown = replace(theory(Mesh(merged({"loss": "squared"}))), longest=None)
    with pytest.raises(NoBound, match="longest features"):
        unknown.zhou_li()
