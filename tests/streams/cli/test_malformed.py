"""Malformed records are no silent success: a line for their owner, and code 3 if they are the most."""

import json

import pytest

LINE = b'{"x": 1.5, "y": 0.0, "distance": 1.0}\n'
SOURCE = (
    "{kind: json-lines, path: a.json, schema: {features: {x: number, y: number}, label: {column: distance}}}"
)
BAD = b'{"x": 1.5, "y": 0.0, "distance": "31,7"}\n'


@pytest.fixture
def fed(mesh, tmp_path):
    """The mesh, with node a on a file: of 400 records every k-th is bad."""
    text = mesh.read_text()
    mesh.write_text(text.replace("a: {source: {kind: localisation}}", f"a: {{source: {SOURCE}}}"))

    def write(bad, of=40, wrong=BAD):
        (tmp_path / "a.json").write_bytes(wrong * bad + LINE * (of - bad))
        return mesh

    return write


def test_one_in_a_hundred_is_not_worth_a_line(call, fed):
    outcome = call("run", fed(1, of=100), "--rounds", 100)
    assert (outcome.code, outcome.err) == (0, "")
    assert "Malformed" not in outcome.out


def test_a_few_are_a_line_for_the_owner(call, fed):
    line = "Malformed records: a 2 of 40 (distance: a decimal comma)."
    outcome = call("run", fed(2))
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1] == line
    assert "31,7" not in outcome.out
    assert call("run", fed(2), "--quiet") == (0, "", "")
    assert call("run", fed(20), "--quiet") == (0, "", "")


def test_more_than_half_is_code_3_whatever_is_printed(call, fed, tmp_path):
    line = "Malformed records: a 21 of 40 (distance: a decimal comma)."
    outcome = call("run", fed(21), "--output", "out")
    assert (outcome.code, outcome.err) == (3, f"{line}\n")
    assert outcome.out.splitlines()[-1] == line
    nodes = json.loads((tmp_path / "out" / "summary.json").read_text())["nodes"]
    assert [node["malformed"] for node in nodes] == [21, 0, 0]
    assert call("run", fed(40), "--quiet") == (3, "", line.replace("21", "40") + "\n")


def test_the_commonest_fault_is_named(call, fed, tmp_path):
    mesh = fed(10)
    with (tmp_path / "a.json").open("ab") as file:
        file.write(b'{"y": 0.0, "distance": 1.0}\n' * 5)
    assert (
        "Malformed records: a 15 of 45 (most often distance: a decimal comma)."
        in call("run", mesh, "--rounds", 45).out
    )


def test_held_out_records_left_out_are_counted(call, fed, tmp_path):
    mesh = fed(0)
    mesh.write_text(f"{mesh.read_text()}held_out: {SOURCE.replace('a.json', 'test.json')}\n")
    (tmp_path / "test.json").write_bytes(LINE * 3 + BAD * 1_200)
    outcome = call("run", mesh, "--output", "out")
    assert (outcome.code, outcome.err) == (0, "")
    assert "Held-out, 3 records (1,200 malformed left out), mean of the nodes' last" in outcome.out
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["left_out"] == 1_200
    (tmp_path / "test.json").write_bytes(BAD)
    assert (
        "test.json holds no record that can be decoded: distance: a decimal comma (1)"
        in call("run", mesh).err
    )
