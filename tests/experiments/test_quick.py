"""Every experiment runs, short, and writes its figures and their numbers; what was measured is kept."""

import csv

import numpy as np
import pytest

from experiments.catalogue import EXPERIMENTS
from experiments.harness.study import Study
from tests.support.commands import Commands


@pytest.fixture
def call(capsys):
    """The command line."""
    return Commands(capsys)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_writes_figures_and_numbers(name, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    done = call("experiment", "run", name, "--quick", "--workers", "1", "--output", "figures")
    assert done.code == 0, done.err
    tables = list((tmp_path / "figures").glob("*.csv"))
    assert tables
    for table in tables:
        with table.open() as file:
            header, *rows = csv.reader(file)
        assert rows
        assert all(len(row) == len(header) for row in rows)
    for figure in (tmp_path / "figures").glob("*.png"):
        assert figure.with_suffix(".svg").stat().st_size > 1_000


CALLS = []


def shifted(seed, by):
    """A measure that keeps count of its calls."""
    CALLS.append(seed)
    return {"value": np.array([seed + by], np.float64)}


def test_runs_are_stacked_by_case_and_measured_once(tmp_path):
    study = Study(tmp_path, workers=1, kept=tmp_path / "kept")
    CALLS.clear()
    for _ in range(2):
        found = study.repeated(shifted, {"one": {"by": 1}, "ten": {"by": 10}}, 4)
        values = {label: one["value"][:, 0].tolist() for label, one in found.items()}
        assert values == {"one": [1, 2, 3, 4], "ten": [10, 11, 12, 13]}
    assert CALLS == [0, 1, 2, 3] * 2


def test_what_is_quick_is_few_runs(tmp_path):
    study = Study(tmp_path, quick=True, workers=1, kept=tmp_path / "kept")
    assert len(study.repeated(shifted, {"one": {"by": 1}}, 50)["one"]["value"]) == 3


def test_a_name_that_is_not_known_is_refused(tmp_path, call):
    done = call("experiment", "run", "nothing", "--output", tmp_path)
    assert done.code == 2
    assert done.err.startswith("nothing: must be all or one of tracking-regret")


def test_the_list_names_every_experiment_and_its_source(call):
    shown = call("experiment", "list").out
    for name, experiment in EXPERIMENTS.items():
        assert name in shown
        assert experiment.source.split(",")[0] in shown
