"""A plain-loop reference of the algorithms, from the formulas alone: one function a formula, Python floats.

It has its own losses, steps, projections, clips and grids; only simulated noise, given its scale, is the
project's.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq, lsq_linear

from nodes.privacy.exact import SimulatedSampler


def loss_of(mesh, name):
    """The loss of a node: its own, or that of all."""
    own = mesh["nodes"][name] if isinstance(mesh["nodes"], dict) else {}
    return own.get("loss", mesh["loss"])


def weighted_gradient(mesh, name, x, record):
    """The gradient of one record's loss at x, times the weight of its label."""
    found, weights = gradient(loss_of(mesh, name), x, record), mesh.get("class_weights")
    if weights is None or record is None:
        return found
    place = int(record[1]) if "softmax" in mesh["loss"] else (int(record[1]) + 1) // 2
    return [weights[place] * v for v in found]


def softmax_gradient(classes, x, a, y):
    """(p_c - [c = y]) a for each class, p the softmax of the scores."""
    powers = [math.exp(sum(x[c * len(a) + k] * a[k] for k in range(len(a)))) for c in range(classes)]
    return [(powers[c] / sum(powers) - (c == y)) * a[k] for c in range(classes) for k in range(len(a))]


def gradient(loss, x, record):
    """The gradient of one record's loss at x; of what is no record, 0."""
    if record is None:
        return [0.0] * len(x)
    a, y = record
    if "softmax" in loss:
        return softmax_gradient(loss["softmax"], x, a, y)
    if loss == "range":
        distance = math.sqrt(sum((x[k] - a[k]) ** 2 for k in range(len(x))))
        return [(1 - y / distance) * (x[k] - a[k]) if distance > 0 else 0.0 for k in range(len(x))]
    kind, own = next(iter(loss.items())) if isinstance(loss, dict) else (loss, {})
    if kind in {"range", "bearing", "range-difference"}:
        return residual_gradient(kind, own, x, a, y)
    score = sum(x[k] * a[k] for k in range(len(x)))
    hinge, logistic = -y if y * score < 1 else 0.0, -y / (1 + math.exp(y * score))
    if isinstance(loss, dict):
        k = loss["huber"]
        return [a_k * (score - y if abs(score - y) <= k else math.copysign(k, score - y)) for a_k in a]
    slopes = {"hinge": hinge, "logistic": logistic, "squared": score - y, "linear": 1.0}
    slope = slopes.get(loss, 1.0 if score > y else -1.0)  # the last: absolute
    return [slope * a[k] for k in range(len(x))]


def residual_gradient(kind, own, x, a, y):
    """psi(r) grad r, of a distance, an angle or a difference of distances; psi cuts at k."""

    def unit(place):
        away = math.dist(x, place)
        return [(x[k] - place[k]) / away if away > 0 else 0.0 for k in range(len(x))]

    if kind == "range":
        r, slope = math.dist(x, a) - y, unit(a)
    elif kind == "range-difference":
        r = math.dist(x, a) - math.dist(x, own["reference"]) - y
        slope = [u - v for u, v in zip(unit(a), unit(own["reference"]), strict=True)]
    else:
        u, v = x[0] - a[0], x[1] - a[1]
        r = math.remainder(math.atan2(v, u) - y, 2 * math.pi)
        slope = [-v / (u * u + v * v), u / (u * u + v * v)] if u or v else [0.0, 0.0]
    k = own.get("huber", math.inf)
    return [min(max(r, -k), k) * s for s in slope]


def size(vector, norm):
    if norm == "l2":
        return math.sqrt(sum(v * v for v in vector))
    return sum(map(abs, vector)) if norm == "l1" else max(map(abs, vector))


def alpha(rule, t):
    below = {
        "constant": 1,
        "inverse-sqrt": math.sqrt(t),
        "inverse": t,
        "shifted-inverse": rule.get("b", 0) + t,
    }
    return rule["a"] / below[rule["rule"]]


def thresholded(values, rates, total):
    """max(v_k - tau rate_k, 0) with the sum `total`: the set of positive coordinates is tried out."""
    everything = range(len(values))
    for count in range(1, len(values) + 1):
        for kept in itertools.combinations(everything, count):
            tau = (sum(values[k] for k in kept) - total) / sum(rates[k] for k in kept)
            if kept == tuple(k for k in everything if values[k] - tau * rates[k] > 0):
                return [max(values[k] - tau * rates[k], 0.0) for k in everything]
    raise AssertionError("no set of positive coordinates fits")


