"""Every line of a log is an event of the table, with fields of the table."""

import ast
import json
import logging
from pathlib import Path

import numpy as np
import pytest

from docs.regions.log import region
from streams.live import log as live_log
from streams.live.log import name_run, start_logging
from streams.live.scheduler_process import LoggedScheduler
from streams.log_events import FIELDS, LogEvent, Outages
from tests.support.processes.in_process import logging_kept
from topology.plans import Heartbeat, Member, Plan

ROOT = Path(__file__).parents[2]
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
ELSEWHERE = {"parser.error"}  # no logger
PASSED_ON = {"streams/live/log.py"}


def is_logger(node):
    return isinstance(node, ast.Attribute | ast.Name | ast.Call) and "log" in ast.unparse(node).lower()


def logger_uses(path):
    """Yield (line, whether it has an event) for each method of a logger that is called, or handed on."""
    tree = ast.parse(path.read_text())
    calls = {node.func: node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    partials = {
        node.args[0]: node
        for node in calls.values()
        if isinstance(node.func, ast.Name) and node.func.id == "partial" and node.args
    }
    learner = {"LEARNER"}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node.attr not in LEVELS:
            continue
        if not (is_logger(node.value) or ast.unparse(node.value) in learner) or "math" in ast.unparse(node):
            continue
        call = calls.get(node) or partials.get(node)
        keywords = [] if call is None else [keyword.arg for keyword in call.keywords]
        yield node.lineno, "extra" in keywords


def test_each_line_that_the_code_logs_is_an_event():
    bare = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "streams").rglob("*.py"))
        if str(path.relative_to(ROOT)) not in PASSED_ON
        and "terminal" not in path.parts
        and "up" not in path.parts
        for line, has_event in logger_uses(path)
        if not has_event
    ]
    assert bare == []


def test_each_event_of_the_table_is_logged_somewhere():
    code = "".join(
        path.read_text() for path in (ROOT / "streams").rglob("*.py") if path.name != "log_events.py"
    )
    assert [event.name for event in LogEvent if f"LogEvent.{event.name}" not in code] == []


def test_the_reference_has_the_table():
    assert region() in (ROOT / "docs/reference/log.md").read_text(), "python -m docs.generate"
    assert all(f"| `{event.label}` |" in region() for event in LogEvent)


@pytest.fixture(autouse=True)
def _as_before():
    with logging_kept():
        yield
    live_log._run.clear()


def test_a_line_has_the_fields_of_its_event(capfd):
    start_logging(json=True, level="info")
    name_run("tracking", "run-1")
    log = logging.getLogger("mirrormesh.node.east")
    log.warning("%s was silent", "west", extra=LogEvent.PEER_SILENT.of(peer="west", round=196))
    line = json.loads(capfd.readouterr().err)
    del line["time"]
    assert line == {
        "level": "warning",
        "source": "node east",
        "event": "peer_silent",
        "mesh": "tracking",
        "run": "run-1",
        "node": "east",
        "peer": "west",
        "round": 196,
        "message": "west was silent",
    }
    assert set(FIELDS) >= set(line) - {"level", "source", "event", "message"}


AWAY = [
    ("mirrormesh.kafka", "FAIL [c#1] 127.0.0.1:9092/1: Connect to ipv4#127.0.0.1:9092 failed", None),
    ("mirrormesh.kafka", "_ALL_BROKERS_DOWN [127.0.0.1:9092] 1/1 brokers are down", LogEvent.BROKER_AWAY),
    ("aiokafka", "Unable connect to node with id 1: ConnectionRefusedError", None),
    ("aiokafka", "Unable to update metadata from [1]", None),
    ("aiokafka.consumer.fetcher", "Failed fetch messages from 1: KafkaConnectionError", None),
    ("aiokafka.consumer.group_coordinator", "Group Coordinator Request failed: NodeNotReadyError", None),
    ("faust.transport", "Marking the coordinator dead (node 1)", None),
]


def passed(outages, entries):
    records = []
    for name, text, event in entries:
        record = logging.LogRecord(name, logging.WARNING, "f", 1, text, (), None)
        if event is not None:
            record.event = event
        if outages.filter(record):
            records.append(record.getMessage())
    return records


@pytest.mark.parametrize("first", range(len(AWAY)))
def test_a_broker_that_is_away_is_one_line_whoever_says_it_first(first):
    now = [0.0]
    outages = Outages(lambda: now[0])
    said = passed(outages, AWAY[first:] + AWAY[:first])
    assert len(said) == 1
    assert "127.0.0.1:9092" in said[0]
    for second in range(1, 3_600):
        now[0] = float(second)
        said += passed(outages, AWAY)
    assert len(said) <= 1 + 6 + 1, said  # after 1, 2, 4, ... 32 minutes
    assert "such lines before" in said[1]
    back = logging.LogRecord("mirrormesh.kafka", logging.INFO, "f", 1, "again", (), None)
    back.event = LogEvent.BROKER_BACK
    assert outages.filter(back)
    assert not outages.filter(back)
    assert len(passed(outages, AWAY)) == 1


def test_a_second_broker_has_a_line_of_its_own():
    outages = Outages(lambda: 0.0)
    other = ("mirrormesh.kafka", "_TRANSPORT [data:9092] Connect to data:9092 failed", LogEvent.BROKER_AWAY)
    assert len(passed(outages, [*AWAY, other, *AWAY, other])) == 2


def test_only_libraries_that_name_no_broker_say_it_after_a_while():
    now = [0.0]
    outages = Outages(lambda: now[0])
    assert passed(outages, AWAY[2:]) == []
    now[0] = Outages.WAIT
    assert len(passed(outages, AWAY[2:])) == 1


def test_other_lines_come_through():
    outages = Outages(lambda: 0.0)
    others = [("mirrormesh.node.a", "timed out", LogEvent.GUARANTEE), ("asyncio", "connect", None)]
    assert len(passed(outages, others * 3)) == 6


def beat(node, **changes):
    return Heartbeat("r", node, f"life of {node}", "boot", 3, **changes)


def plan_of(round, *names, life="life of {}"):
    members = tuple(Member(name, life.format(name)) for name in names)
    none = np.zeros(0, int)
    return Plan("r", round, round - 1, members, none, none, np.zeros(0))


def test_the_scheduler_says_who_joins_falls_silent_comes_back_and_leaves(capfd):
    start_logging(json=True, level="info")
    watcher = LoggedScheduler("tracking", "abc", connected=lambda: True, silence=10.0)
    watcher.planned(plan_of(1, "a", "b"))  # of those at the start nothing is said
    watcher.beat(beat("a"))
    watcher.beat(beat("b", leave_from=5))
    watcher.planned(plan_of(2, "a", "b", "c"))
    for _ in range(3):
        watcher.silent(frozenset("c"))
    watcher.planned(plan_of(3, "a", "b"))  # silent, so not left
    watcher.silent(frozenset())
    watcher.planned(plan_of(4, "a", "b", "c"))
    watcher.planned(plan_of(5, "a", "c"))
    watcher.silent(frozenset("b"))  # it has left: no alarm
    watcher.planned(Plan("r", 6, 5, (), *[np.zeros(0, int)] * 2, np.zeros(0)))  # the end
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [(line["event"], line["peer"], line.get("round")) for line in lines] == [
        ("node_joined", "c", 2),
        ("node_silent", "c", None),
        ("node_returned", "c", None),
        ("node_joined", "c", 4),
        ("node_left", "b", 5),
    ]
