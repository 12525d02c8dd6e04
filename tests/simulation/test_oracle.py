"""A whole mesh against the formulas: every release and every decision, in loops over nodes and coordinates.

The reference (tests/support/oracles/algorithms.py) reads the mesh file, the records and the plans on the bus.
"""

import itertools
import json

import numpy as np
import pytest

from nodes.machine.events import Decided
from nodes.protocol import Stepped
from streams.codec import decode_plans
from streams.local.mesh import MemoryMesh
from tests.support.meshes.files import changed, loaded, planned_to_close, releases
from tests.support.oracles.algorithms import Reference

ROUNDS = 6
EXACT, SOLVED = 1e-12, 1e-8
CLASSIFYING = ("hinge", "logistic")


# ---------------------------------------------------------------- the mesh, on the bus


def width(mesh):
    """The features of a record."""
    loss = mesh["loss"]
    if "softmax" not in loss:
        return Reference(mesh).m
    return mesh["dimension"] // loss["softmax"]


def made_up(mesh):
    """Records by node, (features, label) or None for one that cannot be read; labels fit the loss."""
    d, random = width(mesh), np.random.default_rng(7)
    records = {}
    for name in mesh["nodes"]:
        rows = random.normal(size=(ROUNDS * mesh["slots"]["size"], d)).tolist()
        labels = random.uniform(0.2, 2.0, len(rows)) * (1 if mesh["loss"] == "range" else 3)
        if mesh["loss"] in CLASSIFYING:
            labels = random.choice([-1.0, 1.0], len(rows))
        if "softmax" in mesh["loss"]:
            labels = random.integers(0, mesh["loss"]["softmax"], len(rows)).astype(float)
        records[name] = list(zip(rows, labels.tolist(), strict=True))
    last = list(mesh["nodes"])[-1]
    records[last][1] = None
    records[last][0] = (Reference(mesh).start()[:d], 1.0)  # a sensor that stands at x_1
    return records


def source(folder, mesh, name, records):
    """A file of the records, and the settings of the source that reads it."""
    columns = [f"x{k}" for k in range(width(mesh))]
    objects = [dict(zip([*columns, "y"], [*r[0], r[1]], strict=True)) if r else [] for r in records]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(o) + "\n" for o in objects))
    classes = {"positive": [1.0], "negative": [-1.0]} if mesh["loss"] in CLASSIFYING else {}
    if "softmax" in mesh["loss"]:
        classes = {"classes": [float(k) for k in range(mesh["loss"]["softmax"])]}
    schema = {"features": dict.fromkeys(columns, "number"), "label": {"column": "y"} | classes}
    return {"source": {"kind": "json-lines", "path": f"{name}.jsonl", "schema": schema}}


def planned(mesh):
    """The dense weights a_ij of every planned round, {i: {j: a_ij}}, doubly stochastic."""
    topics, digest = mesh.parts.topics, mesh.parts.digest
    records = [decode_plans(value, topics.run, digest) for value in mesh.bus.read(topics.topology, 0)]
    plans = [plan for record in records for plan in record.plans]
    assert [plan.round for plan in plans] == list(range(1, len(plans) + 1))
    assert plans.pop().ended
    closing = len(plans) - ROUNDS
    assert [plan.closing for plan in plans] == [0] * ROUNDS + list(range(closing, 0, -1))
    assert closing >= 1
    found = []
    for plan in plans:
        names = [member.name for member in plan.members]
        rows = {i: dict.fromkeys(names, 0.0) | dict(plan.incoming(i)) for i in names}
        for i in names:
            rows[i][i] = 1.0 - sum(rows[i].values())
        for i in names:
            assert sum(rows[i].values()) == pytest.approx(1, abs=1e-15)
            assert sum(rows[j][i] for j in names) == pytest.approx(1, abs=1e-15)
            assert min(rows[i].values()) > -1e-15
        found.append(rows)
    return found


