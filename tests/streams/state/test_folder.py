"""A state folder has an id that no copy shares."""

import shutil
import stat

import pytest

from streams.state.folder import folder_id, known_folder
from streams.state.journal_file import JournalError


def test_a_folder_keeps_its_id_and_a_copy_has_another(tmp_path):
    first, copy = tmp_path / "first", tmp_path / "copy"
    first.mkdir()
    assert known_folder(first) == ""
    made = folder_id(first)
    assert len(bytes.fromhex(made)) == 16
    assert folder_id(first) == known_folder(first) == made
    assert stat.S_IMODE((first / "folder").stat().st_mode) == 0o600
    shutil.copytree(first, copy)
    assert known_folder(copy) == ""
    another = folder_id(copy)
    assert another != made
    assert (folder_id(copy), folder_id(first)) == (another, made)


def test_a_folder_that_was_moved_is_the_same(tmp_path):
    (tmp_path / "here").mkdir()
    made = folder_id(tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    assert folder_id(tmp_path / "there") == made


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(JournalError, match="No such file"):
        folder_id(tmp_path / "missing")
