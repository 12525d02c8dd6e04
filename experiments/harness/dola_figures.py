"""DOLA's figures: cases of `learned`, as printed and as a made-up pilot chose, and their curves."""

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.harness.dola import NOTHING, best, learned
from experiments.harness.figures import Curve, draw
from experiments.harness.study import Measure, Measured, Study
from nodes.values import FloatArray

RUNS = 10
DELTA = 1e-6
"""The paper prints none."""
WEIGHT = 0.01
"""lambda; the paper prints none."""
PRINTED_STEP = {"rule": "inverse", "a": 1 / WEIGHT}
EPSILONS = (1.0, 0.1, 0.01)
BATCHES = (1, 10, 100)
STEPS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)

Case = dict[str, Any]


def label(epsilon: float | None) -> str:
    """Return what a curve of that epsilon is called."""
    return "no privacy" if epsilon is None else f"epsilon = {epsilon:g}"


def checkpoints(study: Study) -> list[int]:
    """Return when to look, in records a node: multiples of every batch size."""
    return [10, 20] if study.quick else [100, 200, 300, 500, 700, 1000, 1500]


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


def printed(form: str, epsilon: float | None) -> Case:
    """Return the paper's algorithm, form laplace (1) or gaussian (2); `epsilon` None: without noise."""
    own = {"as": f"printed-{form}", "epsilon": epsilon} | ({"delta": DELTA} if form == "gaussian" else {})
    return {"noise": NOTHING if epsilon is None else own, "step": PRINTED_STEP}


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
    ends = {name: float(one[by][:, -1].mean()) for name, one in found.items()}
    return cases[min(ends, key=ends.__getitem__) if by == "loss" else max(ends, key=ends.__getitem__)]


def tuned(
    study: Study,
    mechanisms: Sequence[Mapping[str, Any]],
    *,
    data: str = "diabetes",
    batches: Sequence[int] = BATCHES,
    **shared: Any,
) -> Case:
    """Return the mechanism, slot size and step that lost least on rows made up in the shape of `data`.

    One run each over the grid; no record of the set itself has a part in it.
    """
    cases = grid(mechanisms, batches[:2], STEPS[3:4]) if study.quick else grid(mechanisms, batches, STEPS)
    asked = {"checkpoints": [checkpoints(study)[-1]], "quick": study.quick, "data": f"like {data}"}
    return chosen(study, learned, cases, asked | shared, by="loss")


def measured(
    study: Study, cases: Mapping[str, Case], *, runs: int = RUNS, **shared: Any
) -> dict[str, Measured]:
    """Return `learned` of each case over the runs, with its `regret`: loss less that of the best decision."""
    asked: dict[str, Case] = {
        label: {"data": "diabetes", "checkpoints": checkpoints(study), "quick": study.quick} | shared | case
        for label, case in cases.items()
    }
    found = study.repeated(learned, asked, runs)
    for label, case in asked.items():
        counts = [look * case.get("nodes", 64) for look in case["checkpoints"]]
        found[label]["regret"] = found[label]["loss"] - least(study, case["data"], counts)
    return found


def least(study: Study, data: str, counts: Sequence[int]) -> FloatArray:
    """Return min F over the first so many records, shape (K,)."""
    wanted = {"data": data, "counts": list(counts), "quick": study.quick}
    values: FloatArray = study.repeated(best, {"best": wanted}, 1)["best"]["value"][0]
    return values


def sketch(
    study: Study,
    name: str,
    found: Mapping[str, Measured],
    title: str,
    *,
    of: str = "regret",
    y: str = "regret per record",
    looks: Sequence[int] | None = None,
) -> None:
    """Draw one array of each case against the records that a node has seen."""
    x = checkpoints(study) if looks is None else looks
    curves = {label: Curve.over(x, one[of]) for label, one in found.items()}
    draw(study.output, name, curves, title=title, x="records a node", y=y, scales=("log", "log"))


def words(case: Case) -> list[object]:
    """Return a case as cells of a table: mechanism, bound (as printed: L), slot size, a of the step."""
    noise = case["noise"]
    return [
        noise.get("as") or noise["mechanism"],
        noise.get("gradient_bound", 1.0),
        case.get("batch", 1),
        case["step"]["a"],
    ]
