import csv
import importlib.util

import numpy as np
import pytest
from rich.console import Console

from streams.local.run import LocalRun, mesh_parts, without_privacy
from streams.mesh.file import load
from streams.mesh.shipped import example_mesh
from streams.records.localisation import sensor, target_path
from streams.terminal.demo import (
    EXAMPLE,
    HEIGHT,
    WIDTH,
    DemoPicture,
    DemoProgress,
    Map,
    Tracked,
    distances,
    shown,
    verdict,
)
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
    assert any(line == "Neighbours bring nothing here." or " times as far off." in line for line in lines)
    assert any(line.startswith("Each record of node east's stream is protected") for line in lines)
    assert "\x1b" not in outcome.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("errors", "lines"),
    [
        (
            (0.2, 0.1, 0.7),
            (
                "Privacy costs accuracy: an error of 0.200, not 0.100.",
                "Without neighbours nobody finds it: the same private sensors are 3.5 times as far off.",
            ),
        ),
        (
            (0.2, 0.3, 0.1),
            (
                "Privacy costs no accuracy here: an error of 0.200, not 0.300.",
                "Neighbours bring nothing here.",
            ),
        ),
    ],
)
def test_a_verdict_follows_the_errors_of_the_second_half(errors, lines):
    runs = [
        Tracked("a run", np.zeros((4, 1, 2)), np.array([[9.0], [9.0], [error], [error]]), np.zeros(4))
        for error in errors
    ]
    assert verdict(*runs) == lines


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
    assert np.array_equal(target, target_path(4, 12, load(example_mesh(EXAMPLE)).mesh.target))
    assert np.hypot(*np.diff(target, axis=0).T) == pytest.approx(np.full(11, 0.003), rel=1e-3)
    with (tmp_path / "out" / "rounds.csv").open() as opened:
        rounds = list(csv.DictReader(opened))
    decisions = np.array([[float(row["decision_1"]), float(row["decision_2"])] for row in rounds])
    errors = np.hypot(*np.moveaxis(decisions.reshape(12, 6, 2) - target[:, None], -1, 0)).mean(1)
    assert [float(row["error, private, with neighbours"]) for row in series] == pytest.approx(errors)
    open_ = LocalRun(mesh_parts(without_privacy(load(example_mesh(EXAMPLE))), seed=4, rounds=12))
    open_.mesh.run()
    expected = distances(open_.recorder.decisions()[..., :2], target).mean(1)
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


def watched(mesh, rounds):
    """A small mesh's run, and what the picture needs of it."""
    local = LocalRun(mesh_parts(load(mesh), rounds=rounds))
    nodes = len(local.recorder.nodes)
    sensors = np.array([sensor(number, nodes) for number in range(nodes)])
    return local, DemoProgress(local, sensors, target_path(0, rounds), "1 a record")


@pytest.mark.parametrize("width", [80, 120])
def test_on_a_terminal_a_map_is_drawn_with_the_nodes_beside_it(mesh, width):
    local, seen = watched(mesh, 20)
    console = Console(force_terminal=True, width=width, color_system=None)
    with (
        console.capture() as captured,
        shown(console, seen, "small", plain=False) as view,
    ):
        while local.to_round(local.recorder.common_rounds + 1):
            view(local.recorder.common_rounds)
    last = captured.get().split("small")[-1]
    assert "20 of 20" in last
    decision = local.recorder.nodes["b"].decisions[19]
    assert f"{decision[0]:6.3f} {decision[1]:6.3f}" in last
    assert f"{seen.target[19][0]:6.3f} {seen.target[19][1]:6.3f}" in last
    assert "epsilon 1 a record" in last
    drawn = [line[:WIDTH] for line in last.splitlines()]
    assert sum(line.count("▲") for line in drawn if "sensor" not in line) == len(local.recorder.nodes)
    assert sum(line.count("◆") for line in drawn if "sensor" not in line) == 1
    assert len(last.splitlines()) <= 24


def test_a_terminal_that_is_too_narrow_shows_the_nodes_alone(mesh):
    local, seen = watched(mesh, 5)
    console = Console(force_terminal=True, width=60, color_system=None)
    with console.capture() as captured, shown(console, seen, "small", plain=False) as view:
        local.to_round(5)
        view(5)
    assert "▲" not in captured.get()
    decision = local.recorder.nodes["b"].decisions[4]
    assert f"{decision[0]:6.3f} {decision[1]:6.3f}" in captured.get()


def test_the_map_has_everything_at_its_place():
    sensors = np.array([[1.0, 0.0], [0.0, -1.0]])
    path = np.array([[0.0, 0.5], [0.5, 0.5]])
    rows = Map(sensors, path).drawn(2, np.array([[-1.0, 0.0], [9.0, 9.0]])).plain.splitlines()
    at = {
        mark: [(r, line.index(mark)) for r, line in enumerate(rows[:HEIGHT]) if mark in line]
        for mark in "▲◆·●"
    }
    middle, centre = (HEIGHT - 1) / 2, (WIDTH - 1) / 2
    right, below = round(centre + centre / 1.1), round(middle + middle / 1.1)
    assert at["▲"] == [(round(middle), right), (below, round(centre))]
    assert at["◆"] == [(round(middle - middle / 2.2), round(centre + centre / 2.2))]
    assert at["·"] == [(round(middle - middle / 2.2), round(centre))]
    assert at["●"] == [(0, WIDTH - 1), (round(middle), round(centre - centre / 1.1))]
    assert all(len(line) == WIDTH for line in rows[:HEIGHT])


def test_the_picture_takes_a_tenth_of_the_time_at_most(mesh, monkeypatch):
    local, seen = watched(mesh, 200)
    now, drawn = 0.0, 0.0

    class SlowLive:
        console = Console(width=100)

        def update(self, picture, *, refresh):
            nonlocal now, drawn
            now, drawn = now + 0.05, drawn + 0.05

    monkeypatch.setattr("streams.terminal.demo.time.monotonic", lambda: now)
    picture = DemoPicture(SlowLive(), seen, "slow")
    while local.to_round(local.recorder.common_rounds + 1):
        now += 0.01
        picture(local.recorder.common_rounds)
    assert drawn >= 0.2  # the first picture, and one every half second
    assert drawn <= now / 10 + 0.05
