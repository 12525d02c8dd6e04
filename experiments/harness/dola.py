"""DOLA (Li et al. 2018) with a linear SVM on the engine: what it loses, and how far its nodes are apart.

    F = mean over records of max(0, 1 - y <w, x>) + lambda/2 ||w||^2,   Omega = {||w||_2 <= 1/sqrt(lambda)}

The paper prints the hinge alone, with the steps 1/(lambda t) of a strongly convex loss: so lambda is in the
loss here, at the public consensus. All runs see the records in one order; noise and graphs differ.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any, Literal

import numpy as np

from experiments.harness.data import QUICK_ROWS, SETS, load
from experiments.harness.dola_printed import PrintedGaussian, PrintedLaplace
from experiments.harness.hindsight import minimised
from experiments.harness.made_up import Rows, made_up, unit_ball
from experiments.harness.meshes import dealt, engine, node_name, settings, slots
from experiments.harness.svm import MeanHinge, RegularisedHinge, Tally
from nodes.geometry.constraints import L2Ball
from nodes.learner import Engine, Step
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.mechanism import Mechanism
from nodes.values import FloatArray
from streams.mesh.algorithm import step_size
from streams.mesh.settings.mesh import MeshSettings
from topology.graph import complete, erdos_renyi
from topology.keyed import generator

ORDER = 0
"""The seed of the records' order."""
HELD_OUT = 4
"""Every fourth record, in that order, where some are held out: three quarters train."""
PUBLIC = 20
"""Every twentieth of those is declared public: for tuning alone."""
NOTHING = {"mechanism": "none", "norm": "l2", "gradient_bound": 1.0}
TURNS = 300
SWITCHING = 0.5
"""How likely a pair of the graph is on in a round; the paper's nodes take a random part, and print none."""

Point = Literal["decision", "step"]


@cache
def records(data: str, *, quick: bool, held_out: bool = False) -> tuple[Rows, Rows]:
    """Return the records to learn from, in the order of all runs, and those held out (none unless asked).

    `data`: a set of `experiments.harness.data`, `unit-ball`, `like NAME`: made up in the shape of it, or,
    where some are held out, `public NAME`: of those that train every twentieth is declared public, and is
    never among those of NAME; this pilot is drawn from them, as many, and scored on them.
    """
    name, most = data.rsplit(maxsplit=1)[-1], QUICK_ROWS if quick else 100_000
    if name == "unit-ball":
        rows = unit_ball(most, 10, 0 if name == data else 1)
    elif data.startswith("like "):
        rows = made_up(most, SETS[name].columns, SETS[name].share)
    else:
        rows = load(name, quick=quick)
    features, labels = dealt(rows.features, rows.labels, 1, 1, ORDER)
    places = np.arange(len(labels))
    out, public = places[:0], places[:0]
    if held_out:
        out, train = places[::HELD_OUT], np.delete(places, slice(None, None, HELD_OUT))
        public, places = train[::PUBLIC], np.delete(train, slice(None, None, PUBLIC))
        if data.startswith("public "):
            out, places = public, generator("public", 0).choice(public, len(places))
    learnt, other = (Rows(features[part, 0, 0], labels[part, 0, 0]) for part in (places, out))
    return learnt, other


def learned(seed: int, **case: Any) -> dict[str, FloatArray]:
    """Return what one mesh has reached, as `together`, shapes (K,)."""
    return {name: found[0] for name, found in together(seed, runs=1, **case).items()}


def together(
    seed: int,
    *,
    runs: int,
    data: str,
    checkpoints: Sequence[int],
    noise: Mapping[str, Any],
    step: Mapping[str, Any],
    nodes: int = 64,
    degree: float = 4.0,
    batch: int = 1,
    weight: float = 0.01,
    at: Point = "decision",
    quick: bool = False,
    held_out: bool = False,
    whole: bool = False,
) -> dict[str, FloatArray]:
    """Return what meshes side by side have reached at each checkpoint, in records a node: shapes (R, K).

    `loss`: the mean of F's terms over all records so far, each at the point `at` of node 0 in its round (the
    paper's regret, of any one node, is that less the best); `hinge`: the hinge of them alone. `apart`:
    sum_i ||w_i - mean||^2. With `whole`: `last`, `average`: F over all records at node 0's last point, and
    at its points' average. `accuracy`, `auc`: over the records held out, mean over nodes; `_average` of
    their averages, `_network` of the mean of those (Theorem 9). `at`: "decision", which is public, or
    "step": w_t before the noise, where the paper measures. `noise`: as `privacy` in a mesh file, or {"as":
    "printed-laplace" or "printed-gaussian", "epsilon", "delta"}. Checkpoints are multiples of `batch`.
    """
    rows, other = records(data, quick=quick, held_out=held_out)
    rounds = checkpoints[-1] // batch
    if len(rows.labels) < rounds * batch * nodes:
        raise ValueError(
            f"{data}: {len(rows.labels)} records are too few for {rounds} rounds of {nodes} nodes"
        )
    taken = rounds * batch * nodes
    features = rows.features[:taken].reshape(rounds, nodes, batch, -1)
    labels = rows.labels[:taken].reshape(rounds, nodes, batch)
    algorithm = {
        "name": "dola",
        "constraint": {"l2-ball": weight**-0.5},
        "step_size": dict(step),
        "regulariser": weight,
    }
    mesh = hinge_mesh(nodes, features.shape[-1], degree, batch, noise, algorithm, seed=seed, runs=runs)
    made = noisy_engine(mesh, noise, rounds, seed)
    tally = Tally(RegularisedHinge(weight), rows, other, nodes * batch, runs, whole=whole)
    found = []
    own: FloatArray = np.tile(made.learner.algorithm.start, (runs * nodes, 1))
    for taught in made.steps(slots(_alike(features, runs), _alike(labels, runs))):
        point = taught.decision if at == "decision" else own
        tally.add(point)
        own = _before_noise(made.learner.mechanism, taught)
        if taught.round * batch in checkpoints:
            found.append(tally.scores(point))
    return {name: np.stack([scores[name] for scores in found], -1) for name in found[0]}


