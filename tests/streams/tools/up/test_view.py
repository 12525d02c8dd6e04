import io

import pytest
from rich.console import Console

from streams.terminal import live_views as view
from streams.terminal.live_views import ProcessStatus, RunLines, RunStatus, run_line, run_picture, summary

ROWS = (
    ProcessStatus("a", "running", 41, "41", "done", "18:03:17 b was silent", 0),
    ProcessStatus("b", "again in 3 s", 40, "40", "again in 1 s", "", 2),
    ProcessStatus("d", "silent for 19 s", 41, "41", "running", "", 0),
    ProcessStatus("c", "elsewhere", None, "", "", "", 0),
)
SIGHT = RunStatus(41, ("b", 40), 12.4, None, "running", 0, "", ROWS)


def printed(thing, width=80):
    console = Console(file=io.StringIO(), width=width)
    console.print(thing)
    return console.file.getvalue()


def test_a_line_tells_the_whole():
    assert run_line(2000, SIGHT) == (
        "round 41 of 2,000, 12 rounds/s, slowest: b at 40; scheduler running; nodes: 1 running, 1 failing, "
        "1 silent, 1 elsewhere (2 restarts); feeders: 1 done, 1 failing, 1 running"
    )
    unfed = SIGHT._replace(rows=tuple(row._replace(feed="") for row in ROWS), slowest=("b", 41))
    assert run_line(None, unfed).startswith("round 41, 12 rounds/s; ")
    assert "feeders" not in run_line(None, unfed)


def test_a_broker_that_is_gone_is_said():
    gone = SIGHT._replace(gone=8.2, restarts=1)
    assert "; broker gone for 8 s; scheduler running, 1 restart; " in run_line(None, gone)
    assert "broker gone for 8 s" in printed(run_picture("tracking", None, gone, 80))


def test_a_picture_shows_every_node():
    text = printed(run_picture("tracking, run run-1", 2000, SIGHT, 80))
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[1] == "round 41 of 2,000, 12 rounds/s, slowest: b at 40"
    assert lines[4:11] == [
        "                                                         epsilon of",
        "node  process          round  feed             restarts  the stream",
        "a     running             41  done                               41",
        "b     again in 3 s        40  again in 1 s            2          40",
        "d     silent for 19 s     41  running                            41",
        "c     elsewhere",
        "a: 18:03:17 b was silent",
    ]
    assert "scheduler: slow" in printed(run_picture("tracking", None, SIGHT._replace(planning="slow"), 80))


def rows_of(status, width=80):
    """The table's lines."""
    lines = printed(run_picture("tracking", 2000, status, width), width).splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("node "))
    return [line.rstrip() for line in lines[first : first + 1 + len(status.rows)]]


def test_a_long_warning_takes_one_line_and_moves_no_column():
    long = SIGHT._replace(planning="p" * 300, rows=(ROWS[0]._replace(warning="w" * 300), *ROWS[1:]))
    text = printed(run_picture("tracking", 2000, long, 80))
    assert len([line for line in text.splitlines() if "ww" in line]) == 1
    assert rows_of(long) == rows_of(SIGHT)


def test_no_state_moves_a_column():
    other = SIGHT._replace(
        rows=tuple(
            row._replace(state="done", round=1999, feed="", restarts=30, spent="1,999") for row in ROWS
        )
    )
    assert rows_of(other)[0] == rows_of(SIGHT)[0]


@pytest.mark.parametrize("width", [30, 40, 60, 80])
def test_where_there_is_no_room_the_last_columns_go_and_the_rest_stays_whole(width):
    for shown, row in zip(rows_of(SIGHT, width)[1:], ROWS, strict=True):
        assert len(shown) <= width
        assert shown.split()[0] == row.name
        assert row.state in shown
        assert "…" not in shown
        if width >= 40 and row.round is not None:
            assert str(row.round) in shown


def test_lines_come_now_and_then_and_a_warning_once(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(view.time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=300)
    lines = RunLines(console, None)
    lines(SIGHT)
    assert console.file.getvalue() == ""
    for _ in range(2):
        now[0] += view.PERIOD
        lines(SIGHT)
        lines(SIGHT)
    found = console.file.getvalue().splitlines()
    assert [text.split(",")[0] for text in found] == ["round 41", "node a: 18:03:17 b was silent", "round 41"]


@pytest.mark.parametrize(("plain", "terminal"), [(True, True), (False, False)])
def test_lines_unless_it_is_a_terminal(plain, terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal)
    with view.shown(console, "tracking", None, plain=plain) as shown:
        assert isinstance(shown, RunLines)


def test_a_terminal_is_drawn_upon():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with view.shown(console, "tracking, run run-1", 2000, plain=False) as shown:
        shown(SIGHT)
    assert "tracking, run run-1" in console.file.getvalue()


def test_the_summary():
    assert summary(1000, 4.0) == "1,000 rounds in 4.0 s, 250 rounds/s."
    assert summary(0, 0.0) == "No round was stepped."
