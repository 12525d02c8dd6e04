"""Alerts: each fires where it must, and only there, by Prometheus's own tests."""

import re
import subprocess

import pytest
import yaml

from streams.metrics.catalogue import PREFIX
from streams.tools.up.services import RULES
from tests.support.processes.programs import need, promtool
from tests.support.published.alert_series import FAULTS, LAST_SEEN_B, SCHEDULER, WORKING
from tests.support.published.alerts import ALERTS, HERE, OF_OWNERS, PROMETHEUS, SHARED, fired

EACH = [
    pytest.param(alert, *fault, id=f"{alert}-{number}")
    for alert, faults in FAULTS.items()
    for number, fault in enumerate(faults)
]


def test_a_mesh_that_is_well_calls_nobody(tmp_path):
    assert fired(tmp_path, WORKING) == []


def test_every_alert_has_a_fault():
    assert FAULTS.keys() == ALERTS.keys()


@pytest.mark.parametrize(("alert", "changes", "labels", "summary"), EACH)
def test_an_alert_fires_for_its_fault_and_no_other_does(tmp_path, alert, changes, labels, summary):
    whole = labels | {"severity": ALERTS[alert]["labels"]["severity"]}
    other = {name for name in WORKING if alert == "SimulatedNoise" and 'mechanism="laplace"' in name}
    working = {name: values for name, values in WORKING.items() if name not in other}
    assert fired(tmp_path, working | changes) == [(alert, whole, summary, f"{HERE}#{alert.lower()}")]


DAY = 24 * 60 * 4
"""Samples, 15 s apart."""


def names(found):
    return sorted({name for name, *_ in found})


def test_when_all_targets_vanish_it_is_told_and_still_after_a_day(tmp_path):
    gone = {name: values.partition("x")[0] + "x9 stale" for name, values in WORKING.items()}
    assert names(fired(tmp_path, gone)) == ["MeshGone"]  # and none of them is a target any more
    down = gone | {'up{job="mirrormesh",instance="a:9100"}': f"1x9 0x{2 * DAY}"}
    assert names(fired(tmp_path, down)) == ["MeshGone", "TargetDown"]
    assert names(fired(tmp_path, down, at="25h", every="5m")) == ["MetricsGone", "TargetDown"]


OVER = 'mirrormesh_run_over{mesh="m",job="mirrormesh",instance="a:9100"}'
UP = 'up{job="mirrormesh",instance="a:9100"}'
ENDED = {name: values.partition("x")[0] + "x9 stale" for name, values in WORKING.items()} | {
    OVER: "0x7 1x1 stale",
    UP: f"1x9 0x{2 * DAY}",
}
"""Two reads see that the run is over; then no process answers any more, and all are targets still."""


@pytest.mark.parametrize("at", ["4m", "9m", "90m"])
def test_the_end_of_a_run_calls_nobody(tmp_path, at):
    assert fired(tmp_path, ENDED, at=at) == []


def test_processes_that_stay_after_the_end_of_a_run_call_nobody(tmp_path):
    silent = {LAST_SEEN_B: "0+15x9 135x30", OVER: "0x7 1x32"}
    still = {name: "7x39" for name in WORKING if "rounds_total" in name or "mirrormesh_round{" in name}
    lead = {name: "0x39" for name in WORKING if "plan_lead" in name}
    assert fired(tmp_path, WORKING | silent | still | lead) == []


def test_a_run_that_follows_an_ended_one_is_watched_again(tmp_path):
    """The next run of the mesh has another address, and vanishes; what the first one said does not count."""
    second = 'mirrormesh_run_over{mesh="m",job="mirrormesh",instance="z:9100"}'
    whole = ENDED | {second: "_x12 0x9 stale", 'mirrormesh_build_info{mesh="m",node="z"}': "_x12 1x9 stale"}
    assert names(fired(tmp_path, whole)) == ["MeshGone"]
    at_the_same = ENDED | {OVER: "0x7 1x1 _x2 0x9 stale", UP: "1x20 0x30"}
    assert "TargetDown" in names(fired(tmp_path, at_the_same))


