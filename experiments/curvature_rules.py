"""Which rule for the believed covariance follows a target with one private sign a record, in a ring too.

    python experiments/curvature_rules.py

A float prototype of a public direction and a public gain, not the product. Sensors' places are public. Node
i releases the sign of its residual by randomised response, b = +-1, so y = b coth(eps/2). All else is public:
the direction u_i at the decision, S_i = u_i' P u_i + error^2, the slope a_i = presence sqrt(2/(pi S_i)), the
noise R_i = coth^2(eps/2) - a_i^2 u_i' P u_i, and the information form Q = P^-1 + sum_i (a_i^2/R_i) u_i u_i'.
A node's step is n Q^-1 u_i (a_i/R_i) y_i; the mesh averages states; P moves on by F and by the jerk's noise.

| rule | the covariance of a node |
|---|---|
| own | P at its own decision |
| old | P at the mean of all decisions of five rounds ago, moved on: a point that all can know |
| intersection | P^-1 is averaged with neighbours', states by these weights; own records alone, n times |
| ..., wide | S is three times as large |
| ..., spread | S also holds what states received lately differed by along u_i (a tenth from each round) |
| ..., test | P is four times as large where releases of the last rounds agree on another place |

The last: G <- rho(G + u y a/R), averaged as states are, C <- rho^2 (C + sum (a^2/R) u u'), over 0.1 % of
chi^2.
Averages of P^-1 with states weighted by it are covariance intersection (Julier, Uhlmann 1997) with the mesh's
weights; P^-1 is public, and a message has to hold it.

Paths: `moving_targets` of 3,000 rounds (figure: root mean square error over the second half), and `wall`:
eight sensors in one wall, a target at rest, in motion, at rest (figure: 95th percentile of metres from 10 s
on). The jerk is chosen on pilot paths: the largest whose error is at most 1.15 times the least, as a small
one loses targets. A run is lost above 0.1, for the wall above 1. 50 runs each. Rules were compared
with seed 0; the table has other coins, other errors and, of the wall, other paths. It is
curvature-rules.csv.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.harness.figures import table
from experiments.harness.moving_runs import others, pilots
from experiments.harness.moving_targets import ERROR, distances, sensors
from experiments.harness.study import Measured, Study
from nodes.values import BoolArray, FloatArray
from topology.keyed import generator

SPEEDS, EPSILONS, GRAPHS, RUNS = (0.001, 0.003, 0.01), (4.0, 1.0), ("complete", "ring"), 50
RULES = (
    *("own", "own, wide", "own, spread", "own, test", "old"),
    *("intersection", "intersection, wide", "intersection, spread"),
)
JERKS = tuple(10.0**-k for k in np.arange(2.5, 4.6, 0.25))
WALL_JERKS = (0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4)
NEAR, FRESH = 1.15, 100
RHO, AGREED, WIDER, BEHIND = 0.9, {2: 13.8, 3: 16.3}, 4.0, 5


@dataclass(frozen=True, eq=False)
class Setting:
    """All that is public: places (n, p), x' = F x + c with noise jerk^2 W + V, start and box (d,)."""

    places: FloatArray
    f: FloatArray
    c: FloatArray
    w: FloatArray
    v: FloatArray
    start: FloatArray
    deviations: FloatArray
    low: FloatArray
    high: FloatArray
    error: float
    presence: float


def plane() -> Setting:
    """Return that of six sensors on a circle, state (position, velocity), a round the unit of time."""
    eye, gain = np.eye(2), np.kron([[0.5], [1.0]], np.eye(2))
    high, none = np.array([2.0, 2.0, 0.05, 0.05]), np.zeros(4)
    deviations = np.sqrt([1.0, 1.0, 1e-3, 1e-3])
    f = np.asarray(np.kron([[1.0, 1.0], [0.0, 1.0]], eye), np.float64)
    w, v = gain @ gain.T, np.zeros((4, 4))
    return Setting(sensors(), f, none, w, v, none, deviations, -high, high, ERROR, 1.0)


