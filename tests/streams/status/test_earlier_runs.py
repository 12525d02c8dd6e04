from fractions import Fraction

import pytest

from nodes.accounting.spends import Spend
from streams.codec.topics import DataTopics
from streams.live.spend import check_reuse, check_same, knows_run
from streams.mesh.errors import UsageError


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    ("reuse", "spent"), [(None, None), ("end", None), (None, 5), ("end", 0), ("reused", 5)]
)
def test_a_word_is_needed_for_what_an_unknown_run_has_read(named, reuse, spent):
    ask = {"named": named, "reuse": reuse, "spent": spent}
    if named and (reuse is None or spent is None):
        with pytest.raises(
            UsageError,
            match=r"data\.m\.a has already been read .*Give --spent N .*--from end .*--data-reused",
        ):
            check_reuse(DataTopics("m", "a"), **ask)
    else:
        check_reuse(DataTopics("m", "a"), **ask)


def test_a_run_is_known_by_its_name_and_its_mesh():
    life = Spend("run-1", 1, Fraction(1), 0.0, 1.0, 0.0, mesh="m", folder="f", life="aa")
    assert knows_run([life], "m", "run-1")
    assert not knows_run([life], "m", "run-2")
    assert not knows_run([life], "m", "run-10")
    assert not knows_run([life], "other", "run-1")
    assert knows_run([life._replace(mesh="")], "other", "run-1")  # from before lines said of which mesh
    assert not knows_run([], "m", "run-1")


LIVES = [
    Spend("run-1", 9, Fraction(1), 0.0, 9.0, 0.0, before=20, reuse="end"),
    Spend("run-1", 1, None, 0, 1, 0),
]


@pytest.mark.parametrize(("reuse", "spent"), [(None, None), ("end", 20), ("end", None), (None, 20)])
def test_the_same_said_again_is_right(reuse, spent):
    for _ in range(3):
        check_same("a", "run-1", LIVES, reuse, spent)


@pytest.mark.parametrize(
    ("lives", "reuse", "spent", "words"),
    [
        (LIVES, "end", 21, "--spent is 21: must be 20, as when run-1 was begun for a, or not be given"),
        (LIVES, "reused", 20, "--data-reused: must not be given now: run-1 was begun for a with --from end"),
        ([], "end", None, "--from end: must not be given now: run-1 was begun for a without it"),
        ([], None, 3, "--spent is 3: must be 0"),
    ],
)
def test_other_words_than_those_that_a_run_was_begun_with_are_refused(lives, reuse, spent, words):
    with pytest.raises(UsageError, match=words):
        check_same("a", "run-1", lives, reuse, spent)