def test_a_feeder_that_has_fed_all_calls_nobody(tmp_path):
    """It says so and ends, or it stays; nothing says that its target is down."""
    failed = {name: "0x19 stale" for name in WORKING if "feed_failed" in name}
    over = {name: "0x17 1x1 stale" for name in WORKING if "feed_over" in name}
    address = {'mirrormesh_feed_over{mesh="m",node="b",job="mirrormesh",instance="b:9113"}': "0x17 1x1 stale"}
    down = {'up{job="mirrormesh",instance="b:9113"}': "1x19 0x30"}
    assert fired(tmp_path, WORKING | failed | over | address | down) == []
    assert fired(tmp_path, WORKING | dict.fromkeys(over, "0x17 1x22")) == []


def test_a_mesh_that_slows_after_a_backlog_or_at_its_start_calls_nobody(tmp_path):
    """For ten minutes of the hour it catches up, twenty times as fast; and it begins with no rate at all."""
    rounds = {
        name: "0x3 0+60x150 9000+1200x39 55800+60x39"
        if "rounds_total" in name or "mirrormesh_round{" in name
        else values.replace("x39", "x239").replace("x19", "x119")
        for name, values in WORKING.items()
    }
    assert "MeshSlow" not in names(fired(tmp_path, rounds, at="57m"))
    assert "MeshSlow" not in names(fired(tmp_path, rounds, at="5m"))


def test_a_node_that_is_dead_is_named_a_day_later_too(tmp_path):
    dead = {
        f"mirrormesh_broker_connected{{{SCHEDULER}}}": f"1x{DAY}",
        'mirrormesh_build_info{mesh="m"}': f"1x{DAY}",
        f'mirrormesh_node_last_seen_timestamp_seconds{{{SCHEDULER},node="a"}}': f"0+15x{DAY}",
        LAST_SEEN_B: f"0+15x15 240x{DAY}",
    }
    ((alert, labels, summary, _),) = fired(tmp_path, dead, at="1d", every="5m")
    assert (alert, labels["node"]) == ("NodeSilent", "b")
    assert summary == "Node b of mesh m has not been heard for 23h 56m 0s."


def test_a_prometheus_without_private_series_has_every_shared_alert(tmp_path):
    assert {"data_lag_records", "malformed_records_total"} <= {
        one.removeprefix(f"{PREFIX}_") for one in OF_OWNERS
    }
    working = {name: values for name, values in WORKING.items() if not name.startswith(tuple(OF_OWNERS))}
    for alert in (rule["alert"] for rule in SHARED if "alert" in rule):
        changes, _, summary = FAULTS[alert][0]
        other = {name for name in working if alert == "SimulatedNoise" and 'mechanism="laplace"' in name}
        series = {name: values for name, values in working.items() if name not in other} | changes
        assert (alert, summary) in {(one[0], one[2]) for one in fired(tmp_path, series, rules=RULES[:1])}


def test_prometheus_takes_the_configuration():
    said, content = promtool("check", "config", "prometheus.yaml", folder=PROMETHEUS)
    assert content, said


INHIBITION = yaml.safe_load((PROMETHEUS / "alertmanager.yaml").read_text())["inhibit_rules"]


def test_alertmanager_takes_the_configuration():
    need("amtool")
    checked = subprocess.run(
        ["amtool", "check-config", "alertmanager.yaml"],
        cwd=PROMETHEUS,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def matched(matchers):
    """Return the alerts whose names a rule's matchers match."""
    ((name, pattern),) = [re.fullmatch(r'(\w+) =~? "?([\w|]+)"?', matcher).groups() for matcher in matchers]
    assert name == "alertname"
    return [ALERTS[alert] for alert in pattern.split("|")]


@pytest.mark.parametrize("rule", INHIBITION, ids=str)
def test_no_message_of_a_consequence_names_alerts_that_are_there_and_share_its_labels(rule):
    """A label that is in neither alert is equal in both, so a wrong one would silence every mesh."""
    causes, consequences = matched(rule["source_matchers"]), matched(rule["target_matchers"])
    for alert in (*causes, *consequences):
        fault = FAULTS[alert["alert"]][0]
        assert set(rule.get("equal", ())) <= fault[1].keys()
    assert all(alert["labels"]["severity"] == "page" for alert in causes)
