"""A wish to leave is kept in the state folder, for one run."""

import pytest

from streams.state.folder import JournalError, StateFolder, read_wish, withdraw_wish, write_wish


def test_a_wish_is_of_one_node_and_run_until_it_is_withdrawn(tmp_path):
    assert read_wish(tmp_path, "a", "run-1") is None
    write_wish(tmp_path, "a", "run-1", 120)
    assert [read_wish(tmp_path, *of) for of in (("a", "run-1"), ("a", "run-2"), ("b", "run-1"))] == [
        120,
        None,
        None,
    ]
    withdraw_wish(tmp_path, "a")
    withdraw_wish(tmp_path, "a")
    assert read_wish(tmp_path, "a", "run-1") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "{}", '{"run": "run-1"}', '{"run": "r", "leave_from": []}']
)
def test_a_broken_one_is_no_wish_to_stay(tmp_path, text):
    StateFolder(tmp_path).leaving("a").write_text(text)
    with pytest.raises(
        JournalError, match=r"a\.leaving cannot be read: delete it, then run mirrormesh leave"
    ):
        read_wish(tmp_path, "a", "run-1")
