"""The engine with compiled rounds (numba, the extra `fast`), if numba is installed. It gives the same bits.

These settings are compiled: losses without exp or log; mirror descent with the Euclidean map on a ball or box
of two or more dimensions; `none`, and `laplace` and `gaussian` with seeded noise. All other settings, and
slots of unusual shape, run on numpy's engine. The first rounds run on both engines. If a bit differs, numpy's
engine continues alone.

Each number is computed by the same operations of IEEE 754 in the same order. Sums over the last axis are
numpy's pairwise sums, written out; sums over records and neighbours go in order. Nothing is reordered or
fused (no `fastmath`), and no BLAS is called. Where numpy does not define the result, as for the larger of 0
and -0, the setting is not compiled.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import groupby, islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from nodes.algorithms import MirrorDescent
from nodes.geometry.constraints import Box, Constraint, L1Ball, L2Ball, LinfBall
from nodes.geometry.mirror_maps import Euclidean
from nodes.learner import Engine, Learner, State, Step, StepResult
from nodes.losses.losses import Absolute, Hinge, Huber, Linear, RangeLoss, Squared
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.private import Private
from nodes.privacy.unprotected import Unprotected
from nodes.sparse import SparseRows
from nodes.values import (
    BoolArray,
    Consensus,
    Decision,
    FloatArray,
    IntArray,
    Observations,
    Release,
    ordered_terms,
)
from topology.weights import Weights

njit: Any
try:
    njit = import_module("numba").njit
except ImportError:
    njit = None

BESIDE = 3
"""The number of rounds that numpy's engine runs too when the compiled engine starts."""
_MOST = 256
"""The largest number of nodes for which numpy's calls cost more than its arithmetic."""
_TOGETHER, _NUMBERS = 64, 1 << 20
"""Rounds of one call, and about the numbers that they may hold."""
_L1, _L2, _LINF, _BOX = range(4)
_RANGE, _HINGE, _SQUARED, _ABSOLUTE, _HUBER, _LINEAR = range(6)
_NORMS = {"l1": _L1, "l2": _L2, "linf": _LINF}
_SETS: dict[type, int] = {L1Ball: _L1, L2Ball: _L2, LinfBall: _LINF, Box: _BOX}
_LOSSES: dict[type, int] = {
    RangeLoss: _RANGE,
    Hinge: _HINGE,
    Squared: _SQUARED,
    Absolute: _ABSOLUTE,
    Huber: _HUBER,
    Linear: _LINEAR,
}
_Slot = tuple[FloatArray, FloatArray, BoolArray]
"""Features (N, n, d), labels and presence (N, n)."""
_Terms = tuple[IntArray, IntArray, IntArray, FloatArray]
"""The index of each round's weights (T,); the first term of each row (M, N + 1); sources and weights of all
terms."""
_FLOAT, _BOOL = np.dtype(np.float64), np.dtype(np.bool_)
F = TypeVar("F", bound=Callable[..., Any])


class RoundSettings(NamedTuple):
    """What a round needs of its learner, as numbers."""

    loss: int
    k: float
    at_decision: bool
    regulariser: float
    within: int
    radius: float
    norm: int
    theta: float
    noisy: bool
    grid_radius: int
    grid_step: float
    scale: float
    batch_size: int
    near: float


def compilable(learner: Learner) -> RoundSettings | None:
    """Return the learner's settings as numbers; None if its rounds are not compiled."""
    algorithm, mechanism, loss = learner.algorithm, learner.mechanism, learner.loss
    if njit is None or type(algorithm) is not MirrorDescent or type(loss) not in _LOSSES:
        return None
    within, radius, step, scale = algorithm.constraint, 0, 0.0, 0.0
    if not isinstance(algorithm.step.mirror_map, Euclidean) or type(within) not in _SETS:
        return None
    if isinstance(mechanism, LaplaceGradient | GaussianGradient):
        is_own = type(mechanism) in {LaplaceGradient, GaussianGradient}  # another may clip or draw otherwise
        if not is_own or type(mechanism.sampler) is not SimulatedSampler:
            return None
        radius, step, scale = mechanism.grid.radius, mechanism.grid.step, mechanism.scale
    elif not isinstance(mechanism, Unprotected):
        return None
    if algorithm.dimension < 2 or not _bounds(within).all():
        return None
    return RoundSettings(
        loss=_LOSSES[type(loss)],
        k=loss.k if isinstance(loss, Huber) else 0.0,
        at_decision=algorithm.gradient_at == "decision",
        regulariser=algorithm.regulariser,
        within=_SETS[type(within)],
        radius=float(getattr(within, "radius", 0)),
        norm=_NORMS[mechanism.norm],
        theta=float(mechanism.theta),
        noisy=radius > 0,
        grid_radius=radius,
        grid_step=step,
        scale=scale,
        batch_size=learner.batch_size,
        near=learner.release_bound**2 * (1 - 1e-9),
    )


