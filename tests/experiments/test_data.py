"""Data sets: what is a feature, how rows are scaled, and what is said when a set is missing."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from experiments.harness import data, features
from experiments.harness.data import SETS, Unavailable, load
from experiments.harness.made_up import made_up, unit_ball
from experiments.harness.texts import FILE, texts

REAL = os.environ.get(data.VARIABLE)


def diabetes(folder, rows):
    """A file of the set's form: each row overrides what is usual."""
    usual = {
        "encounter_id": "1", "patient_nbr": "2", "race": "A", "weight": "?", "payer_code": "?",
        "medical_specialty": "?", "time_in_hospital": "3", "number_emergency": "0", "max_glu_serum": "None",
    }  # fmt: skip
    lines = [",".join(usual)] + [",".join((usual | row).values()) for row in rows]
    with gzip.open(folder / "diabetic_data.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")


def test_identifiers_the_label_and_mostly_missing_columns_are_no_features(tmp_path):
    diabetes(tmp_path, [{}, {"number_emergency": "2", "patient_nbr": "9"}, {"race": "B"}])
    rows, count, positive = SETS["diabetes"].read(tmp_path)
    assert (count, positive) == (3, 1)
    assert rows.labels.tolist() == [-1, 1, -1]
    assert rows.features.shape == (3, 3)  # race, time_in_hospital, max_glu_serum
    np.testing.assert_array_equal(rows.features[0], rows.features[1])


def test_a_row_with_a_missing_value_is_dropped_and_none_is_a_value(tmp_path):
    diabetes(tmp_path, [{}, {"race": "?", "number_emergency": "1"}, {"max_glu_serum": ">200"}])
    rows, count, positive = SETS["diabetes"].read(tmp_path)
    assert (count, positive, len(rows.labels)) == (3, 1, 2)
    assert (rows.labels == -1).all()


def test_categories_become_their_shares_or_columns_of_their_own():
    assert features.coded(["a", "b", "a", "a"], numeric=False).tolist() == [0.75, 0.25, 0.75, 0.75]
    assert features.coded(["2", "-1"], numeric=True).tolist() == [2.0, -1.0]
    assert features.binary(["b", "a", "b"]).tolist() == [[0, 1], [1, 0], [0, 1]]


def test_columns_are_divided_by_their_largest_and_rows_are_at_most_one_long():
    scaled = features.scaled(np.array([[4.0, -2.0, 0.0], [1.0, 0.0, 0.0]]))
    np.testing.assert_allclose(scaled, [[0.5**0.5, -(0.5**0.5), 0.0], [0.25, 0.0, 0.0]])


@pytest.mark.parametrize("name", SETS)
def test_a_set_that_is_missing_is_named_with_where_to_get_it(name, tmp_path, monkeypatch):
    monkeypatch.delenv(data.VARIABLE, raising=False)
    with pytest.raises(Unavailable, match=f"{name}: set MIRRORMESH_DATA .* UCI"):
        load(name)
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    with pytest.raises(Unavailable, match=f"{name}: cannot read .*{SETS[name].folder}.* UCI"):
        load(name)


def test_texts_that_are_missing_are_named_with_where_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    with pytest.raises(Unavailable, match=r"reuters: cannot read .* LASVM"):
        texts()


def test_another_file_of_that_name_is_refused_with_its_counts(tmp_path, monkeypatch):
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    (tmp_path / "diabetes130").mkdir()
    diabetes(tmp_path / "diabetes130", [{}, {"number_emergency": "1"}])
    with pytest.raises(Unavailable, match="diabetes: 2 rows, 1 of them positive: must be 101766 and 11383"):
        load("diabetes")


