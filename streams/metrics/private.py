"""A node's private figures, for its owner. The only module of metrics that opens private values."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from nodes.intervals import Interval
from nodes.learner import Learner
from nodes.losses.evaluation import right
from nodes.losses.own_loss import failures
from nodes.machine.events import Scored
from nodes.machine.slots import ClosedSlot
from nodes.prequential import Figures, Task
from nodes.privacy.owner import disclosed_to_owner
from nodes.privacy.private import Private
from nodes.regret import LocalRegret
from nodes.values import Decision, FloatArray, Observations
from streams.metrics.catalogue import PREFIX, PrivateMetric
from streams.metrics.judgement import as_tree
from streams.metrics.registry import PrivateRegistry
from streams.metrics.verdict import OwnerScore
from streams.records.faults import NotARecord


@dataclass(slots=True)
class DataCounts:
    """Counts since the process started.

    `lost`: an upper bound on the records that left the log before they were read. The broker reports their
    offsets alone, and an offset may have no record. `skipped`: records that a late policy skipped.
    `tombstones` and `left_out`: messages that are no record; they do not count as malformed. `unlabelled`:
    records of slots by time that closed empty because later labels could not be read.
    """

    records: int = 0
    malformed: int = 0
    empty_slots: int = 0
    late: int = 0
    overfull: int = 0
    lost: int = 0
    early: int = 0
    skipped: int = 0
    tombstones: int = 0
    left_out: int = 0
    unlabelled: int = 0

    def leave_out(self, reason: NotARecord, messages: int) -> None:
        """Count messages that are no record."""
        if reason is NotARecord.TOMBSTONE:
            self.tombstones += messages
        else:
            self.left_out += messages

    def close(self, slot: ClosedSlot[bytes], observations: Observations) -> None:
        """Count a slot and its records."""
        self.malformed += len(slot.values) - int(observations.present.sum())
        self.empty_slots += not slot.values
        self.late += slot.late
        self.overfull += slot.overfull
        self.early += slot.early


@dataclass(slots=True)
class LabelCounts:
    """Counts of labels that come later, since the process started.

    `came`: the readable labels, those that take others back included. `late`: labels that came after a record
    of theirs was learnt from. `unmatched`: labels that came since the start and expired without a record.
    `held_up`: records, of slots by count, from the first one on that is dated ahead in their partition.
    """

    came: int = 0
    unreadable: int = 0
    late: int = 0
    unmatched: int = 0
    held_up: int = 0


FEW = 8
"""The largest dimension of a decision that is shown: each coordinate is a series."""

MINUTE = 60.0
"""Seconds over which quantiles of tracking errors are computed."""

MOST_ERRORS = 1 << 14
"""The largest number of tracking errors kept for them."""

MOST = 32
"""The largest number of waiting reports: they hold records."""


class PrivateFigures:
    """The private figures of one node. `lag` and `counts` are called at each scrape.

    A report arrives between a round's journal commit and its release. The computation of its loss and regret
    takes time that depends on records. So it is done later, for many reports at once. `truth`: whether
    records hold the right
    decision. `score`: what scores the run for its owner; None for a loss without a label to predict.
    """

    def __init__(
        self,
        registry: PrivateRegistry,
        learner: Learner,
        lag: Callable[[], Private[int | None]],
        counts: Callable[[], Private[DataCounts]],
        journal_bytes: Callable[[], int],
        *,
        truth: bool,
        score: OwnerScore | None = None,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._score = score
        self._newest: Decision | None = None
        self._figures: Figures | None = None
        if score is not None:
            self._show_scores(registry, score)
        self._learner, self._steady = learner, steady
        self._observed = learner.algorithm.observed
        self._regret = LocalRegret(learner.algorithm.observed_set, self._observed)
        self._aside: deque[Scored] = deque()
        self._rounds, self._loss = 0, 0.0
        minimises = learner.algorithm.rows is None  # class sums and moments have no regret
        self._decision: FloatArray = (
            learner.algorithm.start if minimises else np.zeros(learner.algorithm.constraint.dimension)
        )
        self._tracked: tuple[FloatArray, FloatArray] | None = None  # the decision and the right decision
        self._errors: deque[tuple[float, float]] = deque(maxlen=MOST_ERRORS)  # (time, tracking error)
        self._records = registry.counter(PrivateMetric.RECORDS)
        self._clipped = registry.counter(PrivateMetric.CLIPPED)
        self._broken = registry.counter(PrivateMetric.BROKEN)
        self._empty = registry.counter(PrivateMetric.EMPTY)
        self._right = registry.counter(PrivateMetric.PREDICTIONS, "right")
        self._wrong = registry.counter(PrivateMetric.PREDICTIONS, "wrong")
        if minimises:
            registry.gauge(PrivateMetric.REGRET, self._value)
            registry.gauge(PrivateMetric.AVERAGE, lambda: self._value() / max(1, self._rounds))
        registry.gauge(PrivateMetric.LOSS, lambda: self._loss / max(1, self._rounds))
        for number in range(len(self._decision)) if len(self._decision) <= FEW else ():
            registry.gauge(PrivateMetric.DECISION, partial(self._coordinate, number), str(number))
            if truth and number < learner.algorithm.observed_set.dimension:
                registry.gauge(PrivateMetric.TARGET, partial(self._target, number), str(number))
        if truth:
            registry.gauge(PrivateMetric.ERROR, self._tracking_error)
            for percent in (50, 95):
                registry.gauge(PrivateMetric.ERRORS, partial(self._quantile, percent / 100), str(percent))
        if truth and minimises:
            registry.gauge(PrivateMetric.DYNAMIC, lambda: disclosed_to_owner(self._regret.dynamic()))
        registry.total(PrivateMetric.MALFORMED, lambda: disclosed_to_owner(counts()).malformed)
        registry.total(PrivateMetric.FAILED, lambda: sum(failures(learner.loss).values()))
        registry.gauge(PrivateMetric.JOURNAL, journal_bytes)
        registry.gauge(PrivateMetric.LAG, lambda: disclosed_to_owner(lag()))
        for reason in (
            "late",
            "early",
            "overfull",
            "lost",
            "skipped",
            "tombstones",
            "left_out",
            "unlabelled",
        ):
            registry.total(PrivateMetric.DROPPED, partial(_dropped, counts, reason), reason)
        registry.collected.register(_Process(registry.labels))

    def scored(self, report: Scored) -> None:
        """Record a slot's score of the decision."""
        self._aside.append(report)
        if len(self._aside) >= MOST:
            self.catch_up()

    def catch_up(self) -> None:
        """Compute the reports that were put aside."""
        if self._aside and self._score is not None:
            for report in self._aside:
                self._score.add(
                    report.round,
                    report.decision,
                    disclosed_to_owner(report.observations),
                    disclosed_to_owner(report.gradient),
                    disclosed_to_owner(report.clipped),
                    disclosed_to_owner(report.counts),
                )
            self._figures = self._score.progress.figures()
        while self._aside:
            self._count(self._aside.popleft())

    def decided(self, decision: Decision) -> None:
        """Record the newest decision, which a verdict is of."""
        self._newest = decision

    def verdict(self) -> dict[str, Any] | None:
        """Return the verdict on the rounds of this process, as plain values; None where there is none."""
        self.catch_up()
        if self._score is None or not self._rounds:
            return None
        return as_tree(self._score.verdict(self._newest))

    def _show_scores(self, registry: PrivateRegistry, score: OwnerScore) -> None:
        """Show the scores that the task has."""
        for bound, end in (("value", "value"), ("least", "low"), ("greatest", "high")):
            if score.scorer.task is Task.TWO:
                registry.gauge(PrivateMetric.AUC, partial(self._end_of, "auc", end), bound)
            gain = "loss_gain" if score.scorer.task is Task.NUMBERS else "accuracy_gain"
            registry.gauge(PrivateMetric.GAIN, partial(self._end_of, gain, end), bound)
        registry.total(PrivateMetric.RISES, lambda: score.progress.alarms)

    def _end_of(self, name: str, end: str) -> float | None:
        interval: Interval | None = getattr(self._figures, name, None)
        value: float | None = getattr(interval, end, None)
        return value

    def _count(self, report: Scored) -> None:
        self._regret.add(report.gradient, report.decision, report.truth)
        observed_decision = Decision(self._observed(report.decision))
        self._rounds += 1
        self._decision = report.decision
        target = disclosed_to_owner(report.truth)
        self._tracked = None if target is None else (observed_decision, target)
        if target is not None:
            self._errors.append((self._steady(), math.dist(observed_decision, target)))
        self._loss += disclosed_to_owner(report.observations.map(partial(self._mean_loss, observed_decision)))
        good, bad = disclosed_to_owner(report.observations.map(partial(self._outcomes, observed_decision)))
        self._right.total += good
        self._wrong.total += bad
        present = disclosed_to_owner(report.observations).present
        if present.size:
            self._records.total += present.size
        else:
            self._empty.total += 1
        self._clipped.total += disclosed_to_owner(report.clipped)
        self._broken.total += disclosed_to_owner(report.broken)

    def _value(self) -> float:
        return disclosed_to_owner(self._regret.value())

    def _coordinate(self, number: int) -> float:
        return float(self._decision[number])

    def _target(self, number: int) -> float | None:
        tracked = self._tracked
        return None if tracked is None else float(tracked[1][number])

    def _tracking_error(self) -> float | None:
        tracked = self._tracked
        return None if tracked is None else math.dist(*tracked)

    def _quantile(self, share: float) -> float | None:
        """Return a quantile of the last minute's tracking errors."""
        since = self._steady() - MINUTE
        errors = [error for moment, error in list(self._errors) if moment >= since]
        with np.errstate(all="ignore"):  # records may give any position as the target's
            return float(np.quantile(errors, share)) if errors else None

    def _mean_loss(self, decision: Decision, observations: Observations) -> float:
        """Return the slot's loss over its fixed size; values that are not finite count as 0."""
        try:
            with np.errstate(all="ignore"):
                total = float(np.add.reduce(self._learner.loss.value(decision, observations), None))
        except Exception:  # noqa: BLE001 # whatever a user's own loss raises must not end the node
            return 0.0
        return total / self._learner.batch_size if math.isfinite(total) else 0.0

    def _outcomes(self, decision: Decision, observations: Observations) -> tuple[int, int]:
        """Return the numbers of the slot's records that were predicted right and wrong."""
        with np.errstate(all="ignore"):
            is_right = right(self._learner.loss, decision, observations.features, observations.labels)
        if is_right is None:
            return 0, 0
        return int((is_right & observations.present).sum()), int((~is_right & observations.present).sum())


def show_labels(registry: PrivateRegistry, counts: Callable[[], Private[LabelCounts]]) -> None:
    """Show the counts of labels that come later; `counts` is called at each scrape."""
    for fate in ("came", "unreadable", "late", "unmatched"):
        registry.total(PrivateMetric.LABELS, partial(_fated, counts, fate), fate)
    registry.gauge(PrivateMetric.HELD_UP, partial(_fated, counts, "held_up"))


def _fated(counts: Callable[[], Private[LabelCounts]], fate: str) -> int:
    labels: int = getattr(disclosed_to_owner(counts()), fate)
    return labels


def _dropped(counts: Callable[[], Private[DataCounts]], reason: str) -> int:
    dropped: int = getattr(disclosed_to_owner(counts()), reason)
    return dropped


class _Process(Collector):
    """The process's memory, processor time and files, with our prefix and labels."""

    def __init__(self, labels: dict[str, str]) -> None:
        self._labels, self._process = labels, ProcessCollector(PREFIX, registry=None)

    def collect(self) -> list[Metric]:
        families = list(self._process.collect())
        for family in families:
            family.samples = [sample._replace(labels=self._labels) for sample in family.samples]
        return families
