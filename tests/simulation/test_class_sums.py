"""Class sums and moments in whole meshes: from their formulas in loops, and under kills and faults."""

import math

import numpy as np
import pytest

from nodes.privacy.exact import SimulatedSampler
from streams.bus.memory import Faults
from streams.codec import Reason, Refused, decode_release, encode_release
from streams.local.mesh import MemoryMesh
from streams.local.run import LocalRun, mesh_parts
from streams.simulation.search import MeshStage, search
from tests.support.meshes.classes import CORRELATED, MOMENTS, SUMS, rows_of, tree_of
from tests.support.meshes.files import counted_ids, ignore, loaded, releases

FORMS = {"moments": MOMENTS, "class-sums": SUMS, "moments, correlated": CORRELATED}
H, ROUNDS, NODES = 5, 12, "abcd"


@pytest.fixture(params=FORMS)
def form(request):
    return FORMS[request.param]


def run(file, faults=None):
    mesh = MemoryMesh(mesh_parts(file), ignore, faults=faults, new_id=counted_ids())
    mesh.run()
    assert mesh.done
    values, _ = releases(mesh)
    mesh.close()
    return values


# ------------------------------------------------------------------------- the oracle, in plain loops


def phi(form, row, label):
    """What a record adds, in steps, and those steps' size."""
    positive = int(label)
    if form is SUMS:
        points = [round(number * 2**29) for number in row] + [round(2**29 / 3)]
        return [n * (1 - positive) for n in points] + [n * positive for n in points], 2.0**-29
    points = [round(number * 2**15) for number in row]
    quadratic = [(128 if i == j else 181) * points[i] * points[j] for i in range(3) for j in range(i, 3)]
    block = [3 * 128 * 2**15 * n for n in [*points, round(2**15 / 3)]]
    return quadratic + [n * positive for n in block] + [n * (1 - positive) for n in block], 2.0**-37


def noisy_means(form, name, scale):
    """g_1, g_2, ...: each slot's noisy sum over h, with the noise that the seed gives."""
    sampler = SimulatedSampler(0, name)
    for t in range(1, ROUNDS + 1):
        parts = [phi(form, row, label) for *row, label in rows_of(name, 60)[(t - 1) * H : t * H]]
        step, total = (
            parts[0][1],
            np.array([sum(column) for column in zip(*(p for p, _ in parts), strict=True)]),
        )
        draw = sampler.laplace if form is SUMS else sampler.gaussian
        yield draw(t, total, scale) * step / H


@pytest.mark.parametrize("form", [MOMENTS, SUMS], ids=["moments", "class-sums"], indirect=False)
def test_releases_are_the_means_of_the_formulas(form, tmp_path):
    """q_{t+1} = z_t + (g_t - z_t)/t on a ring of four, whose weights are a third."""
    file = loaded(tmp_path, tree_of(tmp_path, form))
    values = run(file)
    scale = file.resolved.node("a").mechanism.scale
    lessons = {name: list(noisy_means(form, name, scale)) for name in NODES}
    q = {name: np.zeros(len(lessons["a"][0])) for name in NODES}
    for t in range(1, ROUNDS):
        z = {name: sum(q[NODES[(k + move) % 4]] for move in (-1, 0, 1)) / 3 for k, name in enumerate(NODES)}
        q = {name: z[name] + (lessons[name][t - 1] - z[name]) / t for name in NODES}
        for name in NODES:
            (released,) = values[name, t + 1]
            np.testing.assert_allclose(np.frombuffer(released), q[name], rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------- kills and faults


def test_the_same_bytes_whenever_a_node_dies(form, tmp_path):
    file = loaded(tmp_path, tree_of(tmp_path, form))
    undisturbed = run(file)
    for n in range(1, 60, 7):
        assert run(file, Faults(crash_before=frozenset({("b", n)}))) == undisturbed, f"crash before {n}"


def test_no_history_breaks_an_invariant(form, tmp_path):
    """Kills, outages, rejoins: what a node releases is what the oracle makes of what it has read."""
    stage = MeshStage(loaded(tmp_path, tree_of(tmp_path, form, records=200)))
    assert [found.violation for found in search(stage, range(6)) if found.violation] == []


def test_releases_have_a_length_and_a_bound_of_their_own(form, tmp_path):
    """D numbers, K and 64 scales a coordinate: readers refuse what is beyond, or as long as a decision."""
    file = loaded(tmp_path, tree_of(tmp_path, form))
    parts = mesh_parts(file)
    mesh = MemoryMesh(parts, ignore, new_id=counted_ids())
    mesh.run()
    learner, expected = parts.nodes["a"].learner, parts.expected("a")
    assert expected.dimension == learner.algorithm.dimension == len(learner.algorithm.start)
    assert file.mesh.dimension == 3 != expected.dimension
    scale, length = learner.mechanism.noise_scale(1), expected.dimension
    bound = learner.algorithm.reach + 64 * scale * math.sqrt(length)
    assert expected.bound == learner.release_bound == pytest.approx(bound)
    message = decode_release(mesh.bus.read(parts.topics.edge("a", "b"), 0)[-1], expected)
    for released, reason in (
        (np.full(length, 1.01 * bound / math.sqrt(length)), Reason.OUT_OF_BOUND),
        (np.zeros(3), Reason.LENGTH),
    ):
        forged = encode_release(message._replace(release=released), parts.digest)
        with pytest.raises(Refused) as caught:
            decode_release(forged, expected)
        assert caught.value.reason is reason
    mesh.close()


def test_a_ridge_knows_how_many_nodes_were_mixed(tmp_path):
    """On a ring of four a third of each of three: the noise is less by the root of three."""
    file = loaded(tmp_path, tree_of(tmp_path, MOMENTS))
    algorithm = file.resolved.algorithm
    local = LocalRun(mesh_parts(file))
    local.mesh.run()
    local.mesh.close()
    decisions, nodes = local.recorder.decisions(), local.recorder.nodes
    released = {name: nodes[name].records[4].release for name in NODES}  # made in round 5, for round 6
    mean = sum(released[name] for name in "dab") / 3
    deviation = algorithm.deviations(5)
    for share, is_it in ((1 / 3, True), (1.0, False)):
        decision = algorithm.decide_by(mean, np.array(deviation * math.sqrt(share)))
        assert np.allclose(decision, decisions[5, 0], rtol=1e-6) is is_it


def test_decisions_are_of_the_features_and_rank_the_records(tmp_path):
    form = MOMENTS | {"privacy": {"mechanism": "none", "norm": "l2"}}
    local = LocalRun(mesh_parts(loaded(tmp_path, tree_of(tmp_path, form))))
    local.mesh.run()
    local.mesh.close()
    decisions = local.recorder.decisions()
    assert decisions.shape == (ROUNDS, 4, 3)
    assert not decisions[0].any()  # before the first lesson nothing is known
    records = np.array(rows_of("a", 60))
    scores = records[:, :3] @ decisions[-1, 0]
    ones, zeros = scores[records[:, 3] == 1], scores[records[:, 3] == 0]
    assert (ones[:, None] > zeros).mean() > 0.9
