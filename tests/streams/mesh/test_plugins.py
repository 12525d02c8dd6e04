"""Own losses by dotted name and by entry point, every mistake in words; and what a run says of them."""

import logging
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import yaml

from nodes.machine.events import Scored
from nodes.privacy.reveal import opened
from nodes.values import Observations
from streams.local.mesh import MemoryMesh
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.file import MeshFileError, load
from streams.mesh.plugins import own_loss, raw_loss
from tests.support.commands import Commands
from tests.support.meshes import changed, loaded, written

NUMBERS = count()
LOSS = """
import numpy as np


class Absolute:
    scale = 1.0

    def value(self, decision, observations):
        rest = (decision[..., None, :] * observations.features).sum(-1) - observations.labels
        return np.where(observations.present, self.scale * np.abs(rest), 0.0)

    def gradients(self, decision, observations):
        rest = (decision[..., None, :] * observations.features).sum(-1) - observations.labels
        slope = np.where(observations.present, self.scale * np.sign(rest), 0.0)
        return slope[..., None] * observations.features


class Angry(Absolute):
    def gradients(self, decision, observations):
        if (observations.labels > 0.5).any():
            raise KeyError(f"canary {observations.labels}")
        return super().gradients(decision, observations)


class Flat(Absolute):
    def gradients(self, decision, observations):
        return super().gradients(decision, observations).sum(-1)


class Wrong(Absolute):
    def gradients(self, decision, observations):
        return -super().gradients(decision, observations)


class Holder:
    inside = Absolute()


class Half:
    def value(self, decision, observations):
        return 0.0


class Costly:
    def __init__(self, price):
        pass


def made():
    return Absolute()


instance = Absolute()
number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module that can be imported, and return its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(text=LOSS):
        name = f"own_loss_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


@pytest.mark.parametrize("attribute", ["Absolute", "instance", "made", "Holder.inside"])
def test_a_class_an_object_or_what_makes_one(module, attribute):
    loss = raw_loss(f"{module()}:{attribute}")
    assert type(loss).__name__ == "Absolute"


def entry_point(folder, group, name, value):
    """An installed distribution with one entry point."""
    about = folder / f"{name}_dist-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")


def test_an_entry_point(module, tmp_path):
    entry_point(tmp_path, "mirrormesh.losses", "absolute-of-a-test", f"{module()}:Absolute")
    assert type(raw_loss("absolute-of-a-test")).__name__ == "Absolute"
    with pytest.raises(ValueError, match=r"no entry point of that name in mirrormesh\.losses"):
        raw_loss("another-of-a-test")


MISTAKES = {
    "nowhere_at_all:Loss": "no module nowhere_at_all: must be installed, or in a folder of PYTHONPATH",
    "{}.inner:Loss": "no module {}.inner: must be installed",
    "{}:Missing": "{} has no attribute Missing: must be package.module:attribute",
    "{}:": "{} has no attribute : must be",
    ":Loss": "importing",
    "{}:number": "is of type int: must be a class, or be called to make one",
    "{}:Half": "makes a Half without the method gradients",
    "{}:Costly": "making it raised TypeError",
    "absolute": "no entry point of that name in mirrormesh.losses: must be one, or package.module:attribute",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_name_that_is_none_is_told_at_load(module, tmp_path, name):
    made, words = module(), MISTAKES[name]
    tree = changed(loss={"own": name.format(made)})
    with pytest.raises(MeshFileError) as caught:
        load(written(tmp_path, tree), {})
    (line,) = caught.value.lines
    assert 'mesh.loss: {"own": ' in line
    assert words.format(made) in line


def test_a_module_that_cannot_be_imported_is_told_in_one_line(module, tmp_path):
    name = module("raise RuntimeError('two\\nlines')")
    with pytest.raises(MeshFileError) as caught:
        load(written(tmp_path, changed(loss={"own": f"{name}:Loss"})), {})
    (line,) = caught.value.lines
    assert f"importing {name} raised RuntimeError: two lines" in line


def tracking(folder, loss, **mesh):
    """Records whose labels go from 0 to 1 at three nodes."""
    tree = changed(nodes=list("abc"), loss={"own": loss}, rounds=10, **mesh)
    rows = "".join(f'{{"x": {k % 3}, "y": 1, "z": {k / 9}}}\n' for k in range(10))
    (folder / "rows.jsonl").write_text(rows)
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}
    source = {"kind": "json-lines", "path": "rows.jsonl", "schema": schema}
    tree["nodes"] = {name: {"source": source} for name in "abc"}
    return tree


def run(folder, tree):
    local = LocalRun(mesh_parts(loaded(folder, tree)))
    local.mesh.run()
    assert local.mesh.done
    local.mesh.close()
    return local.recorder


def test_an_own_loss_learns_as_one_of_ours(module, tmp_path):
    name = module(LOSS + "\n\nfrom nodes.losses.losses import Squared\n")
    own = run(tmp_path, tracking(tmp_path, f"{name}:Squared")).decisions()
    ours = tracking(tmp_path, "") | {}
    ours["mesh"]["loss"] = "squared"
    np.testing.assert_array_equal(own, run(tmp_path, ours).decisions())


@pytest.mark.parametrize(("fault", "kind"), [("Angry", "KeyError"), ("Flat", "an answer of another shape")])
def test_what_goes_wrong_is_said_once_by_type_only(module, tmp_path, caplog, fault, kind):
    caplog.set_level(logging.DEBUG)
    name = f"{module()}:{fault}"
    recorder = run(tmp_path, tracking(tmp_path, name))
    assert recorder.common_rounds == 10
    said = [record.getMessage() for record in caplog.records if record.name == "mirrormesh"]
    assert said == [
        f"node {node}: own loss {name}: {kind}; such a record has a zero gradient (said once)"
        for node in "abc"
    ]
    assert "canary" not in caplog.text
    assert all(record.exc_info is None for record in caplog.records)


def test_a_record_that_breaks_the_loss_is_counted_as_broken(module, tmp_path):
    broken = []

    def report(name, report):
        if isinstance(report, Scored):
            broken.append(report.broken)

    tree = tracking(tmp_path, f"{module()}:Angry")
    MemoryMesh(mesh_parts(loaded(tmp_path, tree)), report).run()
    assert sum(opened(count) for count in broken) == 3 * 5  # labels above 0.5 at three nodes


def test_the_terminal_says_it_too(module, tmp_path):
    name = f"{module()}:Angry"
    path = written(tmp_path, tracking(tmp_path, name))
    command = [sys.executable, "-c", "from streams.cli import main; main()", "run", str(path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command,
        cwd=root,
        env={"PYTHONPATH": f"{root}:{tmp_path}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"node a: own loss {name}: KeyError; such a record has a zero gradient" in done.stderr
    assert "canary" not in done.stdout + done.stderr


def test_check_tries_an_own_loss(module, tmp_path, capsys):
    name = module()
    for fault, words in (
        ("Absolute", None),
        ("Wrong", "the gradient's coordinate"),
        ("Flat", "gives the shape"),
    ):
        path = written(tmp_path, tracking(tmp_path, f"{name}:{fault}"))
        outcome = Commands(capsys)("check", path)
        assert outcome.code == (2 if words else 0)
        if words:
            lines = outcome.err.splitlines()
            assert all(line.startswith(f'{path}: mesh.loss.own: "{name}:{fault}": ') for line in lines)
            assert any(words in line for line in lines)


def test_who_is_not_a_node_says_it_without_a_name(module, caplog):
    loss = own_loss(f"{module()}:Angry")
    record = Observations(np.ones((1, 2)), np.ones(1), np.ones(1, bool))
    for _ in range(3):
        assert np.isnan(loss.gradients(np.ones(2), record)).all()
    (said,) = caplog.messages
    assert said.startswith("own loss own_loss_")


def test_yaml_is_as_documented(module, tmp_path):
    tree = yaml.safe_load(f"loss: {{own: '{module()}:Absolute'}}")
    assert str(load(written(tmp_path, changed(**tree)), {}).mesh.loss).startswith("own (own_loss_")
