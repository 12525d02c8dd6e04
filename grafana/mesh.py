"""Dashboard `mesh`: is it alive, and in step?"""

from grafana.panels import (
    BLUE,
    COUNT,
    GREEN,
    GREY,
    MESH,
    NUMBER,
    ORANGE,
    PER_SECOND,
    RED,
    SCHEDULERS,
    SECONDS,
    SHARE,
    Panel,
    Query,
    Row,
    by_node,
    last,
    metric,
    quantile,
    rate,
)
from grafana.standing import LIVE, ROUND_OF, SLOWEST, SPEED, SPEED_OF, UNPROTECTED, of_all

TITLE = "mirrormesh: mesh"
DESCRIPTION = "Is the mesh alive and in step? Everything here may be seen by anyone who runs it."


def _age(name: str) -> str:
    """Return how old each node's moment was when it was scraped; 0 is no moment."""
    moment = metric(name)
    return f"min by (mesh, node) (timestamp({moment}) - ({moment} > 0))"


def _silence(name: str) -> str:
    """Return how long ago each node's last moment is, whether or not it is still there."""
    return f"min by (mesh, node) (time() - ({last(name)} > 0))"


SEEN = f"count({by_node(last('broker_connected', MESH))})"
_MOMENT = metric("neighbour_last_heard_timestamp_seconds")
_BY_NEIGHBOUR = f"min by (mesh, edge_source) (timestamp({_MOMENT}) - ({_MOMENT} > 0))"
HEARD = (
    f'min by (mesh, node) (label_replace({_BY_NEIGHBOUR}, "node", "$1", "edge_source", "(.*)")) '
    f"unless on (mesh) max by (mesh) ({last('live_nodes', MESH)})"
)
"""How long ago a party's nodes have read a release of each neighbour; nothing where a scheduler was seen."""

NOW = Row(
    "Now",
    (
        LIVE,
        SLOWEST,
        SPEED,
        Panel(
            "Plan lead",
            "Rounds from the slowest live member's last step to the last plan; where no scheduler answers, "
            "from the chosen nodes' own. At 0 the mesh waits for plans.",
            COUNT,
            (
                Query(
                    f"max({metric('plan_lead_rounds', SCHEDULERS)}) or max({metric('plan_lead_rounds')})",
                    "rounds",
                ),
            ),
            "stat",
            ((None, RED), (1, ORANGE), (2, GREEN)),
            width=4,
            height=5,
            nothing="no scheduler",
        ),
        Panel(
            "Broker",
            "Nodes whose connection to the mesh broker is there, and schedulers (as one), of those that this "
            "Prometheus has seen in the time that is shown.",
            COUNT,
            of_all(f"sum({by_node(metric('broker_connected', MESH))})", "connected", everyone=SEEN),
            "stat",
            width=4,
            height=5,
        ),
        UNPROTECTED,
    ),
)
ROUNDS = Row(
    "Rounds",
    (
        Panel(
            "Round",
            "Last round each node has stepped, and the last plan. Lines that part are nodes left behind; a "
            "flat one is gone.",
            COUNT,
            (
                Query(ROUND_OF),
                Query(f"max({metric('plan_round', MESH)})", "last plan"),
            ),
            axis="rounds",
        ),
        Panel(
            "Speed",
            "Rounds that each node steps in a second; 0 for one that is gone.",
            PER_SECOND,
            (Query(SPEED_OF),),
            least=0,
        ),
        Panel(
            "Time from step to step",
            "Median and 99th percentile. A tail is a neighbour, a plan or records that came late.",
            SECONDS,
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
            SHARE,
            (
                Query(rate("neighbour_wait_seconds_total"), "{{node}} neighbours"),
                Query(rate("plan_wait_seconds_total"), "{{node}} plan"),
            ),
            least=0,
        ),
        Panel(
            "Since the last step",
            "Seconds from each node's last step to the last look at it, or to now where it is gone; nodes "
            "that have not stepped yet are left out.",
            SECONDS,
            (Query(f"{_age('last_round_timestamp_seconds')} or {_silence('last_round_timestamp_seconds')}"),),
            steps=((None, GREEN), (30, RED)),
            least=0,
        ),
        Panel(
            "Since it was heard",
            "Seconds from each node's last heartbeat to the last look at the scheduler. One that is gone "
            "rises; one that was never there is left out. Where no scheduler was seen: since the chosen "
            "nodes last read a release of each neighbour.",
            SECONDS,
            (Query(f"{_age('node_last_seen_timestamp_seconds')} or ({HEARD})"),),
            steps=((None, GREEN), (10, RED)),
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
            NUMBER,
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
            NUMBER,
            (Query(metric("consensus_gap")),),
            height=10,
            log=True,
            axis="distance",
        ),
    ),
)
TROUBLE = Row(
    "Trouble",
    (
        Panel(
            "Releases given up",
            "Not there at the deadline: the neighbour's weight went to the own release.",
            PER_SECOND,
            (Query(rate("releases_given_up_total"), "{{edge_source}} to {{node}}"),),
            steps=((None, ORANGE),),
            least=0,
        ),
        Panel(
            "Late corrections",
            "Releases that came within the horizon after they were given up, and were made good.",
            PER_SECOND,
            (Query(rate("late_corrections_total"), "{{edge_source}} to {{node}}"),),
            least=0,
        ),
        Panel(
            "Messages refused",
            "Peers' messages that were not as they must be, by reason; their bytes are in the dead letters.",
            PER_SECOND,
            (
                Query(f"sum by (mesh, reason) ({rate('messages_refused_total', MESH)})", "{{reason}}"),
                Query(f"sum by (mesh) ({rate('evidence_total')})", "second values for a round"),
            ),
            steps=((None, RED),),
            least=0,
        ),
        Panel(
            "Plans",
            "Plans that schedulers publish in a second; together they publish one a round.",
            PER_SECOND,
            (Query(f"sum by (mesh) ({rate('plans_published_total', MESH)})", "published"),),
            width=12,
            least=0,
        ),
        Panel(
            "Starts",
            "Starts of each node's process that schedulers have heard, in the time between two points. More "
            "than one or two in an hour: it falls over.",
            COUNT,
            (Query(by_node(f"increase({metric('node_starts_total')}[$__rate_interval])")),),
            width=12,
            least=0,
            axis="starts",
        ),
        Panel(
            "Left out",
            "How often schedulers planned without a node that held the others, in the time between two "
            "points.",
            COUNT,
            (Query(by_node(f"increase({metric('nodes_left_out_total')}[$__rate_interval])")),),
            width=12,
            least=0,
            axis="times",
        ),
        Panel(
            "Mesh file",
            "Generation of each node's mesh file, and of the newest one that a plan was made by. A lower one "
            "is an older file.",
            COUNT,
            (
                Query(by_node(metric("file_generation"))),
                Query(f"max by (mesh) ({metric('plan_generation', MESH)})", "plans"),
            ),
            width=12,
            least=0,
            axis="generation",
        ),
    ),
)
ROWS = (NOW, ROUNDS, EDGES, TROUBLE)
