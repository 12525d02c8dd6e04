"""DOLA from its formulas, in loops: mini-batches with a regulariser, and Gaussian noise in the step.

Li, Zhou, Xiong, Wang, Wang 2018, Algorithms 2 and 4, the regulariser at the public consensus; the off-line
form (their arXiv version, Algorithm 2) is a file in disjoint batches, and the average of the iterates.
"""

import json
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from nodes.privacy.exact import SimulatedSampler
from streams.local.run import LocalRun, mesh_parts
from tests.support.meshes.files import changed, loaded

NODES, D, H, RECORDS = list("abcd"), 3, 5, 33
RADIUS, ETA, STEP, THETA = 0.8, 0.3, 0.6, 0.7
ROUNDS = -(-RECORDS // H)  # the last batch has 3 records
CLEAR = {"mechanism": "none", "gradient_bound": 1e6}
GAUSSIAN = {"mechanism": "gaussian", "noise": "simulated", "epsilon": 0.9, "delta": 1e-5}


def made_up():
    random = np.random.default_rng(3)
    rows = {name: random.normal(size=(RECORDS, D)).tolist() for name in NODES}
    return {name: [(a, float(random.choice([-1, 1]))) for a in found] for name, found in rows.items()}


def run(folder, records, *, regulariser, privacy):
    """The decisions of each node, round by round, until the files hold no more records."""
    columns = [f"x{k}" for k in range(D)]
    tree = changed(
        nodes=NODES,
        dimension=D,
        algorithm={
            "name": "dola",
            "constraint": {"l2-ball": RADIUS},
            "step_size": {"rule": "inverse-sqrt", "a": STEP},
            "regulariser": regulariser,
        },
        loss="hinge",
        slots={"by": "count", "size": H},
        rounds="none",
        seed=8,
    )
    tree["mesh"]["privacy"] = privacy
    for name in NODES:
        lines = [json.dumps(dict(zip([*columns, "y"], [*a, y], strict=True))) for a, y in records[name]]
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        label = {"column": "y", "positive": [1.0], "negative": [-1.0]}
        schema = {"features": dict.fromkeys(columns, "number"), "label": label}
        tree["nodes"][name] = {
            "source": {"kind": "json-lines", "path": f"{name}.jsonl", "schema": schema, "shuffle": False}
        }
    local = LocalRun(mesh_parts(loaded(folder, tree)))
    local.mesh.run()
    local.mesh.close()
    return {name: np.array(node.decisions) for name, node in local.recorder.nodes.items()}


def ball(x):
    return [v * min(1.0, RADIUS / max(math.hypot(*x), 1e-300)) for v in x]


def subgradient(w, a, y):
    return [-y * v if y * sum(p * q for p, q in zip(w, a, strict=True)) < 1 else 0.0 for v in a]


def clipped(g, theta):
    return [v * min(1.0, theta / max(math.hypot(*g), 1e-300)) for v in g]


def dola(records, eta, theta, noise):
    """b = sum_j a_ij w^j; w = Proj[b - alpha (eta b + (1/h) (sum of the batch's gradients at b + noise))]."""
    w = {name: [0.0] * D for name in NODES}
    decided = {name: [] for name in NODES}
    for t in range(1, ROUNDS + 1):
        following = {}
        for i, name in enumerate(NODES):
            ring = (NODES[i - 1], name, NODES[(i + 1) % len(NODES)])
            b = [sum(w[j][k] for j in ring) / 3 for k in range(D)]
            decided[name].append(ball(b))
            batch = [clipped(subgradient(b, a, y), theta) for a, y in records[name][(t - 1) * H : t * H]]
            drawn_faults = noise(name, t)
            mean = [(sum(g[k] for g in batch) + drawn_faults[k]) / H for k in range(D)]
            alpha = STEP / math.sqrt(t)
            following[name] = ball([b[k] - alpha * (eta * b[k] + mean[k]) for k in range(D)])
        w = following
    return {name: np.array(rows) for name, rows in decided.items()}


def silent(name, t):
    return [0.0] * D


def deviation(epsilon, delta, sensitivity):
    """The analytic Gaussian's sigma (Balle, Wang 2018, Theorem 8)."""

    def excess(sigma):
        a, b = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
        return norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b) - delta

    return brentq(excess, 1e-3, 1e3, xtol=1e-14, rtol=1e-14)


def gaussian(name, t):
    """The node's simulated draw of round t, from N(0, sigma^2): records replaced are 2 theta apart."""
    fine = 1 << 40
    drawn_faults = SimulatedSampler(8, name).gaussian(t, np.zeros(D, np.int64), float(fine)) / fine
    return (deviation(0.9, 1e-5, 2 * THETA) * drawn_faults).tolist()


def test_mini_batches_with_a_regulariser_and_the_average_of_the_iterates(tmp_path):
    records = made_up()
    found = run(tmp_path, records, regulariser=ETA, privacy=CLEAR)
    expected = dola(records, ETA, math.inf, silent)
    for name in NODES:
        assert found[name].shape == (ROUNDS, D)  # one pass in disjoint batches
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-12)
        average = [sum(row[k] for row in expected[name]) / ROUNDS for k in range(D)]
        np.testing.assert_allclose(found[name].mean(0), average, rtol=0, atol=1e-12)


def test_the_regulariser_and_the_ball_were_at_work():
    records = made_up()
    without = dola(records, 0.0, math.inf, silent)
    with_it = dola(records, ETA, math.inf, silent)
    assert all(np.abs(without[name] - with_it[name]).max() > 1e-3 for name in NODES)
    noisy = dola(records, 0.0, THETA, gaussian)
    assert max(np.sqrt((rows**2).sum(-1)).max() for rows in noisy.values()) > 0.6 * RADIUS


@pytest.mark.parametrize("eta", [0.0, ETA])
def test_epsilon_and_delta_are_gaussian_noise_inside_the_step(tmp_path, eta):
    records = made_up()
    privacy = GAUSSIAN | {"gradient_bound": THETA}
    found = run(tmp_path, records, regulariser=eta, privacy=privacy)
    expected = dola(records, eta, THETA, gaussian)
    for name in NODES:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-6)  # gradients are on a grid
