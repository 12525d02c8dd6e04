"""A first look at every mechanism: tracking at T = 500, and Adult in one pass, at epsilon = 1.

    python experiments/mechanisms.py

One run each, exact noise, delta = 1e-6 where there is one. Steps and clips are those below, not tuned here.
Writes mechanisms.csv beside this file.
"""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

from streams.local.run import LocalRun, mesh_parts
from streams.local.summary import summarise
from streams.local.tracking import tracked
from streams.mesh_file.examples import example_mesh
from streams.mesh_file.file import MeshFile, load
from streams.mesh_file.settings.algorithm import AlgorithmSettings
from streams.mesh_file.settings.privacy import PrivacySettings
from streams.sources.localisation import target_path
from streams.sources.opening import held_out

ROUNDS = 500
DELTA = {"delta": 1e-6}
MECHANISMS: dict[str, dict[str, Any]] = {
    "none": {"norm": "l2"},
    "laplace": {"epsilon": 1},
    "gaussian": {"epsilon": 1, **DELTA},
    "l2-sphere": {"epsilon": 1},
    "gaussian-bisr": {"epsilon": 1, "bands": 16, **DELTA},
}
TRACKING = {  # mechanism: (theta, a of the step a/sqrt(t))
    "none": (10.0, 1 / 6),
    "laplace": (0.5, 0.5),
    "gaussian": (0.5, 0.5),
    "l2-sphere": (0.1, 1.0),
    "gaussian-bisr": (0.5, 0.5),
}
INCOME = {"laplace": 2.0}  # theta; 1 in L2 for the others: rows have that length
OUTPUT = Path(__file__).with_name("mechanisms.csv")


def with_mechanism(file: MeshFile, name: str, theta: float, step: float | None = None) -> MeshFile:
    """Return the mesh with that mechanism, clip and step size."""
    privacy = PrivacySettings.model_validate(
        {"mechanism": name, "gradient_bound": theta, "noise": "exact", **MECHANISMS[name]}
    )
    changed: dict[str, Any] = {"privacy": privacy}
    if step is not None:
        algorithm = dict(file.mesh.algorithm) | {"step_size": {"rule": "inverse-sqrt", "a": step}}
        changed["algorithm"] = AlgorithmSettings.model_validate(algorithm)
    return replace(file, mesh=file.mesh.model_copy(update=changed))


def finished(file: MeshFile, rounds: int | None = None) -> LocalRun:
    """Run the mesh to its end."""
    local = LocalRun(mesh_parts(file, rounds=rounds))
    local.mesh.run()
    local.mesh.close()
    return local


def main() -> None:
    """Run, print and write the table."""
    tracking, income = load(example_mesh("tracking.yaml")), load(example_mesh("income.yaml"))
    target, test, rows = target_path(tracking.mesh.seed, ROUNDS), held_out(income), []
    for name in MECHANISMS:
        theta, step = TRACKING[name]
        file = with_mechanism(tracking, name, theta, step)
        regret = tracked(name, file, finished(file, ROUNDS), target).final_regret
        adult = with_mechanism(income, name, INCOME.get(name, 1.0))
        score = summarise(adult, finished(adult).recorder, test).score
        if score is None or score.auc is None:
            raise ValueError("the held-out rows cannot be scored")
        rows.append([name, theta, step, regret, INCOME.get(name, 1.0), score.auc, score.accuracy])
        text = "{}: theta {:g}, a {:.3g}: regret/T {:.3f}; Adult: theta {:g}: AUC {:.4f}, accuracy {:.4f}"
        print(text.format(*rows[-1]))
    with OUTPUT.open("w", newline="") as output:
        writer = csv.writer(output)
        writer.writerow(
            ["mechanism", "theta", "a", "network_regret_500", "adult_theta", "adult_auc", "adult_accuracy"]
        )
        writer.writerows([row[0], *(f"{value:.4f}" for value in row[1:])] for row in rows)


if __name__ == "__main__":
    main()
