"""What the panels say of a mesh where not all is well, by Prometheus: no failure is green."""

import json
import re
from collections import defaultdict

import pytest

from grafana import mesh, overview, privacy
from grafana.panels import BLUE, GREEN, GREY, RED
from tests.support.processes.programs import promtool

NODES = "abcdef"
LONG = 40
"""Samples, 15 s apart: ten minutes."""


def by_node(name, values, nodes=NODES, **labels):
    """A series for each node; `values` in promtool's short form, or a function of the node."""
    found = {}
    for node in nodes:
        more = "".join(f',{key}="{value}"' for key, value in ({"instance": node} | labels).items())
        found[f'mirrormesh_{name}{{mesh="m",node="{node}"{more}}}'] = (
            values(node) if callable(values) else values
        )
    return found


def living(nodes=NODES, until=LONG, round="0+60x39"):
    """What the processes of these nodes show, of which the last dies after so many samples."""

    def shown(value, died):
        return lambda node: died if node == nodes[-1] and until < LONG else value

    return {
        **by_node("round", shown(round, f"0+60x{until - 1} stale"), nodes),
        **by_node("rounds_total", shown("0+60x39", f"0+60x{until - 1} stale"), nodes),
        **by_node("broker_connected", shown("1x39", f"1x{until - 1} stale"), nodes),
        **by_node("build_info", shown("1x39", f"1x{until - 1} stale"), nodes, version="1"),
    }


def scheduling(live, dead=""):
    """What a scheduler shows that has heard no more of `dead` since 135 s."""
    whole = {"mesh_nodes": "6x39", "live_nodes": live, "plan_members": "6x39", "plan_lead_rounds": "32x39"}
    of_nodes = {
        "node_round": lambda node: "0+60x9 600x29" if node in dead else "0+60x39",
        "node_last_seen_timestamp_seconds": lambda node: "0+15x9 135x29" if node in dead else "0+15x39",
        "node_starts_total": "1x39",
    }
    found = {f'mirrormesh_{name}{{mesh="m",instance="s"}}': values for name, values in whole.items()}
    for name, values in of_nodes.items():
        found |= by_node(name, values, instance="s")
    return found


def knowing(members, lead, nodes="ab"):
    """What a party's nodes know of a mesh of six."""
    return {
        **by_node("mesh_nodes", "6x39", nodes),
        **by_node("plan_members", members, nodes),
        **by_node("plan_round", "100x39", nodes),
        **by_node("plan_lead_rounds", lead, nodes),
    }


def stale(series, since):
    """The same, of processes that are gone after so many samples."""
    return {name: f"{values.split('x')[0]}x{since - 1} stale" for name, values in series.items()}


@pytest.fixture
def says(tmp_path):
    """Ask a panel: {(legend, colour): values}, at the tenth minute, as Prometheus has them."""

    def ask(series, module, title):
        (panel,) = [panel for row in module.ROWS for panel in row.panels if panel.title == title]
        found = defaultdict(list)
        for query in panel.queries:
            expr = query.expr.replace("$__rate_interval", "1m").replace("$__range", "15m")
            expr = expr.replace("$mesh", "m").replace("$node", ".+")
            for labels, value in evaluated(tmp_path, series, expr):
                named = query.legend.replace("{{alertname}} {{node}}", " ".join(labels.values()))
                found[named, query.colour].append(value)
        return dict(found)

    return ask


def evaluated(folder, series, expr):
    """Return (labels, value) of what the expression is after ten minutes less a sample."""
    test = {
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {"expr": expr, "eval_time": "585s", "exp_samples": [{"labels": "no", "value": 0}]}
                ],
            }
        ],
    }
    (folder / "test.json").write_text(json.dumps(test))
    said, content = promtool("test", "rules", "test.json", folder=folder)
    assert not content
    assert "got:" in said, said
    return list(told(said))


def told(said):
    """Yield (labels, value) of what promtool says that it got."""
    for labels, value in re.findall(r"(\{[^}]*\}) (\S+?)(?:,|$)", said.partition("got:")[2], re.MULTILINE):
        yield dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)


