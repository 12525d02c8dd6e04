import pytest

from streams.tools.up.children import LogTail

AT = "2026-01-01T18:03:17.000Z"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "node-a.log"


def test_a_log_that_is_not_there_says_nothing(path):
    tail = LogTail(path)
    tail.read()
    assert (tail.last, tail.warning) == ("", "")


def test_the_last_warning_stays_and_the_last_line_goes_on(path):
    tail = LogTail(path)
    path.write_text(
        f"{AT} WARNING node a: b was silent in round 3: given up\n{AT} INFO node a: b is heard again\n"
    )
    tail.read()
    assert tail.warning == "18:03:17 b was silent in round 3: given up"
    assert tail.last == "b is heard again"


@pytest.mark.parametrize("level", ["WARNING", "ERROR", "CRITICAL"])
def test_levels_that_warn(path, level):
    tail = LogTail(path)
    path.write_text(f"{AT} {level} kafka: gone\n")
    tail.read()
    assert tail.warning == "18:03:17 gone"


def test_what_an_earlier_life_said_is_not_read(path):
    path.write_text(f"{AT} ERROR node a: old\n")
    tail = LogTail(path)
    tail.read()
    assert (tail.last, tail.warning) == ("", "")


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
