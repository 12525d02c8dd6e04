import itertools
from fractions import Fraction

import pytest

from nodes.privacy.spends import Spend
from streams.commands.usage import UsageError
from streams.spending.word import check_word, knows_run


@pytest.mark.parametrize(("named", "read"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize(
    ("word", "spent"), [(None, None), ("end", None), (None, 5), ("end", 0), ("reused", 5)]
)
def test_a_word_is_needed_for_what_an_unknown_run_has_read(named, read, word, spent):
    ask = {"named": named, "read": read, "word": word, "spent": spent}
    if (read or named) and (word is None or spent is None):
        with pytest.raises(
            UsageError, match=r"data\.a was read before, .* say --spent N, .*--from end .*--data-reused"
        ):
            check_word("a", **ask)
    else:
        check_word("a", **ask)


def test_a_run_is_known_by_its_name_and_its_mesh():
    life = Spend("run-1", 1, Fraction(1), 0.0, 1.0, 0.0, mesh="m", folder="f", life="aa")
    assert knows_run([life], "m", "run-1")
    assert not knows_run([life], "m", "run-2")
    assert not knows_run([life], "m", "run-10")
    assert not knows_run([life], "other", "run-1")
    assert knows_run([life._replace(mesh="")], "other", "run-1")  # from before lines said of which mesh
    assert not knows_run([], "m", "run-1")
