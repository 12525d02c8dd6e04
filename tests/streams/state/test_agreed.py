import json

import pytest

from streams.state.folder import JournalError
from streams.state.journal import SqliteJournal
from streams.state.journal_file import differing

LIFE = {"run": "run-1", "node": "a", "instance": "1" * 32, "horizon": 32}


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ({"privacy": {"epsilon": "1"}}, {"privacy": {"epsilon": "2"}}, "privacy.epsilon is 1, not 2"),
        ({"horizon": 32}, {"horizon": 16, "x": None}, "horizon is 32, not 16"),
        ({}, {"class_weights": [1, 2]}, "class_weights is none, not [1, 2]"),
        ({"x": [0] * 9_999}, {"x": None}, f"x is [{'0, ' * 13}...{', 0' * 13}], not none"),
        ({"x": {}}, {"x": {"kind": "ball"}}, "x is {}, not none, x.kind is none, not ball"),
        (
            dict.fromkeys("abcde", 1),
            dict.fromkeys("abcde", 2),
            "a is 1, not 2, b is 1, not 2, c is 1, not 2, and 2 more differ",
        ),
    ],
)
def test_the_keys_that_differ_are_named(was, now, said):
    assert differing(json.dumps(was), json.dumps(now)) == said


def test_a_journal_names_which_of_its_settings_differ(tmp_path):
    path = tmp_path / "a.journal"
    mine, others = bytes(16), b"x" * 16
    for _ in range(2):
        with SqliteJournal(path, digest=mine, agreed='{"horizon": 32}', **LIFE):
            pass
    with pytest.raises(JournalError, match=r"its digest is 0{32}, not (78){16}: other settings"):
        SqliteJournal(path, digest=others, **LIFE)
    with pytest.raises(
        JournalError, match="its horizon is 32, not 16: other settings of the mesh need a new run"
    ):
        SqliteJournal(path, digest=others, agreed='{"horizon": 16}', **LIFE)
