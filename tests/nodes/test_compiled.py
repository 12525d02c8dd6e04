"""The compiled engine gives the bits of numpy's, or gives way with a line."""

import importlib.util
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes import compiled
from nodes.accounting.guarantee import Ledger
from nodes.algorithms import Constant, InverseSqrt, MirrorDescent
from nodes.compiled import _MOST, CompiledEngine, _sum, compilable, fastest
from nodes.geometry.constraints import Box, L1Ball, L2Ball, LinfBall, Simplex
from nodes.geometry.mirror_maps import Entropy, Euclidean
from nodes.geometry.mirror_step import mirror_step
from nodes.learner import Engine, Learner
from nodes.losses.losses import Absolute, Hinge, Huber, Linear, Logistic, RangeLoss, Squared
from nodes.privacy.exact import ExactSampler, SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.owner import disclosed_to_owner
from nodes.privacy.unprotected import Unprotected
from nodes.values import Observations
from tests.support.processes.programs import leave_out
from topology.graph import erdos_renyi, ring
from topology.keyed import generator
from topology.schedules import FixedSchedule, SwitchingSchedule

LOSSES = (RangeLoss(), Hinge(), Squared(), Absolute(), Huber(0.3), Linear())


@pytest.fixture(autouse=True)
def _numba():
    if compiled.njit is None:
        leave_out("with numba: it is missing: pip install 'mirrormesh[fast]'")


def names(nodes):
    return tuple(f"n{k:03}" for k in range(nodes))


def constraint(kind, dimension, radius):
    match kind:
        case "box":
            return Box(np.linspace(-2, -1, dimension) * radius, np.linspace(0.5, 1, dimension) * radius)
        case "l1":
            return L1Ball(dimension, radius)
        case "l2":
            return L2Ball(dimension, radius)
    return LinfBall(dimension, radius)


def mechanism(kind, nodes, dimension, size, theta):
    sampler = SimulatedSampler(3, names(nodes))
    match kind:
        case "laplace":
            return LaplaceGradient(theta, Fraction(1), size, dimension, sampler)
        case "gaussian":
            return GaussianGradient(theta, Fraction(1, 2), 1e-6, size, dimension, sampler)
    return Unprotected(theta, kind, size, dimension)


def built(
    nodes=5,
    dimension=3,
    size=1,
    *,
    loss=LOSSES[1],
    within="l2",
    noise="laplace",
    at="decision",
    regulariser=0.0,
    radius=1.0,
    theta=0.5,
    step=None,
    budget=None,
    switching=False,
):
    step = step or InverseSqrt(0.5)
    algorithm = MirrorDescent(
        mirror_step(Euclidean(), constraint(within, dimension, radius)), step, regulariser, at
    )
    made = mechanism(noise, nodes, dimension, size, theta)
    ledger = Ledger(
        made.epsilon, size, None if made.epsilon is None or not budget else budget * size * made.epsilon
    )
    graph = erdos_renyi(names(nodes), 1, mean_degree=min(3, nodes - 1)) if nodes > 2 else ring(names(nodes))
    schedule = SwitchingSchedule(graph, 1, 0.5) if switching else FixedSchedule(ring(names(nodes)))
    return Engine(Learner(algorithm, loss, made, ledger, size), schedule)


def slots(seed, rounds, nodes, dimension, size, odd=0.0, scale=1.0):
    """Slots, some shorter; a share `odd` of the numbers is NaN, infinite, huge, zero or absent."""
    random, made = generator("slots", seed), []
    for _ in range(rounds):
        records = size if random.random() < 0.8 else int(random.integers(0, size + 1))
        features = random.normal(size=(nodes, records, dimension)) * scale
        labels = np.sign(random.normal(size=(nodes, records)))
        for values in (features, labels):
            wrong = random.random(values.shape) < odd
            values[wrong] = random.choice(
                [np.nan, np.inf, -np.inf, 1e300, -1e-310, 0.0, -0.0], int(wrong.sum())
            )
        present = random.random((nodes, records)) >= odd
        features[~present], labels[~present] = 0.0, 0.0
        made.append(Observations(features, labels, present))
    return made


def bits(step):
    lesson = step.lesson
    arrays = (
        step.releases,
        step.consensus,
        step.decision,
        lesson.release,
        disclosed_to_owner(lesson.gradient),
    )
    counts = [disclosed_to_owner(count) for count in (lesson.clipped, lesson.broken)]
    return (
        step.round,
        *[np.ascontiguousarray(a).tobytes() for a in arrays],
        lesson.exact,
        lesson.charged,
        *counts,
    )


