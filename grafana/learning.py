"""Dashboard `learning`: does it learn? Of private metrics, so for owners, on their own Prometheus."""

from grafana.panels import (
    BLUE,
    BYTES,
    COUNT,
    GREEN,
    GREY,
    NUMBER,
    ORANGE,
    PER_SECOND,
    RED,
    SECONDS,
    SHARE,
    TARGET,
    Panel,
    Query,
    Row,
    last,
    metric,
    quantile,
    rate,
)

TITLE = "mirrormesh: learning"
DESCRIPTION = (
    "Does it learn, and does the data come? For owners of data: it needs their nodes' private endpoints."
)

RIGHT = '{mesh="$mesh",node=~"$node",outcome="right"}'


def _places(coordinate: int) -> Query:
    """Return one coordinate of every place on the map; `> -Inf` leaves out what is not known (NaN)."""
    chosen = f'{{mesh="$mesh",node=~"$node",coordinate="{coordinate}"}}'
    decisions = f"sum by (node) ({metric('decision', chosen)})"
    return Query(
        f'{decisions} or label_replace(avg({metric("target", chosen)} > -Inf), "node", "{TARGET}", "", "")'
    )


REGRET = Row(
    "Own regret",
    (
        Panel(
            "Each node's own regret a round",
            "First order, of the node's own losses alone, since its process started; beside 1/sqrt(round) "
            "for its slope. For convex losses the node's own regret is at most that. The network's is not "
            "shown: it needs all nodes' data in one place.",
            NUMBER,
            (
                Query(metric("regret_average")),
                Query(f"max(1 / sqrt({metric('round')} > 0))", "1/sqrt(round)"),
            ),
            width=12,
            log=True,
            axis="loss",
        ),
        Panel(
            "Each node's own regret",
            "First order, of the node's own losses alone, since its process started; and the sum over the "
            "chosen nodes. The sum is not the network's regret: each node is compared with the best fixed "
            "decision for itself. Against the target's path where the records say it.",
            NUMBER,
            (
                Query(metric("regret")),
                Query(f"sum({last('regret')})", "sum of own regrets"),
                Query(metric("regret_dynamic"), "{{node}} against the target's path"),
            ),
            width=12,
            axis="loss",
        ),
        Panel(
            "Loss",
            "Mean loss of the records, each at the decision that was made before it was seen.",
            NUMBER,
            (Query(metric("loss_average")),),
            width=8,
            least=0,
            axis="loss",
        ),
        Panel(
            "Decision",
            "The coordinates of each node's last decision, where there are eight or fewer.",
            NUMBER,
            (Query(metric("decision"), "{{node}} x{{coordinate}}"),),
            width=8,
            axis="coordinate",
        ),
    ),
)
PREDICTIONS = Row(
    "Predictions before learning",
    (
        Panel(
            "Accuracy",
            "Share of records whose class the decision before them said. Empty for losses without classes.",
            SHARE,
            (
                Query(
                    f"{rate('predictions_total', RIGHT)} / ignoring(outcome) "
                    f"(sum without(outcome) ({rate('predictions_total')}) > 0)"
                ),
            ),
            width=12,
            least=0,
        ),
        Panel(
            "AUC before learning",
            "Of pairs of records of one round, each predicted before it was learnt from, with its 95 % "
            "interval; 0.5 is chance. Since the process started. Empty for losses without two classes.",
            NUMBER,
            (Query(metric("before_learning_auc"), "{{node}} {{bound}}"),),
            width=12,
            axis="AUC",
        ),
        Panel(
            "Better than guessing",
            "Accuracy above that of the commonest class, or error below that of the mean so far, of records "
            "predicted before they were learnt from, with its 95 % interval. Where it holds 0, the decisions "
            "are no better than guessing.",
            NUMBER,
            (Query(metric("before_learning_gain"), "{{node}} {{bound}}"),),
            width=12,
            axis="gain",
        ),
    ),
    "where records have labels",
)
TRACKING = Row(
    "Tracking",
    (
        Panel(
            "Map",
            "Where the nodes' decisions are in the plane of the first two coordinates, and where the target "
            "is, if the records say it.",
            NUMBER,
            (_places(0), _places(1)),
            "map",
            width=12,
            height=10,
        ),
        Panel(
            "Tracking error",
            "Distance from each node's decision to the target, and its median and 95th percentile over the "
            "last minute. Empty where the records do not say where that is.",
            NUMBER,
            (
                Query(metric("tracking_error")),
                Query(metric("tracking_error_minute"), "{{node}} p{{percentile}} of a minute"),
            ),
            width=12,
            height=10,
            least=0,
            axis="distance",
        ),
    ),
    "where records say where the target is",
)
RECORDS = Row(
    "Records",
    (
        Panel(
            "Records waiting",
            "Records on the data topic that are not read yet. A line that rises: data comes faster "
            "than rounds.",
            COUNT,
            (Query(metric("data_lag_records")),),
            steps=((None, GREEN), (1000, ORANGE), (100_000, RED)),
            least=0,
            axis="records",
        ),
        Panel(
            "Records a second",
            "Records that entered a slot, and those of them that could not be decoded.",
            PER_SECOND,
            (
                Query(rate("records_total")),
                Query(rate("malformed_records_total"), "{{node}} malformed"),
            ),
            least=0,
        ),
        Panel(
            "Clipped gradients",
            "Share of the records whose gradient the clip made shorter. Near 1: the bound is small for "
            "this data.",
            SHARE,
            (Query(f"{rate('clipped_gradients_total')} / ({rate('records_total')} > 0)"),),
            steps=((None, GREEN), (0.9, ORANGE)),
            least=0,
        ),
        Panel(
            "Empty and dropped",
            "Slots without a record; records that came late, beyond a full slot, or were lost on the broker.",
            PER_SECOND,
            (
                Query(rate("empty_slots_total"), "{{node}} empty slots"),
                Query(rate("dropped_records_total"), "{{node}} {{reason}}"),
                Query(rate("broken_gradients_total"), "{{node}} gradients that are no numbers"),
                Query(rate("own_loss_failures_total"), "{{node}} failures of the own loss"),
            ),
            steps=((None, ORANGE),),
            least=0,
        ),
        Panel(
            "Waiting for records",
            "Share of the time in which a round lacks nothing but its slot.",
            SHARE,
            (Query(rate("data_wait_seconds_total")),),
            least=0,
        ),
        Panel(
            "Step and commit",
            "99th percentile of a step, of the journal commit that is part of it, and of the time from a "
            "slot's close to the decision that it has changed.",
            SECONDS,
            (
                Query(quantile(0.99, "decision_latency_seconds"), "{{node}} decision"),
                Query(quantile(0.99, "step_seconds"), "{{node}} step"),
                Query(quantile(0.99, "journal_commit_seconds"), "{{node}} commit"),
            ),
            steps=((None, BLUE), (0.1, RED)),
            least=0,
        ),
        Panel(
            "Memory",
            "Resident memory of each node's process.",
            BYTES,
            (Query(metric("process_resident_memory_bytes")),),
            steps=((None, GREY),),
            width=12,
            least=0,
        ),
        Panel(
            "Journal",
            "Size of each node's journal on disk. It keeps a fixed number of rounds, so it is flat.",
            BYTES,
            (Query(metric("journal_bytes")),),
            steps=((None, GREY),),
            width=12,
            least=0,
        ),
    ),
)
SCORES = Row(
    "Scores",
    (
        Panel(
            "Messages scored a second",
            "Messages that `mirrormesh score` has scored, and those that are unreadable or hold no record.",
            PER_SECOND,
            (Query(rate("scored_messages_total"), "{{node}} {{outcome}}"),),
            width=8,
            least=0,
        ),
        Panel(
            "Messages to be scored",
            "Messages on the input that are not scored yet. A line that rises: more processes are needed.",
            COUNT,
            (Query(metric("score_lag_messages")),),
            steps=((None, GREEN), (1000, ORANGE), (100_000, RED)),
            width=8,
            least=0,
            axis="messages",
        ),
        Panel(
            "From message to score",
            "99th percentile of the time from a message's timestamp until its score was written for good.",
            SECONDS,
            (Query(quantile(0.99, "score_latency_seconds")),),
            width=8,
            least=0,
        ),
        Panel(
            "Model that scores",
            "Age of the decision that scores. Empty for a model file, of which nobody knows.",
            SECONDS,
            (Query(f"time() - {metric('score_model_timestamp_seconds')}"),),
            width=12,
            least=0,
        ),
        Panel(
            "Round of the model that scores",
            "The round that the decision, or the model file, is from.",
            COUNT,
            (Query(metric("score_model_round")),),
            width=12,
            least=0,
            axis="rounds",
        ),
    ),
    "where `mirrormesh score` runs",
)
FEED = Row(
    "Feed",
    (
        Panel(
            "Records fed a second",
            "Records that `mirrormesh feed` has written to the node's topic, and those that could not be "
            "decoded.",
            PER_SECOND,
            (Query(rate("fed_records_total"), "{{node}} {{outcome}}"),),
            width=8,
            least=0,
        ),
        Panel(
            "Lines fed",
            "Lines of the source that the topic has. A flat line: the source is at its end, or the feeder "
            "waits.",
            COUNT,
            (Query(metric("feed_line")),),
            width=8,
            least=0,
            axis="lines",
        ),
        Panel(
            "Records of others",
            "Records on the node's topic that no feeder wrote. The feeder goes on behind them; the node "
            "learns from them.",
            COUNT,
            (Query(metric("feed_foreign_records")),),
            steps=((None, GREEN), (1, ORANGE)),
            width=8,
            least=0,
            axis="records",
        ),
    ),
    "where `mirrormesh feed` runs",
)
ROWS = (REGRET, RECORDS, PREDICTIONS, TRACKING, FEED, SCORES)
