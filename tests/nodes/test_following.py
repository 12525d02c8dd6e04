"""Following by public directions: one round in plain loops, one sign a record, no hold for the hostile."""

import math
from fractions import Fraction

import numpy as np
import pytest

from nodes.accounting.guarantee import Ledger
from nodes.checks import OutOfRange
from nodes.dynamics import motion
from nodes.following import MOST_MOVES, BeliefMotion, Following, inverse, weakest_direction, white_noise
from nodes.geometry.constraints import Box
from nodes.learner import Learner
from nodes.losses.losses import RangeFrom
from nodes.privacy.exact import ExactSampler, SimulatedSampler
from nodes.privacy.l2_sphere import L2Sphere, sphere_radius
from nodes.privacy.private import Private
from nodes.values import Consensus, Decision, Observations

BOX = Box(np.array([-4.0, -3.0, -1.5, -1.0]), np.array([4.0, 5.0, 1.5, 1.0]))
PLACES = np.array([[-1.0, 3.6, 0.1], [-0.4, 4.0, 1.5], [0.2, 3.1, 0.1], [0.8, 3.6, 1.5]])
ERROR, PRESENCE, PERIOD, JERK, HEIGHT = 0.03, 0.97, 0.12, 0.2, 1.05
EPSILON = Fraction(1)
COTH = sphere_radius(EPSILON, 1)
TARGET = np.array([1.2, -0.4, HEIGHT])


def moving(period=PERIOD):
    return BeliefMotion(motion(2, 2, period).matrix, noise=white_noise(2, 2, period, JERK), box=BOX, space=2)


def following(place=PLACES, response=COTH, **changes):
    settings = {"error": ERROR, "presence": PRESENCE, "nodes": len(PLACES), "height": (HEIGHT,)}
    return Following(moving(), place, np.asarray(response), **settings | changes)


def of_node(number):
    return following(PLACES[number])


def learner(algorithm, sampler):
    mechanism = L2Sphere(1.0, EPSILON, 1, 1, sampler)
    loss = RangeFrom(place=algorithm.place, height=(HEIGHT,))
    return Learner(algorithm, loss, mechanism, Ledger(EPSILON, 1, None), 1)


def some_releases(rounds=5, seed=3):
    """Releases (4, D) of four nodes after some rounds of a ring, with random answers."""
    algorithm, random = following(), np.random.default_rng(seed)
    releases = np.tile(algorithm.start, (4, 1))
    for t in range(rounds):
        mixed = sum(np.roll(releases, k, 0) for k in (-1, 0, 1)) / 3
        releases = algorithm.update(t, mixed, np.where(random.random((4, 1)) < 0.5, COTH, -COTH))
    return releases


def record(distance, *, present=True):
    return Observations(np.zeros((1, 0)), np.array([distance]), np.array([present]))


# ---------------------------------------------------------------- one round in plain loops


def as_matrices(release):
    """A release as Y x, Y, x and M, entry by entry."""
    y, m, k = np.zeros((4, 4)), np.zeros((2, 2)), 4
    for i in range(4):
        for j in range(i, 4):
            y[i, j] = y[j, i] = release[k]
            k += 1
    at, k = release[k : k + 2], k + 2
    for i in range(2):
        for j in range(i, 2):
            m[i, j] = m[j, i] = release[k]
            k += 1
    return release[:4], y, at, m


def one_round(terms, place, answer):
    """What a node decides and releases, from (weight, release) of all it hears and its mechanism's answer."""
    parts = [(weight, *as_matrices(release)) for weight, release in terms]
    information = sum(weight * y for weight, _, y, _, _ in parts)
    p = np.linalg.inv(information)
    x = p @ sum(weight * yx for weight, yx, _, _, _ in parts)
    apart = np.zeros((2, 2))
    for weight, _, _, at, m in parts:
        before = (m - 0.1 * np.outer(at, at)) / 0.9
        apart += weight * (0.9 * before + 0.1 * np.outer(at - x[:2], at - x[:2]))
    f = np.array([[1, 0, PERIOD, 0], [0, 1, 0, PERIOD], [0, 0, 1, 0], [0, 0, 0, 1]])
    w = np.zeros((4, 4))
    for k in (0, 1):
        w[k, k], w[k + 2, k + 2] = JERK**2 * PERIOD**3 / 3, JERK**2 * PERIOD
        w[k, k + 2] = w[k + 2, k] = JERK**2 * PERIOD**2 / 2
    x = np.clip(f @ x, BOX.lower, BOX.upper)
    p = f @ p @ f.T + w
    widest = np.sqrt((BOX.upper - BOX.lower) ** 2 / 12)
    scale = np.minimum(1, widest / np.sqrt(np.diag(p)))
    p = p * np.outer(scale, scale)
    offset = np.append(x[:2], HEIGHT) - place
    u = np.append((offset / np.linalg.norm(offset))[:2], [0, 0])
    s = u @ p @ u + u[:2] @ apart @ u[:2]
    a = PRESENCE * math.sqrt(2 / math.pi / (s + ERROR**2))
    r = COTH**2 - a * a * s
    y = np.linalg.inv(p) + 4 * a * a / r * np.outer(u, u)
    after = np.clip(x - np.linalg.solve(y, u) * 4 * a / r * answer, BOX.lower, BOX.upper)
    m = 0.9 * apart + 0.1 * np.outer(after[:2], after[:2])
    return x, np.concatenate([y @ after, y[np.triu_indices(4)], after[:2], m[np.triu_indices(2)]])


