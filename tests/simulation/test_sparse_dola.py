"""A mesh of Sparse DOLA against the formulas, in loops over dense lists; and what it may hold in memory."""

import math
import tracemalloc

import numpy as np
import pytest

from nodes.accounting.guarantee import Ledger
from nodes.algorithms import InverseSqrt, SparseDola
from nodes.geometry.constraints import L2Ball
from nodes.learner import Learner
from nodes.losses.losses import Hinge
from nodes.machine.events import Decided
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.private import Private
from nodes.protocol import Stepped
from nodes.values import Consensus
from streams.local.mesh import MemoryMesh
from streams.local.results import summarise
from streams.local.run import LocalRun, mesh_parts, without_privacy
from streams.mesh.file import load
from streams.mesh.settings.sparse import LibsvmSettings
from streams.mesh.shipped import example_mesh
from streams.records.observed import observed
from streams.records.sources import held_out
from streams.records.sparse import LibsvmDecoder
from tests.support.meshes.files import loaded, planned_to_close
from tests.support.meshes.reuters import real, stand_in, texts
from tests.support.meshes.sparse import MESH
from tests.support.oracles.algorithms import alpha, gradient, grid_of, held, size

ROUNDS, NODES, D = 8, "abc", 7
THIRD = 1 / 3  # a ring of three, Metropolis
NONE = {"mechanism": "none", "gradient_bound": 0.6, "norm": "l2"}
LAPLACE = {"mechanism": "laplace", "epsilon": 2, "gradient_bound": 0.6, "noise": "simulated"}


def made_up(name, batch):
    """Records of a node, dense lists with labels; None for a line that is no record."""
    random = np.random.default_rng(ord(name))
    rows = np.where(random.random((ROUNDS * batch, D)) < 0.4, random.normal(size=(ROUNDS * batch, D)), 0.0)
    records = list(zip(rows.tolist(), random.choice([-1.0, 1.0], len(rows)).tolist(), strict=True))
    records[1] = None
    return records


def line(record):
    if record is None:
        return "1 2:1 2:1"
    row, label = record
    return " ".join([repr(label), *(f"{k + 1}:{v!r}" for k, v in enumerate(row) if v)])


class Reference:
    """theta_{t+1} = Proj[z - alpha g~(w)], w = soft(z, alpha rho), in Python floats."""

    def __init__(self, mesh):
        self.mesh, self.releases, self.decisions = mesh, {}, {}
        self.clips = self.projections = 0
        self.algorithm, self.privacy, self.h = mesh["algorithm"], mesh["privacy"], mesh["slots"]["size"]

    def projected(self, x):
        radius, norm = self.algorithm["constraint"]["l2-ball"], size(x, "l2")
        self.projections += norm > radius
        return [v * radius / norm for v in x] if norm > radius else x

    def soft(self, p, threshold):
        return [math.copysign(max(abs(v) - threshold, 0.0), v) for v in p]

    def private(self, name, t, gradients):
        theta, norm = self.privacy["gradient_bound"], self.privacy.get("norm", "l1")
        self.clips += sum(size(g, norm) > theta for g in gradients)
        clipped = [[v * min(1.0, theta / max(size(g, norm), 1e-300)) for v in g] for g in gradients]
        if self.privacy["mechanism"] == "none":
            return [sum(g[k] for g in clipped) / self.h for k in range(D)]
        grid, most = grid_of(theta, D)
        points = [held([round(v / grid) for v in g], most) for g in clipped]
        sampler, scale = SimulatedSampler(self.mesh["seed"], name), 2.0 * most / self.privacy["epsilon"]
        noise = sampler.laplace(t, np.zeros(D, np.int64), scale).tolist()
        return [(sum(p[k] for p in points) + noise[k]) * grid / self.h for k in range(D)]

    def run(self, records):
        q = {name: [0.0] * D for name in NODES}
        for t in range(1, ROUNDS + 1):
            self.releases |= {(name, t): q[name] for name in NODES}
            z = [sum(THIRD * q[name][k] for name in NODES) for k in range(D)]
            a = alpha(self.algorithm["step_size"], t)
            w = self.soft(z, a * self.algorithm["lasso"])
            for name in NODES:
                self.decisions[name, t] = w
                slot = records[name][(t - 1) * self.h : t * self.h]
                g = self.private(name, t, [gradient(self.mesh["loss"], w, record) for record in slot])
                q[name] = self.projected([z[k] - a * g[k] for k in range(D)])
        z = [sum(THIRD * q[name][k] for name in NODES) for k in range(D)]  # a closing round
        w = self.soft(z, alpha(self.algorithm["step_size"], ROUNDS + 1) * self.algorithm["lasso"])
        for name in NODES:
            self.releases |= {(name, ROUNDS + 1): q[name], (name, ROUNDS + 2): z}
            self.decisions[name, ROUNDS + 1] = w
        return self


