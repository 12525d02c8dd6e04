"""Own losses by allowed name and by entry point, every mistake in words; and what a run says of them."""

import logging
import re
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import yaml

from nodes.machine.events import Scored
from nodes.privacy.reveal import opened
from streams.local.mesh import MemoryMesh
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFileError, load
from streams.mesh.plugins import Code
from tests.support.meshes.files import changed, loaded, written
from tests.support.processes.in_process import Commands

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
    name = f"{module()}:{attribute}"
    loss = Code.of("", [name]).raw_loss(name)
    assert type(loss).__name__ == "Absolute"


def entry_point(folder, group, name, value):
    """An installed distribution with one entry point."""
    about = folder / f"{name}_dist-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")


def test_an_entry_point(module, tmp_path):
    entry_point(tmp_path, "mirrormesh.losses", "absolute-of-a-test", f"{module()}:Absolute")
    assert type(Code().raw_loss("absolute-of-a-test")).__name__ == "Absolute"
    with pytest.raises(MeshFileError, match=r"no entry point of that name in mirrormesh\.losses"):
        Code().raw_loss("another-of-a-test")


MISTAKES = {
    "nowhere_at_all:Loss": "no module nowhere_at_all: must be installed, or in a folder of PYTHONPATH",
    "{}.inner:Loss": "no module {}.inner: must be installed",
    "{}:Missing": "{} has no attribute Missing: must be package.module:attribute",
    "{}:number": "is of type int: must be a class, or be called to make one",
    "{}:Half": "makes a Half without the method gradients",
    "{}:Costly": "making it raised TypeError",
    "absolute": "no entry point of that name in mirrormesh.losses: must be one, or package.module:attribute",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_name_that_is_none_is_told_where_it_is_needed(module, tmp_path, name):
    made, words = module(), MISTAKES[name]
    file = loaded(tmp_path, tracking(tmp_path, name.format(made)))
    with pytest.raises(MeshFileError) as caught:
        mesh_parts(file)
    (line,) = caught.value.lines
    assert f'mesh.loss.own: "{name.format(made)}": ' in line
    assert words.format(made) in line


NAMELESS = ["", ":", "a:", ":Loss", "a:b:c", "a:b c", "a\nb:c", "a:b\0", "--code", "a b", "a/b:c", "a:b'"]


@pytest.mark.parametrize("name", NAMELESS)
def test_no_other_text_is_a_name(tmp_path, name):
    own = changed(nodes=["a", "b"])
    own["nodes"] = {"a": {"source": {"kind": "own", "name": name}}}
    for tree, key in ((changed(loss={"own": name}), "mesh.loss.own"), (own, "nodes.a.source.name")):
        with pytest.raises(MeshFileError) as caught:
            load(written(tmp_path, tree), {})
        (line,) = caught.value.lines
        assert line.isprintable()
        assert f"{key}: " in line
        assert line.endswith("must be package.module:attribute, or the name of an entry point")
    with pytest.raises(UsageError, match="must be module:attribute"):
        load(written(tmp_path, changed()), {}, code=[name])


def test_the_python_interface_allows_names_as_the_command_line_does(module, tmp_path):
    name = f"{module()}:Absolute"
    path = written(tmp_path, tracking(tmp_path, name))
    with pytest.raises(MeshFileError, match=rf'mesh.loss.own: "{name}": .*give --code {name}, or name an'):
        mesh_parts(load(path, {}))
    with pytest.raises(MeshFileError, match="code that no file may allow"):
        mesh_parts(load(path, {}, code=[f"{name}s"]))
    assert mesh_parts(load(path, {}, code=["another:Thing", name]))


def test_a_module_that_cannot_be_imported_is_told_in_one_line(module, tmp_path):
    name = module("raise RuntimeError('two\\nlines')")
    with pytest.raises(MeshFileError) as caught:
        mesh_parts(loaded(tmp_path, tracking(tmp_path, f"{name}:Loss")))
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


@pytest.mark.parametrize(
    ("fault", "kind", "calls"), [("Angry", "KeyError", 5), ("Flat", "an answer of another shape", 10)]
)
def test_what_goes_wrong_is_counted_by_type_and_never_logged(
    module, tmp_path, caplog, capfd, fault, kind, calls
):
    caplog.set_level(logging.DEBUG)
    file = loaded(tmp_path, tracking(tmp_path, f"{module()}:{fault}"))
    local = LocalRun(mesh_parts(file))
    local.mesh.run()
    local.mesh.close()
    assert local.recorder.common_rounds == 10
    for node in "abc":
        assert local.parts.nodes[node].learner.loss.failures == {kind: calls}
    assert caplog.text == ""
    assert capfd.readouterr() == ("", "")


def test_a_record_that_breaks_the_loss_is_counted_as_broken(module, tmp_path):
    broken = []

    def report(name, report):
        if isinstance(report, Scored):
            broken.append(report.broken)

    tree = tracking(tmp_path, f"{module()}:Angry")
    MemoryMesh(mesh_parts(loaded(tmp_path, tree)), report).run()
    assert sum(opened(count) for count in broken) == 3 * 5  # labels above 0.5 at three nodes


WARNING = (
    LOSS
    + """

class Warning(Angry):
    def gradients(self, decision, observations):
        if (observations.labels > 0.5).any():
            np.log(np.zeros(1)), np.mean([]), __import__("warnings").warn("canary")
        return super().gradients(decision, observations)
"""
)


def test_one_process_says_it_in_the_last_line_of_standard_output_alone(module, tmp_path):
    name = f"{module(WARNING)}:Warning"
    path = written(tmp_path, tracking(tmp_path, name))
    command = [sys.executable, "-c", "from streams.cli import main; main()", "run", str(path), "--code", name]
    root = Path(__file__).parents[3]
    done = subprocess.run(
        command,
        cwd=root,
        env={"PYTHONPATH": f"{root}:{tmp_path}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    calls = ", ".join(f"{node} KeyError (5 calls)" for node in "abc").replace(", ", "; ")
    last = re.sub(r"\s+", " ", done.stdout).strip()
    assert last.endswith(f" Own losses failed, so that those records have no gradient: {calls}.")
    assert "canary" not in done.stdout


def test_check_tries_an_own_loss(module, tmp_path, capsys):
    name = module()
    for fault, words in (
        ("Absolute", None),
        ("Wrong", "the gradient's coordinate"),
        ("Flat", "gives the shape"),
    ):
        path = written(tmp_path, tracking(tmp_path, f"{name}:{fault}"))
        outcome = Commands(capsys)("check", path, "--code", f"{name}:{fault}")
        assert outcome.code == (2 if words else 0)
        if words:
            lines = outcome.err.splitlines()
            assert all(line.startswith(f'{path}: mesh.loss.own: "{name}:{fault}": ') for line in lines)
            assert any(words in line for line in lines)


def test_yaml_is_as_documented(module, tmp_path):
    tree = yaml.safe_load(f"loss: {{own: '{module()}:Absolute'}}")
    assert str(load(written(tmp_path, changed(**tree)), {}).mesh.loss).startswith("own (own_loss_")
