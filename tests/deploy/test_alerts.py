"""Alerts: each fires where it must, and only there, by Prometheus's own tests."""

import pytest

from streams.metrics.catalogue import PREFIX
from streams.tools.up.services import RULES
from tests.support.processes.programs import promtool
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
    assert names(fired(tmp_path, gone)) == ["MetricsGone"]  # and none of them is a target any more
    down = gone | {'up{job="mirrormesh",instance="a:9100"}': f"1x9 0x{DAY}"}
    assert names(fired(tmp_path, down)) == ["MetricsGone", "TargetDown"]
    assert names(fired(tmp_path, down, at="1d", every="5m")) == ["MetricsGone", "TargetDown"]


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
