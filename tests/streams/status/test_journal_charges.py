import math

import numpy as np
import pytest

from nodes.machine.journal import JournalRecord
from nodes.values import Release
from streams.state.journal import SqliteJournal
from streams.status.mesh_status import WINDOW, Course, Progress, progress
from streams.terminal.text import spent


def record(round):
    return JournalRecord(
        round=round,
        stepped=round - 1,
        release=Release(np.zeros(2)),
        exact=False,
        charged=round - 1,
        epsilon_spent=2.5 * (round - 1),
        data_position=None,
        topology_position=0,
        edge_positions=(),
        given_up=(),
        corrected=(),
    )


def test_a_journal_tells_where_its_node_stands_while_it_is_written(tmp_path):
    assert progress(tmp_path, "a") is None
    identity = {"run": "run-1", "node": "a", "digest": bytes(16), "instance": "0" * 32, "horizon": 4}
    with SqliteJournal(tmp_path / "a.journal", **identity) as journal:
        assert progress(tmp_path, "a") is None
        for round in (2, 3):
            journal.append(record(round))
            assert progress(tmp_path, "a") == Progress(round - 1, 2.5 * (round - 1), 0)


def test_a_file_that_is_no_journal_tells_nothing(tmp_path):
    (tmp_path / "a.journal").write_text("nothing")
    assert progress(tmp_path, "a") is None


def test_the_course_counts_from_the_last_look_before_the_first_step():
    course = Course()
    for now, rounds in ((0.0, [5, 5]), (3.0, [5, 6]), (4.0, [15, 16]), (5.0, [25, 25]), (9.0, [25, 26])):
        course.take(rounds, now)
    assert course.whole == (20, 2.0)
    assert course.round == 25


def test_the_rate_is_that_of_the_last_seconds():
    course = Course()
    assert (course.rate, course.whole) == (None, (0, 0.0))
    for second in range(20):
        course.take([second if second < 10 else 10 + 100 * (second - 10)], float(second))
    assert course.rate == pytest.approx(100.0)
    course.take([910], 19.0 + 2 * WINDOW)
    assert course.rate == pytest.approx(0.0)


def test_a_node_that_begins_anew_ends_no_course():
    course = Course()
    for now, round in enumerate([0, 10, 20, 3, 30]):
        course.take([round], float(now))
    assert course.whole == (30, 4.0)


def test_what_was_spent_in_words():
    assert [spent(value) for value in (0.0, 1234.5, math.inf)] == ["0", "1,234.5", "none"]