def compared(folder, tolerance, settings):
    """Run the mesh and the reference; all releases and decisions must agree. Return reference and weights."""
    tree = changed(rounds=ROUNDS, seed=5)
    shape = tree["mesh"] = tree["mesh"] | settings
    records = made_up(shape)
    tree["nodes"] = {name: source(folder, shape, name, records[name]) for name in shape["nodes"]}
    found, decided = {}, {}

    def report(name, report):
        match report:
            case Decided(round, decision, own):
                decided[name, round] = decision
                found[name, round] = own
            case Stepped(_, record):
                found[name, record.round] = record.release

    mesh = MemoryMesh(planned_to_close(loaded(folder, tree)), report)
    mesh.run()
    assert mesh.done
    weights = planned(mesh)
    reference = Reference(shape).run(records, weights)
    agree(found, reference.releases, tolerance)
    agree(decided, reference.decisions, tolerance)
    sent, _ = releases(mesh)
    heard = {(j, t) for t, rows in enumerate(weights, 1) for i in rows for j in rows if i != j and rows[i][j]}
    assert sent == {key: {found[key].tobytes()} for key in heard}
    return reference, weights


def agree(found, expected, tolerance):
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        for value, other in zip(found[key].tolist(), values, strict=True):
            assert abs(value - other) <= tolerance * max(1.0, abs(other)), (key, value, other)


# ---------------------------------------------------------------- what is run

DIAGONAL = {"mahalanobis": [0.3, 4.0, 1.2]}
FULL = {"mahalanobis": [[1.0, 0.4, 0.1], [0.4, 1.5, -0.3], [0.1, -0.3, 0.8]]}
L1, L2, LINF = {"l1-ball": 0.9}, {"l2-ball": 0.7}, {"linf-ball": 0.4}
BOX = {"box": {"lower": [-0.5, 0.1, -0.3], "upper": [0.2, 0.7, 0.4]}}
OFFERED = {
    "euclidean-l1": ("euclidean", L1, EXACT),
    "euclidean-l2": ("euclidean", L2, EXACT),
    "euclidean-linf": ("euclidean", LINF, EXACT),
    "euclidean-box": ("euclidean", BOX, EXACT),
    "euclidean-simplex": ("euclidean", "simplex", EXACT),
    "entropy-simplex": ("entropy", "simplex", EXACT),
    "diagonal-l1": (DIAGONAL, L1, EXACT),
    "diagonal-l2": (DIAGONAL, L2, SOLVED),
    "diagonal-linf": (DIAGONAL, LINF, EXACT),
    "diagonal-box": (DIAGONAL, BOX, EXACT),
    "full-l1": (FULL, L1, SOLVED),
    "full-l2": (FULL, L2, SOLVED),
    "full-linf": (FULL, LINF, SOLVED),
    "full-box": (FULL, BOX, SOLVED),
}
ALGORITHMS = pytest.mark.parametrize("algorithm", ["dpdo-nc", "dola"])
CLEAR = {"mechanism": "none", "gradient_bound": 1e6}
MATRICES = [
    [[0, 0.2, 0.8], [0.5, 0.5, 0], [0.5, 0.3, 0.2]],
    [[0, 1, 0], [0, 0, 1], [1, 0, 0]],
    [[0, 0.3, 0.7], [0.7, 0, 0.3], [0.3, 0.7, 0]],
]
TOPOLOGIES = {
    "ring": {"nodes": list("abcd"), "topology": {"graph": "ring"}},
    "matrices": {"nodes": list("cab"), "topology": {"cycle": [{"matrix": m} for m in MATRICES]}},
    "switching": {"nodes": list("abcd"), "topology": {"graph": "complete", "switching": 0.5}},
}
STEP = {"rule": "inverse-sqrt", "a": 0.5}


def shared(case, name, topology="ring", size=1, loss="squared", step_size=STEP, privacy=CLEAR, **other):
    """The shared settings of a mesh with an offered map and set, and their tolerance."""
    mirror_map, constraint, tolerance = OFFERED[case]
    algorithm = {"name": name, "mirror_map": mirror_map, "constraint": constraint, "step_size": step_size}
    slots = {"by": "count", "size": size}
    settings = {"algorithm": algorithm | other, "dimension": 3, "loss": loss, "slots": slots}
    return tolerance, settings | {"privacy": privacy} | TOPOLOGIES[topology]


