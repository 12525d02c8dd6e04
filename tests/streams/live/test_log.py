"""What a process says on standard error, and what it keeps to itself."""

import json
import logging
import re

import pytest

from streams.live.log import start_logging
from tests.support.processes.in_process import logging_kept

VALUE = "4.2571,hidden"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(autouse=True)
def _as_before():
    with logging_kept():
        yield


@pytest.fixture
def said(capfd):
    """Return the lines since the last look."""

    def lines():
        return capfd.readouterr().err.splitlines()

    return lines


NODE = logging.getLogger("mirrormesh.node.east")
LIBRARY = logging.getLogger("aiokafka.conn")


def test_a_line_has_time_level_and_source(said):
    start_logging(json=False, level="info")
    NODE.info("round %d", 3)
    logging.getLogger("mirrormesh").warning("over")
    line, short = said()
    assert re.fullmatch(f"{TIME} INFO node east: round 3", line)
    assert re.fullmatch(f"{TIME} WARNING mirrormesh: over", short)


def test_a_line_of_json_has_the_same(said):
    start_logging(json=True, level="info")
    NODE.info('a "word"')
    (line,) = said()
    told = json.loads(line)
    assert re.fullmatch(TIME, told.pop("time"))
    assert told == {
        "level": "info",
        "source": "node east",
        "event": "library",
        "node": "east",
        "message": 'a "word"',
    }


def test_time_is_universal_and_cut_not_rounded(said):
    start_logging(json=False, level="info")
    record = NODE.makeRecord(NODE.name, logging.INFO, "f", 1, "x", (), None)
    record.created = 1_767_225_599.9999
    NODE.handle(record)
    assert said() == ["2025-12-31T23:59:59.999Z INFO node east: x"]


@pytest.mark.parametrize(
    ("level", "ours", "libraries"), [("debug", 4, 2), ("info", 3, 2), ("warning", 2, 2), ("error", 1, 1)]
)
def test_the_level_is_ours_and_libraries_begin_at_warning(said, level, ours, libraries):
    start_logging(json=False, level=level)
    for name in ("debug", "info", "warning", "error"):
        getattr(NODE, name)("ours")
    LIBRARY.info("theirs")
    LIBRARY.warning("theirs")
    LIBRARY.error("theirs")
    lines = said()
    assert sum("ours" in line for line in lines) == ours
    assert sum("theirs" in line for line in lines) == libraries


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="level is 'loud': must be one of debug, info, warning, error"):
        start_logging(json=False, level="loud")


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_an_event_is_one_line_and_cannot_steer_a_terminal(said, as_json):
    start_logging(json=as_json, level="info")
    NODE.info("a\nb\r\x1b[31m\u2028\x85é")
    (line,) = said()
    text = json.loads(line)["message"] if as_json else line.partition("east: ")[2]
    assert text == r"a\nb\r\x1b[31m\u2028\x85é"


def test_an_exception_is_told_by_kind_and_place_alone(said):
    start_logging(json=False, level="info")
    try:
        float(VALUE)
    except ValueError:
        NODE.exception("this is a bug")
    (line,) = said()
    assert re.search(r"ERROR node east: this is a bug \[ValueError at test_log\.py:\d+\]$", line)


def test_libraries_say_neither_bytes_nor_what_an_exception_says(said):
    start_logging(json=False, level="debug")
    value, error = VALUE.encode(), ValueError(VALUE)
    LIBRARY.error("crashed: %r", error)
    LIBRARY.error("record %r of %s", value, "data.east")
    LIBRARY.error("%d at %s", value, value)
    LIBRARY.error("offsets %s", [("data.east", 4), (value, error)])
    LIBRARY.error("mapped %s", {"value": VALUE})
    LIBRARY.error(f"message {value!r}, again {bytearray(value)!r}")
    LIBRARY.error(f"task failed\nfuture: <{VALUE}>")
    LIBRARY.error("first\nTraceback: %s", VALUE)
    LIBRARY.error(b"it's " + value)
    try:
        raise error
    except ValueError:
        LIBRARY.exception("failed")
    lines = said()
    assert len(lines) == 10
    assert not any("hidden" in line or "4.2571" in line for line in lines)
    assert lines[0].endswith("ERROR aiokafka.conn: crashed: 'ValueError'")
    assert lines[1].endswith("record 'bytes' of data.east")
    assert "[ValueError at test_log.py:" in lines[-1]


def test_libraries_keep_their_harmless_words(said):
    start_logging(json=False, level="info")
    LIBRARY.warning("node %s at %s:%d (%.1f s): %s", 1, "127.0.0.1", 9092, 0.5, ("t", None, {3}))
    (line,) = said()
    assert line.endswith("WARNING aiokafka.conn: node 1 at 127.0.0.1:9092 (0.5 s): ('t', None, {3})")


def test_a_library_that_repeats_itself_is_heard_once(said):
    start_logging(json=False, level="info")
    for k in range(100):
        LIBRARY.error("fetch failed: %d", k)  # another text each time
        NODE.info("round %d", k)
    LIBRARY.error("another statement")
    lines = said()
    assert sum("fetch" in line for line in lines) == 1
    assert sum("another" in line for line in lines) == 1
    assert sum("round" in line for line in lines) == 100


def test_a_line_that_cannot_be_formatted_is_dropped_without_its_arguments(said):
    start_logging(json=False, level="info")
    NODE.info("%d rounds", VALUE)
    assert said() == []


def test_started_twice_it_speaks_once(said):
    start_logging(json=True, level="info")
    start_logging(json=False, level="info")
    NODE.info("x")
    assert len(said()) == 1