def _bounds(within: Constraint) -> FloatArray:
    """Return the bounds of each coordinate, (2, d): those of a box, or of the Linf ball."""
    if isinstance(within, Box):
        return np.array([within.lower, within.upper])
    bound = np.full(within.dimension, float(getattr(within, "radius", 1.0)))
    return np.array([-bound, bound])


def _compiled(function: F) -> F:
    """Return the function, compiled at its first call and cached on disk."""
    compiled: F = function if njit is None else njit(cache=True, error_model="numpy")(function)
    return compiled


@_compiled
def _short_sum(a: FloatArray, k: int, count: int) -> float:
    """Return numpy's sum of up to 128 numbers from index k on.

    It has eight partial sums if there are 8 or more.
    """
    total, end = 0.0, k + count  # numpy begins with 0, so no sum is -0
    if count >= 8:
        r0, r1, r2, r3, r4, r5, r6, r7 = (
            a[k],
            a[k + 1],
            a[k + 2],
            a[k + 3],
            a[k + 4],
            a[k + 5],
            a[k + 6],
            a[k + 7],
        )
        k += 8
        while k + 8 <= end:
            r0, r1, r2, r3 = r0 + a[k], r1 + a[k + 1], r2 + a[k + 2], r3 + a[k + 3]
            r4, r5, r6, r7 = r4 + a[k + 4], r5 + a[k + 5], r6 + a[k + 6], r7 + a[k + 7]
            k += 8
        total = 0.0 + (((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7)))
    while k < end:
        total += a[k]
        k += 1
    return total


@_compiled
def _sum(a: FloatArray, first: int, count: int) -> float:
    """Return numpy's sum of `count` numbers, which is split in halves above 128.

    This is a loop, as numba does not run a recursion that it has cached on disk.
    """
    if count <= 128:
        return _short_sum(a, first, count)
    left_sums, right_halves, depth = np.empty(64), np.empty((64, 2), np.int64), 0
    while True:
        while count > 128:
            half = count // 2 - count // 2 % 8
            right_halves[depth, 0], right_halves[depth, 1] = first + half, count - half
            count, depth = half, depth + 1
        total = _short_sum(a, first, count)
        while depth > 0 and right_halves[depth - 1, 1] == 0:
            depth -= 1
            total = left_sums[depth] + total
        if depth == 0:
            return total
        left_sums[depth - 1], first, count = total, right_halves[depth - 1, 0], right_halves[depth - 1, 1]
        right_halves[depth - 1, 1] = 0


@_compiled
def _size(x: FloatArray, i: int, norm: int, work: FloatArray) -> float:
    """Return the norm of row i, which may be NaN. `work` (d,) gets magnitudes, or squares."""
    for c in range(len(work)):
        work[c] = x[i, c] * x[i, c] if norm == _L2 else abs(x[i, c])
    if norm == _LINF:
        size = 0.0
        for c in range(len(work)):
            size = work[c] if work[c] > size or np.isnan(work[c]) else size
        return size
    total = _sum(work, 0, len(work))
    return np.sqrt(total) if norm == _L2 else total


