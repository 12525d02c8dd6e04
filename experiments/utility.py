"""What each mechanism leaves of the utility, at epsilon = 1 of a record for its whole stream.

Localisation: network regret/T by Zhou and Li's Definition 1 over 50 runs, the largest of a node, with the
runs' own beside it; Adult: hinge loss, four nodes, one pass, ten runs. Clip, step and (Adult) slot size are
what the rule of `mirrormesh tune` finds on a pilot: other targets with other coins; a twentieth of Adult's
training rows, declared public and left out of the runs. A plain model of that part has a row of its own, and
the paper's own form and step stand beside them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.harness.adult import adult, mesh, one_pass, pilot_alone
from experiments.harness.expected_regret import AT, Regrets, draw_largest
from experiments.harness.figures import table
from experiments.harness.localisation import PRINTED_STEP, mesh_of, our_runs, printed_runs
from experiments.harness.study import Measured, Study
from experiments.harness.tuned import Sought, found, setting
from nodes.values import FloatArray
from streams.tools.tuning.pilot import MovingTargets, Resampled
from streams.tools.tuning.trials import Setting

ROUNDS, RUNS, INCOME_RUNS = (500, 5_000), 50, 10
PILOT_RUNS = 8
DELTA = {"delta": 1e-6}
MECHANISMS: dict[str, dict[str, Any]] = {
    "none": {"mechanism": "none", "norm": "l2"},
    "laplace on parameters": {"mechanism": "laplace", "on": "parameters", "norm": "l2", "epsilon": 1},
    "laplace": {"mechanism": "laplace", "epsilon": 1},
    "gaussian": {"mechanism": "gaussian", "epsilon": 1, **DELTA},
    "l2-sphere": {"mechanism": "l2-sphere", "epsilon": 1},
    "gaussian-bisr": {"mechanism": "gaussian-bisr", "epsilon": 1, "bands": 16, **DELTA},
}
THETA = 1.0
"""Where the search for a clip begins; that for a step at the set's reach over it."""


def tracking(seed: int, *, privacy: Mapping[str, Any], rounds: int, runs: int) -> Measured:
    """Tune on other targets, then run: the setting, and the sums of `Regrets` of all runs."""
    begun = dict(privacy) | {"gradient_bound": THETA}
    sought = found(mesh_of(begun, 3.0 / THETA), MovingTargets(), Sought(rounds, PILOT_RUNS, sizes=False))
    bound, step, size = sought["setting"].tolist()
    chosen = Setting(bound, step, int(size))
    mechanism = dict(privacy) | {"gradient_bound": chosen.gradient_bound}
    return sought | our_runs(seed, privacy=mechanism, step=chosen.step, rounds=rounds, runs=runs)


def as_printed(seed: int, *, rounds: int, runs: int, epsilon: float | None) -> Measured:
    """Return the same of Algorithm 1 as printed."""
    sums = printed_runs(seed, epsilon=epsilon, rounds=rounds, runs=runs)
    return {"setting": np.array([np.nan, PRINTED_STEP, 1.0])} | sums


def income(seed: int, *, privacy: Mapping[str, Any], runs: int, records: int) -> Measured:
    """Tune on the public part, then learn from the rest: the setting, AUC and accuracy of all runs."""
    sizes = privacy.get("on") != "parameters"
    begun = mesh(dict(privacy) | {"gradient_bound": THETA, "noise": "simulated"}, 64 if sizes else 1)
    pilot = adult().pilot
    sought = found(begun, Resampled(*pilot), Sought(records, PILOT_RUNS, sizes, pilot))
    bound, step, size = sought["setting"].tolist()
    chosen = Setting(bound, step, int(size))
    return sought | one_pass(begun, chosen, runs, records, seed)


def main(study: Study) -> None:
    """Write utility-tracking (table and figure) and utility-income (table)."""
    rounds, runs = ((10, 20), 2) if study.quick else (ROUNDS, RUNS)
    size = {"rounds": rounds[-1], "runs": runs}
    printed = study.repeated(
        as_printed,
        {"none, as printed": size | {"epsilon": None}, "as printed": size | {"epsilon": 1.0}},
        1,
    )
    names = ("none", "l2-sphere") if study.quick else tuple(MECHANISMS)
    ours = study.repeated(tracking, {name: size | {"privacy": MECHANISMS[name]} for name in names}, 1)
    _report_tracking(study, printed | ours, rounds)
    learnt = {"runs": 2, "records": 128} if study.quick else {"runs": INCOME_RUNS, "records": 7_733}
    names = names[-1:] if study.quick else names
    found = study.repeated(income, {name: learnt | {"privacy": MECHANISMS[name]} for name in names}, 1)
    _report_income(study, found)


def _report_tracking(study: Study, found: Mapping[str, Measured], rounds: tuple[int, ...]) -> None:
    rows: list[list[object]] = []
    regrets = {name: Regrets.of(one) for name, one in found.items()}
    for name, one in found.items():
        chosen = setting(one)
        figures = [number for T in rounds for number in regrets[name].at(T)]
        rows.append([name, chosen.gradient_bound, chosen.step, *figures])
    columns = [f"{figure}_{T}" for T in rounds for figure in AT]
    table(study.output, "utility-tracking", ["mechanism", "theta", "a", *columns], rows)
    draw_largest(study.output, "utility", regrets, "Localisation, epsilon = 1", ("log", "log"))


def _report_income(study: Study, found: Mapping[str, Measured]) -> None:
    measures = ("auc", "accuracy", "auc_averaged", "accuracy_averaged")
    rows = []
    for name, one in found.items():
        chosen = setting(one)
        figures = [number for measure in measures for number in _banded(one[measure][0])]
        rows.append([name, chosen.gradient_bound, chosen.step, chosen.size, *figures])
    alone = pilot_alone()
    rows.append(["the pilot alone", "", "", "", alone, alone, alone, *[""] * (3 * len(measures) - 3)])
    columns = [f"{measure}{suffix}" for measure in measures for suffix in ("", "_p10", "_p90")]
    table(study.output, "utility-income", ["mechanism", "theta", "a", "h", *columns], rows)


def _banded(runs: FloatArray) -> tuple[float, float, float]:
    low, high = np.percentile(runs, [10, 90])
    return float(np.median(runs)), float(low), float(high)
