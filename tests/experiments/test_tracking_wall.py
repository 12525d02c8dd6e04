"""The wall's experiment: the product follows there, and what it is compared with does."""

import gzip

import numpy as np
import pytest

from experiments.curvature_rules import WALL
from experiments.harness.study import Study
from experiments.tracking_wall import TABLES, errors, filtered, main, mesh_of, scene, traces
from experiments.uwb_records import FOLDER
from experiments.uwb_records import main as main_of_records
from streams.mesh.file import load

QUIET = 250
"""Rounds in which the target hardly moves."""


@pytest.mark.parametrize("graph", ["complete", "ring"])
def test_the_product_and_the_filter_find_a_target_at_rest(graph):
    of = scene("wall")
    targets, measured = (array[:QUIET, :3] for array in traces("wall", 1_000, 3, 0))
    far = errors(mesh_of(of, graph, 4.0, 0.1), targets, measured, 1)
    assert np.quantile(far[100:], 0.95) < 0.5
    assert np.quantile(filtered(of, 0.1, targets, measured)[100:], 0.95) < 0.2


def test_echoes_and_outages_are_there():
    (_, plain), (_, measured) = (traces(path, 1_000, 2, 0) for path in TABLES["tracking-wall"])
    both = ~np.isnan(plain) & ~np.isnan(measured)
    assert 0.03 < (measured[both] > plain[both] + 0.01).mean() < 0.07
    assert 0.01 < np.isnan(measured).mean() - np.isnan(plain).mean() < 0.05


def test_the_example_s_records_are_those_of_the_script(tmp_path):
    main_of_records(tmp_path)
    names = sorted(path.name for path in FOLDER.glob("*.gz"))
    assert len(names) == len(WALL)
    for name in names:
        assert gzip.decompress((tmp_path / name).read_bytes()) == gzip.decompress(
            (FOLDER / name).read_bytes()
        )


def test_the_example_s_places_are_the_wall_s():
    nodes = load(FOLDER.parent / "uwb.yaml", {}).mesh.nodes
    assert [list(nodes[name].place) for name in sorted(nodes)] == WALL.tolist()


def test_a_quick_table_has_all_cases(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.tracking_wall.TABLES", {"tracking-wall": ("eights 0.003",)})
    monkeypatch.setattr("experiments.tracking_wall.JERKS", (1e-4,))
    main(Study(tmp_path, quick=True, workers=1, kept=tmp_path / "kept"))
    lines = (tmp_path / "tracking-wall.csv").read_text().splitlines()
    assert [line.split(",")[1:3] for line in lines[1:]] == [
        *(["4", "complete"], ["4", "ring"], ["1", "complete"], ["1", "ring"], ["none", "sees all"])
    ]
