import io

import pytest
from rich.console import Console

from streams.terminal import up_view as view
from streams.terminal.up_view import Lines, Row, Sight, line, picture, summary

ROWS = (
    Row("a", "running", 41, "41", "done", "18:03:17 b was silent"),
    Row("b", "again in 3 s", 40, "40", "again in 1 s", ""),
    Row("c", "elsewhere", None, "", "", ""),
)
SIGHT = Sight(40, 12.4, "running", "", ROWS)


def printed(thing, **options):
    console = Console(file=io.StringIO(), width=100, **options)
    console.print(thing)
    return console.file.getvalue()


def test_a_line_tells_the_whole():
    assert line(2000, SIGHT) == (
        "round 40 of 2,000, 12 rounds/s; scheduler running; nodes: 1 running, 1 failing, 1 elsewhere; "
        "feeders: 1 done, 1 failing"
    )
    unfed = SIGHT._replace(rows=tuple(row._replace(feed="") for row in ROWS))
    assert line(None, unfed).startswith("round 40, 12")
    assert "feeders" not in line(None, unfed)


def test_a_picture_shows_every_node():
    text = printed(picture("tracking, run run-1", 2000, SIGHT))
    rows = [line.split("│")[1:-1] for line in text.splitlines() if line.startswith("│")]
    assert [tuple(cell.strip() for cell in row) for row in rows] == [
        ("a", "running", "41", "41", "done", "18:03:17 b was silent"),
        ("b", "again in 3 s", "40", "40", "again in 1 s", ""),
        ("c", "elsewhere", "", "", "", ""),
    ]
    assert "round 40 of 2,000" in text
    assert "scheduler: slow" in printed(picture("tracking", None, SIGHT._replace(planning="slow")))


def test_a_long_warning_takes_one_line():
    long = SIGHT._replace(planning="p" * 300, rows=(ROWS[0]._replace(warning="w" * 300),))
    text = printed(picture("tracking", 2000, long))
    assert len([line for line in text.splitlines() if "ww" in line]) == 1
    assert len([line for line in text.splitlines() if "pp" in line]) == 1


def test_lines_come_now_and_then_and_a_warning_once(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(view.time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=300)
    lines = Lines(console, None)
    lines(SIGHT)
    assert console.file.getvalue() == ""
    for _ in range(2):
        now[0] += view.PERIOD
        lines(SIGHT)
        lines(SIGHT)
    found = console.file.getvalue().splitlines()
    assert [text.split(",")[0] for text in found] == ["round 40", "node a: 18:03:17 b was silent", "round 40"]


@pytest.mark.parametrize(("plain", "terminal"), [(True, True), (False, False)])
def test_lines_unless_it_is_a_terminal(plain, terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal)
    with view.shown(console, "tracking", None, plain=plain) as shown:
        assert isinstance(shown, Lines)


def test_a_terminal_is_drawn_upon():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with view.shown(console, "tracking, run run-1", 2000, plain=False) as shown:
        shown(SIGHT)
    assert "tracking, run run-1" in console.file.getvalue()


def test_the_summary():
    assert summary(1000, 4.0) == "1,000 rounds in 4.0 s, 250 rounds/s."
    assert summary(0, 0.0) == "No round was stepped."