@_compiled
def _project(s: RoundSettings, x: FloatArray, i: int, bounds: FloatArray, work: FloatArray) -> None:
    """Project row i onto the set."""
    d = len(work)
    if s.within in (_BOX, _LINF):
        for c in range(d):
            x[i, c] = min(max(x[i, c], bounds[0, c]), bounds[1, c])
        return
    size = _size(x, i, s.within, work)
    if size <= s.radius:
        return
    if s.within == _L2:
        factor = s.radius / size
        for c in range(d):
            x[i, c] *= factor
        return
    ordered, total, tau = np.sort(work), 0.0, 0.0
    for c in range(d):
        total += ordered[d - 1 - c]
        tau = max(tau, (total - s.radius) / (c + 1.0))
    for c in range(d):
        x[i, c] = np.copysign(max(work[c] - tau, 0.0), x[i, c])


@_compiled
def _gradient(
    s: RoundSettings, x: FloatArray, slot: _Slot, i: int, r: int, work: FloatArray, row: FloatArray
) -> bool:
    """Write the gradient of a record of node i at x into `row`, (1, d); return whether it is finite."""
    features, label, present = slot[0], slot[1][i, r], slot[2][i, r]
    finite = True
    for c in range(len(work)):
        row[0, c] = x[i, c] - features[i, r, c]
        work[c] = x[i, c] * features[i, r, c]
    if s.loss == _RANGE:
        norm = _size(row, 0, _L2, work)
        slope = 1.0 - label / norm if present and norm > 0.0 else 0.0
    else:
        score = _sum(work, 0, len(work))
        slope = score - label
        if s.loss == _HINGE:
            slope = -label if label * score < 1.0 else 0.0
        elif s.loss == _ABSOLUTE:
            slope = np.sign(slope)
        elif s.loss == _HUBER:
            slope = -s.k if slope < -s.k else (min(slope, s.k))
        elif s.loss == _LINEAR:
            slope = 1.0
        slope = slope if present else 0.0
    for c in range(len(work)):
        row[0, c] = slope * (row[0, c] if s.loss == _RANGE else features[i, r, c])
        finite = finite and np.isfinite(row[0, c])
    return finite


@_compiled
def _clip(s: RoundSettings, row: FloatArray, work: FloatArray, total: FloatArray, points: IntArray) -> int:
    """Add a gradient (1, d), clipped, to `total`, and to the grid's `points`; 1: it changed, 2: broken."""
    size = _size(row, 0, s.norm, work)
    factor, broken, counted = s.theta / max(size, s.theta), not np.isfinite(size), 0
    for c in range(len(work)):
        work[c] = 0.0 if broken else row[0, c] * factor
        total[c] += work[c]
    if s.noisy:
        limit = (2.0 if s.norm == _L1 else 1.0) * s.grid_radius * s.grid_step
        per_unit = 1.0 / s.grid_step  # a power of two
        for c in range(len(work)):
            points[1, c] = np.rint(min(max(work[c], -limit), limit) * per_unit)
            counted += abs(points[1, c]) if s.norm == _L1 else points[1, c] * points[1, c]
        divisor: Any = max(counted, s.grid_radius)
        if s.norm == _L2:
            above = counted > s.grid_radius * s.grid_radius
            divisor = np.int64(np.sqrt(np.float64(counted))) + 2 if above else s.grid_radius
        for c in range(len(work)):
            point = points[1, c]
            if divisor > s.grid_radius:
                scaled = abs(point) * s.grid_radius // divisor
                point = scaled if point > 0 else -scaled
            points[0, c] += point
    return 2 if broken else (1 if size > s.theta else 0)


@_compiled
def _mix(
    s: RoundSettings, m: int, terms: _Terms, q: FloatArray, z: FloatArray, x: FloatArray, bounds: FloatArray
) -> bool:
    """Write consensus z and decisions x of releases q, all (N, d); return whether z and x are the same."""
    _, starts, sources, weights = terms
    unmoved, work = True, np.empty(q.shape[1])
    for i in range(len(z)):
        for c in range(len(work)):
            mixed = -0.0
            for k in range(starts[m, i], starts[m, i + 1]):
                mixed += q[sources[k], c] * weights[k]
            z[i, c] = x[i, c] = mixed
        _project(s, x, i, bounds, work)
        for c in range(len(work)):
            unmoved = unmoved and x[i, c] == z[i, c]
    return unmoved