def onto_l1(q, radius, y):
    """argmin over the L1 ball of (x - y)'Q(x - y), diagonal Q; a soft threshold."""
    if sum(map(abs, y)) <= radius:
        return y
    shrunk = thresholded([abs(v) for v in y], [1 / c for c in q], radius)
    return [math.copysign(m, v) for m, v in zip(shrunk, y, strict=True)]


def onto_l2(q, radius, y):
    """argmin over the L2 ball: Qy/(Q + lambda); one equation in lambda, solved."""
    if size(y, "l2") <= radius:
        return y
    if len(set(q)) == 1:
        return [v * radius / size(y, "l2") for v in y]

    def at(multiplier):
        return [c * v / (c + multiplier) for c, v in zip(q, y, strict=True)]

    highest = max(q) * size(y, "l2") / radius
    return at(brentq(lambda m: size(at(m), "l2") - radius, 0.0, highest, xtol=1e-15, rtol=1e-15))


def onto_l1_full(q, radius, y):
    """argmin over the L1 ball, any Q: the lasso's dual is least squares in a box; its bound is solved for."""
    if sum(map(abs, y)) <= radius:
        return y
    matrix, y = np.array(q), np.array(y)
    root = np.linalg.cholesky(matrix)
    whitened = np.linalg.inv(root)

    def at(bound):
        if bound <= 0:
            return y
        dual = lsq_linear(whitened, root.T @ y, (-bound, bound), method="bvls", tol=1e-15).x
        return y - np.linalg.solve(matrix, dual)

    highest = float(np.abs(matrix @ y).max())
    return at(brentq(lambda b: size(at(b), "l1") - radius, 0.0, highest, xtol=1e-15, rtol=1e-14)).tolist()


def onto_l2_full(q, radius, y):
    """argmin over the L2 ball, any Q: x = (Q + lambda)^-1 Qy; one equation in lambda, solved."""
    if size(y, "l2") <= radius:
        return y
    matrix = np.array(q)

    def at(multiplier):
        return np.linalg.solve(matrix + multiplier * np.eye(len(y)), matrix @ y).tolist()

    highest = float(np.linalg.norm(matrix, 2)) * size(y, "l2") / radius
    return at(brentq(lambda m: size(at(m), "l2") - radius, 0.0, highest, xtol=1e-15, rtol=1e-15))


def onto_box_full(q, lower, upper, y):
    """argmin over a box, any Q: least squares ||R(x - y)||, Q = R'R, with bounds."""
    root = np.linalg.cholesky(np.array(q)).T
    return lsq_linear(root, root @ y, (lower, upper), method="bvls", tol=1e-15).x.tolist()


def floored(z):
    """z, if need be brought onto the simplex, no coordinate below 1e-12/d, renormalised."""
    if abs(sum(z) - 1) > 1e-14 or min(z) < 0:
        z = thresholded(z, [1.0] * len(z), 1.0)
    raised = [max(v, 1e-12 / len(z)) for v in z]
    return [v / sum(raised) for v in raised]


