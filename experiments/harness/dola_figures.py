"""DOLA's figures: cases of `learned`, as printed and as a made-up pilot chose, and their curves."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.harness.dola import NOTHING, best, records, together
from experiments.harness.figures import Curve, draw
from experiments.harness.study import FEW, Measure, Measured, Study
from nodes.values import FloatArray

RUNS = 10
LAMBDAS = (0.01, 0.1, 1.0, 10.0)
"""What is tried for the printed form: of lambda its steps 1/(lambda t) and its noise are made."""
DELTA = 1e-6
"""The paper prints none."""
WEIGHT = 0.01
"""lambda of ours; the paper prints none."""
EPSILONS = (1.0, 0.1, 0.01)
BATCHES = (1, 10, 100)
TUNED_BATCHES = (5, 25, 100)
"""Slot sizes that are tried for ours."""
STEPS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)

REGRET = "regret of a node per record (loss)"

Case = dict[str, Any]


def label(epsilon: float | None) -> str:
    """Return what a curve of that epsilon is called."""
    return "no privacy" if epsilon is None else f"epsilon = {epsilon:g}"


def checkpoints(study: Study) -> list[int]:
    """Return when to look, in records a node: multiples of every batch size."""
    return [10, 20] if study.quick else [100, 200, 300, 400, 500]


def pure(epsilon: float) -> list[Mapping[str, Any]]:
    """Return our mechanisms with that pure epsilon; rows have norm at most 1, so the sphere clips nothing."""
    return [
        {"mechanism": "l2-sphere", "gradient_bound": 1.0, "epsilon": epsilon},
        {"mechanism": "laplace", "gradient_bound": 2.0, "epsilon": epsilon},
    ]


def approximate(epsilon: float) -> list[Mapping[str, Any]]:
    """Return our mechanisms with that epsilon at delta."""
    own = {"gradient_bound": 1.0, "epsilon": epsilon, "delta": DELTA}
    return [{"mechanism": "gaussian"} | own, {"mechanism": "gaussian-bisr"} | own]


def printed(form: str, epsilon: float | None, weight: float = WEIGHT) -> Case:
    """Return the paper's algorithm, form laplace (1) or gaussian (2), measured where the paper does, at w_t.

    `epsilon` None: without noise. `weight`: lambda.
    """
    own = {"as": f"printed-{form}", "epsilon": epsilon} | ({"delta": DELTA} if form == "gaussian" else {})
    return {
        "noise": NOTHING if epsilon is None else own,
        "step": {"rule": "inverse", "a": 1 / weight},
        "weight": weight,
        "at": "step",
    }


def plain() -> Case:
    """Return what ours is without privacy: the same lambda, and the loss of the decision."""
    return printed("laplace", None) | {"at": "decision"}


def best_weight(study: Study, form: str, epsilon: float, **shared: Any) -> float:
    """Return the lambda of the printed form whose hinge loss per record is least, on the runs themselves.

    The hinge is the paper's loss, and alike for all lambda; to choose on what is reported flatters the form.
    """
    found = measured(study, {f"{one:g}": printed(form, epsilon, one) for one in LAMBDAS}, **shared)
    return float(min(found, key=lambda name: float(found[name]["hinge"][:, -1].mean())))


def grid(
    mechanisms: Sequence[Mapping[str, Any]], batches: Sequence[int], steps: Sequence[float]
) -> dict[str, Case]:
    """Return a case for each mechanism, slot size and a of the step a/sqrt(t)."""
    return {
        f"{noise['mechanism']} {batch} {a}": {
            "noise": dict(noise),
            "step": {"rule": "inverse-sqrt", "a": a},
            "batch": batch,
        }
        for noise in mechanisms
        for batch in batches
        for a in steps
    }


def chosen(
    study: Study, measure: Measure, cases: Mapping[str, Case], shared: Case, *, by: str, runs: int = 1
) -> Case:
    """Return the case that ends best on a pilot: the least `loss`, or the most of another measure `by`."""
    found = study.repeated(measure, {name: shared | case for name, case in cases.items()}, runs)
    ends = {name: float(one[by][..., -1].mean()) for name, one in found.items()}
    return cases[min(ends, key=ends.__getitem__) if by == "loss" else max(ends, key=ends.__getitem__)]


def tuned(
    study: Study,
    mechanisms: Sequence[Mapping[str, Any]],
    *,
    data: str = "diabetes",
    batches: Sequence[int] = TUNED_BATCHES,
    **shared: Any,
) -> Case:
    """Return the mechanism, slot size and step that lost least on rows made up in the shape of `data`.

    One run each over the grid; no record of the set itself has a part in it.
    """
    last = checkpoints(study)[-1]
    quick = [size for size in batches if last % size == 0][:2]
    cases = grid(mechanisms, quick, STEPS[3:4]) if study.quick else grid(mechanisms, batches, STEPS)
    asked = {"checkpoints": [last], "quick": study.quick, "data": f"like {data}", "runs": 1}
    return chosen(study, together, cases, asked | shared, by="loss")


def measured(
    study: Study, cases: Mapping[str, Case], *, runs: int = RUNS, **shared: Any
) -> dict[str, Measured]:
    """Return `together` of each case, (R, K), with its `regret`: loss less that of the best decision."""
    asked: dict[str, Case] = {
        label: {"data": "diabetes", "checkpoints": checkpoints(study), "quick": study.quick, "weight": WEIGHT}
        | shared
        | case
        | {"runs": min(runs, FEW) if study.quick else runs}
        for label, case in cases.items()
    }
    stacked = study.repeated(together, asked, 1)
    found = {label: {name: one[0] for name, one in arrays.items()} for label, arrays in stacked.items()}
    for label, case in asked.items():
        counts = [look * case.get("nodes", 64) for look in case["checkpoints"]]
        found[label]["regret"] = found[label]["loss"] - least(study, case["data"], counts, case["weight"])
    return found


def least(study: Study, data: str, counts: Sequence[int], weight: float = WEIGHT) -> FloatArray:
    """Return min F over the first so many records, shape (K,)."""
    values: FloatArray = _best(study, data, counts, weight)["value"][0]
    return values


def excess(study: Study, data: str, values: FloatArray, weight: float = WEIGHT) -> FloatArray:
    """Return F over all records of `data` at some points, less its least over the same records.

    Raises ValueError where a value lies below that least by more than its certificate allows: then `values`
    are not F over those records.
    """
    lowest = _best(study, data, [len(records(data, quick=study.quick)[0].labels)], weight)
    above: FloatArray = values - lowest["value"][0]
    if (above < -lowest["gap"][0]).any():
        raise ValueError(f"{data}: F is {above.min():g} above its least, whose gap is {lowest['gap'][0]}")
    return above


def _best(study: Study, data: str, counts: Sequence[int], weight: float) -> Measured:
    wanted = {"data": data, "counts": list(counts), "weight": weight, "quick": study.quick}
    return study.repeated(best, {"best": wanted}, 1)["best"]


def sketch(
    study: Study,
    name: str,
    found: Mapping[str, Measured],
    title: str,
    *,
    of: str = "regret",
    y: str = REGRET,
    looks: Sequence[int] | None = None,
) -> None:
    """Draw one array of each case against the records that a node has seen."""
    x = checkpoints(study) if looks is None else looks
    curves = {label: Curve.over(x, one[of]) for label, one in found.items()}
    draw(study.output, name, curves, title=title, x="records a node", y=y, scales=("log", "auto"))


def banded(runs: FloatArray) -> tuple[float, float, float]:
    """Return the mean of runs, and their 10th and 90th percentile."""
    low, high = np.percentile(runs, [10, 90])
    return float(runs.mean()), float(low), float(high)


def words(case: Case) -> list[object]:
    """Return a case as cells of a table: mechanism, bound (as printed: L), slot size, a of the step."""
    noise = case["noise"]
    return [
        noise.get("as") or noise["mechanism"],
        noise.get("gradient_bound", 1.0),
        case.get("batch", 1),
        case["step"]["a"],
    ]