@pytest.mark.parametrize("privacy", [NONE, LAPLACE], ids=["none", "laplace"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("batch", [1, 4])
def test_every_release_and_every_decision(tmp_path, privacy, loss, batch):
    mesh = MESH | {"dimension": D, "privacy": privacy, "loss": loss, "rounds": ROUNDS}
    mesh |= {"slots": {"by": "count", "size": batch}}
    mesh["algorithm"] = mesh["algorithm"] | {"constraint": {"l2-ball": 0.3}, "lasso": 0.15}
    mesh["algorithm"] |= {"step_size": {"rule": "inverse-sqrt", "a": 1.5}}
    records = {name: made_up(name, batch) for name in NODES}
    for name in NODES:
        (tmp_path / f"{name}.txt").write_text("".join(f"{line(record)}\n" for record in records[name]))
    own = {"kind": "libsvm", "label": {"positive": 1, "negative": -1}}
    nodes = {name: {"source": own | {"path": f"{name}.txt"}} for name in NODES}
    found, decided = {}, {}

    def report(name, report):
        match report:
            case Decided(round, decision, own_release):
                decided[name, round], found[name, round] = decision, own_release
            case Stepped(_, record):
                found[name, record.round] = record.release

    run = MemoryMesh(planned_to_close(loaded(tmp_path, {"mesh": mesh, "nodes": nodes})), report)
    run.run()
    assert run.done
    reference = Reference(mesh).run(records)
    assert reference.clips
    assert reference.projections
    for ours, theirs in ((found, reference.releases), (decided, reference.decisions)):
        assert ours.keys() == theirs.keys()
        for key, values in theirs.items():
            np.testing.assert_allclose(ours[key], values, rtol=0, atol=1e-12, err_msg=str(key))
    zeros = [float(np.mean(w == 0)) for (_, t), w in decided.items() if t > 2]
    assert 0 < np.mean(zeros) < 1  # sparse, and not nothing


BATCH, WIDE = 64, 47_236


def lesson_at(dimension):
    """A step of one node at that dimension, from lines to the release."""
    arrays = texts(BATCH, dimension)
    rows = [slice(first, end) for first, end in zip(arrays["indptr"], arrays["indptr"][1:], strict=False)]
    indices, data = arrays["indices"].tolist(), arrays["data"].tolist()
    lines = tuple(
        " ".join(
            [str(label), *(f"{k + 1}:{v!r}" for k, v in zip(indices[row], data[row], strict=True))]
        ).encode()
        for label, row in zip(arrays["y"].tolist(), rows, strict=True)
    )
    learner = Learner(
        SparseDola(L2Ball(dimension, 10.0), InverseSqrt(1.0), 0.1),
        Hinge(),
        GaussianGradient(1.0, 1, 1e-6, BATCH, dimension, SimulatedSampler(0, "a")),
        Ledger(1, BATCH),
        BATCH,
    )
    decoder = LibsvmDecoder(LibsvmSettings(kind="libsvm"), dimension)
    z = Consensus(np.linspace(-1e-3, 1e-3, dimension))

    def lesson(round):
        w = learner.algorithm.decide(round, z)
        return learner.learn(round, z, w, Private(observed(lines, decoder)), 0)

    return lesson


def test_no_array_of_all_coordinates_of_all_records_is_made():
    """64 x 47,236 floats are 24 MB; the step keeps to a dozen vectors (d,)."""
    lesson = lesson_at(WIDE)
    lesson(1)
    tracemalloc.start()
    try:
        lesson(2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * 8 * WIDE < BATCH * 8 * WIDE / 3


TEXTS = {"made-up": stand_in} | ({"real": lambda _: real()} if real() else {})


@pytest.mark.slow
@pytest.mark.parametrize("texts", TEXTS)
def test_the_money_fx_mesh_learns_a_sparse_decision(tmp_path, texts):
    """Without noise; the real texts are no part of the project, and are read where they are."""
    file = without_privacy(load(example_mesh("money-fx.yaml"), TEXTS[texts](tmp_path)))
    local = LocalRun(mesh_parts(file))
    local.mesh.run()
    local.finish()
    summary = summarise(file, local.recorder, held_out(file))
    assert (summary.rounds, summary.score.records) == (30, 3_299)
    assert summary.score.auc > 0.9
    assert summary.zeros > 0.5
    assert {node.malformed for node in summary.nodes} == {0}