PERIOD, HEIGHT, PRESENCE = 0.12, 1.05, 0.97
WALL = np.array([[x, y, z] for x, y in ((-1, 3.6), (-0.4, 4.0), (0.2, 3.1), (0.8, 3.6)) for z in (0.1, 1.5)])


def wall() -> Setting:
    """Return that of eight sensors in a wall; state (x, y, height, velocity in the plane), in m and s."""
    f, c, w, v = np.eye(5), np.zeros(5), np.zeros((5, 5)), np.zeros((5, 5))
    still = math.exp(-PERIOD / 2)  # the height is 1.05 +- 0.05, and forgets in 2 s
    f[0, 3] = f[1, 4] = PERIOD
    f[2, 2], c[2], v[2, 2] = still, (1 - still) * HEIGHT, (1 - still**2) * 0.05**2
    for k in (0, 1):
        w[np.ix_([k, 3 + k], [k, 3 + k])] = [[PERIOD**3 / 3, PERIOD**2 / 2], [PERIOD**2 / 2, PERIOD]]
    start, deviations = np.array([0, 0, HEIGHT, 0, 0]), np.array([2, 2, 0.05, 0.3, 0.3])
    low, high = np.array([-4, -3, 0.8, -1.5, -1.5]), np.array([4, 3, 1.3, 1.5, 1.5])
    return Setting(WALL, f, c, w, v, start, deviations, low, high, 0.03, PRESENCE)


