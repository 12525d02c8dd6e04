"""Mechanisms compared: each at the mesh's epsilon, and what is proposed can be pasted whole."""

import pytest
import yaml

from streams.mesh.file import load
from streams.tools.tuning.mechanisms import Candidate, block, search, with_mechanism
from streams.tools.tuning.public_records import made_up_like
from streams.tools.tuning.trials import Measured, Setting, Trials
from tests.support.meshes.files import changed, loaded, written

BISR = {"mechanism": "gaussian-bisr", "epsilon": 1, "delta": 1e-6, "bands": 4, "norm": "l2"}


def file_of(folder, privacy, **mesh):
    tree = changed(loss="hinge", algorithm={"name": "dola", "regulariser": 0.01}, rounds=40, **mesh)
    tree["mesh"]["privacy"] = privacy | {"gradient_bound": 100}
    tree["nodes"] = {}
    return load(written(folder, tree), {}), tree


@pytest.mark.parametrize(
    ("chosen", "privacy"),
    [
        ("gaussian-bisr", BISR),
        ("gaussian", {"mechanism": "gaussian", "epsilon": 1, "delta": 1e-6}),
        ("laplace", {"mechanism": "laplace", "epsilon": 1}),
    ],
)
def test_what_is_proposed_replaces_whole_blocks(tmp_path, chosen, privacy):
    file, tree = file_of(tmp_path, BISR)
    lines = yaml.safe_load(block(file, Candidate(chosen, Setting(0.1234567, 2.0, 4)), None, 40))
    assert lines["privacy"] == privacy | {"gradient_bound": 0.123457}
    assert lines["algorithm"] == tree["mesh"]["algorithm"] | {"step_size": {"rule": "inverse-sqrt", "a": 2}}
    assert (lines["slots"], lines["rounds"]) == ({"by": "count", "size": 4}, 10)
    tree["mesh"] |= lines
    pasted = load(written(tmp_path, tree), {}).mesh
    assert (pasted.privacy.mechanism, pasted.privacy.gradient_bound) == (chosen, 0.123457)


def test_a_delta_is_written_where_the_file_has_none(tmp_path):
    laplace = {"mechanism": "laplace", "on": "parameters", "norm": "l2", "epsilon": 1, "noise": "simulated"}
    file, _ = file_of(tmp_path, laplace)
    lines = yaml.safe_load(block(file, Candidate("gaussian", Setting(1.0, 0.5, 1)), 1e-5, 40))
    wanted = {"mechanism": "gaussian", "epsilon": 1, "delta": 1e-5, "noise": "simulated", "gradient_bound": 1}
    assert lines["privacy"] == wanted
    assert "rounds" not in lines


@pytest.mark.parametrize("name", ["gaussian", "gaussian-bisr", "l2-sphere"])
def test_another_mechanism_keeps_epsilon(tmp_path, name):
    mesh = loaded(tmp_path, changed(privacy={"epsilon": 0.25})).mesh
    privacy = with_mechanism(mesh, name, 1e-7).privacy
    assert (privacy.mechanism, float(privacy.epsilon), privacy.norm) == (name, 0.25, "l2")
    assert privacy.delta == (None if name == "l2-sphere" else 1e-7)
    assert with_mechanism(mesh, "laplace", 1e-7) is mesh


class Invented(Trials):
    """The loss by mechanism and clip."""

    def measure(self, setting):
        name = self.mesh.privacy.mechanism
        if name == "gaussian-bisr":
            raise ValueError("not with this mesh")
        least = {"laplace": 1.01, "l2-sphere": 1.0, "gaussian": 0.9}[name]
        return Measured(least + abs(setting.gradient_bound - 0.5))


def test_the_first_mechanism_that_gets_near_the_best_is_proposed(tmp_path):
    mesh = loaded(tmp_path, changed()).mesh

    def found(*names):
        return search(
            mesh, names, 1e-6, lambda one: Invented(one, None, 1, 1, 1), sizes=False, report=[].append
        )

    assert found("laplace", "l2-sphere").proposed.mechanism == "laplace"  # within 2 %
    made = found("laplace", "l2-sphere", "gaussian", "gaussian-bisr")
    assert made.proposed.mechanism == "gaussian"
    assert [one.mechanism for one in made.best] == ["laplace", "l2-sphere", "gaussian"]
    assert made.left_out == ("gaussian-bisr",)


def test_gains_are_sought_and_proposed_with_the_step(tmp_path):
    algorithm = {
        "dynamics": {"model": "constant-velocity", "dimensions": 2, "period": 1},
        "constraint": {"reach": {"position": 2, "speed": 0.05}},
        "step_size": {"rule": "constant", "a": 1},
        "gains": [0.5, 0.0005],
    }
    target = {"path": "figure-eight", "speed": 0.01}
    tree = changed(algorithm=algorithm, dimension=4, target=target, rounds=300) | {"nodes": {}}
    tree["mesh"]["privacy"] = {"mechanism": "l2-sphere", "epsilon": 4, "gradient_bound": 0.01}
    file = load(written(tmp_path, tree), {})
    pilot = made_up_like(file, 1, "--synthetic")

    def trials_of(mesh):
        return Trials(mesh, pilot, 300, 1, 1)

    found = search(file.mesh, ("l2-sphere",), None, trials_of, sizes=False, report=lambda _: None)
    start = Candidate("l2-sphere", Setting.of(file.mesh))
    assert found.tried[found.proposed].loss < 0.8 * found.tried[start].loss
    chosen = found.proposed.setting
    assert chosen.tilt > 1  # so small a gain of the velocity leaves it behind
    lines = yaml.safe_load(block(file, found.proposed, None, 300))["algorithm"]
    assert lines["gains"] == pytest.approx([0.5, 0.0005 * chosen.tilt], rel=1e-5)
    assert lines["step_size"]["a"] == pytest.approx(chosen.step, rel=1e-5)
