"""Dashboard `privacy`: what is protected, what is spent, what is left?"""

from grafana.panels import (
    BLUE,
    COUNT,
    GREEN,
    GREY,
    NO_MECHANISM,
    NUMBER,
    ORANGE,
    PER_SECOND,
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

TITLE = "mirrormesh: privacy"
DESCRIPTION = "What is protected, what is spent, how much is left? No record moves any of it."
EVENT = '{mesh="$mesh",node=~"$node",adjacency=~"event|unit"}'
SOME = '{mesh="$mesh",node=~"$node",mechanism!="none"}'
PROTECTING = f"({last('simulated_noise')} unless on (mesh, node) {last('mechanism_info', NO_MECHANISM)})"


def by_mechanism(selector: str) -> str:
    """Return a series for each node that has such a mechanism."""
    return f"max by (mesh, node, mechanism) ({last('mechanism_info', selector)})"


PROMISE = Row(
    "Promise",
    (
        Panel(
            "Mechanism",
            "What makes releases private, and of how many nodes. `none` protects nothing.",
            COUNT,
            (
                Query(f"count by (mechanism) ({by_mechanism(SOME)})", "{{mechanism}}", BLUE),
                Query(f"count by (mechanism) ({by_mechanism(NO_MECHANISM)})", "{{mechanism}}", RED),
            ),
            "stat",
            width=12,
            height=6,
        ),
        Panel(
            "Simulated noise",
            "How many nodes draw exact noise, and how many seeded noise: then whoever has the seed can "
            "subtract it, and nothing is protected.",
            COUNT,
            (
                Query(f"count({PROTECTING} == 0)", "exact", GREEN),
                Query(f"count({PROTECTING} == 1)", "simulated", RED),
                Query(f"count({by_mechanism(NO_MECHANISM)})", "no noise", RED),
            ),
            "stat",
            width=12,
            height=6,
        ),
        Panel(
            "Epsilon of a record",
            "Event level: what all of a node's releases together tell of one record, however long the run.",
            NUMBER,
            (Query(by_node(last("release_epsilon", EVENT))),),
            "stat",
            ((None, GREEN), (3, ORANGE), (10, RED)),
            width=12,
            height=6,
        ),
        Panel(
            "Epsilon of a round",
            "Stream level: what the first charged round costs, where a node's whole stream is to be "
            "protected.",
            NUMBER,
            (Query(by_node(last("release_epsilon", STREAM))),),
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
            NUMBER,
            (Query(metric("epsilon_spent", STREAM)),),
            least=0,
            axis="epsilon",
        ),
        Panel(
            "Budget spent",
            "Share of the stream-level budget; nodes without a budget are left out. At 100 % a node "
            "only relays.",
            SHARE,
            (Query(f"{metric('epsilon_spent', STREAM)} / ({metric('epsilon_budget', STREAM)} < Inf)"),),
            steps=((None, GREEN), (0.8, ORANGE), (1, RED)),
            least=0,
        ),
        Panel(
            "Rounds left",
            "Rounds in which a node may still learn; nodes without an end are left out.",
            COUNT,
            (Query(f"clamp_min(({metric('last_learning_round')} < Inf) - {metric('round')}, 0)"),),
            steps=((None, RED), (1, ORANGE), (100, GREEN)),
            least=0,
            axis="rounds",
        ),
        Panel(
            "Rounds not used",
            "Rounds of its budget that a relaying node has not used: it was away while others learnt.",
            COUNT,
            (Query(metric("budget_unused_rounds")),),
            steps=((None, GREEN), (1, ORANGE)),
            least=0,
            axis="rounds",
        ),
        Panel(
            "Learning or relaying",
            "After its last learning round a node relays: it passes on, and learns from no record.",
            NUMBER,
            (Query(metric("relaying")),),
            "states",
            ((None, GREEN), (1, ORANGE)),
            (("0", "learns", GREEN), ("1", "relays", ORANGE)),
        ),
        Panel(
            "Refusals and evidence",
            "Peers' messages refused, second values for a round, and whom readers accuse of them; joins.",
            PER_SECOND,
            (
                Query(f"sum by (mesh, node) ({rate('messages_refused_total')})", "{{node}} refused"),
                Query(f"sum by (mesh, node) ({rate('evidence_total')})", "{{node}} evidence"),
                Query(rate("accusations_total"), "{{node}} accused"),
                Query(rate("joins_asked_total"), "{{node}} joins"),
            ),
            least=0,
        ),
    ),
)
COLLABORATION = Row(
    "Collaboration",
    (
        Panel(
            "Spent by owners",
            "Share of the epsilon that an owner may spend in this run. After the last query it is all spent, "
            "and no more is answered.",
            SHARE,
            (Query(f"{metric('epsilon_spent', EVENT)} / ({metric('epsilon_budget', EVENT)} < Inf)"),),
            least=0,
        ),
        Panel(
            "Epsilon that owners may spend",
            "On one record, by all answers of an owner together.",
            NUMBER,
            (Query(by_node(f"{last('epsilon_budget', EVENT)} < Inf")),),
            "stat",
            ((None, GREEN), (3, ORANGE), (10, RED)),
        ),
        Panel(
            "Queries",
            "The last query that the learner has asked, and each owner answered, of those of the run.",
            COUNT,
            (Query(metric("query")), Query(f"max by (mesh) ({metric('queries')})", "of")),
            least=0,
            axis="queries",
        ),
        Panel(
            "Owners that answered",
            "How many owners' answers made the learner's last step.",
            COUNT,
            (Query(metric("owners_answered"), "answered"),),
            least=0,
            axis="owners",
        ),
        Panel(
            "Owners left out",
            "Queries that went on without an owner's answer, as it did not come in time.",
            PER_SECOND,
            (Query(f"sum by (mesh, owner) ({rate('owner_left_out_total')})", "{{owner}}"),),
            least=0,
        ),
        Panel(
            "Refused and answered twice",
            "Queries that an owner refused: at another theta, out of order, beyond the last. Second answers "
            "of an owner to one query, with other bytes.",
            PER_SECOND,
            (
                Query(
                    f"sum by (mesh, node, reason) ({rate('queries_refused_total')})", "{{node}} {{reason}}"
                ),
                Query(f"sum by (mesh, owner) ({rate('owner_evidence_total')})", "{{owner}} second answers"),
            ),
            least=0,
        ),
    ),
    "of a learner and owners",
)
ROWS = (PROMISE, ACCOUNT, COLLABORATION)
