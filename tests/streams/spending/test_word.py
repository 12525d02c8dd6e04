import itertools

import pytest

from streams.commands.usage import UsageError
from streams.journal.spends import spends_file
from streams.spending.word import check_word, knows_spends
from tests.support.accounts import journal, mesh_file, record


@pytest.mark.parametrize(("known", "named", "read"), list(itertools.product([False, True], repeat=3)))
@pytest.mark.parametrize(
    ("word", "spent"), [(None, None), ("end", None), (None, 5), ("end", 0), ("reused", 5)]
)
def test_a_word_is_needed_for_what_an_unknown_run_has_read(known, named, read, word, spent):
    ask = {"known": known, "named": named, "read": read, "word": word, "spent": spent}
    if (read or named) and not known and (word is None or spent is None):
        with pytest.raises(
            UsageError, match=r"data\.a was read before, .* say --spent N, .*--from end .*--data-reused"
        ):
            check_word("a", **ask)
    else:
        check_word("a", **ask)


def test_a_folder_knows_by_a_journal_or_by_spends(tmp_path):
    assert not knows_spends(tmp_path, "a")
    spends_file(tmp_path, "a").touch()
    assert knows_spends(tmp_path, "a")
    file = mesh_file(tmp_path)
    journal(tmp_path, file, "b", record(1))
    (tmp_path / "b.journal").rename(tmp_path / "b.run-1.journal")
    assert knows_spends(tmp_path, "b")
    assert not knows_spends(tmp_path, "c")


def test_a_folder_knows_nothing_by_the_journal_of_the_run_at_hand_or_of_another_node(tmp_path):
    """The first is made before its operator is asked, and lies there when asked again."""
    file = mesh_file(tmp_path)
    journal(tmp_path, file, "a", None)
    journal(tmp_path, file, "a-2", record(1))
    (tmp_path / "a-2.journal").rename(tmp_path / "a-2.run-1.journal")
    assert not knows_spends(tmp_path, "a")
