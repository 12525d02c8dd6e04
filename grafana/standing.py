"""Where a mesh stands: expressions and panels that more than one dashboard has.

A node that is gone counts: nothing is green because somebody is missing.
"""

from grafana.panels import (
    BLUE,
    COUNT,
    GREEN,
    GREY,
    MESH,
    NO_MECHANISM,
    NODES,
    PER_SECOND,
    RED,
    Panel,
    Query,
    by_node,
    last,
    metric,
    rate,
)

MESH_NODES = f"max({last('mesh_nodes', MESH)})"
"""How many nodes the mesh file has."""
ROUND_OF = by_node(f"{last('round')} or {last('node_round')}")
"""Last round of each node: its own word, or that of its heartbeats, which stays when it is gone."""
SPEED_OF = f"({by_node(rate('rounds_total'))} or {by_node(rate('node_round'))})"
"""Rounds a second of each node: its own word, or that of its heartbeats; 0 of one that is gone."""


OVER = f"max({last('run_over', MESH)}) == 1 unless on () count({metric('run_over', MESH)} == 0)"
"""1 where a process has said that the run is over, and none says otherwise; else nothing."""
NO_SCHEDULER = (
    f"0 * (max({last('live_nodes', MESH)}) unless on () max({metric('live_nodes', MESH)})) "
    f"and on () count({metric('build_info', MESH)}) unless on () ({OVER})"
)
"""0 where a scheduler was seen, none answers, and nodes do; else nothing."""
NO_BROKER = f"count({metric('broker_connected', MESH)} == 0)"
"""How many processes the mesh broker does not answer; nothing where it answers all."""


NO_PLAN = (
    f"0 * (max({metric('plan_lead_rounds', NODES)}) == 0) "
    f"unless on () (max({last('live_nodes', MESH)}) or ({OVER}))"
)
"""0 where nodes wait for plans and no scheduler was seen, as a party sees them; else nothing."""


def of_all(count: str, name: str, stopped: str = "", everyone: str = MESH_NODES) -> tuple[Query, ...]:
    """Return `count` of all nodes of the mesh file: red where it is less; 0 where nothing is counted.

    `everyone`: how many there must be.
    `stopped`: an expression that has a value where the mesh stops although all are there: red too. Once the
    run is over nothing is counted.
    """
    counted = f"(({count} or 0 * {everyone}) unless on () ({OVER}))"
    green, red = f"{counted} >= {everyone}", f"{counted} < {everyone}"
    if stopped:
        green, red = f"({green}) unless on () ({stopped})", f"({red}) or ({counted} and on () ({stopped}))"
    return (Query(green, name, GREEN), Query(red, name, RED), Query(everyone, "of", GREY))


LIVE = Panel(
    "Live nodes",
    "Nodes that a scheduler has heard within the silence limit, of those of the mesh file. Where no "
    "scheduler answers: members of the last plan that nodes know. Red also where the scheduler or the mesh "
    "broker has stopped, or plans are missing: then rounds stop too.",
    COUNT,
    (
        *of_all(
            f"max({metric('live_nodes', MESH)}) or max({metric('plan_members', NODES)}) "
            f"or count({by_node(metric('round'))})",
            "live",
            f"{NO_SCHEDULER} or {NO_BROKER} or {NO_PLAN}",
        ),
        Query(f"0 * ({OVER})", "live: the run is over", GREY),
        Query(NO_SCHEDULER, "schedulers", RED),
        Query(NO_BROKER, "without the broker", RED),
        Query(NO_PLAN, "plans ahead", RED),
    ),
    "stat",
    width=4,
    height=5,
)
HERE = f"count({metric('build_info', MESH)})"
SLOWEST = Panel(
    "Slowest node's round",
    "Last round that every chosen node has stepped, those that are gone included. Grey: the run is over, or "
    "no process of the mesh answers; then it may be a scrape behind.",
    COUNT,
    (
        Query(f"min({ROUND_OF}) and on () {HERE} unless on () ({OVER})", "is at", BLUE),
        Query(
            f"(max({last('round')}) or max({last('plan_round', MESH)}) - 1) and on () ({OVER})",
            "over at",
            GREY,
        ),  # the last plan, which ends the run, is of the round after its last; heartbeats are older than it
        Query(f"min({ROUND_OF}) unless on () ({HERE} or ({OVER}))", "last seen at", GREY),
    ),
    "stat",
    width=4,
    height=5,
)
SPEED = Panel(
    "Rounds a second",
    "Of the slowest and the fastest chosen node; they differ for long only where one is away.",
    PER_SECOND,
    (Query(f"min({SPEED_OF})", "slowest"), Query(f"max({SPEED_OF})", "fastest")),
    "stat",
    ((None, RED), (0.001, GREEN)),
    width=4,
    height=5,
    nothing="no rounds",
)
UNPROTECTED = Panel(
    "Unprotected nodes",
    "Nodes whose noise is seeded, or whose mechanism is none. Nothing of theirs is protected.",
    COUNT,
    (
        Query(
            f"count({by_node(last('simulated_noise') + ' == 1')} or "
            f"{by_node(last('mechanism_info', NO_MECHANISM))}) or 0 * count({last('simulated_noise')})",
            "nodes",
        ),
    ),
    "stat",
    ((None, GREEN), (1, RED)),
    width=4,
    height=5,
)