@_compiled
def _rounds(  # noqa: C901, PLR0912 # its calls would cost more than its numbers
    s: RoundSettings, bounds: FloatArray, first: int, terms: _Terms, slots: Any, public: Any, out: Any
) -> int:
    """Run rounds from `first`; return the place after the last one, which may have left the public bound.

    `bounds`: those of a box (2, d). `slots`: features (T, N, n, d), labels and presence (T, N, n).
    `public`: step sizes (T,), whether it learns (T,), noise (T, N, d). `out`: releases (T + 1, N, d),
    consensus, decisions and mean gradients (T, N, d); how many gradients were clipped, and broken (T, 3).
    """
    (features, labels, present), (alphas, learns, noise) = slots, public
    releases, consensus, decisions, means, counts = out
    nodes, records, d = features.shape[1:]
    rounds: int = len(features)
    work, row, total, points = np.empty(d), np.empty((1, d)), np.empty(d), np.empty((2, d), np.int64)
    for t in range(first, rounds):
        z, x, mean, q, near = consensus[t], decisions[t], means[t], releases[t + 1], False
        unmoved = _mix(s, terms[0][t], terms, releases[t], z, x, bounds)
        slot, at = (features[t], labels[t], present[t]), x if s.at_decision else z
        for i in range(nodes):
            for c in range(d):
                total[c] = mean[i, c] = 0.0
                points[0, c] = 0
            for r in range(records):
                finite = _gradient(s, x, slot, i, r, work, row)
                for c in range(d):
                    mean[i, c] += row[0, c] if finite else 0.0
                if learns[t]:
                    if not (unmoved or s.at_decision):
                        _gradient(s, at, slot, i, r, work, row)
                    counts[t, _clip(s, row, work, total, points)] += 1
            for c in range(d):
                mean[i, c] /= s.batch_size
                step = total[c]
                if s.noisy and learns[t]:
                    step = (points[0, c] + np.int64(np.rint(noise[t, i, c] * s.scale))) * s.grid_step
                step = step / s.batch_size
                if s.regulariser != 0.0:
                    step = s.regulariser * z[i, c] + step
                q[i, c] = z[i, c] - alphas[t] * step
            if learns[t]:
                _project(s, q, i, bounds, work)
            else:
                q[i] = z[i]
            for c in range(d):
                work[c] = q[i, c] * q[i, c]
            near = near or _sum(work, 0, d) > s.near
        if near:
            return t + 1
    return rounds


