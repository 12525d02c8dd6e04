import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from streams.cli.feed import _summary, feed
from streams.mesh.errors import UsageError
from streams.records.faults import Fault, FaultCounts
from streams.tools.feed.feed import Fed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate": 5.0, "timestamps": True}, "--rate and --timestamps are two paces: must be one of them"),
        ({"rate": 0.0}, "--rate is 0: must be a number above 0"),
        ({"rate": float("nan")}, "--rate is nan: must be a number above 0"),
        ({"rate": float("inf")}, "--rate is inf: must be a number above 0"),
        ({"shift": float("nan")}, "--shift is nan: must be a number of seconds"),
    ],
)
def test_a_pace_that_is_none_is_refused(tmp_path, options, words):
    with pytest.raises(UsageError) as refused:
        feed(tmp_path / "mesh.yaml", "a", **options)
    assert str(refused.value) == words


def test_without_a_broker_in_the_mesh_file_there_is_nowhere_to_feed_to(mesh):
    app = typer.Typer()
    app.command()(feed)
    with pytest.raises(Exception, match=r"nodes\.a\.brokers: missing: must be given to use a broker"):
        app([str(mesh), "a"], standalone_mode=False)


def test_the_summary_says_what_was_fed():
    counts = FaultCounts()
    for fault in [None] * 1_498 + [Fault("x", "empty")] * 2:
        counts.add(fault)
    assert _summary(Fed("data.a", 10, 1500, counts, 0.5, stopped=False)) == (
        "data.a: fed 1,500 records (lines 11 to 1,510), 2 bad, in 0.5 s, 3,000 records/s"
    )
    assert (
        _summary(Fed("data.a", 10, 0, FaultCounts(), 0.5, stopped=False))
        == "data.a: nothing fed; it holds 10 lines"
    )


TWO = """
mesh:
  name: m
  run: run-1
  nodes: [a, b]
  dimension: 2
  algorithm: {name: dpdo-nc, constraint: {l2-ball: 3}, step_size: {rule: inverse-sqrt, a: 0.5}}
  loss: squared
  slots: {by: count, size: 1}
  privacy: {mechanism: laplace, epsilon: 1, gradient_bound: 1}
  topology: {graph: complete}
  rounds: 3
nodes:
  a: {source: {kind: csv, path: a.csv, schema: {features: {x: number, y: number}, label: {column: z}}}}
  b: {source: {kind: csv, path: b.csv, schema: {features: {x: number, y: number}, label: {column: z}}}}
brokers: {mesh: {servers: "127.0.0.1:1"}, data: {servers: "127.0.0.1:1"}, trust_broker: true}
"""


def rows(first):
    return "x,y,z\n" + "".join(f"1,{first + k},{k}\n" for k in range(9))


def feed_until_it_waits(mesh, name, file, state):
    """Call `feed` as a program, and end it once it has kept what it is to feed: no broker answers."""
    program = Path(sys.executable).with_name("mirrormesh")
    with subprocess.Popen([program, "feed", mesh, name, file, "--state", state]) as feeding:
        while not (state / f"{name}.fed").exists():
            assert feeding.poll() is None
            time.sleep(0.05)
        feeding.terminate()


@pytest.mark.parametrize(("fed", "paid"), [("b.csv", "2"), ("copy.csv", "2"), ("other.csv", "1")])
def test_a_file_that_is_fed_in_place_of_the_source_adds_up_with_its_other_readers(call, tmp_path, fed, paid):
    (tmp_path / "mesh.yaml").write_text(TWO)
    for name, first in (("a.csv", 0), ("b.csv", 50), ("copy.csv", 50), ("other.csv", 90)):
        (tmp_path / name).write_text(rows(first))
    state = tmp_path / "state"
    feed_until_it_waits(tmp_path / "mesh.yaml", "a", tmp_path / fed, state)
    assert (state / "a.fed").stat().st_mode & 0o777 == 0o600
    assert call("run", tmp_path / "mesh.yaml", "--state", state, "--output", tmp_path / "out").code == 0
    promises = json.loads((tmp_path / "out" / "model.json").read_text())["guarantee"]["nodes"]
    for name in ("a", "b"):
        epsilons = re.findall(r"protected with epsilon = (\d+) ", promises[name])
        assert epsilons[-1] == paid, promises[name]


def test_a_broken_list_of_what_was_fed_promises_nothing(call, tmp_path):
    (tmp_path / "mesh.yaml").write_text(TWO)
    for name, first in (("a.csv", 0), ("b.csv", 50)):
        (tmp_path / name).write_text(rows(first))
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "a.fed").write_text("{\n")
    outcome = call("run", tmp_path / "mesh.yaml", "--state", tmp_path / "state")
    assert (outcome.code, outcome.out) == (2, "")
    assert "a.fed is broken: what was fed to a is not known" in outcome.err
