"""What the runbooks tell an operator to look at and to type is there."""

import re

import pytest

from grafana.generate import DASHBOARDS
from streams.codec import Reason
from streams.codec.topics import MeshTopics
from tests.support.processes.in_process import Commands
from tests.support.published.pages import COMMANDS, RUNBOOKS

PANELS = [
    (dashboard, title)
    for dashboard, titles in re.findall(r"\*(\w+) / ([^*]+)\*", RUNBOOKS)
    for title in titles.split(", ")
]


@pytest.mark.parametrize(("dashboard", "title"), PANELS)
def test_a_panel_that_is_named_is_on_its_dashboard(dashboard, title):
    assert title in {panel.title for row in DASHBOARDS[dashboard].ROWS for panel in row.panels}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_named_is_there(capsys, command):
    words = [word for word in command if not word.isupper()]
    assert Commands(capsys)(*words, "--help").code == 0


def test_options_that_are_named_are_those_of_a_node(capsys):
    named = set(re.findall(r"`(--[a-z-]+)", RUNBOOKS))
    assert len(named) == 4
    assert named <= set(re.findall(r"--[a-z-]+", Commands(capsys)("node", "--help").out))


def test_reasons_that_are_named_are_counted_by():
    named = re.findall(r"`(\w+)`: ", RUNBOOKS) + re.findall(r"^`(\w+)`: ", RUNBOOKS, re.MULTILINE)
    assert set(named) == {"digest", "run", "version"} <= {reason.value for reason in Reason}


def test_the_topic_of_dead_letters_is_so_called():
    (kind,) = re.findall(r"topic `(\w+)\.<node>`", RUNBOOKS)
    assert MeshTopics("m", "r").dead_letters("a") == f"m.r.{kind}.a"


def test_links_lead_to_sections():
    for place in re.findall(r"\(#([a-z]+)\)", RUNBOOKS):
        assert re.search(rf"^## {place}$", RUNBOOKS, re.MULTILINE | re.IGNORECASE)
