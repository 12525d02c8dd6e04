"""The dashboards: as the code says, whole, and by the rules of Grafana's own linter for dashboards."""

import json
import re

import pytest

from grafana.draw import DRAWN, drawn
from grafana.generate import DASHBOARDS, FOLDER, generated
from streams.metrics.catalogue import PrivateMetric, SharedMetric
from tests.support.processes.programs import promtool
from tests.support.published.alerts import ALERTS

OURS = re.compile(r"mirrormesh_(\w+?)(?:_bucket)?(\{[^}]*\})")
OF_SCHEDULERS = {"live_nodes", "plans_published_total"}
OF_EVERYONE = {
    "broker_connected",
    "build_info",
    "file_generation",
    "mesh_nodes",
    "messages_refused_total",
    "plan_generation",
    "plan_lead_rounds",
    "plan_members",
    "plan_round",
    "run_over",
}
FOR_OWNERS = {"learning": None, "overview": {"regret_average"}}
"""Private metrics that a dashboard may ask for; None: all."""
UNITS = {"none", "locale", "percentunit", "cps", "s", "h", "bytes"}
"""Of those that Grafana's linter takes, the ones that are of use here."""
KINDS = {metric.value.name: metric.value.kind for metric in (*SharedMetric, *PrivateMetric)}
KINDS |= {"process_resident_memory_bytes": "gauge"}
TEXTS = {path.stem: text for path, text in generated().items()}


DIMENSIONLESS = {
    "Each node's own regret a round",
    "AUC before learning",
    "Better than guessing",
    "Consensus gap",
    "Decision",
    "Epsilon of a record",
    "Epsilon of a round",
    "Epsilon that owners may spend",
    "Loss",
    "Map",
    "Each node's own regret",
    "Own regret a round",
    "Spent, stream level",
    "Tracking error",
    "Worst own regret a round",
}
"""Losses, epsilon and places: numbers without a unit."""


def panels(name):
    """The panels of a dashboard, those of closed rows too, and no rows' headings."""
    return [panel for panel in whole(json.loads(TEXTS[name])) if panel["type"] != "row"]


def whole(board):
    """All panels of a dashboard, with headings, and with those inside closed rows."""
    return [one for panel in board["panels"] for one in (panel, *panel.get("panels", ()))]