@pytest.mark.parametrize(
    ("name", "columns"), [("adult", 14), ("adult-binary", 104), ("diabetes", 11), ("covertype", 54)]
)
def test_quick_rows_are_of_the_excerpt_and_need_no_folder(name, columns, monkeypatch):
    monkeypatch.delenv(data.VARIABLE, raising=False)
    rows = load(name, quick=True)
    assert rows.features.shape == (data.QUICK_ROWS, columns)
    assert ((rows.features * rows.features).sum(-1) <= 1 + 1e-12).all()
    assert (rows.labels > 0).mean() == pytest.approx(SETS[name].share, abs=0.02)


def test_the_excerpt_of_covertype_has_the_columns_of_the_set():
    rows, count, _ = SETS["covertype"].read_excerpt(data.MESHES / "covertype")
    assert count == 12_000
    with gzip.open(data.MESHES / "covertype" / "covertype_train.csv.gz", "rt") as file:
        raw = [line.strip().split(",") for line in file][1:]
    for digits, row in zip(rows.features[::1_000], raw[::1_000], strict=True):
        (area,), (soil,) = np.flatnonzero(digits[10:14]), np.flatnonzero(digits[14:])
        assert [area + 1, soil + 1] == [int(row[10]), int(row[11])]
    kinds = np.array([int(row[12]) for row in raw])
    np.testing.assert_array_equal(rows.labels, np.where(kinds == 2, 1, -1))


def test_the_excerpt_of_diabetes_has_every_row_and_its_label():
    rows, count, positive = SETS["diabetes"].read_excerpt(data.MESHES / "diabetes")
    labels = []
    for number in range(1, 5):
        with gzip.open(data.MESHES / "diabetes" / f"hospital-{number}.csv.gz", "rt") as file:
            labels += [line.strip().rsplit(",")[-1] for line in file][1:]
    assert (count, positive) == (len(labels), labels.count("yes"))
    np.testing.assert_array_equal(rows.labels, np.where(np.array(labels) == "yes", 1, -1))


if REAL is not None and Path(REAL).is_dir():  # else there is nothing to load: the sets are not committed

    @pytest.mark.parametrize(
        ("name", "rows"),
        [("adult", 45_222), ("adult-binary", 45_222), ("diabetes", 98_053), ("covertype", 581_012)],
    )
    def test_the_real_sets_are_what_their_loaders_say(name, rows):
        found = load(name)
        assert found.features.shape == (rows, SETS[name].columns)
        assert found.features.max() <= 1.0


def test_made_up_rows_repeat_and_other_seeds_are_other_rows():
    one, again, other = made_up(50, 5, 0.2), made_up(50, 5, 0.2), made_up(50, 5, 0.2, seed=1)
    np.testing.assert_array_equal(one.features, again.features)
    assert (one.features != other.features).any()


def test_the_unit_ball_is_filled_evenly():
    rows = unit_ball(4_000, 10, 0)
    norms = np.sqrt((rows.features * rows.features).sum(-1))
    assert norms.max() <= 1.0
    # P(norm <= 0.9) = 0.9^10 = 0.3487, standard deviation 0.0075 over 4,000: five of them
    assert (norms <= 0.9).mean() == pytest.approx(0.9**10, abs=0.038)


@pytest.mark.parametrize("name", [*SETS, "reuters"])
@pytest.mark.parametrize("held", ["nothing", "text", "another", "half"])
def test_a_file_that_is_another_or_broken_is_named(name, held, tmp_path, monkeypatch):
    files = {"diabetes": "diabetes130/diabetic_data.csv.gz", "covertype": "covertype/covtype.npz"}
    path = tmp_path / (FILE if name == "reuters" else files.get(name, "adult/adult_train.csv.gz"))
    path.parent.mkdir()
    if path.suffix == ".npz":
        np.savez(path, a=np.arange(100.0))
    else:
        path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1_000))
    content = {"nothing": b"", "text": b"not it", "another": path.read_bytes()}
    path.write_bytes(content.get(held, path.read_bytes()[:-20]))
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    with pytest.raises(Unavailable, match=f"^{name}: .*{path.parent.name}.* (UCI|Reuters)"):
        texts() if name == "reuters" else load(name)
