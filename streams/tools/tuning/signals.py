"""Estimates a mesh's AUC for a weak, a middling and a strong signal, from runs on made-up records.

No made-up record knows how well the user's features tell the classes, so there is a row for each strength of
the signal. The strength is the largest AUC that a line through the features reaches. The user may know it: it
is the AUC of a plain model without privacy. No node's own record is read.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

import numpy as np

from nodes.discriminant import NearestMean, RunningMeans
from nodes.losses.losses import scores
from nodes.privacy.features import ClassSums
from nodes.values import Decision, FloatArray, Observations
from streams.local.scoring import ranking
from streams.mesh.algorithm import KAPPA
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.mesh.settings.node import FileSettings
from streams.mesh.settings.privacy import growing_epsilon
from streams.tools.tuning.forecasting import (
    MOST_FEATURES,
    MOST_ROUNDS,
    UNKNOWN_ROUNDS,
    mean_gradient,
    noise_over_signal,
    without_privacy,
)
from streams.tools.tuning.pilot import Resampled, check_one_loss, features_by, random_features
from streams.tools.tuning.trials import Setting, Trials
from topology.keyed import generator

SIGNALS = {"weak": 0.6, "middling": 0.75, "strong": 0.9}
"""The largest AUC that a line reaches, by the word for it."""
MIDDLING = "middling"
POOLS, RUNS_OF_A_POOL = 5, 4
"""The number of sets of made-up records, each with a direction of its own, and of runs on each."""
SIGNAL_RUNS = POOLS * RUNS_OF_A_POOL
"""The runs of a row. The next after n exchangeable runs is between least and largest in (n - 1)/(n + 1)."""
BALANCED = 0.5
_CLEAR_RUNS = 2
_MOST_NUMBERS = 30_000_000  # of features that a run reads: half a minute for all runs
_AT_ONCE = 8_000_000  # the numbers of a slot of all runs at once, 64 MB
_POSITIVES, _LEAST_RECORDS = 1_000, 20_000  # of made-up records
_MOST_MADE_UP = 20_000_000  # numbers, 160 MB; of a rare class there are then fewer
_TESTED = 2_000  # records of each class
_GLANCED_RECORDS, _GLANCED_FEATURES = 4_000, 1_000
_QUANTILES = 2_000


class SignalRow(NamedTuple):
    """A row: the AUC of the next run is between `low` and `high` in 90 %; `open`: the mean without privacy.

    `best`: the largest AUC that a line reaches.
    """

    signal: str
    best: float
    low: float
    high: float
    open: float

    @property
    def is_a_guess(self) -> bool:
        """Whether the range contains chance, so that a run may be no better than guessing."""
        return self.low <= 0.5


@dataclass(frozen=True, slots=True)
class SignalTable:
    """The rows, and how they were made: `positive` is the share of positive records.

    `rounds`, `records`: those of a run, and those that a node learns from in it. `planned`: the mesh's
    rounds. `like`: the node whose schema the records follow, or None. `noise`: its length in round 1 over
    that of a middling signal, see `Estimate`. `is_known`: whether anybody gave the number of records or
    rounds.
    """

    rows: tuple[SignalRow, ...]
    positive: float
    rounds: int
    planned: int
    records: int
    like: str | None
    noise: float | None
    is_known: bool


def by_signal(
    file: MeshFile,
    *,
    rounds: int | None = None,
    records: int | None = None,
    positive: float = BALANCED,
    seed: int = 1,
    signals: Mapping[str, float] = SIGNALS,
) -> SignalTable:
    """Run the mesh on made-up records of each strength of signal, with simulated noise and without privacy.

    `records`: the number of each node's records. If it is not given, it is that of the rule's block; without
    a block the records fill the rounds. `positive`: the share of positive records. `signals`: by row of the
    table, the largest AUC of any linear score. Every node has the shared privacy settings. Raises UsageError
    unless 0 < `positive` < 1, and for a mesh that is too wide or has several losses.
    """
    mesh, size = file.mesh, file.mesh.slots.size
    if not 0.0 < positive < 1.0:
        raise UsageError(f"--positive {positive:g}: must be above 0 and below 1")
    if mesh.dimension > MOST_FEATURES:
        raise UsageError(f"--estimate: dimension is {mesh.dimension:,}: must be at most {MOST_FEATURES:,}")
    check_one_loss(file)
    if records is None and mesh.rule is not None:
        records = mesh.rule.records
    planned = rounds or mesh.rounds
    if planned is not None:
        records = planned * size if records is None else min(records, planned * size)
    is_known = records is not None
    records = UNKNOWN_ROUNDS * size if records is None else records
    planned = -(-records // size)
    simulated = min(planned, MOST_ROUNDS, max(1, _MOST_NUMBERS // (len(mesh.nodes) * size * mesh.dimension)))
    learnt = min(records, simulated * size)
    rows = tuple(
        _row(file, signal, best, records=learnt, positive=positive, seed=seed)
        for signal, best in signals.items()
    )
    pilot, _ = made_up_by_signal(file, seed, SIGNALS[MIDDLING], positive)
    noise = noise_over_signal(file, pilot)
    return SignalTable(
        rows, positive, simulated, planned, learnt, schema_node(file), noise, is_known=is_known
    )


def no_better(file: MeshFile, rounds: int | None = None, seed: int = 1) -> tuple[str, ...]:
    """Return the signals at which a run may be no better than guessing, in tenths of a second, without a run.

    The decision is that of the sum of all rounds' and nodes' releases, with noise of its size: of the mean
    gradients at the first decision, or of class sums, also of those in moments. Records are made up, half of
    them positive, and there is no error of sampling, so a run is hardly better. Nothing is returned unless
    this is known: for a loss of two classes, a run with an end, noise on gradients or sums, one epsilon, and
    one loss and x_1 of no choice.
    """
    planned = _planned(file, rounds)
    if planned is None:
        return ()
    return tuple(
        signal for signal, best in SIGNALS.items() if _least_auc(file, best, planned, seed, BALANCED) <= 0.5
    )


def records_needed(
    file: MeshFile, rounds: int | None = None, positive: float = BALANCED, seed: int = 1
) -> int | None:
    """Return how many records a node needs at least, for a middling signal to beat guessing.

    As for `no_better`: with so many, each draw of the noise beats it, were there no error of sampling. It is
    found by doubling: with more records a slot in a run of one slot, with more rounds in another run. None if
    it is not known, or above 2^30 times the records that are planned. With a rare class it is known of sums
    alone: a gradient at the first decision tells first how rare the class is.
    """
    planned = _planned(file, rounds)
    is_sum = isinstance(file.resolved.algorithm, RunningMeans)
    if planned is None or (positive != BALANCED and not is_sum):
        return None
    for doublings in range(31):
        if _least_auc(file, SIGNALS[MIDDLING], planned, seed, positive, 2**doublings) > 0.5:
            return planned * file.mesh.slots.size << doublings
    return None


def _planned(file: MeshFile, rounds: int | None) -> int | None:
    """Return the rounds of a run whose signal and noise are known before it; None of any other."""
    mesh, privacy = file.mesh, file.mesh.privacy
    planned = rounds or mesh.rounds
    if planned is None and mesh.rule is not None and mesh.rule.records is not None:
        planned = -(-mesh.rule.records // mesh.slots.size)
    is_noisy = privacy.mechanism != "none" and privacy.on == "gradient"
    grows = growing_epsilon(privacy.epsilon, mesh.slots.size) is not None
    has_own = bool(file.with_own_loss) or mesh.algorithm.x_1 is not None
    if planned is None or not is_noisy or grows or has_own or mesh.dimension > _GLANCED_FEATURES:
        return None
    return planned if mesh.loss.signed else None


def _least_auc(file: MeshFile, best: float, rounds: int, seed: int, positive: float, times: int = 1) -> float:
    """Return the least AUC of `SIGNAL_RUNS` draws of the noise, with so many `times` the records."""
    resolved, mesh, algorithm = file.resolved, file.mesh, file.resolved.algorithm
    pilot, (features, labels) = made_up_by_signal(file, seed, best, positive, _GLANCED_RECORDS)
    if isinstance(algorithm, RunningMeans):
        sums = ClassSums(mesh.columns, 2, "l2", signed=mesh.algorithm.signed)
        present = np.ones(pilot.labels.shape, np.bool_)
        records = Observations(pilot.features, pilot.labels, present)
        total, _, _ = sums.summed(algorithm.rows(Decision(algorithm.start), records))
        means = total * (sums.grid.step / len(pilot.labels))
        deviation = algorithm.deviations(rounds) * (
            math.sqrt(2) if mesh.privacy.mechanism == "laplace" else 1
        )
        deviation /= (mesh.algorithm.kappa or KAPPA) if mesh.algorithm.name == "moments" else 1
    else:
        means = -mean_gradient(resolved, pilot)
        deviation = resolved.lasting_length(mesh.privacy) / math.sqrt(means.size * rounds)
    deviation /= math.sqrt(len(mesh.nodes)) * (times if rounds == 1 else math.sqrt(times))
    noise = generator("no better", seed).standard_normal((SIGNAL_RUNS, means.size))
    noisy = means + deviation * noise
    if isinstance(algorithm, RunningMeans):
        noisy = NearestMean(mesh.columns, 2, mesh.has_cut)(noisy, np.full(SIGNAL_RUNS, deviation))
    rankings = [ranking(scores(decision, features), labels) for decision in noisy]
    return min((ranks.auc for ranks in rankings if ranks is not None), default=0.5)


def _row(file: MeshFile, signal: str, best: float, *, records: int, positive: float, seed: int) -> SignalRow:
    mesh, private, clear = file.mesh, list[float](), list[float]()
    for pool in range(POOLS):
        key = seed + 1_000 * pool
        pilot, test = made_up_by_signal(file, key, best, positive)
        trials = Trials(mesh, pilot, records, 1, key, test, file.code)
        private += _areas(trials, RUNS_OF_A_POOL)
        if pool < _CLEAR_RUNS:
            clear += _areas(replace(trials, mesh=without_privacy(mesh)), 1)
    return SignalRow(signal, best, min(private), max(private), fmean(clear))


def _areas(trials: Trials, runs: int) -> Iterator[float]:
    """Yield the AUC of each run, of as many at once as memory allows."""
    numbers = len(trials.mesh.nodes) * trials.mesh.slots.size * trials.mesh.dimension
    at_once = max(1, min(runs, _AT_ONCE // numbers))
    for first in range(0, runs, at_once):
        batch = replace(trials, runs=min(at_once, runs - first), seed=trials.seed + first)
        for loss in batch.measure(Setting.of(trials.mesh)).runs:
            yield 1.0 - loss


def made_up_by_signal(
    file: MeshFile, seed: int, best: float, positive: float, least: int = _LEAST_RECORDS
) -> tuple[Resampled, tuple[FloatArray, FloatArray]]:
    """Return made-up records, and others to score decisions on, of which half are positive.

    The chance that a record is positive is logistic in a random direction, so that the AUC of this direction
    is `best` and the share of positive records is `positive`. The AUC does not depend on how many records of
    each class score it; with half of each it is the most exact. There are at least `least` of either.
    """
    mesh, name = file.mesh, schema_node(file)
    random = generator("signal", seed)
    by_rate = math.ceil(_POSITIVES / min(positive, 1.0 - positive))
    records = 2 * max(least, min(by_rate, _MOST_MADE_UP // max(1, mesh.loss_dimension)))
    source = None if name is None else file.owns[name].source
    features = (
        features_by(source.record, records, random)
        if isinstance(source, FileSettings)
        else random_features(mesh.loss_dimension, records, random)
    )
    values = scores(random.standard_normal((features.shape[1],)), features)
    values = (values - values.mean()) / max(float(values.std()), 1e-300)
    chances = chances_of(values, best, positive)
    half = len(chances) // 2
    labels = np.where(random.random(half) < chances[:half], 1.0, -1.0)
    held_out = chances[half:]
    rows = [
        random.choice(len(held_out), _TESTED, p=weights / weights.sum())
        for weights in (held_out, 1.0 - held_out)
    ]
    test = features[half:][np.concatenate(rows)], np.repeat([1.0, -1.0], _TESTED)
    return Resampled(features[:half], labels), test


def chances_of(values: FloatArray, best: float, positive: float) -> FloatArray:
    """Return the chances (n,) that records are positive, which rise with their values (n,).

    They are logistic in the values, with mean `positive` and an expected AUC of the values of `best`.
    """
    middle = np.quantile(values, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)

    def shifted(slope: float) -> float:
        return _bisected(lambda shift: float(_logistic(slope * middle + shift).mean()), positive, -400, 400)

    slope = _bisected(lambda slope: _area(_logistic(slope * middle + shifted(slope))), best, 0.0, 100.0)
    return _logistic(slope * values + shifted(slope))


def _area(chances: FloatArray) -> float:
    """Return the expected AUC of records in rising order of value, with these chances to be positive."""
    negative = 1.0 - chances
    below = np.add.accumulate(negative) - negative / 2
    return float((chances * below).sum() / (chances.sum() * negative.sum()))


def _bisected(function: Callable[[float], float], level: float, low: float, high: float) -> float:
    """Return where a rising function reaches the level, or the nearer end if it does not."""
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < level else (low, middle)
    return (low + high) / 2


def _logistic(values: FloatArray) -> FloatArray:
    chances: FloatArray = 0.5 * (1.0 + np.tanh(values / 2))
    return chances


def schema_node(file: MeshFile) -> str | None:
    """Return the first node here whose source has a schema."""
    return next((name for name, part in file.owns.items() if isinstance(part.source, FileSettings)), None)