class Reference:
    """DPDO-NC and DOLA (Zhou, Li 2025; Li et al. 2018); counts how often the set and the clip mattered.

    With `dynamics` the state moves by F after the step, and the loss sees a part of it (Hall, Willett 2013).
    """

    def __init__(self, mesh):
        self.mesh, self.d = mesh, mesh["dimension"]
        self.algorithm, self.privacy, self.h = mesh["algorithm"], mesh["privacy"], mesh["slots"]["size"]
        self.f, self.seen = motion_of(self.algorithm, self.d)
        self.m = len(self.seen)
        q = [1.0] * self.d if self.is_("euclidean") else self.algorithm["mirror_map"]
        self.q = q["mahalanobis"] if isinstance(q, dict) else q
        if "gains" in self.algorithm:
            self.inverse = inverse_of(self.algorithm["gains"], self.algorithm["dynamics"]["dimensions"])
            self.q = np.linalg.inv(self.inverse).tolist()
        self.full = isinstance(self.q[0], list)
        self.bound = self.clips = 0
        self.releases, self.decisions = {}, {}

    def is_(self, mirror_map):
        return self.algorithm["mirror_map"] == mirror_map

    def set_(self):
        constraint = self.algorithm["constraint"]
        if "reach" in constraint:
            reach = [bound for bound in constraint["reach"].values() for _ in range(self.m)]
            return "box", {"lower": [-bound for bound in reach], "upper": reach}
        return (constraint, None) if isinstance(constraint, str) else next(iter(constraint.items()))

    def projected(self, y):
        """argmin over Omega of 1/2 (x - y)'Q(x - y)."""
        kind, setting = self.set_()
        if kind == "simplex":
            return thresholded(y, self.q, 1.0)
        if kind == "l1-ball":
            return (onto_l1_full if self.full else onto_l1)(self.q, setting, y)
        if kind == "l2-ball":
            return (onto_l2_full if self.full else onto_l2)(self.q, setting, y)
        edges = setting if kind == "box" else {"lower": [-setting] * self.d, "upper": [setting] * self.d}
        if self.full:
            return onto_box_full(self.q, edges["lower"], edges["upper"], y)
        return [min(max(v, low), up) for v, low, up in zip(y, edges["lower"], edges["upper"], strict=True)]

    def step(self, z, s):
        """argmin over x in Omega of D(x, z) + <s, x>."""
        if self.is_("entropy"):
            powers = [v * math.exp(-c) for v, c in zip(floored(z), s, strict=True)]
            free = [p / sum(powers) for p in powers]
            x = floored(free)
        else:
            inverse = np.linalg.inv(self.q if self.full else np.diag(self.q)).tolist()
            free = [
                v - sum(w * c for w, c in zip(row, s, strict=True)) for v, row in zip(z, inverse, strict=True)
            ]
            x = self.projected(free)
        self.bound += max(abs(a - b) for a, b in zip(x, free, strict=True)) > 1e-13
        return x

    def start(self):
        """x_1 as given, or the point of Omega where phi is least."""
        least = [1 / self.d if self.set_()[0] == "simplex" else 0.0] * self.d
        return self.algorithm.get("x_1") or (least if self.is_("entropy") else self.projected(least))

    def clipped(self, g):
        norm, theta = size(g, self.privacy.get("norm", "l1")), self.privacy["gradient_bound"]
        self.clips += norm > theta
        return [v * theta / norm for v in g] if norm > theta else g

    def update(self, t, z, g):
        """The mirror step from z along alpha_t (eta z + g); with a motion model F of it, once in the set."""
        if self.f is not None:
            return self.moved(t, z, g)
        eta, a = self.algorithm.get("regulariser", 0), alpha(self.algorithm["step_size"], t)
        return self.step(z, [a * (eta * z[k] + g[k]) for k in range(self.d)])

    def moved(self, t, z, g):
        """contain(F (z - alpha_t Q^-1 g)), g in the coordinates that the loss sees."""
        a, d = alpha(self.algorithm["step_size"], t), range(self.d)
        inverse = self.inverse if "gains" in self.algorithm else np.diag([1 / c for c in self.q]).tolist()
        s = [z[k] - a * sum(inverse[k][o] * v for o, v in zip(self.seen, g, strict=True)) for k in d]
        free = [sum(self.f[k][j] * s[j] for j in d) for k in d]
        x = self.projected(free)
        self.bound += max(abs(b - c) for b, c in zip(x, free, strict=True)) > 1e-13
        return x

    def released(self, name, t, z, gradients):
        """q_{t+1} of the slot's clipped gradients."""
        mean = [sum(g[k] for g in gradients) / self.h for k in range(self.m)]
        if self.privacy["mechanism"] == "none":
            return self.update(t, z, mean)
        if self.privacy["on"] == "gradient":
            grid, most = grid_of(self.privacy["gradient_bound"], self.m)
            points = [held([round(v / grid) for v in g], most) for g in gradients]
            noise = self.noise(name, t, most)
            noisy = [(sum(p[k] for p in points) + noise[k]) * grid / self.h for k in range(self.m)]
            return self.update(t, z, noisy)
        c, x = self.update(t, z, [0.0] * self.d), self.update(t, z, mean)
        grid, most = grid_of(self.radius(t), self.d)
        moved = held([round((x[k] - c[k]) / grid) for k in range(self.d)], most)
        noise = self.noise(name, t, most)
        return [c[k] + (moved[k] + noise[k]) * grid for k in range(self.d)]

    def noise(self, name, t, most):
        """The node's simulated noise of round t in grid steps: scale 2K/epsilon, rounded up."""
        exact = 2 * most / Fraction(str(self.privacy["epsilon"]))
        scale = float(exact) if Fraction(float(exact)) >= exact else math.nextafter(float(exact), math.inf)
        sampler = SimulatedSampler(self.mesh["seed"], name)
        return sampler.laplace(t, np.zeros(self.m, np.int64), scale).tolist()

    def radius(self, t):
        """Half the L1 sensitivity of the parameters: the step of round t, so alpha_t."""
        a, theta, d = alpha(self.algorithm["step_size"], t), self.privacy["gradient_bound"], self.d
        separable = self.set_()[0] in {"box", "linf-ball"} and not self.full
        if self.is_("entropy"):
            return 2 * math.tanh(a * theta / 2)
        if separable:
            return a * theta * (1 if self.privacy["norm"] == "l1" else math.sqrt(sum(c**-2 for c in self.q)))
        least = min(np.linalg.eigvalsh(self.q).tolist() if self.full else self.q)
        return math.sqrt(d) * a * theta / least

    def run(self, records, weights):
        """Fill `releases` and `decisions`, by (name, round); `weights[t - 1][i][j]` is a_ij(t).

        Rounds beyond the records are closing ones: what is mixed goes on, moved if the mesh has a motion.
        """
        names = self.mesh["nodes"]
        q = {name: self.start() for name in names}
        self.releases = {(name, 1): q[name] for name in names}
        for t, row in enumerate(weights, 1):
            following = {}
            for i in names:
                z = [sum(row[i][j] * q[j][k] for j in names) for k in range(self.d)]
                x = self.decisions[i, t] = self.step(z, [0.0] * self.d)
                if (t - 1) * self.h >= len(records[i]):
                    following[i] = z if self.f is None else self.moved(t, z, [0.0] * self.m)
                    continue
                whole = z if self.algorithm["name"] == "dola" else x
                point = [whole[k] for k in self.seen]
                slot = records[i][(t - 1) * self.h : t * self.h]
                clipped = [self.clipped(weighted_gradient(self.mesh, i, point, record)) for record in slot]
                following[i] = self.released(i, t, z, clipped)
            q = following
            self.releases |= {(name, t + 1): q[name] for name in names}
        return self


