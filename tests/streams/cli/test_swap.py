"""What a record holds changes neither the exit code of a command nor what it says of mistakes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.meshes import files as meshes

ROOT = Path(__file__).parents[3]

LINE = b'{"x": 1.5, "y": 0.0, "distance": 1.0}\n'
# An empty line is not among them: it is no record, so where it stands in the place of one a record is gone.
CONTENTS = {
    "another value": b'{"x": 1.5, "y": 0.0, "distance": 2.9}\n',
    "malformed": b"\xff\x00{\n",
    "not a number": b'{"x": NaN, "y": 0.0, "distance": 1.0}\n',
    "infinite": b'{"x": 1e308, "y": 1e308, "distance": -1e308}\n',
    "huge": b'{"x": 1.5, "distance": ' + b"9" * 2_000_000 + b"}\n",
}
SOURCE = (
    "{kind: json-lines, path: a.json, schema: {features: {x: number, y: number}, label: {column: distance}}}"
)


@pytest.mark.parametrize("content", sorted(CONTENTS))
def test_a_record_does_not_change_how_a_run_ends(call, mesh, tmp_path, content):
    own = "a: {source: {kind: localisation}}"
    text = mesh.read_text()
    assert own in text
    mesh.write_text(text.replace(own, f"a: {{source: {SOURCE}}}"))
    ended = []
    for changed in (LINE, CONTENTS[content]):
        (tmp_path / "a.json").write_bytes(LINE * 5 + changed + LINE * 34)
        outcome = call("run", mesh, "--quiet", "--output", "out")
        rounds = len((tmp_path / "out" / "rounds.csv").read_text().splitlines())
        ended.append((outcome.code, outcome.err, rounds))
    assert ended[0] == ended[1]
    assert ended[0] == (0, "", 1 + 3 * 40)


LIBSVM = """
mesh:
  name: small
  run: run-1
  nodes: [a, b]
  dimension: 20
  algorithm: {name: dpdo-nc, constraint: {l2-ball: 3}, step_size: {rule: inverse-sqrt, a: 0.5}}
  loss: hinge
  slots: {by: count, size: 1}
  privacy: {mechanism: laplace, epsilon: 1, gradient_bound: 0.5, noise: simulated}
  topology: {graph: complete}
nodes:
  a: {source: {kind: libsvm, path: a.txt, label: {positive: 1}}}
  b: {source: {kind: libsvm, path: b.txt, label: {positive: 1}}}
"""


@pytest.mark.parametrize(
    "line",
    ["1 5:1 -9223372036854775807:1", "1 " * 9_000, "-1 1:1 9223372036854775807:1 -9223372036854775808:1"],
)
def test_nor_does_one_whose_indices_wrap(call, tmp_path, line):
    usual = ["1 2:1 5:0.5"] * 8
    (tmp_path / "mesh.yaml").write_text(LIBSVM)
    (tmp_path / "b.txt").write_text("\n".join(usual) + "\n")
    ended = []
    for third in ("1 2:1 5:0.5", line):
        (tmp_path / "a.txt").write_text("\n".join([*usual[:2], third, *usual[3:]]) + "\n")
        outcome = call("run", "mesh.yaml", "--quiet", "--output", "out")
        rounds = len((tmp_path / "out" / "rounds.csv").read_text().splitlines())
        ended.append((outcome.code, outcome.err, rounds))
    assert ended[0] == ended[1] == (0, "", 1 + 2 * 8)


FAILING = """
import warnings

import numpy as np


def fail(kind):
    if kind == "warns":
        warnings.warn("canary")
        np.log(np.zeros(1))
    if kind == "raises":
        raise OverflowError("canary")
    if kind == "leaves":
        raise SystemExit("canary")


class Loss:
    def value(self, decision, observations):
        self.look(observations)
        return np.zeros(observations.labels.shape)

    def gradients(self, decision, observations):
        self.look(observations)
        return np.zeros((*observations.labels.shape, 2))

    def predict(self, decision, features):
        raise KeyError("canary")

    def look(self, observations):
        if (observations.labels == 777).any():
            fail("LOSS")


class Source:
    dimension = 2

    def __init__(self, node):
        pass

    def records(self):
        return [b"1"] * 20 + [(Path(__file__).parent / "record").read_bytes()] + [b"1"] * 20

    def decode(self, value):
        if value == b"777":
            fail("SOURCE")
        return (1.0, 2.0), float(value)


from pathlib import Path
"""


@pytest.mark.parametrize("what", ["loss", "source"])
@pytest.mark.parametrize("kind", ["warns", "raises", "leaves", "nothing"])
def test_nor_does_one_on_which_the_party_s_own_code_fails(tmp_path, what, kind):
    """As a process of its own: what warns, warns once a process, on standard error."""
    name = f"failing_{what}_{kind}"
    (tmp_path / f"{name}.py").write_text(FAILING.replace(f'"{what.upper()}"', f'"{kind}"'))
    tree = meshes.changed(
        nodes=["a", "b"], rounds=41, loss={"own": f"{name}:Loss"} if what == "loss" else "squared"
    )
    tree["nodes"] = {node: {"source": {"kind": "own", "name": f"{name}:Source"}} for node in "ab"}
    path, ended = meshes.written(tmp_path, tree), []
    names = ["Loss", "Source"] if what == "loss" else ["Source"]
    for record in ("1", "777"):
        (tmp_path / "record").write_text(record)
        done = subprocess.run(
            [
                *(sys.executable, "-c", "from streams.cli import main; main()", "run", str(path)),
                *(f"--code={name}:{one}" for one in names),
            ],
            env={"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": "", "COLUMNS": "500"},
            capture_output=True,
            text=True,
            check=False,
        )
        ended.append((done.returncode, done.stderr))
        assert "canary" not in done.stdout
    assert ended == [(0, "")] * 2
    last = done.stdout.splitlines()[-1]
    raised = {"raises": "OverflowError", "leaves": "SystemExit"}.get(kind)
    if what == "loss" and raised:
        assert last.startswith(f"Own losses failed, so that those records have no gradient: a {raised} (")
    elif raised:
        assert (
            last == f"Malformed records: a 1 of 41 (its source: {raised}); b 1 of 41 (its source: {raised})."
        )
    else:
        assert "failed" not in last
        assert "Malformed" not in last
