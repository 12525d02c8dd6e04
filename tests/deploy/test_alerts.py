"""Alerts: each fires where it must, and only there, by Prometheus's own tests; each has a runbook."""

import json
import re
from pathlib import Path

import pytest
import yaml

from streams.metrics.catalogue import PREFIX, PrivateMetric, SharedMetric
from tests.support.programs import promtool

PROMETHEUS = Path(__file__).parents[2] / "deploy" / "prometheus"
RUNBOOKS = (PROMETHEUS.parent / "runbooks.md").read_text()
RULES = yaml.safe_load((PROMETHEUS / "rules.yaml").read_text())["groups"]
ALERTS = {rule["alert"]: rule for group in RULES for rule in group["rules"] if "alert" in rule}
RECORDED = {rule["record"] for group in RULES for rule in group["rules"] if "record" in rule}
NODE = 'mesh="m",node="a"'
STREAM = f'{NODE},adjacency="stream"'
WORKING = {  # a mesh that is well, 40 samples of 15 s
    'mirrormesh_rounds_total{mesh="m",node="a"}': "0+60x40",
    'mirrormesh_rounds_total{mesh="m",node="b"}': "0+60x40",
    'mirrormesh_round{mesh="m",node="a"}': "0+60x40",
    'mirrormesh_round{mesh="m",node="b"}': "0+60x40",
    'mirrormesh_live_nodes{mesh="m"}': "2x40",
    'mirrormesh_plan_lead_rounds{mesh="m"}': "32x40",
    f"mirrormesh_broker_connected{{{NODE}}}": "1x40",
    f"mirrormesh_simulated_noise{{{NODE}}}": "0x40",
    f"mirrormesh_relaying{{{NODE}}}": "0x40",
    f"mirrormesh_budget_unused_rounds{{{NODE}}}": "0x40",
    f"mirrormesh_last_learning_round{{{NODE}}}": "2500x40",
    f"mirrormesh_epsilon_spent{{{STREAM}}}": "0+1x40",
    f"mirrormesh_epsilon_budget{{{STREAM}}}": "100x40",
    f'mirrormesh_evidence_total{{{NODE},edge_source="b"}}': "0x40",
    f'mirrormesh_messages_refused_total{{{NODE},reason="digest"}}': "0x40",
    f'mirrormesh_journal_commit_seconds_bucket{{{NODE},le="0.1"}}': "0+60x40",
    f'mirrormesh_journal_commit_seconds_bucket{{{NODE},le="1"}}': "0+60x40",
    f'mirrormesh_journal_commit_seconds_bucket{{{NODE},le="+Inf"}}': "0+60x40",
}
FAULTS = {  # what is otherwise where each alert fires, and the labels that it fires with
    "MeshStalled": (dict.fromkeys(list(WORKING)[:2], "7x40"), {"mesh": "m"}),
    "NodeBehind": ({'mirrormesh_round{mesh="m",node="b"}': "5x40"}, {"mesh": "m", "node": "b"}),
    "NodeSilent": ({'mirrormesh_live_nodes{mesh="m"}': "2x20 1x20"}, {"mesh": "m"}),
    "BudgetNearlySpent": (
        {f"mirrormesh_epsilon_spent{{{STREAM}}}": "81x40"},
        {"mesh": "m", "node": "a"},
    ),
    "BudgetSpent": (
        {f"mirrormesh_epsilon_spent{{{STREAM}}}": "100x40", f"mirrormesh_relaying{{{NODE}}}": "1x40"},
        {"mesh": "m", "node": "a"},
    ),
    "Equivocation": (
        {f'mirrormesh_evidence_total{{{NODE},edge_source="b"}}': "0x20 1x20"},
        {"mesh": "m", "node": "a", "edge_source": "b"},
    ),
    "DeadLetters": (
        {f'mirrormesh_messages_refused_total{{{NODE},reason="digest"}}': "0x20 3x20"},
        {"mesh": "m", "node": "a", "reason": "digest"},
    ),
    "SimulatedNoise": ({f"mirrormesh_simulated_noise{{{NODE}}}": "1x40"}, {"mesh": "m", "node": "a"}),
    "JournalSlow": (
        {f'mirrormesh_journal_commit_seconds_bucket{{{NODE},le="0.1"}}': "0+30x40"},
        {"mesh": "m", "node": "a"},
    ),
    "PlanLeadGone": ({'mirrormesh_plan_lead_rounds{mesh="m"}': "1x40"}, {"mesh": "m"}),
    "BrokerGone": ({f"mirrormesh_broker_connected{{{NODE}}}": "0x40"}, {"mesh": "m", "node": "a"}),
}


