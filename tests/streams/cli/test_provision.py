"""Options of `mirrormesh provision` that do not go together: one line, before any broker is asked."""

import pytest

from tests.support.processes.in_process import MESH, Commands


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--prune"], "--prune: goes with --users"),
        (["--output", "passwords"], "--output: goes with --users"),
        (["--check", "--prune", "--users"], "--prune: goes without --check, which changes nothing"),
        (["--check", "--dry-run"], "--dry-run: goes without --check, which changes nothing"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(tmp_path, capsys, options, line):
    path = tmp_path / "mesh.yaml"
    path.write_text(MESH)
    outcome = Commands(capsys)("provision", path, *options)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"{line}\n")