WELL = living() | scheduling("6x39")
ONE_STOPPED = living(until=10) | scheduling("6x10 5x29", "f")
NO_SCHEDULER = living() | stale(scheduling("6x39"), 20)
NO_BROKER = WELL | by_node("broker_connected", "1x30 0x9")
ONE_WITHOUT_BROKER = WELL | by_node("broker_connected", lambda node: "1x30 0x9" if node == "c" else "1x39")
GONE = stale(living(), 20) | stale(scheduling("6x39"), 18)
OVER = GONE | by_node("run_over", "0x18 1 stale")
STAYS = WELL | by_node("run_over", "0x18 1x20")


@pytest.mark.parametrize("module", [overview, mesh])
def test_one_node_that_is_stopped_is_missing_in_red(says, module):
    of = {("of", GREY): [6]}
    assert says(WELL, module, "Live nodes") == {("live", GREEN): [6]} | of
    assert says(ONE_STOPPED, module, "Live nodes") == {("live", RED): [5]} | of
    no_scheduler = {("live", RED): [6], ("schedulers", RED): [0]}
    assert says(NO_SCHEDULER, module, "Live nodes") == no_scheduler | of
    without = ("without the broker", RED)
    assert says(NO_BROKER, module, "Live nodes") == {("live", RED): [6], without: [6]} | of
    assert says(ONE_WITHOUT_BROKER, module, "Live nodes") == {("live", RED): [6], without: [1]} | of
    assert says(living(), module, "Live nodes") == {}  # of an older node, which knows no mesh
    party = living("ab") | knowing("6x39", "32x39")
    assert says(party, module, "Live nodes") == {("live", GREEN): [6]} | of
    assert says(living("ab") | knowing("5x39", "32x39"), module, "Live nodes") == {("live", RED): [5]} | of
    no_plans = {("live", RED): [6], ("plans ahead", RED): [0]}
    assert says(living("ab") | knowing("6x39", "32x30 0x9"), module, "Live nodes") == no_plans | of
    assert says(GONE, module, "Live nodes") == {("live", RED): [0]} | of
    for over in (OVER, STAYS):
        assert says(over, module, "Live nodes") == {("live: the run is over", GREY): [0]} | of
    one_goes_on = STAYS | by_node("run_over", "0x39", "c")
    assert says(one_goes_on, module, "Live nodes") == {("live", GREEN): [6]} | of


def test_the_broker_is_that_of_every_node_of_the_mesh_file(says):
    of = {("of", GREY): [6]}
    assert says(WELL, mesh, "Broker") == {("connected", GREEN): [6]} | of
    assert says(ONE_STOPPED, mesh, "Broker") == {("connected", RED): [5]} | of
    assert says(GONE, mesh, "Broker") == {("connected", RED): [0]} | of
    assert says(OVER, mesh, "Broker") == of


@pytest.mark.parametrize("module", [overview, mesh])
def test_the_slowest_node_may_be_one_that_is_gone(says, module):
    assert says(WELL, module, "Slowest node's round") == {("is at", BLUE): [39 * 60]}
    assert says(ONE_STOPPED, module, "Slowest node's round") == {("is at", BLUE): [600]}
    assert says(WELL, module, "Rounds a second") == {("slowest", ""): [4], ("fastest", ""): [4]}
    assert says(ONE_STOPPED, module, "Rounds a second") == {("slowest", ""): [0], ("fastest", ""): [4]}


def test_the_round_in_which_a_run_ended_stays(says):
    assert says(GONE, overview, "Slowest node's round") == {("last seen at", GREY): [19 * 60]}
    assert says(OVER, overview, "Slowest node's round") == {("over at", GREY): [19 * 60]}
    assert says(STAYS, overview, "Slowest node's round") == {("over at", GREY): [39 * 60]}
    operator = scheduling("6x39") | {
        'mirrormesh_plan_round{mesh="m",instance="s"}': "2001x39",
        'mirrormesh_run_over{mesh="m",instance="s"}': "1x39",
    }
    assert says(operator, overview, "Slowest node's round") == {("over at", GREY): [2000]}


