"""What the engine is measured beside comes to the engine's releases: a bare loop, and DISROPT's problem."""

import numpy as np
import pytest

from tests.benchmarks import peers
from tests.benchmarks.engine import bare, of_engine, records


@pytest.mark.parametrize(("nodes", "dimension"), [(6, 2), (16, 5)])
def test_the_bare_loop_does_the_same_arithmetic(nodes, dimension):
    slots = records(nodes, dimension, 200)
    assert bare(nodes, dimension, slots) == pytest.approx(
        of_engine(nodes, dimension, slots), rel=1e-9, abs=1e-12
    )
    assert np.abs(bare(nodes, dimension, slots)).max() > 0.1


def test_the_problem_that_disropt_is_given_has_the_iterates_of_the_engine(tmp_path):
    peers.write_problem(tmp_path, 5)
    given = np.load(tmp_path / "problem.npz")
    features, labels, x = given["features"], given["labels"], np.zeros((peers.NODES, 5))
    expected = peers.of_engine(5, 50)
    for step, found in zip(given["steps"], expected, strict=False):
        y = given["weights"] @ x
        x = y - step * ((features * y).sum(-1) - labels)[:, None] * features
        np.testing.assert_allclose(found, x, **peers.TOLERANCE)
    assert np.abs(x).max() > 0.1


def test_what_is_missing_is_said_in_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(peers, "ENVIRONMENT", tmp_path)
    assert peers.main() == 1
    assert capsys.readouterr().err == (
        f"bench-peers: no {tmp_path}/bin/mpirun: `make bench-peers` installs it\n"
    )


def test_what_mpirun_says_when_it_fails_is_passed_on(tmp_path, monkeypatch, capsys):
    mpirun = tmp_path / "bin" / "mpirun"
    mpirun.parent.mkdir()
    mpirun.write_text("#!/bin/sh\necho not enough slots >&2\nexit 3\n")
    mpirun.chmod(0o755)
    monkeypatch.setattr(peers, "ENVIRONMENT", tmp_path)
    assert peers.main() == 1
    assert capsys.readouterr().err == "bench-peers: mpirun ended with 3, and said: not enough slots\n"
