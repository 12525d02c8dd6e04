"""What a record holds changes neither the exit code of a command nor what it says of mistakes."""

import pytest

LINE = b'{"x": 1.5, "y": 0.0, "distance": 1.0}\n'
CONTENTS = {
    "another value": b'{"x": 1.5, "y": 0.0, "distance": 2.9}\n',
    "malformed": b"\xff\x00{\n",
    "empty": b"\n",
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
