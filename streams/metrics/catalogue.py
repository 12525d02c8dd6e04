"""The catalogue of metrics: one line makes a metric. Each name begins with `mirrormesh_`.

`SharedMetric`: functions of releases, plans, settings and peers' messages; anyone may see them.
`PrivateMetric`: everything that depends on data, for its owner. Each registry takes one of these types.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

PREFIX = "mirrormesh"
"""The prefix of every name, followed by an underscore."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `labels` come in addition to `mesh` and, in a node's process, `node`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    help: str
    labels: tuple[str, ...] = ()


_SOURCE = ("edge_source",)
_ADJACENCY = ("adjacency",)


class SharedMetric(Enum):
    """Metrics that everyone may see."""

    # every process
    BUILD = Metric("build_info", "gauge", "", "Always 1; the version of mirrormesh.", ("version",))
    CONNECTED = Metric("broker_connected", "gauge", "", "Whether the mesh broker answers: 1 or 0.")
    REFUSED = Metric(
        "messages_refused_total", "counter", "messages", "Peers' messages that were refused.", ("reason",)
    )
    # a node's rounds
    ROUND = Metric("round", "gauge", "rounds", "Last round that was stepped; 0: none.")
    ROUNDS = Metric("rounds_total", "counter", "rounds", "Rounds stepped since the process started.")
    LAST_ROUND = Metric(
        "last_round_timestamp_seconds",
        "gauge",
        "seconds",
        "When this process last stepped, rounded down to 0.1; 0: not yet.",
    )
    INTERVAL = Metric(
        "round_interval_seconds",
        "histogram",
        "seconds",
        "Time from one step to the next; its sum is of moments to 0.1.",
    )
    EDGES_ON = Metric("edges_on", "gauge", "edges", "In-edges in the plan of the last decided round.")
    EDGE_ON = Metric("edge_on", "gauge", "", "Whether that plan has the in-edge: 1 or 0.", _SOURCE)
    NEIGHBOUR_WAIT = Metric(
        "neighbour_wait_seconds_total",
        "counter",
        "seconds",
        "Time in rounds whose releases were not all there; of moments to 0.1.",
    )
    PLAN_WAIT = Metric(
        "plan_wait_seconds_total",
        "counter",
        "seconds",
        "Time in rounds that had their releases and lacked the next plan; of moments to 0.1.",
    )
    GAP = Metric(
        "consensus_gap", "gauge", "", "max_j ||q_j - q_i||_2 over the releases of the last decided round."
    )
    # a node's messages
    SENT = Metric("releases_sent_total", "counter", "releases", "Releases sent, one for each edge.")
    RECEIVED = Metric("releases_received_total", "counter", "releases", "Releases read, by source.", _SOURCE)
    GIVEN_UP = Metric(
        "releases_given_up_total", "counter", "releases", "Releases not there at the deadline.", _SOURCE
    )
    CORRECTED = Metric("late_corrections_total", "counter", "releases", "Late releases made good.", _SOURCE)
    EVIDENCE = Metric(
        "evidence_total", "counter", "releases", "Second values for a round: the source is silenced.", _SOURCE
    )
    IGNORED = Metric(
        "releases_ignored_total", "counter", "releases", "Duplicate, stale and overfull releases.", _SOURCE
    )
    PLANS_IGNORED = Metric("plans_ignored_total", "counter", "plans", "Plans that were out of their place.")
    JOINS = Metric("joins_asked_total", "counter", "joins", "Times the node has asked to join again.")
    # a node's account
    MECHANISM = Metric(
        "mechanism_info", "gauge", "", "Always 1; what makes releases private.", ("mechanism",)
    )
    OF_RELEASE = Metric(
        "release_epsilon", "gauge", "epsilon", "Of one release, to be charged; +Inf: not private.", _ADJACENCY
    )
    SPENT = Metric(
        "epsilon_spent",
        "gauge",
        "epsilon",
        "Spent in this run: by one record (event), by the whole stream (stream).",
        _ADJACENCY,
    )
    BUDGET = Metric("epsilon_budget", "gauge", "epsilon", "What may be spent; +Inf: no limit.", _ADJACENCY)
    LEFT = Metric("epsilon_left", "gauge", "epsilon", "Budget less what is spent.", _ADJACENCY)
    LAST_LEARNING = Metric(
        "last_learning_round", "gauge", "rounds", "The budget lasts to this round; +Inf: for ever."
    )
    RELAYING = Metric("relaying", "gauge", "", "Whether the budget is spent, so that the node only relays.")
    SIMULATED = Metric(
        "simulated_noise", "gauge", "", "1: the noise is seeded, so nothing is protected, whatever is spent."
    )
    # a scheduler
    PLANNED = Metric("plan_round", "gauge", "rounds", "Round of the last valid plan; 0: none.")
    PUBLISHED = Metric("plans_published_total", "counter", "plans", "Plans that this scheduler published.")
    MEMBERS = Metric("plan_members", "gauge", "nodes", "Members of the last valid plan.")
    LIVE = Metric("live_nodes", "gauge", "nodes", "Nodes that were heard within the silence limit.")
    LEAD = Metric(
        "plan_lead_rounds", "gauge", "rounds", "From the slowest live member's last step to the last plan."
    )


class PrivateMetric(Enum):
    """Metrics that only the owner of the data may see."""

    REGRET = Metric(
        "regret",
        "gauge",
        "loss",
        "First-order regret since the process started: for convex losses, the regret is at most that.",
    )
    AVERAGE = Metric("regret_average", "gauge", "loss", "The regret, divided by the rounds that it is of.")
    LOSS = Metric(
        "loss_average",
        "gauge",
        "loss",
        "Mean over rounds of the slot's mean loss, at the decision before it.",
    )
    DECISION = Metric(
        "decision", "gauge", "", "The last decision, where it has few coordinates.", ("coordinate",)
    )
    TARGET = Metric(
        "target",
        "gauge",
        "",
        "Where the last slot's records say that the decision should be; NaN: they do not say.",
        ("coordinate",),
    )
    ERROR = Metric(
        "tracking_error", "gauge", "", "||decision - target||_2 of the last round; NaN: not known."
    )
    RECORDS = Metric("records_total", "counter", "records", "Records in the slots of rounds stepped.")
    MALFORMED = Metric(
        "malformed_records_total", "counter", "records", "Those of them that could not be decoded."
    )
    PREDICTIONS = Metric(
        "predictions_total",
        "counter",
        "records",
        "Records whose class the decision before them said or not; for losses with classes.",
        ("outcome",),
    )
    CLIPPED = Metric(
        "clipped_gradients_total", "counter", "gradients", "Gradients that the clip made shorter."
    )
    BROKEN = Metric("broken_gradients_total", "counter", "gradients", "Gradients that were no numbers.")
    EMPTY = Metric("empty_slots_total", "counter", "slots", "Slots without a record.")
    DROPPED = Metric(
        "dropped_records_total", "counter", "records", "Records that entered no slot.", ("reason",)
    )
    DATA_WAIT = Metric(
        "data_wait_seconds_total",
        "counter",
        "seconds",
        "Time in rounds that lacked the records of their slot.",
    )
    STEP = Metric(
        "step_seconds", "histogram", "seconds", "Time that a step took, its journal commit included."
    )
    COMMIT = Metric("journal_commit_seconds", "histogram", "seconds", "Time until a record was durable.")
    JOURNAL = Metric("journal_bytes", "gauge", "bytes", "Size of the journal, its write-ahead log included.")
    LAG = Metric("data_lag_records", "gauge", "records", "Records not read yet; NaN: not known.")
