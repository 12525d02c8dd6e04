"""The alerts' rules, and what Prometheus says fires on given series."""

import json
import re
from pathlib import Path

import yaml

from streams.metrics.catalogue import PREFIX, PrivateMetric, SharedMetric
from streams.tools.up.services import RULES
from tests.support.processes.programs import promtool

PROMETHEUS = Path(__file__).parents[3] / "deploy" / "prometheus"
READ = {name: yaml.safe_load((PROMETHEUS / name).read_text())["groups"] for name in RULES}
GROUPS = {name: [group["name"] for group in groups] for name, groups in READ.items()}
SHARED, OWNERS = ([rule for group in READ[name] for rule in group["rules"]] for name in RULES)
ALERTS = {rule["alert"]: rule for rule in (*SHARED, *OWNERS) if "alert" in rule}
RECORDED = {rule["record"] for rule in (*SHARED, *OWNERS) if "record" in rule}
OF_EVERYONE = {f"{PREFIX}_{metric.value.name}" for metric in SharedMetric}
OF_OWNERS = {f"{PREFIX}_{metric.value.name}" for metric in PrivateMetric} | {
    f"{PREFIX}_process_start_time_seconds"
}
HERE = "https://runbooks.example/page"


def fired(folder, series, at="9m", every="15s", rules=RULES):
    """The alerts that fire then: (name, labels, summary, runbook)."""
    expected = [{"eval_time": at, "alertname": alert, "exp_alerts": []} for alert in ALERTS]
    test = {
        "rule_files": [str(PROMETHEUS / name) for name in rules],
        "evaluation_interval": every,
        "group_eval_order": [name for file in rules for name in GROUPS[file]],
        "tests": [
            {
                "interval": "15s",
                "external_labels": {"runbooks": HERE},
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": expected,
            }
        ],
    }
    (folder / "test.json").write_text(json.dumps(test))
    said, content = promtool("test", "rules", "test.json", folder=folder)
    found = re.findall(r"Labels:(\{[^}]*\})\s+Annotations:(\{.*\})", said)
    assert content == (not found), said
    return [
        (labels.pop("alertname"), labels, notes["summary"], notes["runbook_url"])
        for labels, notes in ((_words(one), _words(two)) for one, two in found)
    ]


def _words(text):
    return {name: json.loads(value) for name, value in re.findall(r'(\w+)=("(?:[^"\\]|\\.)*")', text)}