@ALGORITHMS
@pytest.mark.parametrize("case", OFFERED)
def test_every_map_on_every_set_it_is_offered_with(tmp_path, case, algorithm):
    far = {"entropy-simplex": 60.0, "diagonal-l1": 10.0}.get(case, 3.0)  # 60: down to the floor and up again
    far = STEP | {"a": far}
    reference, _ = compared(tmp_path, *shared(case, algorithm, loss="logistic", step_size=far))
    assert reference.bound > 3  # else the set was not seen at work
    assert reference.clips == 0


LOSSES = ["range", "hinge", "logistic", "squared", "absolute", "linear", {"huber": 0.6}]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss if isinstance(loss, str) else "huber")
@pytest.mark.parametrize("size", [1, 3])
def test_every_loss_over_slots_of_one_and_of_three(tmp_path, loss, size):
    compared(tmp_path, *shared("euclidean-l2", "dpdo-nc", loss=loss, size=size))


ROBUST = {"huber": 0.4}
PLACES = {
    "robust range": {"range": ROBUST},
    "bearing": "bearing",
    "robust bearing": {"bearing": ROBUST},
    "difference": {"range-difference": {"reference": [0.2, -0.1]}},
    "robust difference": {"range-difference": {"reference": [0.2, -0.1], **ROBUST}},
}


@pytest.mark.parametrize("name", PLACES)
def test_every_loss_of_a_sensor_s_place(tmp_path, name):
    tolerance, settings = shared("euclidean-l2", "dpdo-nc", loss=PLACES[name], size=3)
    compared(tmp_path, tolerance, settings | {"dimension": 2})


@ALGORITHMS
def test_several_kinds_of_sensors_in_one_mesh(tmp_path, algorithm):
    tolerance, settings = shared("euclidean-l2", algorithm, loss="range")
    losses = zip("abcd", [None, *list(PLACES.values())[1:4]], strict=True)
    nodes = {name: {} if loss is None else {"loss": loss} for name, loss in losses}
    reference, _ = compared(tmp_path, tolerance, settings | {"dimension": 2, "nodes": nodes})
    alike, _ = compared(tmp_path, tolerance, settings | {"dimension": 2, "nodes": list("abcd")})
    assert reference.releases != alike.releases


SOFTMAX = {"loss": {"softmax": 3}, "dimension": 6, "seed": 5}


@ALGORITHMS
@pytest.mark.parametrize("weights", [None, [0.5, 1.0, 7.0]], ids=["equal", "weighted"])
@pytest.mark.parametrize("size", [1, 3])
def test_softmax_and_the_weights_of_its_classes(tmp_path, algorithm, weights, size):
    tolerance, settings = shared("euclidean-l2", algorithm, size=size, step_size=STEP | {"a": 3.0})
    given = settings | SOFTMAX | ({} if weights is None else {"class_weights": weights})
    reference, _ = compared(tmp_path, tolerance, given)
    assert reference.bound > 0


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_weights_of_two_classes(tmp_path, loss):
    tolerance, settings = shared("euclidean-l2", "dpdo-nc", loss=loss, size=3)
    reference, _ = compared(tmp_path, tolerance, settings | {"class_weights": [0.25, 4.0]})
    unweighted, _ = compared(tmp_path, tolerance, settings)
    assert reference.releases != unweighted.releases


