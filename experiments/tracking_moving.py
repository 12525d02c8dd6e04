"""How well six private sensors follow a target that keeps moving: a plain step, and one with a velocity.

Root mean square error of the nodes' believed places over the second half of 3,000 rounds, over 50 runs: by
speed, mechanism and epsilon of a record. Clip and gains are tuned on one figure of eight, the runs are on
other paths (turned eights, circles, free manoeuvres). The limit is an extended Kalman filter that sees all
raw distances. `sought` is what the prototype of the form with velocity reached on the paths it was tuned on.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.harness.figures import Curve, draw, table
from experiments.harness.kalman import limit
from experiments.harness.moving_runs import followed
from experiments.harness.moving_targets import KINDS
from experiments.harness.study import Measured, Study
from nodes.values import FloatArray

SPEEDS, EPSILONS = (0.001, 0.003, 0.01), (0.3, 1, 4)
ROUNDS, RUNS = 3_000, 50
NONE = {"mechanism": "none", "norm": "l2"}
Case = tuple[float, str, float]
"""Speed, mechanism, epsilon (0: none)."""
Form = tuple[Case, bool]
"""A case, and whether with a velocity."""

SOUGHT: dict[Case, tuple[float, float]] = {
    (0.001, "none", 0): (0.0068, 0.0019),
    (0.001, "l2-sphere", 1): (0.0230, 0.0090),
    (0.001, "l2-sphere", 4): (0.0114, 0.0051),
    (0.001, "laplace", 1): (0.0323, 0.0113),
    (0.003, "none", 0): (0.0090, 0.0035),
    (0.003, "l2-sphere", 1): (0.0538, 0.0177),
    (0.003, "l2-sphere", 4): (0.0244, 0.0087),
    (0.003, "laplace", 1): (0.0879, 0.0272),
    (0.01, "none", 0): (0.0230, 0.0078),
    (0.01, "l2-sphere", 1): (0.1446, 0.0463),
    (0.01, "l2-sphere", 4): (0.0582, 0.0171),
    (0.01, "laplace", 1): (0.2049, 0.1310),
}
"""The prototype's errors, plain and with velocity: on the path they were tuned on, a mean of two runs."""


def cases(study: Study) -> list[Case]:
    """Return what is run."""
    if study.quick:
        return [(0.01, "l2-sphere", 1)]
    kinds = [("none", 0.0), *((name, epsilon) for name in ("l2-sphere", "laplace") for epsilon in EPSILONS)]
    return [(speed, name, epsilon) for speed in SPEEDS for name, epsilon in kinds]


def main(study: Study) -> None:
    """Write tracking-moving: the table, and a figure of the errors by epsilon for each speed."""
    size = {"rounds": 60, "runs": 3} if study.quick else {"rounds": ROUNDS, "runs": RUNS}
    wanted = cases(study)
    forms = {
        _name((case, velocity)): size | {"privacy": _privacy(case), "speed": case[0], "velocity": velocity}
        for case in wanted
        for velocity in (False, True)
    }
    found = study.repeated(followed, forms, 1)
    limits = {f"{speed:g}": size | {"speed": speed} for speed in dict.fromkeys(case[0] for case in wanted)}
    least = study.repeated(limit, limits, 1)
    rows = [_row(case, found[_name((case, False))], found[_name((case, True))]) for case in wanted]
    rows += [_limit(float(speed), one) for speed, one in least.items()]
    table(study.output, "tracking-moving", COLUMNS, rows)
    _figure(study, found, least)


def _name(form: Form) -> str:
    return f"{form[0]} {form[1]}"


def _privacy(case: Case) -> Mapping[str, Any]:
    return NONE if case[1] == "none" else {"mechanism": case[1], "epsilon": case[2]}


BANDS = ("", "_p10", "_p90")
COLUMNS = (
    *("case", "speed", "mechanism", "epsilon"),
    *(f"{form}{band}" for form in ("plain", "velocity") for band in BANDS),
    *("ratio", "sought_plain", "sought_velocity", *(f"velocity_{kind}" for kind in KINDS)),
    *("theta_plain", "k1_plain", "theta", "k1", "k2"),
)


def _row(case: Case, plain: Measured, moving: Measured) -> list[object]:
    speed, name, epsilon = case
    errors, kept = plain["errors"][0], moving["errors"][0]
    theta, k1, _ = plain["setting"][0].tolist()
    sought: tuple[object, ...] = SOUGHT.get(case) or ("", "")
    ratio = float(np.median(errors) / np.median(kept))
    figures = [*_banded(errors), *_banded(kept), ratio, *sought, *_by_kind(kept)]
    label = f"{speed:g} {name}" + (f" {epsilon:g}" if epsilon else "")
    return [label, speed, name, epsilon or "", *figures, theta, k1, *moving["setting"][0].tolist()]


def _limit(speed: float, found: Measured) -> list[object]:
    errors = found["errors"][0]
    figures = [*_banded(errors), "", "", "", *_by_kind(errors)]
    return [f"{speed:g} kalman", speed, "kalman", "", "", "", "", *figures, "", "", "", "", ""]


def _by_kind(runs: FloatArray) -> list[float]:
    """Return the median of each kind of path, which runs have in turn."""
    return [float(np.median(runs[k :: len(KINDS)])) for k in range(len(KINDS))]


def _banded(runs: FloatArray) -> list[float]:
    low, high = np.percentile(runs, [10, 90])
    return [float(np.median(runs)), float(low), float(high)]


def _figure(study: Study, found: Mapping[str, Measured], least: Mapping[str, Measured]) -> None:
    """Draw the errors of `l2-sphere` at epsilon 1 by speed, beside no privacy and the limit."""
    lines: dict[str, list[Form]] = {
        "plain, epsilon = 1": [((speed, "l2-sphere", 1), False) for speed in SPEEDS],
        "velocity, epsilon = 1": [((speed, "l2-sphere", 1), True) for speed in SPEEDS],
        "velocity, no privacy": [((speed, "none", 0.0), True) for speed in SPEEDS],
    }
    curves = {}
    for name, forms in lines.items():
        errors = [(form[0][0], found[_name(form)]["errors"][0]) for form in forms if _name(form) in found]
        if errors:
            curves[name] = _curve(errors)
    curves["Kalman filter on raw distances"] = _curve(
        [(float(speed), one["errors"][0]) for speed, one in least.items()]
    )
    draw(
        study.output,
        "tracking-moving-speed",
        curves,
        title="Six sensors, l2-sphere: median of 50 runs, 10th to 90th percentile",
        x="speed of the target (a round)",
        y="root mean square error",
        scales=("log", "log"),
        points=True,
    )


def _curve(errors: list[tuple[float, FloatArray]]) -> Curve:
    x = np.array([speed for speed, _ in errors])
    bands = np.array([_banded(runs) for _, runs in errors]).T
    return Curve(x, *bands)
