"""Each dashboard and each alert as three scrapers see it: everything, one party, the mesh's operator."""

import json
import re
from itertools import pairwise

import pytest

from grafana.generate import DASHBOARDS
from streams.metrics.scheduler_metrics import SchedulerMetrics
from streams.tools.export.cluster import OF_NODES, OF_SCHEDULERS, OPERATOR_BOARDS, OWNER_BOARDS, seen_board
from tests.support.nodes.machines import learner
from tests.support.nodes.metrics import metrics
from tests.support.processes.programs import promtool
from tests.support.published.alert_series import FAULTS, NODE, SCHEDULER, WORKING
from tests.support.published.alerts import ALERTS, OWNERS, fired
from tests.support.published.pages import ROOT

SAMPLES = 39
"""15 s apart."""


STILL = {"mirrormesh_simulated_noise", "mirrormesh_run_over", "mirrormesh_broker_connected"}
"""What is 0 or 1."""


def series(registry, **labels):
    """Every sample of a registry as a series that counts up."""
    found = {}
    for family in registry.collected.collect():
        for sample in family.samples:
            words = ",".join(
                f"{name}={json.dumps(value)}" for name, value in (sample.labels | labels).items()
            )
            still = f"{1 if sample.value == 1 else 0}x{SAMPLES}"
            found[f"{sample.name}{{{words}}}"] = still if family.name in STILL else f"1+1x{SAMPLES}"
    return found


def all_series():
    """What the views' processes show: of two nodes, each of another party, and of the scheduler."""
    found = {}
    for node in ("b", "c"):
        figures = metrics(learner(budget="5"))
        for registry, instance in ((figures.shared, f"{node}:9100"), (figures.private, f"{node}:9101")):
            registry.labels = {"mesh": "m", "node": node}
            found |= {
                name.replace('node="a"', f'node="{node}"').replace('mesh="tracking"', 'mesh="m"'): values
                for name, values in series(registry, instance=instance).items()
            }
    scheduler = SchedulerMetrics("m", ["a", "b", "c"], connected=lambda: True)
    return found | series(scheduler.shared, instance="s")


def seen(every, view):
    """The series of a view: a party's own nodes with their private ones, or the scheduler's."""
    if view == "everything":
        return every
    of_operator = {name: values for name, values in every.items() if 'instance="s"' in name}
    if view == "operator":
        return of_operator
    return {
        name: values for name, values in every.items() if name not in of_operator and 'node="c"' not in name
    }


VIEWS = ("everything", "party", "operator")
RULED = {'mesh:mirrormesh_round:max{mesh="m"}': f"1x{SAMPLES}"}
"""That rules are loaded, else the panel of alerts says that they are not."""
HIDDEN = {"everything": {}, "party": OF_SCHEDULERS, "operator": OF_NODES}


def empty(folder, dashboard, every):
    """The open panels of a dashboard on which no query has an answer."""
    asked = {}
    for row in DASHBOARDS[dashboard].ROWS:
        for panel in () if row.of else row.panels:
            for query in panel.queries:
                expr = query.expr.replace("$__rate_interval", "1m").replace("$__range", "15m")
                expr = expr.replace("$mesh", "m").replace("$node", ".+")
                asked.setdefault(expr, set()).add(panel.title)
    test = {
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": name, "values": values} for name, values in every.items()],
                "promql_expr_test": [
                    {"expr": expr, "eval_time": "585s", "exp_samples": []} for expr in asked
                ],
            }
        ],
    }
    (folder / "test.json").write_text(json.dumps(test))
    said, _ = promtool("test", "rules", "test.json", folder=folder)
    answered = {json.loads(expr) for expr in re.findall(r'expr: ("(?:[^"\\]|\\.)*"), time', said)}
    assert answered <= asked.keys(), said
    titles = set().union(*asked.values())
    return titles - set().union(*(asked[expr] for expr in answered))


def boards(view):
    """The dashboards that a view has."""
    return {"everything": DASHBOARDS, "party": OWNER_BOARDS, "operator": OPERATOR_BOARDS}[view]


@pytest.mark.parametrize(("view", "name"), [(view, name) for view in VIEWS for name in boards(view)])
def test_what_a_view_cannot_have_is_hidden_there_and_nothing_else_is_empty(tmp_path, view, name):
    without = empty(tmp_path, name, seen(all_series(), view) | RULED)
    assert without == HIDDEN[view].get(name, set())
    if view != "everything":
        shown = seen_board(name, owned=view == "party")["panels"]
        titles = {panel["title"] for panel in shown if panel["type"] != "row"}
        open_rows = [row for row in DASHBOARDS[name].ROWS if not row.of]
        assert titles == {panel.title for row in open_rows for panel in row.panels} - without