def motion_of(algorithm, d):
    """F in rows (None: nothing moves), and the coordinates that the loss sees."""
    dynamics = algorithm.get("dynamics")
    if dynamics is None:
        return None, range(d)
    if "matrix" in dynamics:
        return dynamics["matrix"], algorithm.get("observes", range(d))
    n, p = dynamics["dimensions"], dynamics["period"]
    taylor = [1.0, p, p * p / 2]
    f = [[taylor[(j - i) // n] if j >= i and (j - i) % n == 0 else 0.0 for j in range(d)] for i in range(d)]
    return f, algorithm.get("observes", range(n))


def inverse_of(gains, n):
    """Q^-1 of gains, as the mesh file's reference writes it out."""
    k1, k2, k3 = (*gains, 0.0)[:3]
    velocity = [[k1, k2], [k2, 2 * k2**2 / k1]]
    acceleration = [
        [k1, k2, k3],
        [k2, 2 * k2**2 / k1, k2 * k3 / k1],
        [k3, k2 * k3 / k1, 2 * k3**2 / k1],
    ]
    blocks = velocity if len(gains) == 2 else acceleration
    size = range(len(gains) * n)
    return [[blocks[i // n][j // n] if i % n == j % n else 0.0 for j in size] for i in size]


def grid_of(bound, d):
    """The power of two of which the bound is 2^29 to 2^30 steps, and K = ceil(bound/grid + d/2)."""
    grid = 2.0 ** (math.floor(math.log2(bound)) - 29)
    return grid, math.ceil(bound / grid + d / 2)


def held(points, most):
    """Integers scaled towards 0 until they sum to K at most."""
    total = max(sum(map(abs, points)), most)
    return [(1 if p > 0 else -1) * (abs(p) * most // total) for p in points]