def wall_paths(runs: int, rounds: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return places (T, R, 3), at rest, in motion, at rest, and distances (T, R, n), of which 3 % are NaN."""
    random = generator("curvature wall", seed)
    at = np.clip((np.arange(rounds) / rounds - 0.25) / 0.6, 0, 1)[:, None]
    phase, turns = random.uniform(0, 2 * math.pi, (2, runs)), random.uniform(2, 4, (2, runs))
    x, y = (np.sin(phase[k] + turns[k] * 2 * math.pi * at) for k in (0, 1))
    z = HEIGHT + 0.03 * np.sin(at * 40 + phase[0])
    targets = np.stack((1.5 * x, -0.5 + 1.5 * y, z), -1)
    measured = np.sqrt(((targets[:, :, None] - WALL) ** 2).sum(-1))
    measured += 0.03 * random.standard_normal(measured.shape)
    measured[random.random(measured.shape) > PRESENCE] = np.nan
    return targets, measured


def mixing(graph: str, nodes: int) -> FloatArray:
    """Return the weights (n, n): equal, of all or of oneself and two neighbours."""
    if graph == "complete":
        return np.full((nodes, nodes), 1 / nodes)
    eye = np.eye(nodes)
    ring: FloatArray = (eye + np.roll(eye, 1, 0) + np.roll(eye, -1, 0)) / 3
    return ring


def answers(residuals: FloatArray, epsilon: float, random: np.random.Generator) -> FloatArray:
    """Return the signs by randomised response, times coth(epsilon/2); NaN, no record, tosses a fair coin."""
    fair = random.random(residuals.shape) < 0.5
    signs = np.where(np.isnan(residuals), fair, residuals >= 0) * 2.0 - 1
    is_true = random.random(residuals.shape) < 1 / (1 + math.exp(-epsilon))
    responses: FloatArray = np.where(is_true, signs, -signs) / math.tanh(epsilon / 2)
    return responses


class Filter:
    """States x (B, n, d) and covariances p (B, n, d, d) of B runs at once; `jerks`: (B,)."""

    def __init__(self, setting: Setting, rule: str, mix: FloatArray, jerks: FloatArray, seed: int) -> None:
        self.of, self.mix, self.random = setting, mix, generator("curvature", seed)
        self.rule, _, self.also = rule.partition(", ")
        size, (n, self.space) = len(jerks), setting.places.shape
        self.x = np.tile(setting.start, (size, n, 1)).astype(float)
        self.p = np.tile(np.diag(setting.deviations**2), (size, n, 1, 1))
        self.w = jerks[:, None, None, None] ** 2 * setting.w + setting.v
        self.g, self.c = np.zeros((size, n, self.space)), np.tile(_least(self.space), (size, n, 1, 1))
        self.past: list[FloatArray] = []
        self.apart = np.zeros((size, n, self.space, self.space))

    def observe(self, measured: FloatArray, epsilon: float) -> None:
        """Move all on by the distances (B, n); NaN: none."""
        k, n, nodes = self.space, self.mix.shape[0], np.arange(len(self.mix))
        offsets = self._points()[:, :, None, :k] - self.of.places
        u = offsets / np.sqrt((offsets**2).sum(-1))[..., None]  # (B, node, sensor, space)
        a, r = self._gains(u, epsilon)
        mine = self.x[..., :k] - self.of.places
        lengths = np.sqrt((mine**2).sum(-1))
        residuals = measured - lengths
        y = answers(residuals, epsilon, self.random)
        weights = a * a / r
        if self.rule == "intersection":  # what neighbours know comes with their covariances
            weights = weights * n * np.eye(n)
        information = np.einsum("bnk,bnki,bnkj->bnij", weights, u, u)
        inverse = _inverse(self.p)
        inverse[..., :k, :k] += information
        self.p = _inverse(inverse)
        direction = mine / lengths[..., None]
        steps = direction * (n * (a / r)[:, nodes, nodes] * y)[..., None]
        if self.also == "test":
            self._widen(steps, information)
        x = np.clip(self.x + np.einsum("bnij,bnj->bni", self.p[..., :k], steps), self.of.low, self.of.high)
        self._mix(x, inverse)

    def _points(self) -> FloatArray:
        """Return where directions are taken, (B, n, d)."""
        if self.rule != "old":
            return self.x
        self.past.append(self.x.mean(1))
        late = self.past[max(0, len(self.past) - 1 - BEHIND)]
        for _ in range(min(BEHIND, len(self.past) - 1)):
            late = late @ self.of.f.T + self.of.c
        return np.repeat(late[:, None], len(self.mix), 1)

    def _gains(self, u: FloatArray, epsilon: float) -> tuple[FloatArray, FloatArray]:
        covariance = self.p[..., : self.space, : self.space]
        if self.also == "spread":
            covariance = covariance + self.apart
        s = np.einsum("bnki,bnij,bnkj->bnk", u, covariance, u) * (3 if self.also == "wide" else 1)
        a = self.of.presence * np.sqrt(2 / math.pi / (s + self.of.error**2))
        return a, 1 / math.tanh(epsilon / 2) ** 2 - a * a * s

    def _widen(self, steps: FloatArray, information: FloatArray) -> None:
        """Take a covariance for too small where the last releases say so together."""
        reach = 1.0 if np.ptp(self.mix) == 0 else 2.0
        self.g = RHO * np.einsum("ij,bjk->bik", self.mix, self.g + steps)
        self.c = RHO**2 * (self.c + reach * information)
        score = np.einsum("bni,bni->bn", self.g, np.linalg.solve(self.c, self.g[..., None])[..., 0])
        hit: BoolArray = score > AGREED[self.space]
        self.p = np.where(hit[..., None, None], self.p * WIDER, self.p)
        variances = np.einsum("bnii->bni", self.p)
        shrink = np.sqrt(np.minimum(1, self.of.deviations**2 / variances))
        self.p = np.where(hit[..., None, None], self.p * shrink[..., None] * shrink[..., None, :], self.p)
        self.g[hit], self.c[hit] = 0, _least(self.space)

    def _mix(self, x: FloatArray, inverse: FloatArray) -> None:
        f = self.of.f
        if self.rule == "intersection":
            together = np.einsum("ij,bjkl->bikl", self.mix, inverse)
            weighted = np.einsum("ij,bjkl,bjl->bik", self.mix, inverse, x)
            mean = np.linalg.solve(together, weighted[..., None])[..., 0]
            self.p = _inverse(together)
        else:
            mean = np.einsum("ij,bjk->bik", self.mix, x)
        if self.also == "spread":
            far = (x[:, None] - mean[:, :, None])[..., : self.space]
            self.apart = RHO * self.apart + (1 - RHO) * np.einsum("ij,bijk,bijl->bikl", self.mix, far, far)
        self.x = mean @ f.T + self.of.c
        self.p = f @ self.p @ f.T + self.w


def _inverse(matrices: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.inv(matrices), np.float64)


def _least(space: int) -> FloatArray:
    return np.eye(space) * 1e-9


def errors(nodes: Filter, targets: FloatArray, measured: FloatArray, epsilon: float) -> FloatArray:
    """Return nodes' distances from the targets before each round's records, shape (T, B, n)."""
    found = np.empty(measured.shape)
    for t, (target, seen) in enumerate(zip(targets, measured, strict=True)):
        found[t] = np.sqrt(((nodes.x[..., : nodes.space] - target[:, None]) ** 2).sum(-1))
        nodes.observe(seen, epsilon)
    return found


def scored(far: FloatArray, speed: float) -> FloatArray:
    """Return a run's figure, shape (B,)."""
    late = far[len(far) // 2 :] if speed else far[round(10 / PERIOD) :]
    figures: FloatArray = np.sqrt((late**2).mean((0, 2))) if speed else np.quantile(late, 0.95, (0, 2))
    return figures


def followed(
    seed: int, *, rule: str, graph: str, speed: float, epsilon: float, rounds: int, runs: int
) -> Measured:
    """Choose the jerk on the pilot, then follow: jerk, and errors (R,). Speed 0: the wall."""
    seed += FRESH
    setting, jerks = (plane(), JERKS) if speed else (wall(), WALL_JERKS)
    mix = mixing(graph, len(setting.places))
    targets, measured = pilots(speed, rounds // 2) if speed else wall_paths(8, rounds, 1)
    size = targets.shape[1]
    many = [np.tile(array, (1, len(jerks), 1)) for array in (targets, measured)]
    tried = Filter(setting, rule, mix, np.repeat(jerks, size), seed)
    pilot = scored(errors(tried, many[0], many[1], epsilon), speed).reshape(len(jerks), size).mean(1)
    jerk = max(jerk for jerk, far in zip(jerks, pilot, strict=True) if far <= NEAR * np.nanmin(pilot))
    if speed:
        targets = others(speed, rounds, runs)
        measured = distances(targets, seed)
    else:
        targets, measured = wall_paths(runs, rounds, 2 + seed)
    chosen = Filter(setting, rule, mix, np.full(runs, jerk), seed + 1)
    return {"jerk": np.array(jerk), "errors": scored(errors(chosen, targets, measured, epsilon), speed)}


def main(study: Study) -> None:
    """Write curvature-rules.csv."""
    runs = 3 if study.quick else RUNS
    cases = {
        f"{graph} {speed} {epsilon} {rule}": {
            "graph": graph,
            "speed": speed,
            "epsilon": epsilon,
            "rule": rule,
            "rounds": 200 if study.quick else 3_000 if speed else 1_000,
            "runs": runs,
        }
        for speed in (0.0, *SPEEDS)
        for epsilon in EPSILONS
        for graph in GRAPHS
        for rule in RULES
    }
    measured = study.repeated(followed, cases, 1)
    rows = [_row(case, measured[label]) for label, case in cases.items()]
    columns = ["trace", "epsilon", "graph", "rule", "jerk", "median", "p90", "largest", "lost"]
    table(study.output, "curvature-rules", columns, rows)


def _row(case: Mapping[str, object], measured: Measured) -> list[object]:
    far = np.nan_to_num(measured["errors"][0], nan=np.inf)
    trace = f"eights {case['speed']}" if case["speed"] else "wall"
    lost = int((far > (0.1 if case["speed"] else 1.0)).sum())
    middle, high = np.quantile(far, [0.5, 0.9])
    figures = [float(middle), float(high), float(far.max()), lost]
    return [trace, case["epsilon"], case["graph"], case["rule"], float(measured["jerk"][0]), *figures]


if __name__ == "__main__":
    main(Study(Path(__file__).with_name("results"), workers=2))
