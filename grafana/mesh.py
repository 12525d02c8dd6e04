"""Dashboard `mesh`: is it alive, and in step?"""

from grafana.panels import BLUE, GREEN, GREY, MESH, ORANGE, RED, Panel, Query, Row, metric, quantile, rate

TITLE = "mirrormesh: mesh"
DESCRIPTION = "Is the mesh alive and in step? Everything here may be seen by anyone who runs it."

NOW = Row(
    "Now",
    (
        Panel(
            "Live nodes",
            "Nodes that a scheduler has heard within the silence limit, of those that the last plan names.",
            "none",
            (
                Query(f"max({metric('live_nodes', MESH)})", "live"),
                Query(f"max({metric('plan_members', MESH)})", "planned"),
            ),
            "stat",
            ((None, RED), (1, GREEN)),
            width=4,
            height=5,
        ),
        Panel(
            "Slowest node's round",
            "Last round that every chosen node has stepped.",
            "none",
            (Query(f"min({metric('round')})", "round"),),
            "stat",
            ((None, GREY),),
            width=4,
            height=5,
        ),
        Panel(
            "Rounds a second",
            "Of the slowest and the fastest chosen node; they differ for long only where one is away.",
            "none",
            (
                Query(f"min({rate('rounds_total')})", "slowest"),
                Query(f"max({rate('rounds_total')})", "fastest"),
            ),
            "stat",
            ((None, RED), (0.001, GREEN)),
            width=4,
            height=5,
        ),
        Panel(
            "Plan lead",
            "Rounds from the slowest live member's last step to the last plan. At 0 the mesh waits for "
            "plans.",
            "none",
            (Query(f"max({metric('plan_lead_rounds', MESH)})", "rounds"),),
            "stat",
            ((None, RED), (1, ORANGE), (2, GREEN)),
            width=4,
            height=5,
        ),
        Panel(
            "Broker",
            "Processes whose connection to the mesh broker is there.",
            "none",
            (
                Query(f"sum({metric('broker_connected', MESH)})", "connected"),
                Query(f"count({metric('broker_connected', MESH)})", "of"),
            ),
            "stat",
            ((None, RED), (1, GREEN)),
            width=4,
            height=5,
        ),
        Panel(
            "Simulated noise",
            "Nodes whose noise is seeded. Nothing of theirs is protected.",
            "none",
            (Query(f"sum({metric('simulated_noise')})", "nodes"),),
            "stat",
            ((None, GREEN), (1, RED)),
            width=4,
            height=5,
        ),
    ),
)
ROUNDS = Row(
    "Rounds",
    (
        Panel(
            "Round",
            "Last round each node has stepped, and the last plan. Lines that part are nodes left behind.",
            "none",
            (
                Query(metric("round")),
                Query(f"max({metric('plan_round', MESH)})", "last plan"),
            ),
        ),
        Panel(
            "Speed",
            "Rounds that each node steps in a second.",
            "none",
            (Query(rate("rounds_total")),),
            least=0,
        ),
        Panel(
            "Time from step to step",
            "Median and 99th percentile. A tail is a neighbour, a plan or records that came late.",
            "s",
            (
                Query(quantile(0.5, "round_interval_seconds"), "{{node}} p50"),
                Query(quantile(0.99, "round_interval_seconds"), "{{node}} p99"),
            ),
            least=0,
        ),
        Panel(
            "Waiting",
            "Share of the time in which a node waits for neighbours' releases, or for nothing but the "
            "next plan.",
            "percentunit",
            (
                Query(rate("neighbour_wait_seconds_total"), "{{node}} neighbours"),
                Query(rate("plan_wait_seconds_total"), "{{node}} plan"),
            ),
            least=0,
        ),
        Panel(
            "Since the last step",
            "Seconds since each node last stepped a round; nodes that have not yet are left out.",
            "s",
            (Query(f"time() - ({metric('last_round_timestamp_seconds')} > 0)"),),
            steps=((None, GREEN), (30, RED)),
            least=0,
        ),
        Panel(
            "Plans",
            "Plans that schedulers publish in a second; together they publish one a round.",
            "none",
            (Query(f"sum by (mesh) ({rate('plans_published_total', MESH)})", "published"),),
            least=0,
        ),
    ),
)
EDGES = Row(
    "Edges",
    (
        Panel(
            "Edges on and off",
            "Each in-edge of the chosen nodes in the plan of their last decided round, as it was at "
            "each scrape.",
            "none",
            (Query(metric("edge_on"), "{{edge_source}} to {{node}}"),),
            "states",
            ((None, GREY), (1, BLUE)),
            (("0", "off", GREY), ("1", "on", BLUE)),
            width=16,
            height=10,
        ),
        Panel(
            "Consensus gap",
            "The farthest of the releases that a node heard from its own, in L2: disagreement, and noise.",
            "none",
            (Query(metric("consensus_gap")),),
            height=10,
            log=True,
        ),
    ),
)
TROUBLE = Row(
    "Trouble",
    (
        Panel(
            "Releases given up",
            "Not there at the deadline: the neighbour's weight went to the own release.",
            "none",
            (Query(rate("releases_given_up_total"), "{{edge_source}} to {{node}}"),),
            steps=((None, ORANGE),),
            least=0,
        ),
        Panel(
            "Late corrections",
            "Releases that came within the horizon after they were given up, and were made good.",
            "none",
            (Query(rate("late_corrections_total"), "{{edge_source}} to {{node}}"),),
            least=0,
        ),
        Panel(
            "Messages refused",
            "Peers' messages that were not as they must be, by reason; their bytes are in the dead letters.",
            "none",
            (
                Query(f"sum by (mesh, reason) ({rate('messages_refused_total', MESH)})", "{{reason}}"),
                Query(f"sum by (mesh) ({rate('evidence_total')})", "second values for a round"),
            ),
            steps=((None, RED),),
            least=0,
        ),
    ),
)
ROWS = (NOW, ROUNDS, EDGES, TROUBLE)
