"""Every experiment runs, short, and writes its figures and their numbers."""

import csv
import sys

import pytest

from experiments.__main__ import main
from experiments.catalogue import EXPERIMENTS
from experiments.harness import data, dola, sparse, star, star_data, study
from experiments.harness.texts import texts
from tests.support.processes.in_process import Commands


@pytest.fixture
def call(capsys):
    """The command line."""
    return Commands(capsys, main)


@pytest.fixture
def read(monkeypatch):
    """The names of the sets that are read."""
    names, load, read = set(), dola.load, sparse.texts
    dola.records.cache_clear()

    def spied(name, *, quick):
        names.add(name)
        return load(name, quick=quick)

    def spied_texts(name, *, quick):
        if name.startswith("reuters"):
            names.add("reuters")
        return read(name, quick=quick)

    def spied_star(name, *, quick):
        names.add(name)
        return star_data.star(name, quick=quick)

    texts.cache_clear()
    star.cost.cache_clear()
    monkeypatch.setattr(star, "star", spied_star)
    monkeypatch.setattr(dola, "load", spied)
    monkeypatch.setattr(sparse, "texts", spied_texts)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_writes_figures_and_numbers_of_its_data(name, tmp_path, monkeypatch, call, read):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study, "KEPT", tmp_path / "kept")
    done = call("run", name, "--quick", "--workers", "1", "--output", "figures")
    assert done.code == 0, done.err
    assert read == set(EXPERIMENTS[name].data)
    tables = list((tmp_path / "figures").glob("*.csv"))
    assert tables
    for table in tables:
        with table.open() as file:
            header, *rows = csv.reader(file)
        assert rows
        assert all(len(row) == len(header) for row in rows)
    for table in tables:
        if table.read_text().startswith("curve,"):
            assert table.with_suffix(".png").stat().st_size > 1_000


def test_a_name_that_is_not_known_is_refused(tmp_path, call):
    done = call("run", "nothing", "--output", tmp_path)
    assert done.code == 2
    assert done.err.startswith("nothing: must be all or one of tracking-regret")


@pytest.mark.parametrize(("name", "missing"), [("dola-sparse", "reuters"), ("all", "diabetes")])
def test_data_that_is_missing_is_told_before_anything_is_measured(tmp_path, monkeypatch, call, name, missing):
    monkeypatch.delenv(data.VARIABLE, raising=False)
    monkeypatch.setattr(study, "KEPT", tmp_path / "kept")
    done = call("run", name, "--output", tmp_path / "figures")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"{missing}: set MIRRORMESH_DATA to a folder that holds ")
    assert not list((tmp_path / "kept").iterdir())


def test_without_what_draws_it_says_so(tmp_path, monkeypatch, call):
    for name in ("experiments.growth", "experiments.harness.figures"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setattr(study, "KEPT", tmp_path / "kept")
    done = call("run", "growth", "--quick", "--output", tmp_path / "figures")
    assert done.code == 2
    assert done.err.startswith("no matplotlib")


def test_a_place_for_what_is_kept_that_cannot_be_written_to_is_named(tmp_path, monkeypatch, call):
    (tmp_path / "file").touch()
    monkeypatch.setattr(study, "KEPT", tmp_path / "file")
    done = call("run", "growth", "--quick", "--output", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"{tmp_path}/file: is a file: must be a folder, or not there yet\n"


def test_the_list_names_every_experiment_and_its_source(call):
    shown = call("list").out
    for name, experiment in EXPERIMENTS.items():
        assert name in shown
        assert experiment.source.split(",")[0] in shown