def fired(folder, series):
    """The alerts, with their labels, that fire in the ninth minute."""
    expected = [{"eval_time": "9m", "alertname": alert, "exp_alerts": []} for alert in ALERTS]
    test = {
        "rule_files": [str(PROMETHEUS / "rules.yaml")],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": expected,
            }
        ],
    }
    (folder / "test.json").write_text(json.dumps(test))
    said, content = promtool("test", "rules", "test.json", folder=folder)
    found = re.findall(r"Labels:(\{[^}]*\})", said)
    assert content == (not found), said
    labels = [dict(re.findall(r'(\w+)="([^"]*)"', one)) for one in found]
    return {one.pop("alertname"): one for one in labels if "alertname" in one}


def test_a_mesh_that_is_well_calls_nobody(tmp_path):
    assert fired(tmp_path, WORKING) == {}


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_fires_for_its_fault_and_no_other_does(tmp_path, alert):
    changes, labels = FAULTS[alert]
    found = fired(tmp_path, WORKING | changes)
    assert found == {alert: labels | {"severity": ALERTS[alert]["labels"]["severity"]}}


@pytest.mark.parametrize(
    ("unused", "said"),
    [("0x40", ": its budget is spent"), ("1017x40", "; 1017 rounds of its budget were not used")],
)
def test_a_budget_that_is_not_used_up_is_not_called_spent(tmp_path, unused, said):
    series = {
        f"mirrormesh_relaying{{{NODE}}}": "1x40",
        f"mirrormesh_budget_unused_rounds{{{NODE}}}": unused,
        f"mirrormesh_last_learning_round{{{NODE}}}": "2500x40",
    }
    notes = ALERTS["BudgetSpent"]["annotations"] | {
        "summary": f"Node a learns no more since round 2500{said}. It relays."
    }
    expected = {"exp_labels": {"mesh": "m", "node": "a", "severity": "ticket"}, "exp_annotations": notes}
    test = {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": "9m", "alertname": "BudgetSpent", "exp_alerts": [expected]}],
    }
    rules = {"rule_files": [str(PROMETHEUS / "rules.yaml")], "evaluation_interval": "15s", "tests": [test]}
    (tmp_path / "test.json").write_text(json.dumps(rules))
    found, content = promtool("test", "rules", "test.json", folder=tmp_path)
    assert content, found


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_what_it_is_and_has_a_runbook(alert):
    notes = ALERTS[alert]["annotations"]
    assert notes["summary"].endswith(".")
    assert notes["runbook_url"] == f"deploy/runbooks.md#{alert.lower()}"
    section = RUNBOOKS.partition(f"\n## {alert}\n")[2].partition("\n## ")[0]
    for part in ("Meaning", "Impact", "Look at", "Do"):
        assert f"**{part}.**" in section


def test_no_runbook_is_without_an_alert():
    assert re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE) == list(ALERTS)


def test_what_is_recorded_is_asked_for_by_an_alert():
    asked = " ".join(rule["expr"] for rule in ALERTS.values())
    assert RECORDED
    assert {name for name in RECORDED if name not in asked} == set()


def test_rules_ask_for_metrics_that_there_are_and_for_what_is_recorded():
    there = {f"{PREFIX}_{metric.value.name}" for metric in (*SharedMetric, *PrivateMetric)}
    asked = {
        name.removesuffix("_bucket")
        for group in RULES
        for rule in group["rules"]
        for name in re.findall(r"[\w:]*mirrormesh_[\w:]+", rule["expr"])
    }
    assert len(asked) > len(RECORDED)
    assert asked <= there | RECORDED


def test_prometheus_takes_the_configuration():
    said, content = promtool("check", "config", "prometheus.yaml", folder=PROMETHEUS)
    assert content, said