@pytest.mark.parametrize("answer", [COTH, -COTH])
@pytest.mark.parametrize("rounds", [0, 1, 40])
def test_a_round_is_that_of_plain_loops(rounds, answer):
    releases, weights = some_releases(rounds), (0.5, 0.2, 0.2, 0.1)
    z = Consensus(sum(weight * release for weight, release in zip(weights, releases, strict=True)))
    algorithm = of_node(1)
    x, release = one_round(list(zip(weights, releases, strict=True)), PLACES[1], answer)
    assert algorithm.decide(7, z) == pytest.approx(x, rel=1e-9, abs=1e-9)
    found = algorithm.update(7, z, np.array([answer]))
    assert found == pytest.approx(release, rel=1e-7, abs=1e-6 * np.abs(release[:4]).max())
    assert np.linalg.norm(found) < algorithm.reach


def test_a_node_has_the_same_bits_alone_and_among_others():
    releases, algorithm = some_releases(9), following(response=np.full(4, COTH))
    answers = np.array([[COTH], [-COTH], [-COTH], [COTH]])
    together, decided = algorithm.update(1, releases, answers), algorithm.decide(1, Consensus(releases))
    relayed, slot = algorithm.contain(algorithm.dynamics.moved(releases)), np.full((4, 1), 4.1)
    signs = algorithm.rows(decided, Observations(np.zeros((4, 1, 0)), slot, slot > 0))
    for k, release in enumerate(releases):
        alone = of_node(k)
        assert alone.update(1, release, answers[k]).tobytes() == together[k].tobytes()
        assert alone.decide(1, Consensus(release)).tobytes() == decided[k].tobytes()
        assert alone.contain(alone.dynamics.moved(release)).tobytes() == relayed[k].tobytes()
        assert alone.rows(decided[k], record(4.1)).tobytes() == signs[k].tobytes()


@pytest.mark.parametrize("d", [1, 2, 4, 6, 9])
def test_an_inverse_is_one(d):
    random = np.random.default_rng(d)
    roots = random.normal(size=(50, d, d))
    matrices = roots @ roots.transpose(0, 2, 1) + 1e-3 * np.eye(d)
    found = inverse(matrices, 1e-12)
    assert (found == found.transpose(0, 2, 1)).all()
    assert found == pytest.approx(np.linalg.inv(matrices), rel=1e-7, abs=1e-7 * np.abs(found).max())


def test_white_noise_is_the_integral_of_its_definition():
    found, step = white_noise(3, 1, 0.5, 2.0), 1e-4
    ages = np.arange(step / 2, 0.5, step)
    slopes = np.stack((ages**2 / 2, ages, np.ones_like(ages)))
    assert found == pytest.approx(4 * step * slopes @ slopes.T, rel=1e-6)


# ---------------------------------------------------------------- privacy


class Coins(ExactSampler):
    """The draws that a test chooses: V, the number for u's sign, and whether the coin turns the bit."""

    def __init__(self, plus, fraction, turned) -> None:
        super().__init__()
        self.plus, self.fraction, self.turned = plus, fraction, turned

    def sphere(self, round, shape):
        return np.full(shape, 1.0 if self.plus else -1.0), np.full(shape[:-1], self.fraction)

    def randomised(self, round, bits, epsilon):
        return bits ^ self.turned


RECORDS = [
    *(record(distance) for distance in (0.0, 3.0, 4.4, 100.0, -5.0, math.inf, math.nan)),
    record(0.0, present=False),
    Observations(np.zeros((0, 0)), np.zeros(0), np.zeros(0, bool)),
]


