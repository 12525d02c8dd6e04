"""The catalogue of metrics: one line makes a metric. Each name begins with `mirrormesh_`.

`SharedMetric`: functions of releases, plans, settings and peers' messages; anyone may see them.
`PrivateMetric`: all metrics that depend on data, for its owner. Each registry accepts one of these types.
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
_NODE = ("node",)
_ADJACENCY = ("adjacency",)


class SharedMetric(Enum):
    """Metrics that everyone may see."""

    # every process
    BUILD = Metric("build_info", "gauge", "", "Always 1; the version of mirrormesh.", ("version",))
    CONNECTED = Metric("broker_connected", "gauge", "", "Whether the mesh broker answers: 1 or 0.")
    RUN_OVER = Metric(
        "run_over",
        "gauge",
        "",
        "1 once the run is over, else 0. A process whose metrics are read regularly serves the 1 until they "
        "were read twice, and a minute at most.",
    )
    REFUSED = Metric(
        "messages_refused_total", "counter", "messages", "Messages of peers that were refused.", ("reason",)
    )
    CERTIFICATE = Metric(
        "certificate_end_timestamp_seconds",
        "gauge",
        "seconds",
        "When the first of the certificates for the mesh broker ends; +Inf: there is none.",
    )
    FILE_GENERATION = Metric("file_generation", "gauge", "", "Generation of the process's mesh file.")
    PLAN_GENERATION = Metric(
        "plan_generation", "gauge", "", "Generation of the newest mesh file that a plan was made by."
    )
    # a node's rounds
    ROUND = Metric("round", "gauge", "rounds", "Last round that was stepped; 0: none.")
    ROUNDS = Metric("rounds_total", "counter", "rounds", "Rounds stepped since the process started.")
    LAST_ROUND = Metric(
        "last_round_timestamp_seconds",
        "gauge",
        "seconds",
        "Time of this process's last step, rounded down to 0.1 s; 0: not yet.",
    )
    INTERVAL = Metric(
        "round_interval_seconds",
        "histogram",
        "seconds",
        "Time from one step to the next; the sum is rounded to 0.1 s.",
    )
    EDGES_ON = Metric("edges_on", "gauge", "edges", "In-edges in the plan of the last decided round.")
    EDGE_ON = Metric("edge_on", "gauge", "", "Whether that plan has the in-edge: 1 or 0.", _SOURCE)
    NEIGHBOUR_WAIT = Metric(
        "neighbour_wait_seconds_total",
        "counter",
        "seconds",
        "Time spent waiting for neighbours' releases, from moments rounded to 0.1 s.",
    )
    PLAN_WAIT = Metric(
        "plan_wait_seconds_total",
        "counter",
        "seconds",
        "Time spent waiting for the next plan, with all releases there, from moments rounded to 0.1 s.",
    )
    GAP = Metric(
        "consensus_gap", "gauge", "", "max_j ||q_j - q_i||_2 over the releases of the last decided round."
    )
    LAST_HEARD = Metric(
        "neighbour_last_heard_timestamp_seconds",
        "gauge",
        "seconds",
        "When this process last read a release of the neighbour, rounded down to 0.1 s; 0: not yet.",
        _SOURCE,
    )
    # a node's messages
    SENT = Metric(
        "releases_sent_total",
        "counter",
        "releases",
        "Releases sent: one an edge, or with outboxes one a round.",
    )
    RECEIVED = Metric("releases_received_total", "counter", "releases", "Releases read, by source.", _SOURCE)
    GIVEN_UP = Metric(
        "releases_given_up_total", "counter", "releases", "Releases missing at the deadline.", _SOURCE
    )
    CORRECTED = Metric(
        "late_corrections_total", "counter", "releases", "Late releases corrected for.", _SOURCE
    )
    EVIDENCE = Metric(
        "evidence_total",
        "counter",
        "releases",
        "Second values for a round; if it is known who writes, the source then counts as silent.",
        _SOURCE,
    )
    ACCUSED = Metric(
        "accusations_total",
        "counter",
        "heartbeats",
        "Heartbeats of the node's readers that say they have two values of its for a round.",
    )
    IGNORED = Metric(
        "releases_ignored_total", "counter", "releases", "Duplicate, stale and overfull releases.", _SOURCE
    )
    PLANS_IGNORED = Metric(
        "plans_ignored_total", "counter", "plans", "Plans that do not follow the last valid one."
    )
    JOINS = Metric("joins_asked_total", "counter", "joins", "Times the node has asked to join again.")
    # a node's account
    MECHANISM = Metric(
        "mechanism_info", "gauge", "", "Always 1; the mechanism that makes releases private.", ("mechanism",)
    )
    OF_RELEASE = Metric(
        "release_epsilon",
        "gauge",
        "epsilon",
        "Epsilon charged for one release; +Inf: not private.",
        _ADJACENCY,
    )
    SPENT = Metric(
        "epsilon_spent",
        "gauge",
        "epsilon",
        "Epsilon spent in this run, of one record (event), one person (unit) or the whole stream (stream).",
        _ADJACENCY,
    )
    BUDGET = Metric(
        "epsilon_budget", "gauge", "epsilon", "Epsilon that may be spent; +Inf: no limit.", _ADJACENCY
    )
    LEFT = Metric("epsilon_left", "gauge", "epsilon", "Rest of the budget.", _ADJACENCY)
    LAST_LEARNING = Metric(
        "last_learning_round", "gauge", "rounds", "Last round that the budget pays for; +Inf: no limit."
    )
    RELAYING = Metric(
        "relaying", "gauge", "", "Whether the last learning round is over, so that the node only relays."
    )
    UNUSED = Metric(
        "budget_unused_rounds",
        "gauge",
        "rounds",
        "Rounds of the budget that a relaying node has not used, as it was away; 0 while it learns.",
    )
    SIMULATED = Metric(
        "simulated_noise", "gauge", "", "1: the noise is seeded, so nothing is protected, whatever is spent."
    )
    # the learner and the owners of a collaboration
    QUERY = Metric("query", "gauge", "queries", "Last query that is asked, or answered; 0: none.")
    QUERIES = Metric("queries", "gauge", "queries", "Queries of the run.")
    ANSWERED = Metric("owners_answered", "gauge", "owners", "Owners whose answers made the last step.")
    LEFT_OUT = Metric(
        "owner_left_out_total",
        "counter",
        "queries",
        "Queries that went on without this owner's answer.",
        ("owner",),
    )
    SECOND_RESPONSES = Metric(
        "owner_evidence_total",
        "counter",
        "responses",
        "Second responses of this owner to one query, with other bytes.",
        ("owner",),
    )
    QUERIES_REFUSED = Metric(
        "queries_refused_total",
        "counter",
        "queries",
        "Queries that an owner refused: at another theta (changed), out of order (skipped), beyond the last.",
        ("reason",),
    )
    # a scheduler; of the first four each node shows what it knows
    PLANNED = Metric("plan_round", "gauge", "rounds", "Round of the last valid plan known; 0: none.")
    NODES = Metric("mesh_nodes", "gauge", "nodes", "Nodes of the mesh file, live or not.")
    MEMBERS = Metric("plan_members", "gauge", "nodes", "Members of the last valid plan.")
    LEAD = Metric(
        "plan_lead_rounds",
        "gauge",
        "rounds",
        "Rounds to the last plan known: from the slowest live member's last step, or from a node's own.",
    )
    PUBLISHED = Metric("plans_published_total", "counter", "plans", "Plans that this scheduler published.")
    LIVE = Metric("live_nodes", "gauge", "nodes", "Nodes heard within the silence limit.")
    HELD_OTHERS = Metric(
        "nodes_left_out_total",
        "counter",
        "nodes",
        "Times that this scheduler left the node out of the plans, as it had held the others for too long.",
        _NODE,
    )
    LAST_SEEN = Metric(
        "node_last_seen_timestamp_seconds",
        "gauge",
        "seconds",
        "Time of the node's last heartbeat, rounded down to 0.1 s; 0: none in this run.",
        _NODE,
    )
    STARTS = Metric(
        "node_starts_total",
        "counter",
        "starts",
        "Starts of the node's process that this scheduler has heard.",
        _NODE,
    )
    NODE_ROUND = Metric(
        "node_round",
        "gauge",
        "rounds",
        "Last round that the node's heartbeats report as stepped; 0: none.",
        _NODE,
    )


class PrivateMetric(Enum):
    """Metrics that only the owner of the data may see."""

    RUN_OVER = Metric("private_run_over", "gauge", "", "As `run_over`, where private metrics are served.")

    DATA_CERTIFICATE = Metric(
        "data_certificate_end_timestamp_seconds",
        "gauge",
        "seconds",
        "When the first of the certificates for the data broker ends; +Inf: there is none.",
    )
    REGISTRY = Metric(
        "registry_answers",
        "gauge",
        "",
        "Whether the schema registry of the node's source answers: 1 or 0. While it does not, no records are "
        "taken in.",
    )
    REGRET = Metric(
        "regret",
        "gauge",
        "loss",
        "The node's own first-order regret (of its own losses alone) since the process started, an upper "
        "bound of its own regret for convex losses. A sum over nodes is not the network's.",
    )
    AVERAGE = Metric("regret_average", "gauge", "loss", "The node's own regret per round.")
    LOSS = Metric(
        "loss_average",
        "gauge",
        "loss",
        "Mean over rounds of the slot's mean loss, at the decision made before it.",
    )
    DECISION = Metric(
        "decision", "gauge", "", "The last decision, if it has few coordinates.", ("coordinate",)
    )
    TARGET = Metric(
        "target",
        "gauge",
        "",
        "The right decision by the last slot's records; NaN: not known.",
        ("coordinate",),
    )
    ERROR = Metric(
        "tracking_error", "gauge", "", "||decision - target||_2 of the last round; NaN: not known."
    )
    ERRORS = Metric(
        "tracking_error_minute",
        "gauge",
        "",
        "Quantiles of ||decision - target||_2 over the rounds of the last minute; NaN: not known.",
        ("percentile",),
    )
    DYNAMIC = Metric(
        "regret_dynamic",
        "gauge",
        "loss",
        "The node's own first-order regret against the target's path since the process started, over rounds "
        "whose target is known.",
    )
    LATENCY = Metric(
        "decision_latency_seconds",
        "histogram",
        "seconds",
        "Time from the close of a slot to the decision that its records have changed.",
    )
    RECORDS = Metric("records_total", "counter", "records", "Records in the slots of rounds stepped.")
    MALFORMED = Metric(
        "malformed_records_total", "counter", "records", "Records in these slots that could not be decoded."
    )
    PREDICTIONS = Metric(
        "predictions_total",
        "counter",
        "records",
        "Records whose class was predicted right or wrong before learning; for losses with classes.",
        ("outcome",),
    )
    AUC = Metric(
        "before_learning_auc",
        "gauge",
        "",
        "AUC of pairs of records of one round, predicted before they were learnt from: its value, and the "
        "least and greatest of its 95 % interval; NaN: not known. For losses of two classes.",
        ("bound",),
    )
    GAIN = Metric(
        "before_learning_gain",
        "gauge",
        "",
        "How much better records were predicted before learning than by guessing: accuracy above that of the "
        "commonest class, or error below that of the mean so far; bounds as of before_learning_auc.",
        ("bound",),
    )
    RISES = Metric(
        "loss_rises_total",
        "counter",
        "rises",
        "Times that the loss of a round's records, predicted before learning, rose for good (Page-Hinkley).",
    )
    CLIPPED = Metric("clipped_gradients_total", "counter", "gradients", "Gradients shortened by the clip.")
    BROKEN = Metric("broken_gradients_total", "counter", "gradients", "Gradients that were not finite.")
    FAILED = Metric(
        "own_loss_failures_total",
        "counter",
        "calls",
        "Calls of the node's own loss that raised, or gave no array of the right shape.",
    )
    EMPTY = Metric("empty_slots_total", "counter", "slots", "Slots without a record.")
    DROPPED = Metric(
        "dropped_records_total",
        "counter",
        "records",
        "Records that entered no slot, and messages that hold no record.",
        ("reason",),
    )
    LABELS = Metric(
        "later_labels_total",
        "counter",
        "labels",
        "Labels that come later than their records: those that came, could not be read, came too late for a "
        "record, and ended by their age without one (unmatched).",
        ("fate",),
    )
    HELD_UP = Metric(
        "records_held_up",
        "gauge",
        "records",
        "Where labels come later and slots go by count: records from the first one on in a partition that is "
        "dated more than a minute ahead. They wait for it, at most as long as for a label. Looked up each "
        "minute.",
    )
    DATA_WAIT = Metric(
        "data_wait_seconds_total",
        "counter",
        "seconds",
        "Time spent waiting for the records of a slot.",
    )
    STEP = Metric("step_seconds", "histogram", "seconds", "Time of a step, its journal commit included.")
    COMMIT = Metric("journal_commit_seconds", "histogram", "seconds", "Time until a record was durable.")
    JOURNAL = Metric("journal_bytes", "gauge", "bytes", "Size of the journal, its write-ahead log included.")
    PASS = Metric("pass_seconds", "histogram", "seconds", "Time of a pass over an owner's set of records.")
    # a process that scores messages
    SCORES = Metric(
        "scored_messages_total",
        "counter",
        "messages",
        "Messages scored, unreadable, and without a record, as far as that is written for good.",
        ("outcome",),
    )
    SCORE_LAG = Metric(
        "score_lag_messages", "gauge", "messages", "Offsets of messages not scored yet; NaN: not known."
    )
    SCORE_LATENCY = Metric(
        "score_latency_seconds",
        "histogram",
        "seconds",
        "Time from a message's timestamp until its score was written for good.",
    )
    SCORE_ROUND = Metric(
        "score_model_round", "gauge", "rounds", "Round of the model that scores; NaN: none yet."
    )
    SCORE_MODEL = Metric(
        "score_model_timestamp_seconds",
        "gauge",
        "seconds",
        "When the decision that scores was made; NaN: not known, as of a model file.",
    )
    # a process that feeds records
    FED = Metric(
        "fed_records_total",
        "counter",
        "records",
        "Records that this process has fed: readable, and malformed, of which the dead letters tell.",
        ("outcome",),
    )
    FEED_LINE = Metric(
        "feed_line",
        "gauge",
        "lines",
        "Lines of the source that the data topic has; NaN: not known.",
    )
    FEED_OTHERS = Metric(
        "feed_foreign_records",
        "gauge",
        "records",
        "Records that others have written to the data topic, behind which the feed goes on; NaN: not known.",
    )
    FEED_WAITING = Metric(
        "feed_unacknowledged_records",
        "gauge",
        "records",
        "Records sent and not acknowledged by the broker.",
    )
    FEED_OVER = Metric("feed_over", "gauge", "", "1 once the whole source is fed, else 0.")
    FEED_FAILED = Metric(
        "feed_failed",
        "gauge",
        "",
        "1 once the feed has failed, else 0. It serves the 1 until it was read twice, and a minute at most.",
    )
    # a node's stream
    LAG = Metric(
        "data_lag_records", "gauge", "records", "Offsets of committed records not read yet; NaN: not known."
    )
