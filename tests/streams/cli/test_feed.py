import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from nodes.accounting.spends import Data
from streams.cli.feed import _summary, feed
from streams.mesh.errors import UsageError
from streams.records.faults import Fault, FaultCounts
from streams.state.folder import JournalError
from streams.state.spends import fed_data, keep_fed, read_spends
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
        try:
            until = time.monotonic() + 60
            while not (state / f"{name}.spends").exists():
                assert feeding.poll() is None, "it has ended before it recorded the file"
                assert time.monotonic() < until, "it has recorded no file"
                time.sleep(0.05)
        finally:
            feeding.terminate()


@pytest.mark.parametrize(("fed", "paid"), [("b.csv", "2"), ("copy.csv", "2"), ("other.csv", "1")])
def test_a_file_that_is_fed_in_place_of_the_source_adds_up_with_its_other_readers(call, tmp_path, fed, paid):
    (tmp_path / "mesh.yaml").write_text(TWO)
    for name, first in (("a.csv", 0), ("b.csv", 50), ("copy.csv", 50), ("other.csv", 90)):
        (tmp_path / name).write_text(rows(first))
    state = tmp_path / "state"
    feed_until_it_waits(tmp_path / "mesh.yaml", "a", tmp_path / fed, state)
    assert (state / "a.spends").stat().st_mode & 0o777 == 0o600
    assert call("run", tmp_path / "mesh.yaml", "--state", state, "--output", tmp_path / "out").code == 0
    promises = json.loads((tmp_path / "out" / "model.json").read_text())["guarantee"]["nodes"]
    for name in ("a", "b"):
        epsilons = re.findall(r"protected with epsilon = (\d+) ", promises[name])
        assert epsilons[-1] == paid, promises[name]


def test_every_flipped_bit_of_what_was_fed_is_refused(call, tmp_path):
    (tmp_path / "mesh.yaml").write_text(TWO)
    for name, first in (("a.csv", 0), ("b.csv", 50)):
        (tmp_path / name).write_text(rows(first))
    state, spends = tmp_path / "state", tmp_path / "state" / "a.spends"
    keep_fed(state, "a", Data(path=str(tmp_path / "b.csv"), topic="data.a"))
    content = spends.read_bytes()
    for place in range(len(content)):
        spends.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises(JournalError, match=r"a\.spends: line \d.*is not known"):
            fed_data(state, "a")
    outcome = call("run", tmp_path / "mesh.yaml", "--state", state)  # the last place
    assert (outcome.code, outcome.out) == (2, "")
    assert "what earlier runs have spent is not known" in outcome.err
    spends.write_bytes(content)
    assert call("run", tmp_path / "mesh.yaml", "--state", state).code == 0


def test_what_was_fed_stays_whatever_its_readers_run_and_each_file_is_kept_once(call, tmp_path):
    (tmp_path / "mesh.yaml").write_text(TWO)
    for name, first in (("a.csv", 0), ("b.csv", 50)):
        (tmp_path / name).write_text(rows(first))
    state = tmp_path / "state"
    fed_files = [Data(path=str(tmp_path / name), topic="data.a") for name in ("b.csv", "gone.csv")]
    for data in (*fed_files, *fed_files):
        keep_fed(state, "a", data)
    for run in ("run-1", "run-2"):  # the second puts the first one's journal aside
        (tmp_path / "mesh.yaml").write_text(TWO.replace("run: run-1", f"run: {run}"))
        assert call("run", tmp_path / "mesh.yaml", "--state", state).code == 0
        assert fed_data(state, "a") == tuple(fed_files)
    assert len(read_spends(state / "a.spends")) == 2