PANELS = [
    pytest.param(name, panel, id=f"{name}-{panel['title']}") for name in TEXTS for panel in panels(name)
]
EXPRESSIONS = [
    pytest.param(name, target["expr"], id=f"{name}-{panel['title']}-{target['refId']}")
    for name in TEXTS
    for panel in panels(name)
    for target in panel["targets"]
]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_file_is_what_the_code_makes(name):
    path = FOLDER / f"{name}.json"
    assert path.read_text() == TEXTS[name], "run python -m grafana.generate"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_has_a_uid_and_its_variables_and_is_not_edited(name):
    found = json.loads(TEXTS[name])
    variables = {variable["name"]: variable["type"] for variable in found["templating"]["list"]}
    queries = {"mesh": "query", "node": "query"}
    assert variables == {"datasource": "datasource"} | queries | {"runbooks": "textbox"}
    source, mesh, node, runbooks = found["templating"]["list"]
    assert runbooks["query"] == "https://runbooks.example/mirrormesh"
    assert (source["label"], source["query"]) == ("Data source", "prometheus")
    assert (mesh["label"], node["label"]) == ("Mesh", "Node")
    for variable in (mesh, node):  # they stand for the linter's job and instance
        assert variable["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert variable["refresh"] == 2  # when the time that is shown changes
        assert re.fullmatch(r"label_values\(mirrormesh_\w+(\{mesh=\"\$mesh\"\})?, \w+\)", variable["query"])
    assert (node["multi"], node["includeAll"], node["allValue"]) == (True, True, ".+")  # one mesh, many nodes
    assert (found["uid"], found["editable"]) == (f"mirrormesh-{name}", False)
    assert found["title"]
    assert found["description"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_have_ids_of_their_own_and_do_not_overlap(name):
    everything = whole(json.loads(TEXTS[name]))
    assert len({panel["id"] for panel in everything}) == len(everything)
    taken = set()
    for panel in everything:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_a_panel_says_what_it_is(name, panel):
    assert panel["title"]
    assert len(panel["description"]) > 20
    assert panel["description"].endswith(".")
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["unit"] in UNITS
    if panel["type"] != "statetimeline":
        words = bool(defaults.get("mappings")) or panel["title"] in DIMENSIONLESS
        assert words == (defaults["unit"] == "none")
    assert defaults["thresholds"]["steps"][0]["value"] is None
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["targets"]
    assert all(target["legendFormat"] for target in panel["targets"])


@pytest.mark.parametrize(("name", "expr"), EXPRESSIONS)
def test_a_query_asks_for_the_chosen_mesh_and_nodes_and_only_for_what_there_is(name, expr):
    found = OURS.findall(expr)
    alerts = re.findall(r"ALERTS(\{[^}]*\})", expr)
    assert found or alerts
    recorded = re.findall(r"mesh:mirrormesh_\w+:max(\{[^}]*\})", expr)
    assert len(found) + len(alerts) + len(recorded) == expr.count("{")
    for selector in (*alerts, *recorded):
        assert re.search(r'mesh=(~"\$mesh\||"\$mesh)"', selector)
        assert 'node=~"$node|"' in selector
    for metric, selector in found:
        assert metric in KINDS
        assert 'mesh="$mesh"' in selector
        chosen = 'node=~"$node"' in selector
        assert chosen or 'node=~"$node|"' in selector or 'node=""' in selector
        assert chosen or metric in OF_SCHEDULERS | OF_EVERYONE
        assert not (chosen and metric in OF_SCHEDULERS)
        private = metric not in {shared.value.name for shared in SharedMetric}
        assert not private or FOR_OWNERS[name] is None or metric in FOR_OWNERS[name]
        counted = KINDS[metric] in {"counter", "histogram"}
        assert metric == "node_round" or counted == bool(
            re.search(rf"(rate|increase)\(mirrormesh_{metric}(_bucket)?\{{", expr)
        )
    counts = len(re.findall(r"\b(?:rate|increase)\(", expr))
    assert counts == expr.count("[$__rate_interval]")
    assert counts + expr.count("last_over_time(") == expr.count("[")
    assert expr.count("last_over_time(") == expr.count("[$__range]")


@pytest.mark.parametrize(("name", "expr"), EXPRESSIONS)
def test_a_query_is_promql(name, expr, tmp_path):
    check_promql(expr, tmp_path)


def check_promql(expr, tmp_path):
    """Let Prometheus read the query."""
    plain = expr.replace("$__rate_interval", "1m").replace("$__range", "15m")
    plain = plain.replace("$mesh", "m").replace("$node", ".+")
    rules = {"groups": [{"name": "query", "rules": [{"record": "found", "expr": plain}]}]}
    (tmp_path / "rules.yaml").write_text(json.dumps(rules))
    said, content = promtool("check", "rules", "rules.yaml", folder=tmp_path)
    assert content, said


LEFT_OUT = {
    "certificate_end_timestamp_seconds",
    "data_certificate_end_timestamp_seconds",
    "edges_on",
    "epsilon_left",
    "feed_failed",
    "feed_over",
    "feed_unacknowledged_records",
    "later_labels_total",
    "loss_rises_total",
    "pass_seconds",
    "registry_answers",
    "plans_ignored_total",
    "private_run_over",
    "records_held_up",
    "releases_ignored_total",
    "releases_received_total",
    "releases_sent_total",
}
"""Of use to who looks for something; no panel asks for them."""


def test_every_metric_is_on_a_dashboard_or_left_out_on_purpose():
    asking = [target for name in TEXTS for panel in panels(name) for target in panel["targets"]]
    asking += [event for name in TEXTS for event in json.loads(TEXTS[name])["annotations"]["list"]]
    texts = " ".join(one["expr"] for one in asking)
    assert set(KINDS) - {metric for metric, _ in OURS.findall(texts)} == LEFT_OUT


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_leads_to_the_others_and_marks_what_happened(name, tmp_path):
    found = json.loads(TEXTS[name])
    (link,) = found["links"]
    assert (link["type"], link["tags"], link["includeVars"], link["keepTime"]) == (
        "dashboards",
        found["tags"],
        True,
        True,
    )
    events = {one["name"]: one for one in found["annotations"]["list"]}
    assert set(events) == {"Starts", "Plans"}
    for event in events.values():
        assert (event["enable"], event["datasource"]["uid"]) == (True, "${datasource}")
        check_promql(event["expr"], tmp_path)
    assert "mirrormesh_node_starts_total" in events["Starts"]["expr"]
    assert "mirrormesh_plan_members" in events["Plans"]["expr"]


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_an_axis_has_the_word_of_its_unit(name, panel):
    if panel["type"] == "timeseries":
        assert panel["fieldConfig"]["defaults"]["custom"]["axisLabel"]


WITHOUT_A_FIGURE = {
    "Accused",
    "CertificateEndsSoon",
    "DataCertificateEndsSoon",
    "Equivocation",
    "MetricsGone",
}
"""What their runbooks look at is no figure."""


def test_a_figure_leads_to_the_runbooks_that_look_at_it():
    links = {
        (name, panel["title"]): [(link["title"], link["url"]) for link in panel.get("links", ())]
        for name in TEXTS
        for panel in panels(name)
    }
    assert ("Runbook: DataQuiet", "${runbooks}#dataquiet") in links["learning", "Records a second"]
    assert ("Runbook: MeshStalled", "${runbooks}#meshstalled") in links["mesh", "Live nodes"]
    named = {alert for link in links.values() for alert, _ in link}
    looked_at = {f"Runbook: {alert}" for alert in ALERTS}
    assert named <= looked_at
    assert sorted(looked_at - named) == sorted(f"Runbook: {alert}" for alert in WITHOUT_A_FIGURE)


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_a_panel_draws_its_thresholds_and_last_values(name, panel):
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    if panel["type"] == "timeseries":
        style = panel["fieldConfig"]["defaults"]["custom"].get("thresholdsStyle", {}).get("mode")
        assert style == ("dashed" if len(steps) > 1 else None)
        legend = panel["options"]["legend"]
        assert (legend["displayMode"], legend["calcs"]) == ("table", ["lastNotNull"])
    if panel["type"] == "stat":
        assert panel["options"]["reduceOptions"]["calcs"] == ["lastNotNull"]
        assert panel["options"]["textMode"] in {"name", "value_and_name"}
        coloured = panel["fieldConfig"]["overrides"]
        assert len(coloured) in {0, len(panel["targets"])}  # alternatives, or by value


def test_the_map_gets_a_table_for_each_node_with_x_and_then_y():
    (plane,) = [panel for panel in panels("learning") if panel["type"] == "xychart"]
    across, up = plane["targets"]
    assert across["format"] == up["format"] == "table"  # else a frame has one number, and the chart nothing
    assert across["expr"].replace('coordinate="0"', 'coordinate="1"') == up["expr"]
    assert "sum by (node)" in across["expr"]  # tables merge by the columns that both have
    assert [one["id"] for one in plane["transformations"]] == ["merge", "partitionByValues"]
    assert plane["transformations"][1]["options"] == {"fields": ["node"]}
    assert (plane["options"]["mapping"], plane["options"]["series"]) == ("auto", [])


def test_the_pictures_show_the_dashboards_as_they_are():
    folder = FOLDER.parent / "pictures"
    assert (folder / DRAWN).read_text() == drawn(), "out of date: make pictures"
    assert {path.stem for path in folder.glob("*.png")} == set(DASHBOARDS)
