"""Writes a verdict as a sentence, the same in every command, for the owner of the records alone."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from nodes.intervals import Interval
from nodes.prequential import Figures, Task
from streams.metrics.verdict import Basis, Cause, Facts, Verdict

DRIFTS = (
    "its loss has risen for good {times} (Page-Hinkley): what it learns from has changed; constant steps "
    "follow a change, falling ones hardly do, and a new run begins anew"
)
_SIDES = {1: "better than guessing", 0: "no better than guessing", -1: "worse than guessing"}


def judged(verdict: Verdict) -> str:
    """Return the judgement: against guessing, against the owner's model alone, likely causes, and drift."""
    parts = [against_guessing(verdict)]
    if verdict.alone is not None and verdict.closing is not None:
        parts += _against_alone(verdict.alone, verdict.closing.task)
    if verdict.side in (0, -1):
        causes = [_words(cause, verdict.facts) for cause in verdict.facts.causes()]
        parts.append(f"likeliest: {', and '.join(causes)}" if causes else NO_CAUSE)
    if verdict.drifts:
        parts.append(
            DRIFTS.format(times="once" if verdict.drifts == 1 else f"{verdict.drifts} times"),
        )
    return "; ".join(parts)


NO_CAUSE = "no reason shows in the run's numbers: its records may hold nothing that such a model finds"


def against_guessing(verdict: Verdict) -> str:
    """Return how the decision compares with guessing, by which measure, and on which records."""
    decides = verdict.decides
    if decides is None:
        figures = verdict.closing or verdict.before
        if figures is None:
            return "not scored: no record with a label came after the first slot"
        return compared(figures)
    basis, figures = decides
    flatters = basis is Basis.OWN and verdict.is_optimist
    caution = ", which may flatter it" if flatters else ""
    return f"{compared(figures)}, on {basis}{caution}"


def compared(figures: Figures) -> str:
    """Return how scores compare with guessing, and by which measure."""
    decides = figures.against_chance
    if decides is None:
        positive = "" if figures.positives is None else f", {figures.positives:,} positive"
        return f"too few records to tell it from guessing ({figures.records:,} scored{positive})"
    measure, side = decides
    return f"{_SIDES[side]}: {_measured(measure, figures)}"


def _measured(measure: str, figures: Figures) -> str:
    if measure == "AUC" and figures.auc is not None:
        return f"AUC {_ranged(figures.auc)}, where chance is 0.5"
    if measure == "accuracy" and figures.accuracy is not None and figures.accuracy_gain is not None:
        guess = figures.accuracy.value - figures.accuracy_gain.value
        return f"accuracy {_ranged(figures.accuracy)}, the commonest class alone {guess:.4f}"
    loss, gain = figures.loss, figures.loss_gain
    if loss is None or gain is None:
        return measure
    return f"error {loss.value:.4g}, the mean alone {loss.value + gain.value:.4g}"


def _ranged(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return f"{interval.value:.4f}"
    return f"{interval.value:.4f} ({interval.low:.4f} to {interval.high:.4f})"


def _against_alone(gain: Interval, task: Task) -> Iterator[str]:
    side = gain.side_of(0.0)
    if side is None:
        return
    measure = {Task.TWO: "AUC", Task.CLASSES: "accuracy", Task.NUMBERS: "error"}[task]
    better = {1: "better", 0: "no better", -1: "worse"}[side]
    higher = gain.value >= 0.0 if task is not Task.NUMBERS else gain.value < 0.0
    difference = f"{measure} {abs(gain.value):.4g} {'higher' if higher else 'lower'}"
    yield f"{better} than a model without noise of its own records alone ({difference})"


def _words(cause: Cause, facts: Facts) -> str:
    match cause:
        case Cause.NOISE:
            return (
                f"the noise is {facts.noise:.3g} times as long as a slot's signal, in {facts.rounds:,} rounds"
            )
        case Cause.CLASS:
            return f"{facts.rarer:,} records of the rarer class for {facts.dimension:,} numbers to learn"
        case Cause.STEPS:
            return f"{facts.rounds:,} steps are few"
        case Cause.CLIP:
            return f"{100 * facts.clipped:.0f} % of the gradients were clipped"
        case Cause.EMPTY:
            return f"{facts.empty:,} of {facts.rounds:,} slots were empty"


def as_tree(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict and its sentence as plain values for JSON. Unknown values are left out."""
    tree: dict[str, Any] = _without_none(asdict(verdict))
    decides = verdict.decides
    side = None if verdict.side is None else _SIDES[verdict.side]
    return {"judgement": judged(verdict), "against_guessing": side, "by": decides and str(decides[0])} | tree


def _without_none(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_none(value) for key, value in tree.items() if value is not None}
    return tree
