"""What a node has spent: functions of its settings and its journal's last record, both public."""

from collections.abc import Callable
from fractions import Fraction
from math import inf

from nodes.decimals import rounded_up
from nodes.journal import JournalRecord
from nodes.learner import Learner
from streams.metrics.catalogue import SharedMetric
from streams.metrics.registry import SharedRegistry


def show_account(
    registry: SharedRegistry, learner: Learner, record: Callable[[], JournalRecord | None]
) -> None:
    """Show the account of a node, as it stands after the record.

    At event level a release costs its own epsilon and the stream no more, so there is no budget.
    """
    ledger, gauge = learner.ledger, registry.gauge
    of_release = inf if ledger.epsilon is None else rounded_up(ledger.epsilon)
    last = ledger.last_learning_round

    def charged() -> tuple[int, int]:
        now = record()
        return (now.charged, now.stepped) if now else (0, 0)

    def relaying() -> bool:
        now = record()
        return now is not None and not ledger.may_learn(now.round, now.charged)

    gauge(SharedMetric.MECHANISM, lambda: 1, learner.mechanism.name)
    gauge(SharedMetric.OF_RELEASE, lambda: of_release, "event")
    gauge(SharedMetric.OF_RELEASE, lambda: ledger.spent(1, 1), "stream")
    gauge(SharedMetric.SPENT, lambda: of_release if charged()[0] or of_release == inf else 0.0, "event")
    gauge(SharedMetric.SPENT, lambda: ledger.spent(*charged()), "stream")
    gauge(
        SharedMetric.BUDGET, lambda: inf if ledger.budget is None else _rounded_down(ledger.budget), "stream"
    )
    gauge(SharedMetric.LEFT, lambda: ledger.left(*charged()), "stream")
    gauge(SharedMetric.LAST_LEARNING, lambda: inf if last is None else last)
    gauge(SharedMetric.RELAYING, relaying)
    gauge(SharedMetric.SIMULATED, lambda: learner.mechanism.simulated)


def _rounded_down(value: Fraction) -> float:
    return -rounded_up(-value)