def test_a_node_that_is_gone_grows_older_and_no_age_is_that_of_a_scrape(says):
    moments = by_node("last_round_timestamp_seconds", "0+15x39")
    assert set(says(WELL | moments, mesh, "Since the last step")["{{node}}", ""]) == {0.0}
    moments[list(moments)[-1]] = "0+15x10 stale"
    assert says(ONE_STOPPED | moments, mesh, "Since the last step") == {
        ("{{node}}", ""): [0, 0, 0, 0, 0, 585 - 150]
    }
    assert says(ONE_STOPPED, mesh, "Since it was heard")["{{node}}", ""] == [0, 0, 0, 0, 0, 585 - 135]


def firing(name, **labels):
    """An alert that fires, as Prometheus keeps it."""
    words = {"alertname": name, "alertstate": "firing"} | labels
    return {f"ALERTS{{{','.join(f'{key}={json.dumps(value)}' for key, value in words.items())}}}": "1x39"}


def test_the_overview_names_the_alerts_of_the_mesh_and_those_of_targets(says):
    assert says(WELL, overview, "Alerts that fire") == {}  # none fires where no rules are loaded
    ruled = WELL | {'mesh:mirrormesh_round:max{mesh="m"}': "1x39"}
    assert says(ruled, overview, "Alerts that fire") == {("none", GREEN): [0]}
    others = firing("NodeSilent", mesh="other", node="z") | firing("DiskFull", instance="z")
    assert says(ruled | others, overview, "Alerts that fire") == {("none", GREEN): [0]}
    ours = firing("NodeSilent", mesh="m", node="f") | firing("MetricsGone")
    assert says(ruled | ours | others, overview, "Alerts that fire") == {
        ("NodeSilent f", RED): [1],
        ("MetricsGone", RED): [1],
    }


def test_the_overview_has_the_least_budget_in_per_cent_and_in_hours_also_when_the_run_is_over(says):
    budgets = by_node("epsilon_budget", "100x39", adjacency="stream")
    spent = by_node("epsilon_spent", lambda node: "90x39" if node == "c" else "50x39", adjacency="stream")
    ends = by_node("last_learning_round", lambda node: "16740x39" if node == "c" else "Inf+0x39")
    whole = WELL | budgets | spent | ends
    assert says(whole, overview, "Least budget left")["least", ""] == [pytest.approx(0.1)]
    assert says(whole, overview, "Budget ends in") == {("first node", ""): [(16740 - 39 * 60) / 4 / 3600]}
    over = OVER | stale(budgets | spent | ends, 20)
    assert says(over, overview, "Least budget left")["least", ""] == [pytest.approx(0.1)]
    assert says(over, overview, "Budget ends in") == {}


@pytest.mark.parametrize("module", [overview, mesh])
def test_a_node_without_a_mechanism_is_unprotected(says, module):
    seeded = by_node("simulated_noise", lambda node: "1x39" if node == "a" else "0x39")
    mechanisms = by_node("mechanism_info", "1x39", mechanism="laplace")
    assert says(seeded | mechanisms, module, "Unprotected nodes") == {("nodes", ""): [1]}
    none = by_node("mechanism_info", "1x39", "ab", mechanism="none")
    assert says(seeded | none, module, "Unprotected nodes") == {("nodes", ""): [2]}
    exact = by_node("simulated_noise", "0x39")
    assert says(exact | mechanisms, module, "Unprotected nodes") == {("nodes", ""): [0]}


def test_no_noise_is_not_exact_noise(says):
    shown = by_node("simulated_noise", lambda node: "1x39" if node == "a" else "0x39")
    shown |= by_node("mechanism_info", "1x39", "abcd", mechanism="laplace")
    shown |= by_node("mechanism_info", "1x39", "ef", mechanism="none")
    assert says(shown, privacy, "Simulated noise") == {
        ("exact", GREEN): [3],
        ("simulated", RED): [1],
        ("no noise", RED): [2],
    }
