"""One release a node of class sums or moments, that nothing is tuned for: AUC by set, epsilon and records.

    python -m experiments run untuned

The nodes of a ring have so many records each, in one slot, with the product's own mechanisms and exact noise;
delta = 1e-6 but for class sums with `laplace`. Closing rounds follow, and the model is the mean of the nodes'
decisions; on a ring of 16 nodes it is that of each node, beside the mean of all their releases. kappa is that
of a mesh file's `rule`. No row is declared public, and nothing is chosen on what is reported. Each figure is
the median of twenty runs in other orders, with the 10th and the 90th percentile. LendingClub and Covertype
need the folder of sets, and are left out without it.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from experiments.harness.figures import table
from experiments.harness.made_up import Rows
from experiments.harness.meshes import node_name
from experiments.harness.study import Measured, Study
from experiments.harness.untuned import ENTRIES, required_rows, rows_of
from nodes.learner import Engine
from nodes.losses.losses import scores
from nodes.privacy.exact import ExactSampler
from nodes.privacy.features import HEIGHT
from nodes.rule import Public, chosen
from nodes.values import Consensus, FloatArray, Observations
from streams.local.scoring import auc
from streams.mesh.mesh import Mesh
from streams.mesh.settings.mesh import MeshSettings
from topology.keyed import generator
from topology.schedules import closing_rounds

NODES, RING, RUNS, DELTA = 4, 16, 20, 1e-6
FORMS = ("class-sums, laplace", "class-sums, gaussian", "moments")
OPEN = "moments, none"
"""Without privacy."""
CASES = (
    *(("adult", 1.0, records) for records in (250, 1_000, 7_733)),
    ("adult", 0.3, 7_733),
    *((rows, 1.0, 5_000) for rows in ("lending-club", "diabetes", "covertype")),
)
"""Sets, epsilons, and records a node."""
QUICK = (("diabetes", 1.0, 100),)


def learnt(seed: int, *, rows: str, form: str, epsilon: float, records: int, nodes: int = NODES) -> Measured:
    """Return AUC and accuracy of the model on the set's held-out rows, and the nodes' own AUC, (N,)."""
    train, test = required_rows(rows)
    columns = train.features.shape[1]
    mesh = Mesh(_settings(columns, ENTRIES[rows], form, epsilon, records, nodes))
    learner = mesh.node(node_name(0)).learner_with(ExactSampler())
    engine = Engine(learner, mesh.schedule)
    order = generator("order", seed).permutation(len(train.labels))[: nodes * records]
    order = order.reshape(nodes, records)
    labels = train.labels[order]
    slot = Observations(_with_intercept(train.features[order]), labels, np.ones(labels.shape, np.bool_))
    (step,) = engine.steps([slot])
    decisions = engine.closed(step, closing_rounds(mesh.schedule, 1))
    releases = step.lesson.release
    one_mean = Consensus(np.broadcast_to(releases.mean(0), releases.shape))
    ideal = learner.algorithm.decide(2, one_mean, 1.0 / nodes)[0]
    test = Rows(_with_intercept(test.features), test.labels)
    positive = (test.labels > 0).mean()
    area, accuracy = _scored(decisions.mean(0), test)
    return {
        "auc": np.array(area),
        "accuracy": np.array(accuracy),
        "nodes": np.array([_scored(decision, test)[0] for decision in decisions]),
        "of_the_mean": np.array(_scored(ideal, test)[0]),
        "majority": np.array(max(positive, 1 - positive)),
    }


def _settings(
    columns: int, entries: int, form: str, epsilon: float, records: int, nodes: int
) -> MeshSettings:
    """Return the mesh, kappa by the rule."""
    name, mechanism = ("moments", "gaussian") if form == "moments" else form.split(", ")
    algorithm: dict[str, Any] = {"name": name}
    if name == "moments":
        public = Public(
            *(records, nodes, columns, columns + 1, 2, Fraction(epsilon), DELTA),
            algorithm=name,
            mechanism=mechanism,
        )
        algorithm["kappa"] = chosen(public)["algorithm.kappa"].value
    elif mechanism == "laplace":
        algorithm["entries"] = entries
    privacy: dict[str, Any] = {"mechanism": mechanism, "epsilon": epsilon}
    if mechanism == "gaussian":
        privacy["delta"] = DELTA
    elif mechanism == "none":
        privacy = {"mechanism": "none", "norm": "l2"}
    schema = {
        "features": {f"column-{k}": {"bounds": [0, 1]} for k in range(columns)},
        "intercept": "outside",
        "norm": 1,
        "label": {"column": "label", "positive": "1"},
    }
    return MeshSettings.model_validate(
        {
            "name": "untuned",
            "run": "run",
            "nodes": [node_name(number) for number in range(nodes)],
            "features": schema,
            "loss": "hinge",
            "algorithm": algorithm,
            "slots": {"by": "count", "size": records},
            "privacy": privacy,
            "topology": {"graph": "ring"},
        }
    )


def _with_intercept(rows: FloatArray) -> FloatArray:
    return np.concatenate([rows, np.full((*rows.shape[:-1], 1), HEIGHT)], -1)


def _scored(decision: FloatArray, test: Rows) -> tuple[float, float]:
    margins = scores(decision, test.features)
    area = auc(margins, test.labels)
    if area is None:
        raise ValueError("the held-out rows have one class alone")
    return area, float(((margins > 0) == (test.labels > 0)).mean())


def main(study: Study) -> None:
    """Write untuned (a table of sets, forms, epsilons and records) and untuned-ring."""
    cases: dict[str, dict[str, Any]] = {
        f"{rows}, {epsilon:g}, {records}, {form}": {
            "rows": rows,
            "form": form,
            "epsilon": epsilon,
            "records": records,
        }
        for rows, epsilon, records in (QUICK if study.quick else CASES)
        if rows_of(rows) is not None
        for form in (*FORMS, *([OPEN] if epsilon == 1.0 else ()))
    }
    measured = study.repeated(learnt, cases, RUNS)
    table(
        study.output,
        "untuned",
        ["set", "form", "epsilon", "records", *_columns("auc"), *_columns("accuracy"), "majority"],
        [
            [*case.values(), *_band(result["auc"]), *_band(result["accuracy"]), result["majority"][0]]
            for case, result in zip(cases.values(), measured.values(), strict=True)
        ],
    )
    _ring(study)


def _ring(study: Study) -> None:
    name, records = ("diabetes", 100) if study.quick else ("adult", 250)
    cases = {
        form: {"rows": name, "form": form, "epsilon": 1.0, "records": records, "nodes": RING}
        for form in FORMS
    }
    measured: Mapping[str, Measured] = study.repeated(learnt, cases, RUNS)
    table(
        study.output,
        "untuned-ring",
        ["form", *_columns("a_node"), *_columns("of_the_mean")],
        [[form, *_band(of["nodes"]), *_band(of["of_the_mean"])] for form, of in measured.items()],
    )


def _columns(name: str) -> list[str]:
    return [name, f"{name}_p10", f"{name}_p90"]


def _band(values: FloatArray) -> list[float]:
    low, middle, high = np.percentile(values, [10, 50, 90]).tolist()
    return [middle, low, high]