def same(engine, observed):
    lines = []
    ours, theirs = fastest(engine, lines.append).steps(iter(observed)), engine.steps(observed)
    for step, expected in zip(ours, theirs, strict=True):
        assert bits(step) == bits(expected), expected.round
    return not lines


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32),
    nodes=st.integers(1, 9),
    dimension=st.integers(2, 20) | st.sampled_from([127, 128, 129, 136, 257, 300]),
    size=st.integers(1, 4),
    loss=st.sampled_from(LOSSES),
    within=st.sampled_from(["box", "l1", "l2", "linf"]),
    noise=st.sampled_from(["laplace", "gaussian", "l1", "l2", "linf"]),
    at=st.sampled_from(["decision", "consensus"]),
    regulariser=st.sampled_from([0.0, 0.1]),
    radius=st.sampled_from([0.05, 1.0, 50.0]),
    theta=st.sampled_from([1e-3, 0.5, 20.0]),
    step=st.sampled_from([InverseSqrt(0.5), Constant(3.0)]),
    budget=st.none() | st.integers(1, 8),
    switching=st.booleans(),
    odd=st.sampled_from([0.0, 0.01, 0.3]),
    scale=st.sampled_from([1.0, 1e-3, 1e3]),
)
def test_its_bits_are_those_of_numpys_engine(seed, nodes, dimension, size, odd, scale, **chosen):
    engine = built(nodes, dimension, size, **chosen)
    assert compilable(engine.learner) is not None
    observed = slots(seed, 12, nodes, dimension, size, odd, scale)
    with np.errstate(all="ignore"):
        assert same(engine, observed)


def test_many_rounds_over_the_ends_of_blocks():
    assert same(built(), slots(1, 200, 5, 3, 1))
    assert same(built(switching=True), slots(1, 200, 5, 3, 1))


@pytest.mark.parametrize("rounds", [0, 1, 3, 4])
def test_few_rounds(rounds):
    assert same(built(), slots(1, rounds, 5, 3, 1))


def test_a_release_at_its_bound_is_clamped_as_numpys_is():
    engine = built(within="l2", radius=1.0, noise="l2", step=Constant(10.0))
    object.__setattr__(engine.learner, "release_bound", 0.4)
    assert same(engine, slots(1, 100, 5, 3, 1))


def test_sums_are_numpys():
    random = generator("sums")
    for count in [*range(300), 1000, 2047, 65_537]:
        numbers = random.normal(size=count) * 10.0 ** random.integers(-8, 9, size=count)
        for part in (numbers, -0.0 * np.abs(numbers)):
            assert np.float64(_sum(part, 0, count)).tobytes() == np.add.reduce(part).tobytes()


def test_what_is_not_compiled_is_numpys():
    entropy = MirrorDescent(mirror_step(Entropy(), Simplex(3)), Constant(0.1))
    simple, exact = built().learner, LaplaceGradient(0.5, Fraction(1), 1, 3, ExactSampler())
    zero = MirrorDescent(mirror_step(Euclidean(), Box(np.zeros(3), np.ones(3))), Constant(0.1))
    others = [
        Learner(entropy, Hinge(), simple.mechanism, simple.ledger, 1),
        Learner(zero, Hinge(), simple.mechanism, simple.ledger, 1),
        Learner(simple.algorithm, Logistic(), simple.mechanism, simple.ledger, 1),
        Learner(simple.algorithm, Hinge(), exact, simple.ledger, 1),
    ]
    assert [compilable(learner) for learner in others] == [None] * 4
    assert compilable(built(dimension=2).learner) is not None
    assert same(Engine(others[2], built().schedule), slots(1, 5, 5, 3, 1))
    many = _MOST + 1
    assert same(built(nodes=many), slots(1, 5, many, 3, 1))


def test_a_wrong_order_of_sums_gives_way_with_its_line(tmp_path, monkeypatch):
    right = "((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))"
    text = Path(compiled.__file__).read_text()
    assert right in text
    path = tmp_path / "planted.py"
    path.write_text(text.replace(right, "r0 + r1 + r2 + r3 + r4 + r5 + r6 + r7"))
    specification = importlib.util.spec_from_file_location("planted", path)
    planted = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "planted", planted)
    specification.loader.exec_module(planted)
    engine, lines, observed = built(dimension=40), [], slots(1, 80, 5, 40, 1)
    found = list(planted.fastest(engine, lines.append).steps(observed))
    assert list(map(bits, found)) == list(map(bits, engine.steps(observed)))
    (line,) = lines
    assert line.startswith("the compiled engine differs from numpy's in round ")
    assert line.endswith(": numpy's goes on alone")


def test_one_that_does_not_run_gives_way_too(monkeypatch):
    def broken(*_):
        raise AttributeError("what is kept on disk is of another version")

    engine, lines, observed = built(), [], slots(1, 8, 5, 3, 1)
    monkeypatch.setattr(compiled, "_rounds", broken)
    found = list(fastest(engine, lines.append).steps(observed))
    assert list(map(bits, found)) == list(map(bits, engine.steps(observed)))
    assert lines == ["the compiled engine does not run (AttributeError): numpy's goes on alone"]


def test_the_product_does_not_import_it():
    names = "streams.cli.run, streams.live.node_process, streams.tools.tuning.trials"
    code = f"import sys, {names}; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_without_numba_it_is_the_engine_itself(monkeypatch):
    engine = built()
    assert isinstance(fastest(engine, print), CompiledEngine)
    monkeypatch.setattr(compiled, "njit", None)
    assert fastest(engine, print) is engine
    assert compilable(engine.learner) is None
