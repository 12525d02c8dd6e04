from types import SimpleNamespace

import pytest

from streams.tools.up import children
from streams.tools.up.children import FRESH, LogTail

AT = "2026-01-01T18:03:17.000Z"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "node-a.log"


def test_a_log_that_is_not_there_says_nothing(path):
    tail = LogTail(path)
    tail.read()
    assert (tail.last, tail.warning("a")) == ("", "")


def test_a_warning_stays_until_the_log_says_that_its_cause_is_gone(path):
    tail = LogTail(path)
    path.write_text(f"{AT} WARNING node a: b was silent in round 3: given up\n")
    with path.open("a") as log:
        for line, warning in (
            ("c is heard again", "18:03:17 b was silent in round 3: given up"),
            ("b is heard again", ""),
        ):
            log.write(f"{AT} INFO node a: {line}\n")
            log.flush()
            tail.read()
            assert (tail.last, tail.warning("a")) == (line, warning)


def test_a_warning_that_does_not_come_again_goes(path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(children, "time", SimpleNamespace(monotonic=lambda: now[0]))
    tail = LogTail(path)
    path.write_text(f"{AT} WARNING node a: slow\n")
    tail.read()
    now[0] += FRESH - 1
    tail.read()
    assert tail.warning("a") == "18:03:17 slow"
    now[0] += 2
    tail.read()
    assert tail.warning("a") == ""


def test_nodes_of_a_process_have_their_own_warnings(path):
    tail = LogTail(path)
    lines = ("WARNING node a: c was silent in round 3", "ERROR node b: the disk is full")
    path.write_text("".join(f"{AT} {line}\n" for line in lines))
    tail.read()
    assert tail.warning("a") == "18:03:17 c was silent in round 3"
    assert tail.warning("b") == "18:03:17 the disk is full"
    assert tail.warning("d") == ""
    with path.open("a") as log:
        log.write(f"{AT} INFO node b: c is heard again\n{AT} WARNING kafka: gone\n")
    tail.read()
    assert tail.warning("a") == "18:03:17 c was silent in round 3"
    assert tail.warning("d") == "18:03:17 gone"
    with path.open("a") as log:
        log.write(f"{AT} INFO node a: c is heard again\n")
    tail.read()
    assert tail.warning("a") == "18:03:17 gone"


@pytest.mark.parametrize("level", ["WARNING", "ERROR", "CRITICAL"])
def test_levels_that_warn(path, level):
    tail = LogTail(path)
    path.write_text(f"{AT} {level} kafka: gone\n")
    tail.read()
    assert tail.warning("a") == "18:03:17 gone"


def test_what_an_earlier_life_said_is_not_read(path):
    path.write_text(f"{AT} ERROR node a: old\n")
    tail = LogTail(path)
    tail.read()
    assert (tail.last, tail.warning("a")) == ("", "")


def test_a_line_that_is_being_written_waits_for_its_end(path):
    tail = LogTail(path)
    with path.open("a") as log:
        for part, last in (
            ("mesh.yaml: no ", ""),
            ("such file\nnext", "mesh.yaml: no such file"),
            ("\n", "next"),
        ):
            log.write(part)
            log.flush()
            tail.read()
            assert tail.last == last


def test_what_would_move_the_terminal_is_left_out(path):
    tail = LogTail(path)
    path.write_bytes(b"\x1b[2Jgone\xff\n\x1b\n\n")
    tail.read()
    assert tail.last == "[2Jgone\ufffd"
