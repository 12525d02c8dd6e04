"""Many runs of one measure: kept by case, seed and version, resumed, and in parallel the same."""

import subprocess
import sys

import numpy as np
import pytest

from experiments.catalogue import EXPERIMENTS
from experiments.harness import study
from experiments.harness.localisation import printed_runs
from experiments.harness.study import Study

OURS = {"topology", "nodes", "streams", "experiments"}
NO_NUMBERS = {
    *("streams", "streams.tools"),
    "experiments",
    *("streams.codec", "streams.codec.envelope", "streams.codec.vectors"),
    *("streams.codec.heartbeat", "streams.codec.plans", "streams.codec.topics"),
    *("streams.bus", "streams.bus.bus", "streams.bus.connection", "streams.bus.registry"),
    "streams.log_events",
}
"""Names, errors, bytes, schemas of topics, events of logs, and what no experiment has: own losses."""

CALLS = []


def shifted(seed, by):
    """A measure that keeps count of its calls."""
    CALLS.append(seed)
    return {"value": np.array([seed + by], np.float64)}


def test_runs_are_stacked_by_case_and_measured_once(tmp_path):
    made = Study(tmp_path, workers=1, kept=tmp_path / "kept")
    CALLS.clear()
    for _ in range(2):
        found = made.repeated(shifted, {"one": {"by": 1}, "ten": {"by": 10}}, 4)
        values = {label: one["value"][:, 0].tolist() for label, one in found.items()}
        assert values == {"one": [1, 2, 3, 4], "ten": [10, 11, 12, 13]}
    assert CALLS == [0, 1, 2, 3] * 2


def test_what_is_quick_is_few_runs(tmp_path):
    made = Study(tmp_path, quick=True, workers=1, kept=tmp_path / "kept")
    assert len(made.repeated(shifted, {"one": {"by": 1}}, 50)["one"]["value"]) == 3


def test_what_is_more_than_before_is_measured_alone(tmp_path):
    made = Study(tmp_path, workers=1, kept=tmp_path / "kept")
    for by, runs, expected in ((1, 2, [0, 1]), (1, 4, [2, 3]), (2, 1, [0]), (1.0, 1, [0])):
        CALLS.clear()
        assert made.repeated(shifted, {"one": {"by": by}}, runs)["one"]["value"][-1] == runs - 1 + by
        assert expected == CALLS


def test_another_version_is_measured_again(tmp_path, monkeypatch):
    made = Study(tmp_path, workers=1, kept=tmp_path / "kept")
    CALLS.clear()
    for version in ("one", "one", "two"):
        monkeypatch.setattr(study, "_version", lambda _, version=version: version)
        made.repeated(shifted, {"one": {"by": 1}}, 1)
    assert len(CALLS) == 2


def interrupted(seed, at):
    """A measure during which Ctrl-C is pressed once."""
    CALLS.append(seed)
    if seed == 2 and CALLS.count(2) == 1:
        raise KeyboardInterrupt
    return {"value": np.array([at + seed], np.float64)}


def test_after_ctrl_c_it_goes_on_where_it_was(tmp_path):
    made = Study(tmp_path, workers=1, kept=tmp_path / "kept")
    CALLS.clear()
    with pytest.raises(KeyboardInterrupt):
        made.repeated(interrupted, {"one": {"at": 5}}, 4)
    found = made.repeated(interrupted, {"one": {"at": 5}}, 4)["one"]["value"]
    assert found[:, 0].tolist() == [5, 6, 7, 8]
    assert CALLS == [0, 1, 2, 2, 3]


@pytest.mark.parametrize("left", [0.5, 0.0])
def test_half_a_file_is_measured_again(tmp_path, left):
    made = Study(tmp_path, workers=1, kept=tmp_path / "kept")
    CALLS.clear()
    first = made.repeated(shifted, {"one": {"by": 1}}, 2)["one"]["value"]
    (kept, _) = (tmp_path / "kept").rglob("output.pkl")
    kept.write_bytes(kept.read_bytes()[: int(left * kept.stat().st_size)])
    again = made.repeated(shifted, {"one": {"by": 1}}, 2)["one"]["value"]
    assert again.tolist() == first.tolist()
    assert len(CALLS) == 3


def test_parallel_runs_are_those_of_one_process(tmp_path):
    cases = {str(epsilon): {"rounds": 5, "runs": 2, "epsilon": epsilon} for epsilon in (None, 1.0)}
    one, two = (
        Study(tmp_path, workers=workers, kept=tmp_path / f"kept-{workers}").repeated(printed_runs, cases, 3)
        for workers in (1, 2)
    )
    for case in cases:
        assert one[case]["paid"].tobytes() == two[case]["paid"].tobytes()
    assert len(np.unique(one["1.0"]["paid"][:, 0, -1, 0])) == 3


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """Give a clone with a file in every folder that counts, and the digest of a measure in it."""
    for folder in study.RUN_THROUGH:
        (tmp_path / folder / "__pycache__").mkdir(parents=True)
        (tmp_path / folder / "__pycache__" / "one.pyc").write_text("a")
        (tmp_path / folder / "one.py").write_text("a")
    (tmp_path / "measure.py").write_text("a")
    monkeypatch.setattr(study, "ROOT", tmp_path)
    return tmp_path, lambda: study._version.__wrapped__(str(tmp_path / "measure.py"))


@pytest.mark.parametrize("changed", [*(f"{name}/one.py" for name in study.RUN_THROUGH), "measure.py"])
def test_changed_code_and_data_are_another_version(clone, changed):
    root, version = clone
    before = version()
    assert version() == before
    (root / changed).write_text("b")
    assert version() != before


def test_another_numpy_is_another_version_and_a_cache_of_bytecode_is_none(clone, monkeypatch):
    root, version = clone
    before = version()
    (root / "nodes" / "__pycache__" / "one.pyc").write_text("b")
    assert version() == before
    monkeypatch.setattr(np, "__version__", "0.0")
    assert version() != before


def test_all_code_that_makes_numbers_counts():
    root, scripts = study.ROOT, {one.module for one in EXPERIMENTS.values()}
    code = "import sys, importlib; [importlib.import_module(n) for n in sys.argv[1:]]; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code, *scripts], capture_output=True, text=True, check=True)
    ours = {name for name in run.stdout.split() if name.split(".")[0] in OURS}
    assert scripts < ours
    counted = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for folder in study.RUN_THROUGH
        for path in (root / folder).rglob("*.py")
    }
    assert ours - counted - scripts == NO_NUMBERS
