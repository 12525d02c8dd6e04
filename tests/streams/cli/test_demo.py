import csv
import importlib.util

import numpy as np
import pytest
from rich.console import Console

from streams.local.run import LocalRun, mesh_parts, without_privacy
from streams.local.tracking import distances
from streams.mesh.examples import example_mesh
from streams.mesh.file import load
from streams.records.localisation import target_path
from streams.terminal.demo_view import Picture, Watched, shown
from streams.terminal.plots import MISSING

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_demo_compares_three_runs(call, tmp_path):
    outcome = call("demo", "--plain", "--rounds", 50)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("round ")] == [
        f"round {done} of 50" for done in range(5, 51, 5)
    ]
    for name in ("private, with neighbours", "without privacy", "without neighbours"):
        assert sum(name in line and line.startswith("│") for line in lines) == 1
    assert any(line.startswith("Privacy costs") for line in lines)
    assert any(line.startswith("Each record of node east's stream is protected") for line in lines)
    assert "\x1b" not in outcome.out
    assert list(tmp_path.iterdir()) == []


def test_output_has_plots_and_series(call, tmp_path):
    pytest.importorskip("matplotlib")
    outcome = call("demo", "--rounds", 12, "--output", "out", "--seed", 4)
    assert outcome.code == 0
    for name in ("paths.png", "regret.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(PNG)
        assert f"out/{name}" in outcome.out
    with (tmp_path / "out" / "series.csv").open() as opened:
        series = list(csv.DictReader(opened))
    target = np.array([[float(row["target_1"]), float(row["target_2"])] for row in series])
    assert np.array_equal(target, target_path(4, 12))
    with (tmp_path / "out" / "rounds.csv").open() as opened:
        rounds = list(csv.DictReader(opened))
    decisions = np.array([[float(row["decision_1"]), float(row["decision_2"])] for row in rounds])
    errors = np.hypot(*np.moveaxis(decisions.reshape(12, 6, 2) - target[:, None], -1, 0)).mean(1)
    assert [float(row["error, private, with neighbours"]) for row in series] == pytest.approx(errors)
    open_ = LocalRun(mesh_parts(without_privacy(load(example_mesh("tracking.yaml"))), seed=4, rounds=12))
    open_.mesh.run()
    expected = distances(open_.recorder.decisions(), target).mean(1)
    assert [float(row["error, without privacy"]) for row in series] == pytest.approx(expected)


def test_without_matplotlib_it_says_what_to_install(call, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "streams.terminal.plots.find_spec", lambda name: None if name == "matplotlib" else found(name)
    )
    outcome = call("demo", "--rounds", 5, "--output", "out")
    assert outcome.code == 0
    assert MISSING in outcome.out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["rounds.csv", "series.csv"]


def test_the_data_are_a_function_of_the_seed(call, tmp_path):
    for folder in ("one", "two"):
        call("demo", "--rounds", 6, "--output", folder)
    texts = [(tmp_path / name / "series.csv").read_text() for name in ("one", "two")]
    one, two = (list(csv.DictReader(text.splitlines())) for text in texts)
    for column in ("target_1", "error, without privacy", "regret/T, without privacy"):
        assert [row[column] for row in one] == [row[column] for row in two]
    exact = "error, private, with neighbours"
    assert [row[exact] for row in one] != [row[exact] for row in two]


def test_an_output_in_the_way_is_told_before_anything_is_run(call, tmp_path):
    (tmp_path / "file").write_text("mine")
    outcome = call("demo", "--output", "file")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "file: is a file: must be a folder, or not there yet\n"


def test_on_a_terminal_a_picture_is_drawn(mesh):
    local = LocalRun(mesh_parts(load(mesh), rounds=20))
    console = Console(force_terminal=True, width=100, record=True)
    with (
        console.capture() as captured,
        shown(console, Watched(local, target_path(0, 20), "1 a record"), "small", plain=False) as view,
    ):
        while local.to_round(local.recorder.common_rounds + 1):
            view(local.recorder.common_rounds)
    last = captured.get().split("small")[-1]
    assert "20 of 20" in last
    decision = local.recorder.nodes["b"].decisions[19]
    assert f"({decision[0]:6.3f}, {decision[1]:6.3f})" in last
    assert f"{local.recorder.nodes['b'].regrets[19] / 20:.4f}" in last


def test_the_picture_takes_a_tenth_of_the_time_at_most(mesh, monkeypatch):
    local = LocalRun(mesh_parts(load(mesh), rounds=200))
    now, drawn = 0.0, 0.0

    class SlowLive:
        def update(self, picture, *, refresh):
            nonlocal now, drawn
            now, drawn = now + 0.05, drawn + 0.05

    monkeypatch.setattr("streams.terminal.demo_view.time.monotonic", lambda: now)
    picture = Picture(SlowLive(), Watched(local, target_path(0, 200), "1 a record"), "slow")
    while local.to_round(local.recorder.common_rounds + 1):
        now += 0.01
        picture(local.recorder.common_rounds)
    assert drawn >= 0.2  # the first picture, and one every half second
    assert drawn <= now / 10 + 0.05
