"""Dashboard `overview`: is all well? The first to open; the other three say more."""

from grafana.panels import (
    BLUE,
    COUNT,
    GREEN,
    HOURS,
    NUMBER,
    ORANGE,
    RED,
    SHARE,
    STREAM,
    Panel,
    Query,
    Row,
    by_node,
    last,
    metric,
    rate,
)
from grafana.standing import LIVE, ROUND_OF, SLOWEST, SPEED, UNPROTECTED

TITLE = "mirrormesh: overview"
DESCRIPTION = "Is all well? The worst of each, and the alerts. The other dashboards say more."
FIRING = (
    '(ALERTS{mesh="$mesh",node=~"$node|",alertstate="firing"} or '
    'ALERTS{mesh=~"$mesh|",node=~"$node|",alertname=~"MetricsGone|TargetDown",alertstate="firing"})'
)
"""The alerts of the mesh, and those that are of no mesh: they say that targets are gone."""
RULED = 'last_over_time(mesh:mirrormesh_round:max{mesh="$mesh",node=~"$node|"}[$__range])'
"""What the rules record: there is none where Prometheus has not loaded them."""
LEFT = f"1 - {by_node(last('epsilon_spent', STREAM))} / ({by_node(last('epsilon_budget', STREAM))} < Inf)"
ROUNDS_LEFT = f"clamp_min(({metric('last_learning_round')} < Inf) - {metric('round')}, 0)"
HOURS_LEFT = f"{by_node(ROUNDS_LEFT)} / ({by_node(rate('rounds_total'))} > 0) / 3600"

NOW = Row(
    "Now",
    (
        LIVE,
        SLOWEST,
        SPEED,
        Panel(
            "Least budget left",
            "Share of the stream-level budget that is left, of the node that has least.",
            SHARE,
            (Query(f"min({LEFT})", "least"),),
            "stat",
            ((None, RED), (0.001, ORANGE), (0.2, GREEN)),
            width=4,
            height=5,
            nothing="no budget",
        ),
        Panel(
            "Budget ends in",
            "Hours until the first node has spent its budget, at the speed of now.",
            HOURS,
            (Query(f"min({HOURS_LEFT})", "first node"),),
            "stat",
            ((None, RED), (0.001, ORANGE), (1, GREEN)),
            width=4,
            height=5,
            nothing="no end, or no rounds",
        ),
        UNPROTECTED,
        Panel(
            "Worst own regret a round",
            "The largest of the nodes' own regrets a round, first order, each since its process started, and "
            "how it became so: it should fall. It is not the network's. Of private metrics: only owners see "
            "it, of their nodes.",
            NUMBER,
            (Query(f"max({last('regret_average')})", "worst"),),
            "stat",
            ((None, BLUE),),
            width=12,
            height=6,
            trend=True,
            nothing="for owners only",
        ),
        Panel(
            "Alerts that fire",
            "Of this mesh, by node, and of targets that are gone. The runbook says what to do.",
            COUNT,
            (
                Query(f"count by (alertname, node) {FIRING}", "{{alertname}} {{node}}", RED),
                Query(f"(absent{FIRING} - 1) and on () {RULED}", "none", GREEN),
            ),
            "stat",
            width=12,
            height=6,
            names=True,
            nothing="rules.yaml is not loaded",
        ),
    ),
)
TREND = Row(
    "How it went",
    (
        Panel(
            "Round",
            "Last round each node has stepped. Lines that part are nodes left behind; a flat one is gone.",
            COUNT,
            (Query(ROUND_OF),),
            axis="rounds",
        ),
        Panel(
            "Own regret a round",
            "Each node's own first-order regret a round, since its process started. Of private metrics, for "
            "owners.",
            NUMBER,
            (Query(metric("regret_average")),),
            log=True,
            axis="loss",
        ),
        Panel(
            "Budget left",
            "Share of each node's stream-level budget that is left; nodes without a budget are left out.",
            SHARE,
            (Query(LEFT),),
            steps=((None, RED), (0.001, ORANGE), (0.2, GREEN)),
            least=0,
        ),
    ),
)
ROWS = (NOW, TREND)