def _alike(slots: FloatArray, runs: int) -> Iterator[FloatArray]:
    """Yield each round's slots (N, ...), once for each run."""
    for one in slots:
        yield np.concatenate([one] * runs)


def _before_noise(mechanism: Mechanism, taught: Step) -> FloatArray:
    """Return w_{t+1}, which the step made: the release, less the noise that is on it."""
    if isinstance(mechanism, PrintedLaplace):
        return taught.lesson.release - mechanism.noise(taught.round, taught.lesson.release.shape)
    return taught.lesson.release


def best(
    seed: int,  # noqa: ARG001 # as every measure; nothing here is random
    *,
    data: str,
    counts: Sequence[int],
    weight: float = 0.01,
    quick: bool = False,
) -> dict[str, FloatArray]:
    """Return min F over the first so many records, and how much lower it may be at most: shapes (K,)."""
    rows, _ = records(data, quick=quick)
    omega = L2Ball(rows.features.shape[-1], weight**-0.5)
    made = [minimised(MeanHinge(weight, rows, count), omega, 1e-4, TURNS) for count in counts]
    return {"value": np.array([one.value for one in made]), "gap": np.array([one.gap for one in made])}


def hinge_mesh(
    nodes: int,
    dimension: int,
    degree: float,
    batch: int,
    noise: Mapping[str, Any],
    algorithm: Mapping[str, Any],
    *,
    seed: int = 0,
    runs: int = 1,
) -> MeshSettings:
    """Return meshes of the hinge loss side by side, each on a random graph of that mean degree.

    No edge is between two of them. Neighbours are drawn anew in each round: each pair of a graph is on with
    probability SWITCHING. `noise` as in `together`.
    """
    return settings(
        nodes * runs,
        dimension,
        algorithm=dict(algorithm),
        loss="hinge",
        slots={"by": "count", "size": batch},
        privacy=(NOTHING if "as" in noise else dict(noise)) | {"noise": "simulated"},
        topology=_graphs(nodes, degree, seed, runs),
    )


def _graphs(nodes: int, degree: float, seed: int, runs: int) -> dict[str, Any]:
    if nodes == 1:
        return {"graph": {"matrix": np.eye(runs).tolist()}}
    pairs: list[tuple[str, str]] = []
    for run in range(runs):
        names = [node_name(run * nodes + place) for place in range(nodes)]
        wide = nodes - 1 <= degree
        graph = complete(names) if wide else erdos_renyi(names, seed + run, mean_degree=degree)
        ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
        pairs += [(names[low], names[high]) for low, high in ends if low < high]
    return {"graph": {"edges": pairs}, "switching": SWITCHING}


def noisy_engine(mesh: MeshSettings, noise: Mapping[str, Any], rounds: int, seed: int) -> Engine:
    """Return its engine, with the paper's own mechanism where `noise` asks for it."""
    made = engine(mesh, seed)
    if "as" not in noise:
        return made
    return replace(made, learner=replace(made.learner, mechanism=_printed(mesh, noise, rounds, seed)))


def _printed(mesh: MeshSettings, noise: Mapping[str, Any], rounds: int, seed: int) -> Mechanism:
    """Return the paper's own mechanism; `noise` as in `together`."""
    sampler, alpha = SimulatedSampler(seed, tuple(sorted(mesh.nodes))), step_size(mesh)
    epsilon, dimension = Fraction(str(noise["epsilon"])), mesh.dimension
    if noise["as"] == "printed-laplace":
        return PrintedLaplace(1.0, epsilon, mesh.slots.size, dimension, alpha, sampler)
    return PrintedGaussian(1.0, epsilon, noise["delta"], rounds, dimension, alpha, sampler)