def distribution(slot):
    """The probability of each release, over all draws, of a slot of one record or none."""
    z = Consensus(some_releases().mean(0))
    kept = 1 / (1 + math.exp(-EPSILON))
    probability = dict[bytes, float]()
    for plus in (False, True):
        for fraction in (0.25, 0.75):
            for turned in (False, True):
                node = learner(of_node(2), Coins(plus, fraction, turned))
                lesson = node.learn(3, z, node.algorithm.decide(3, z), Private(slot), 0)
                key = lesson.release.tobytes()
                chance = (1 - kept if turned else kept) / 4
                probability[key] = probability.get(key, 0.0) + chance
    return probability


def test_no_record_changes_a_release_s_probability_by_more_than_epsilon():
    found = [distribution(slot) for slot in RECORDS]
    assert all(set(one) == set(found[0]) and len(one) == 2 for one in found)
    for one in found:
        for other in found:
            assert all(one[key] <= math.exp(EPSILON) * other[key] * (1 + 1e-12) for key in one)
    near, far, empty = found[0], found[3], found[-1]
    assert max(near[key] / far[key] for key in near) == pytest.approx(math.exp(EPSILON))
    assert list(empty.values()) == pytest.approx([0.5, 0.5])
    assert found[6] == found[7] == empty


def leans(distance, draws, epsilon):
    """How often the answer says that the target is further than expected, over slots of one record each."""
    mechanism = L2Sphere(1.0, epsilon, draws, 1, SimulatedSampler(5, "a"))
    labels = np.full(draws, distance)
    slots = Observations(np.zeros((draws, 0)), labels, ~np.isnan(labels))
    at = Decision(np.array([0.0, -1.0, 0.0, 0.0]))
    gradients = of_node(0).rows(at, slots)
    (mean,) = mechanism.privatise(1, Private(gradients), lambda gradient: gradient).release
    return (1 - mean / mechanism.length) / 2


@pytest.mark.parametrize(
    ("distance", "wanted"),
    [
        (9.0, 1 / (1 + 1 / math.e)),
        (4.81, 1 / (1 + 1 / math.e)),  # 8 mm further than expected: a sign has no size
        (1.0, 1 / (1 + math.e)),
        (math.nan, 0.5),
    ],
)
def test_a_sign_is_true_as_often_as_epsilon_says(distance, wanted):
    draws = 40_000
    deviation = math.sqrt(wanted * (1 - wanted) / draws)
    assert abs(leans(distance, draws, EPSILON) - wanted) < 5 * deviation
    other = leans(distance, draws, Fraction(5, 4))
    assert math.isnan(distance) or abs(other - wanted) > 5 * deviation  # so a wrong coin is seen


def test_the_mechanism_s_claims_are_those_of_one_number():
    node = learner(of_node(0), ExactSampler())
    assert (node.mechanism.epsilon, node.mechanism.delta, node.mechanism.theta) == (EPSILON, 0.0, 1.0)
    assert node.mechanism.length == pytest.approx(1 / math.tanh(0.5))
    assert node.ledger.spent(3, 3) == 3.0  # of three rounds, whose records differ


# ---------------------------------------------------------------- following


def wall(epsilon, rounds=400, graph="complete", **changes):
    """Errors (T, 4) of four nodes at a target that walks, with seeded noise of size coth(epsilon/2)."""
    coth = 1 / math.tanh(epsilon / 2)
    algorithm, random = following(response=np.full(4, coth), **changes), np.random.default_rng(11)
    kept = 1 / (1 + math.exp(-epsilon))
    releases, far = np.tile(algorithm.start, (4, 1)), np.empty((rounds, 4))
    for t in range(rounds):
        at = np.array([1.2 * math.sin(t / 60), -0.4 + 0.8 * math.cos(t / 75), HEIGHT])
        shifts = (0, 1, 2, 3) if graph == "complete" else (-1, 0, 1)
        z = Consensus(sum(np.roll(releases, k, 0) for k in shifts) / len(shifts))
        x = algorithm.decide(t + 1, z)
        far[t] = np.sqrt(((x[:, :2] - at[:2]) ** 2).sum(-1))
        measured = np.linalg.norm(at - PLACES, axis=-1) + ERROR * random.standard_normal(4)
        slots = Observations(np.zeros((4, 1, 0)), measured[:, None], np.ones((4, 1), bool))
        signs = algorithm.rows(x, slots)[:, 0] * np.where(random.random((4, 1)) < kept, 1, -1)
        releases = algorithm.update(t + 1, z, coth * signs)
    return far


@pytest.mark.parametrize("graph", ["complete", "ring"])
@pytest.mark.parametrize(("epsilon", "most"), [(4.0, 0.3), (2.0, 0.45)])
def test_a_target_before_a_wall_is_followed(epsilon, most, graph):
    assert np.quantile(wall(epsilon, graph=graph)[100:], 0.95) < most