RULES = [
    {"rule": "constant", "a": 0.3},
    {"rule": "inverse-sqrt", "a": 0.3},
    {"rule": "inverse", "a": 0.3},
    {"rule": "shifted-inverse", "a": 3.0, "b": 5.0},
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["rule"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_every_step_size_on_every_topology_with_a_regulariser_and_a_given_x_1(tmp_path, rule, topology):
    start = [0.25, -0.125, 0.5]
    other = {"step_size": rule, "regulariser": 0.5, "x_1": start}
    reference, weights = compared(tmp_path, *shared("euclidean-l1", "dola", topology, **other))
    assert reference.decisions["a", 1] == pytest.approx(start, abs=1e-15)
    assert_weights(topology, weights)


def assert_weights(topology, weights):
    """The plans' weights are those of the mesh file: Metropolis weights, or the matrices in turn."""
    nodes = TOPOLOGIES[topology]["nodes"]
    for t, rows in enumerate(weights):
        for (p, i), (r, j) in itertools.permutations(enumerate(nodes), 2):
            if topology == "matrices":
                assert rows[i][j] == MATRICES[t % len(MATRICES)][p][r]
            elif topology == "ring":
                assert rows[i][j] == (0 if abs(p - r) == 2 else 1 / 3)
            elif rows[i][j]:
                busiest = max(sum(1 for k in nodes if k != m and rows[m][k]) for m in (i, j))
                assert rows[i][j] == rows[j][i] == 1 / (1 + busiest)
    assert topology != "switching" or len({str(rows) for rows in weights}) >= ROUNDS


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_a_clip_scales_to_the_norm(tmp_path, norm):
    privacy = CLEAR | {"gradient_bound": 0.7, "norm": norm}
    reference, _ = compared(tmp_path, *shared("euclidean-l2", "dpdo-nc", "matrices", 3, privacy=privacy))
    assert reference.clips > ROUNDS


LAPLACE = CLEAR | {"mechanism": "laplace", "on": "gradient", "noise": "simulated"}
LAPLACE |= {"epsilon": 0.7, "gradient_bound": 0.7}


@ALGORITHMS
@pytest.mark.parametrize("size", [1, 3])
def test_noise_on_the_gradient(tmp_path, algorithm, size):
    given = shared("euclidean-box", algorithm, "switching", size, regulariser=0.2, privacy=LAPLACE)
    reference, _ = compared(tmp_path, *given)
    assert reference.clips > ROUNDS


def test_noise_on_the_gradient_of_softmax(tmp_path):
    tolerance, settings = shared("euclidean-l2", "dola", "switching", 3, privacy=LAPLACE)
    weighted = settings | SOFTMAX | {"class_weights": [1.0, 0.5, 9.0]}
    reference, _ = compared(tmp_path, tolerance, weighted)
    assert reference.clips > ROUNDS


NORMS = {"euclidean-l1": "l2", "euclidean-box": "l1", "euclidean-simplex": "l2", "entropy-simplex": "linf"}
NORMS |= {"diagonal-l2": "l2", "diagonal-linf": "l2", "full-l1": "l2"}
NORMS |= {"full-l2": "l2", "full-linf": "l2"}


@ALGORITHMS
@pytest.mark.parametrize("case", NORMS)
def test_noise_on_the_parameters(tmp_path, algorithm, case):
    privacy = LAPLACE | {"on": "parameters", "norm": NORMS[case], "gradient_bound": 0.35}
    given = shared(case, algorithm, "matrices", loss="range", regulariser=0.2, privacy=privacy)
    reference, _ = compared(tmp_path, *given)
    assert reference.clips > ROUNDS


VELOCITY = {
    "dynamics": {"model": "constant-velocity", "dimensions": 2, "period": 0.5},
    "gains": [0.4, 0.3],
    "constraint": {"reach": {"position": 0.4, "speed": 0.3}},
}
ACCELERATION = {
    "dynamics": {"model": "constant-acceleration", "dimensions": 1, "period": 0.5},
    "gains": [0.4, 0.3, 0.2],
    "constraint": {"box": {"lower": [-0.3, -0.2, -1.0], "upper": [0.5, 0.3, 0.4]}},
}
MATRIX = {
    "dynamics": {"matrix": [[0.8, -0.6, 0.0], [0.6, 0.8, 0.1], [0.0, 0.0, 1.0]]},
    "mirror_map": DIAGONAL,
    "observes": [2, 0],
    "constraint": BOX,
}
MODELS = {"velocity": (VELOCITY, 4), "acceleration": (ACCELERATION, 3), "matrix": (MATRIX, 3)}


@ALGORITHMS
@pytest.mark.parametrize("privacy", [CLEAR, LAPLACE], ids=["clear", "laplace"])
@pytest.mark.parametrize("model", MODELS)
def test_every_motion_model(tmp_path, model, privacy, algorithm):
    _, settings = shared("euclidean-box", algorithm, "switching", privacy=privacy)
    motion, d = MODELS[model]
    given = {"mirror_map": "euclidean", "step_size": {"rule": "constant", "a": 1.0}} | motion
    settings |= {"algorithm": {"name": algorithm} | given, "dimension": d}
    reference, _ = compared(tmp_path, SOLVED, settings)
    assert reference.bound > 3