@dataclass(frozen=True, slots=True)
class CompiledEngine(Engine):
    """An engine that runs compiled rounds where it can; `report` gets one line if it stops doing so.

    It reads up to 64 slots ahead. Above `_MOST` nodes all rounds run on numpy.
    """

    report: Callable[[str], None]

    def steps(self, slots: Iterable[Observations]) -> Iterator[Step]:
        """Yield rounds 1, 2, ..., as `Engine` does, with the same bits."""
        settings, slots, state = compilable(self.learner), iter(slots), self.start()
        if settings is not None and len(state.releases) <= _MOST:
            beginning = list(islice(slots, BESIDE))
            expected = list(self.steps_from(state, beginning))
            fault = self._fault(settings, state, beginning, expected)
            yield from expected
            state = State.after(expected[-1]) if expected else state
            if fault is None:
                count = max(1, min(_TOGETHER, _NUMBERS // (state.releases.size * settings.batch_size)))
                while block := list(islice(slots, count)):
                    for step in self._through(settings, state, block):
                        yield step
                    state = State.after(step)
                return
            self.report(f"the compiled engine {fault}: numpy's goes on alone")
        yield from self.steps_from(state, slots)

    def _fault(
        self, settings: RoundSettings, state: State, slots: list[Observations], expected: list[Step]
    ) -> str | None:
        """Return how the compiled rounds of these slots fail; None if they are as expected."""
        try:
            compiled_steps = list(self._through(settings, state, slots))
        except Exception as error:  # noqa: BLE001 # the compiled code on disk may be of another version
            return f"does not run ({type(error).__name__})"
        pairs = zip(compiled_steps, expected, strict=True)
        rounds = (step.round for compiled, step in pairs if _public(compiled) != _public(step))
        different = next(rounds, None)
        return None if different is None else f"differs from numpy's in round {different}"

    def _through(
        self, settings: RoundSettings, state: State, slots: Iterable[Observations]
    ) -> Iterator[Step]:
        """Yield the slots' rounds. They are compiled, except for those of odd slots."""
        for shape, group in groupby(slots, self._shape):
            alike = list(group)
            steps = self.steps_from(state, alike) if shape is None else self._rounds(settings, state, alike)
            for step in steps:
                yield step
            state = State.after(step)

    def _shape(self, slot: Observations) -> tuple[int, ...] | None:
        """Return the shape of a slot's features, None for a slot that is odd."""
        features, labels, present = slot
        if isinstance(features, SparseRows):
            return None
        shape, algorithm = features.shape, self.learner.algorithm
        if len(shape) != 3 or not labels.shape == present.shape == shape[:2] or features.dtype is not _FLOAT:
            return None
        is_plain = labels.dtype is _FLOAT and present.dtype is _BOOL and shape[2] == algorithm.dimension
        return shape if is_plain and 0 < shape[1] <= self.learner.batch_size else None

    def _rounds(self, settings: RoundSettings, state: State, slots: list[Observations]) -> Iterator[Step]:
        learner, shape = self.learner, state.releases.shape
        algorithm: Any = learner.algorithm  # those that are compiled have these parts
        mechanism: Any = learner.mechanism
        rounds, charged = range(state.round, state.round + len(slots)), [state.charged]
        for round in rounds:
            charged.append(charged[-1] + learner.ledger.may_learn(round, charged[-1]))
        noise = np.empty((1, 1, 1))
        if settings.noisy:
            noise = mechanism.sampler.of_rounds(mechanism.name, rounds, shape)
        learns = np.diff(charged).astype(np.bool_)
        alphas = np.array([algorithm.step_size(round) for round in rounds])
        of_slots = tuple(np.array(parts) for parts in zip(*slots, strict=True))
        weights = [self.schedule.weights(round, self.schedule.graph.nodes) for round in rounds]
        kinds = list(dict.fromkeys(weights))
        place = {kind: number for number, kind in enumerate(kinds)}
        terms = (np.array([place[kind] for kind in weights]), *_joined(tuple(kinds)))
        count, end = len(slots), 0
        releases, counts = np.empty((count + 1, *shape)), np.zeros((count, 3), np.int64)
        arrays, bounds, public = (
            np.empty((3, count, *shape)),
            _bounds(algorithm.constraint),
            (alphas, learns, noise),
        )
        releases[0] = state.releases
        while end < count:
            end = _rounds(settings, bounds, end, terms, of_slots, public, (releases, *arrays, counts))
            releases[end] = learner.clamped(Release(releases[end].copy()))
        exact = [mechanism.epsilon is None or not may for may in learns.tolist()]
        rows = zip(rounds, releases, releases[1:], *arrays, exact, charged[1:], counts.tolist(), strict=False)
        for round, before, after, consensus, decision, mean, noiseless, paid, (_, clipped, broken) in rows:
            private = Private(mean), Private(clipped), Private(broken)
            lesson = StepResult(Release(after), noiseless, paid, *private)
            yield Step(round, Release(before), Consensus(consensus), Decision(decision), lesson)


@lru_cache(maxsize=64)
def _joined(weights: tuple[Weights, ...]) -> tuple[IntArray, IntArray, FloatArray]:
    """Return each row's first term (M, N + 1) of several matrices, and the sources and weights of all."""
    sources, values, counts = zip(*map(ordered_terms, weights), strict=True)
    ends = np.cumsum(np.concatenate(counts)).reshape(len(weights), -1)
    starts = np.insert(ends, 0, np.concatenate([[0], ends[:-1, -1]]), 1)
    return starts, np.concatenate(sources), np.concatenate(values)


def _public(step: Step) -> tuple[object, ...]:
    """Return the bits of a step's public values."""
    lesson = step.lesson
    arrays = (step.releases, step.consensus, step.decision, lesson.release)
    return (*[np.ascontiguousarray(array).tobytes() for array in arrays], lesson.exact, lesson.charged)


def fastest(engine: Engine, report: Callable[[str], None]) -> Engine:
    """Return the engine with compiled rounds; as it is without numba. `report`: as in CompiledEngine."""
    return engine if njit is None else CompiledEngine(engine.learner, engine.schedule, report)