def test_without_directions_a_target_is_lost(monkeypatch):
    monkeypatch.setattr(Following, "_offsets", lambda self, x: np.zeros((*x.shape[:-1], 3)))
    assert np.quantile(wall(4.0)[100:], 0.95) > 0.8


@pytest.mark.parametrize(("turns", "least", "most"), [(4, 0.45, 0.5), (0, 0.0, 0.01)])
def test_the_weakest_direction_is_strong_among_sensors_all_around_and_weak_in_one_place(turns, least, most):
    angles = np.arange(4) * math.pi / 2 * (turns > 0)
    places = 1_000.0 * np.stack((np.cos(angles), np.sin(angles), np.zeros(4)), -1)
    value, at = weakest_direction(following(places))
    assert least <= value <= most
    assert at.shape == (2,)


# ---------------------------------------------------------------- edges


def test_at_the_sensor_there_is_no_direction():
    algorithm = following(np.array([0.5, 1.0, HEIGHT]), x_1=np.array([0.5, 1.0, 0.0, 0.0]))
    z = Consensus(algorithm.start)
    assert algorithm.decide(1, z)[:2] == pytest.approx([0.5, 1.0], abs=1e-12)
    after = algorithm.decide(2, Consensus(algorithm.update(1, z, np.array([COTH]))))
    assert after == pytest.approx([0.5, 1.0, 0.0, 0.0], abs=1e-12)


@pytest.mark.parametrize("seed", range(60))
def test_any_consensus_gives_a_state_in_the_box_and_a_release_in_reach(seed):
    """A hostile release within the readers' bound: random numbers, zeros, a matrix that is none."""
    random, algorithm = np.random.default_rng(seed), of_node(0)
    scale = 10.0 ** random.integers(-8, 12, algorithm.dimension)
    hostile = random.normal(size=algorithm.dimension) * scale
    if seed % 3 == 2:  # a matrix with a diagonal of ones that is not positive definite
        hostile[4:14] = random.uniform(-1, 1, 10)
        hostile[[4, 8, 11, 13]] = 1.0
    hostile *= [1.0, -1.0, 1.0, 0.0][seed % 4]
    hostile *= min(1.0, algorithm.reach / max(1.0, np.linalg.norm(hostile)))
    for z in (hostile, 0.5 * hostile + 0.5 * algorithm.start):
        x = algorithm.decide(1, Consensus(z))
        assert (BOX.lower <= x).all()
        assert (x <= BOX.upper).all()
        release = algorithm.update(1, Consensus(z), np.array([COTH]))
        assert np.isfinite(release).all()
        assert np.linalg.norm(release) < algorithm.reach


def test_a_late_release_corrects_nothing_and_a_long_gap_forgets():
    dynamics, releases = moving(), some_releases()
    assert not dynamics.carried(releases[0], 3).any()
    assert dynamics.moved(releases, 0) is releases
    twice = dynamics.moved(dynamics.moved(releases))
    assert dynamics.moved(releases, 2) == pytest.approx(twice, rel=1e-6, abs=1e-6)
    assert (dynamics.moved(releases, MOST_MOVES + 1) == dynamics.start).all()
    before, after = dynamics.read(releases[0]).p, dynamics.read(dynamics.moved(releases[0], 50)).p
    assert (np.diag(after) > np.diag(before)).all()  # nothing was learnt meanwhile
    assert (np.diag(after) <= dynamics.most * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"error": 0.0}, "error is 0.0"),
        ({"presence": 0.0}, "presence is 0.0: must be above 0 and at most 1"),
        ({"presence": 1.5}, "presence is 1.5"),
        ({"nodes": 0}, "nodes is 0"),
        ({"height": ()}, "place has 3 coordinates: must have 2"),
        ({"response": 0.5}, "response must be coth"),
        ({"x_1": np.array([9.0, 0.0, 0.0, 0.0])}, "must be in the box"),
        ({"place": np.full(3, math.nan)}, "place"),
    ],
)
def test_settings_out_of_range_are_refused(changes, text):
    with pytest.raises(ValueError, match=text):
        following(**{"place": PLACES[0]} | changes)


def test_a_motion_needs_noise_of_its_size():
    matrix = motion(2, 2, 1.0).matrix
    with pytest.raises(ValueError, match="positive definite"):
        BeliefMotion(matrix, noise=np.zeros((4, 4)), box=BOX, space=2)
    with pytest.raises(ValueError, match="must be 4"):
        BeliefMotion(matrix, noise=np.eye(3), box=BOX, space=2)
    with pytest.raises(ValueError, match="space is 5: must be from 1 to 4"):
        BeliefMotion(matrix, noise=np.eye(4), box=BOX, space=5)
    with pytest.raises(OutOfRange, match="intensity"):
        white_noise(2, 2, 1.0, 0.0)
