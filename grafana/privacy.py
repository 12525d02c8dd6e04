"""Dashboard `privacy`: what is protected, what is spent, what is left?"""

from grafana.panels import BLUE, GREEN, GREY, ORANGE, RED, Panel, Query, Row, metric, rate

TITLE = "mirrormesh: privacy"
DESCRIPTION = "What is protected, what is spent, how much is left? No record moves any of it."
EVENT = '{mesh="$mesh",node=~"$node",adjacency="event"}'
STREAM = '{mesh="$mesh",node=~"$node",adjacency="stream"}'

PROMISE = Row(
    "Promise",
    (
        Panel(
            "Mechanism",
            "What makes each node's releases private. `none` protects nothing.",
            "none",
            (Query(metric("mechanism_info"), "{{node}}: {{mechanism}}"),),
            "stat",
            ((None, BLUE),),
            (("1", "on", BLUE),),
            width=12,
            height=6,
        ),
        Panel(
            "Simulated noise",
            "Whether a node's noise is seeded: then whoever has the seed can subtract it, and nothing "
            "is protected.",
            "none",
            (Query(metric("simulated_noise")),),
            "stat",
            ((None, GREEN), (1, RED)),
            (("0", "exact", GREEN), ("1", "simulated", RED)),
            width=12,
            height=6,
        ),
        Panel(
            "Epsilon of a record",
            "Event level: what all of a node's releases together tell of one record, however long the run.",
            "none",
            (Query(metric("release_epsilon", EVENT)),),
            "stat",
            ((None, GREEN), (3, ORANGE), (10, RED)),
            width=12,
            height=6,
        ),
        Panel(
            "Epsilon of a round",
            "Stream level: what the first charged round costs, where a node's whole stream is to be "
            "protected.",
            "none",
            (Query(metric("release_epsilon", STREAM)),),
            "stat",
            ((None, GREY),),
            width=12,
            height=6,
        ),
    ),
)
ACCOUNT = Row(
    "Account",
    (
        Panel(
            "Spent, stream level",
            "Epsilon of the whole stream so far in this run; it grows with each round that learns.",
            "none",
            (Query(metric("epsilon_spent", STREAM)),),
            least=0,
        ),
        Panel(
            "Budget spent",
            "Share of the stream-level budget; nodes without a budget are left out. At 100 % a node "
            "only relays.",
            "percentunit",
            (Query(f"{metric('epsilon_spent', STREAM)} / ({metric('epsilon_budget', STREAM)} < Inf)"),),
            steps=((None, GREEN), (0.8, ORANGE), (1, RED)),
            least=0,
        ),
        Panel(
            "Rounds left",
            "Rounds in which a node may still learn; nodes without an end are left out.",
            "none",
            (Query(f"clamp_min(({metric('last_learning_round')} < Inf) - {metric('round')}, 0)"),),
            steps=((None, RED), (1, ORANGE), (100, GREEN)),
            least=0,
        ),
        Panel(
            "Learning or relaying",
            "A node whose budget is spent relays: it passes on what it hears, and learns from no record.",
            "none",
            (Query(metric("relaying")),),
            "states",
            ((None, GREEN), (1, ORANGE)),
            (("0", "learns", GREEN), ("1", "relays", ORANGE)),
            width=12,
        ),
        Panel(
            "Refusals and evidence",
            "Peers' messages refused, second values for a round, and times a node asked to join again.",
            "none",
            (
                Query(f"sum by (mesh, node) ({rate('messages_refused_total')})", "{{node}} refused"),
                Query(f"sum by (mesh, node) ({rate('evidence_total')})", "{{node}} evidence"),
                Query(rate("joins_asked_total"), "{{node}} joins"),
            ),
            width=12,
            least=0,
        ),
    ),
)
ROWS = (PROMISE, ACCOUNT)
