"""`mirrormesh leave --withdraw` without a broker: it needs the node's state folder alone."""

import pytest

from streams.state.folder import read_wish, write_wish
from tests.support.meshes.files import changed, written


@pytest.fixture
def path(tmp_path):
    return written(tmp_path, changed(rounds=40))


def test_a_wish_is_withdrawn(call, path, tmp_path):
    write_wish(tmp_path, "a", "run-1", 120)
    outcome = call("leave", path, "a", "--state", tmp_path, "--withdraw")
    assert (outcome.code, outcome.err) == (0, "")
    assert read_wish(tmp_path, "a", "run-1") is None


def test_a_folder_that_is_none_is_refused(call, path, tmp_path):
    outcome = call("leave", path, "a", "--state", tmp_path / "nowhere", "--withdraw")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith("nowhere: is no folder: must be the folder of the journal\n")
