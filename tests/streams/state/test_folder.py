"""A state folder has an id that no copy shares."""

import shutil
import stat

import pytest

from streams.state.folder import JournalError, StateFolder


def test_a_folder_keeps_its_id_and_a_copy_has_another(tmp_path):
    first, copy = tmp_path / "first", tmp_path / "copy"
    first.mkdir()
    assert StateFolder(first).known_id() == ""
    made = StateFolder(first).id()
    assert len(bytes.fromhex(made)) == 16
    assert StateFolder(first).id() == StateFolder(first).known_id() == made
    assert stat.S_IMODE((first / "folder").stat().st_mode) == 0o600
    shutil.copytree(first, copy)
    assert StateFolder(copy).known_id() == ""
    another = StateFolder(copy).id()
    assert another != made
    assert (StateFolder(copy).id(), StateFolder(first).id()) == (another, made)


def test_a_folder_that_was_moved_is_the_same(tmp_path):
    (tmp_path / "here").mkdir()
    made = StateFolder(tmp_path / "here").id()
    (tmp_path / "here").rename(tmp_path / "there")
    assert StateFolder(tmp_path / "there").id() == made


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(JournalError, match="No such file"):
        StateFolder(tmp_path / "missing").id()