@pytest.mark.parametrize(("owned", "names"), [(True, OWNER_BOARDS), (False, OPERATOR_BOARDS)])
def test_no_hole_is_left_where_a_panel_is_hidden(owned, names):
    for name in names:
        panels = seen_board(name, owned=owned)["panels"]
        for panel, following in pairwise(panels):
            here, place = panel["gridPos"], following["gridPos"]
            beside = (place["x"], place["y"]) == (here["x"] + here["w"], here["y"])
            assert beside or (place["x"] == 0 and place["y"] >= here["y"] + min(here["h"], place["h"], 1))
            assert not (panel["type"] == following["type"] == "row") or panel.get("panels")


NEVER = {
    "everything": set(),
    "party": {"SchedulerGone", "NodeSilent", "NodeRestarts", "NodeLeftOut"},
    "operator": {
        *("BudgetNearlySpent", "BudgetSpent", "Equivocation", "Accused", "SimulatedNoise", "DeadLetters"),
        *("OwnerLeftOut", "QueryRefused", "SecondAnswer"),
        *(rule["alert"] for rule in OWNERS),
    },
}
"""The alerts that a view cannot have: schedulers know who is silent, and nodes what they do."""
OF_SCHEDULER = 'instance="s"'


OF_BOTH = ("mirrormesh_broker_connected", "mirrormesh_file_generation")
"""What nodes and schedulers show: where a node's fails, a scheduler's may."""


def of_view(changes, view, named=WORKING):
    """The series of alerts' tests that a view has. A node's rounds are in its heartbeats too."""
    kind = "total" if any("rounds_total" in name for name in changes) else "round"
    counts = {"total": "mirrormesh_rounds_total{", "round": "mirrormesh_round{"}[kind]
    if view == "operator":
        changes = changes | {
            name.replace(NODE, SCHEDULER): values
            for name, values in changes.items()
            if name.startswith(OF_BOTH)
        }
    named = named | changes
    rounds = {
        name.replace(f'{counts}mesh="m"', f'mirrormesh_node_round{{mesh="m",{OF_SCHEDULER}'): values
        for name, values in named.items()
        if name.startswith(counts)
    }
    ahead = {
        name.replace(f'{{mesh="m",{OF_SCHEDULER}}}', '{mesh="m",node="a"}'): values
        for name, values in named.items()
        if name.startswith("mirrormesh_plan_lead_rounds{") and "node=" not in name
    }
    ahead |= {'mirrormesh_plan_round{mesh="m",node="a"}': f"0+60x{SAMPLES}"} if ahead else {}
    every = named | rounds | ahead
    everyone = ("up{", "mirrormesh_build_info", "mirrormesh_run_over", "mirrormesh_certificate")
    scheduler = {name for name in every if OF_SCHEDULER in name or name.startswith(everyone)}
    match view:
        case "operator":
            return {name: every[name] for name in scheduler}
        case "party":
            return {name: value for name, value in every.items() if OF_SCHEDULER not in name}
    return every


@pytest.mark.parametrize("view", VIEWS)
def test_the_alerts_of_a_view(tmp_path, view):
    firing, before = set(), {one[0] for one in fired(tmp_path, of_view({}, view))}
    assert before == set()
    for alert, ((changes, *_), *_) in FAULTS.items():
        simulated = {name for name in WORKING if alert == "SimulatedNoise" and 'mechanism="laplace"' in name}
        named = {name: values for name, values in WORKING.items() if name not in simulated}
        if alert in {one[0] for one in fired(tmp_path, of_view(changes, view, named))}:
            firing.add(alert)
    assert ALERTS.keys() - firing == NEVER[view]


def test_the_page_names_the_alerts_of_schedulers_and_of_nodes():
    section = (
        (ROOT / "docs/howto/observe.md").read_text().partition("## Who sees what")[2].partition("\n## ")[0]
    )
    of_schedulers, of_nodes = section.split("operator's Prometheus", 1)
    assert set(re.findall(r"`([A-Z]\w+)`", of_schedulers)) == NEVER["party"]
    assert set(re.findall(r"`([A-Z]\w+)`", of_nodes)) == NEVER["operator"] - {
        rule["alert"] for rule in OWNERS
    }
