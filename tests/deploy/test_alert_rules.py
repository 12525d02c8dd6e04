"""What alerts are called, say and read: each has a runbook, and reads what its reader may see."""

import re

import pytest

from tests.support.published.alerts import ALERTS, OF_EVERYONE, OF_OWNERS, OWNERS, RECORDED, SHARED
from tests.support.published.pages import RUNBOOKS


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_what_it_is_and_has_a_runbook(alert):
    notes = ALERTS[alert]["annotations"]
    assert notes["summary"].strip().endswith(".")
    assert notes["runbook_url"] == f"{{{{ $externalLabels.runbooks }}}}#{alert.lower()}"
    section = RUNBOOKS.partition(f"\n## {alert}\n")[2].partition("\n## ")[0]
    for part in ("Meaning", "Impact", "Look at", "Do"):
        assert f"**{part}.**" in section


def test_no_runbook_is_without_an_alert():
    assert re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE) == list(ALERTS)


def test_what_is_recorded_is_asked_for_by_an_alert():
    """By an alert, or by what is recorded for one."""
    asked = " ".join(rule["expr"] for rule in ALERTS.values())
    unasked = {rule["record"]: rule["expr"] for rule in SHARED if "record" in rule}
    assert unasked.keys() == RECORDED
    while used := {name for name in unasked if name in asked}:
        asked += " ".join(unasked.pop(name) for name in used)
    assert unasked == {}


def asked_for(rule):
    """The names of the series that a rule reads: in its query, and in the words of its annotations."""
    text = " ".join((rule["expr"], *rule.get("annotations", {}).values()))
    return {name.removesuffix("_bucket") for name in re.findall(r"[\w:]*mirrormesh_[\w:]+", text)}


def test_shared_rules_read_what_everyone_may_see_and_nothing_private():
    asked = set().union(*map(asked_for, SHARED))
    assert len(asked) > len(RECORDED)
    assert asked <= OF_EVERYONE | RECORDED
    assert not RECORDED & {rule.get("record") for rule in OWNERS}


def test_each_alert_of_an_owner_reads_something_private():
    for rule in OWNERS:
        assert asked_for(rule) & OF_OWNERS, rule["alert"]
        assert asked_for(rule) <= OF_OWNERS | OF_EVERYONE | RECORDED
